"""The commands that are not imported before they are asked for."""

from __future__ import annotations

import pytest

from kleader.cli.group import COMMANDS
from kleader.cli.main import cli


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_of_each_what_its_own_help_says_first(name: str) -> None:
    assert cli.commands[name].get_short_help_str(1000).rstrip(".") == COMMANDS[name]


def test_they_are_sorted() -> None:
    assert list(COMMANDS) == sorted(COMMANDS)


def test_there_is_no_other() -> None:
    assert cli.commands.get("main") is None
