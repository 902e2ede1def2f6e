"""The commands, which are imported only when they run."""

from __future__ import annotations

import pytest

from kleader.cli.commands import COMMANDS, cli


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_first_sentence_of_each_help(name: str) -> None:
    assert cli.commands[name].get_short_help_str(1000).rstrip(".") == COMMANDS[name]


def test_a_module_that_is_no_command_cannot_be_run() -> None:
    assert cli.commands.get("main") is None
