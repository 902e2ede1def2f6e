"""The command lines that README, the manual pages and the help show, as a reader pastes them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kleader.cli.commands import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

    import click

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
_PROGRAMS = ("kleader ", "kubectl ", "source ", "make ", "skopeo ")
# A prompt, cron's columns, systemd's key.
_BEFORE = re.compile(r"\$ |(?:[0-9*]+ ){4}[0-9*] +|ExecStart=/usr/local/bin/")
_VARIABLE = re.compile(r"^KLEADER_\w+=\S+$", re.MULTILINE)  # of a crontab
_AFTER = re.compile(r" +# .*| {3,}in [~a-z].*")  # a comment
_DISPLAY = re.compile(r"^\.Dl (.+)$|^\.Bd -literal.*\n((?:(?!\.Ed).*\n)+)", re.MULTILINE)
_CALL = re.compile(r"(?<![\w/-])kleader (?=[a-z])((?:'[^']*'|[^|<>&;()'])*)")


class Line(NamedTuple):
    """One command line, and where it stands."""

    place: str
    text: str


def command_lines() -> list[Line]:
    """Return every command line, in the order of the places."""
    return [*_of_readme(), *_of_pages(), *_of_help()]


def calls(text: str) -> list[tuple[click.Command, list[str]]]:
    """Return each call of kleader in a command line: the command and its arguments."""
    found = [shlex.split(call) for call in _CALL.findall(text)]
    return [(cli.commands[words[0]], words[1:]) for words in found]


def _of_readme() -> Iterator[Line]:
    for block in re.findall(r"```(?:ini)?\n(.*?)```", README, re.DOTALL):
        yield from _lines("README.md", block.replace("\\\n    ", ""))
    for text in re.findall(r"`(kleader [a-z-]+ [^`]+)`", " ".join(README.split())):
        yield Line("README.md", text)


def _of_pages() -> Iterator[Line]:
    for path in sorted((ROOT / "man").glob("*.[17]")):
        text = path.read_text("utf-8").replace("\\e\n    ", "").replace("\\-", "-").replace("\\&", "")
        for line, block in _DISPLAY.findall(text):
            yield from _lines(path.name, line or block)


def _of_help() -> Iterator[Line]:
    for name, command in cli.commands.items():
        _, _, examples = str(command.epilog).partition("Examples:\n")
        yield from _lines(f"kleader {name} --help", re.sub("^  ", "", examples, flags=re.MULTILINE))


def _lines(place: str, block: str) -> Iterator[Line]:
    variables = _VARIABLE.findall(block)
    for each in block.splitlines():
        text = _AFTER.sub("", _BEFORE.sub("", each, count=1))
        if text.startswith(_PROGRAMS):
            yield Line(place, " ".join([*variables, text]))
