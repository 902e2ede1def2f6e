"""``kubectl leader …``: kubectl runs a plugin's command line, and asks a program of its own what would complete it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kleader.cli.shells import Known, Subcommand, Value

DEFAULT, NO_FILES = 0, 4  # cobra's ShellCompDirective: files are offered where there is nothing else, or never
_STDERR = 2


def leader() -> None:
    """Run the command line, as ``kubectl leader`` in its help and its usage errors."""
    from kleader.cli.main import main

    main("kubectl leader")


def complete() -> None:
    """Print what may stand where the last argument does, one a line, and then the directive.

    As kubectl wants it of a ``kubectl_complete-NAME``: cobra's ``__complete``. The shell leaves out what does not fit.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), _STDERR)  # or it would be shown in the middle of what is typed
    *words, current = sys.argv[1:] or [""]
    try:
        directive = _offer(words, current)
    except (SystemExit, Exception):  # noqa: BLE001 - nothing can be offered
        directive = NO_FILES
    print(f":{directive}", flush=True)  # noqa: T201 - what it is for


def _offer(words: list[str], current: str) -> int:
    from kleader.cli import shells
    from kleader.cli.command import SEPARATOR
    from kleader.cli.main import cli

    known = {each.name: each for each in shells.subcommands(cli)}
    if not words:
        return _say([f"{each.name}\t{each.help}" for each in known.values()])
    command = known.get(words[0])
    if command is None or SEPARATOR in words:
        return DEFAULT if command and command.runs else NO_FILES
    options = {name: option for option in command.options for name in option.names}
    if current.startswith("--") and "=" in current:
        option = options.get(current.partition("=")[0])
    else:
        option = options.get(words[-1])
        option = option if option and option.needed else None
    if option and option.value:
        return _offer_value(option.value, words, known["completion"])
    if current.startswith("-"):
        return _say([f"{name}\t{option.help}" for name, option in options.items()])
    if command.runs:
        return _say([SEPARATOR])
    return _offer_value(command.argument, words, known["completion"]) if command.argument else NO_FILES


def _offer_value(value: Value, words: list[str], completion: Subcommand) -> int:
    if value.asked:
        from kleader.cli.main import cli

        cli.main(["completion", value.asked, *_road(words, completion.options)], standalone_mode=False)
    elif value.files:
        return DEFAULT
    return _say(list(value.words))


def _road(words: list[str], options: list[Known]) -> list[str]:
    """Those of the words that say which cluster is meant, and where in it."""
    names = {name for option in options if option.value for name in option.names}
    road: list[str] = []
    for i, word in enumerate(words):
        if word.partition("=")[0] in names and ("=" in word or i + 1 < len(words)):
            road += [word] if "=" in word else words[i : i + 2]
    return road


def _say(offers: list[str]) -> int:
    for offer in offers:
        print(offer)  # noqa: T201 - what it is for
    return NO_FILES
