"""The commands, each imported when it is asked for: whoever asks for one does not wait for all the others."""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import Any

import click

# With the first sentence of its help, which the list of commands shows.
COMMANDS = {
    "check": "Tell whether a run with these options could lead here, and what would mend it",
    "completion": "Print the script that completes kleader's command line in a shell",
    "is-leader": "Tell by the exit status whether the kleader of this machine or Pod leads",
    "manifest": "Print what runs COMMAND in a cluster with a hot standby, for kubectl to apply",
    "resign": "Ask the leader of the lock NAME, a kleader, to stop its command and to release the lock",
    "run": "Run COMMAND only while this candidate is the leader",
    "status": "Show the lock NAME, or all locks of a namespace, whoever wrote them",
    "transfer": "Ask the leader of the lock NAME, a kleader, to stop its command and to name IDENTITY the next leader",
    "wait": "Wait until the lock NAME has a leader, has none, or another one, and print what is then so",
}


class Commands(UserDict[str, Any]):
    """By name. Each is the variable of its own name, in the module of its own name."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(COMMANDS))

    def __getitem__(self, name: str) -> click.Command:
        found: click.Command | None = super().__getitem__(name)
        if found is None:
            variable = name.replace("-", "_")
            found = self.data[name] = getattr(import_module(f"kleader.cli.{variable}"), variable)
        return found


class Group(click.Group):
    """Lists its commands without looking at them."""

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(commands=Commands(), **attributes)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Each with its sentence."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])
