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
README = re.sub(r"\\\n +", "", (ROOT / "README.md").read_text("utf-8"))  # whole lines
_PROGRAMS = ("kubectl ", "source ", "make ", "skopeo ")
_NAMES = "|".join(cli.commands)
# A prompt, cron's columns, systemd's key.
_BEFORE = re.compile(r"^ *(?:\$ |(?:[0-9*/]+ ){4}[0-9*/] +|@[a-z]+ +|Exec[A-Z]\w+=/usr/local/bin/)?")
_VARIABLE = re.compile(r"^KLEADER_\w+=\S+$", re.MULTILINE)  # of a crontab
_AFTER = re.compile(r" +# .*| {3,}in [~a-z].*")  # a comment
_DISPLAY = re.compile(r"^\.D[l1] (.+)$|^\.Bd -(?:literal|unfilled).*\n((?:(?!\.Ed).*\n)+)", re.MULTILINE)
_QUOTED = re.compile(
    rf"^\.(?:Pq )?(?:Ql|Li|Ic|Dq|Sq) (.*\bkleader (?:{_NAMES}) (?!\.\.\.|Ar ).+?)(?: [.,;:)])*$", re.MULTILINE
)
_CALL = re.compile(rf"(?<![\w-])(?:kleader|kubectl leader) (?=(?:{_NAMES})\b)((?:'[^']*'|[^|<>&;()'])*)")
_MENTION = re.compile(rf"(?<![\w-])kleader (?:{_NAMES}) (?!\.\.\.|Ar )[^\s`].*?(?=`|$)", re.MULTILINE)
_SYNOPSIS = re.compile(r"^\.(?:Nm|Nd) .*$|^Usage: .*$", re.MULTILINE)


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


def mentions() -> list[Line]:
    """Return each call of kleader with arguments, wherever it stands and in whatever form."""
    texts = {"README.md": README, **_pages()}
    texts |= {f"kleader {name} --help": f"{command.help}\n{command.epilog}" for name, command in cli.commands.items()}
    return [
        Line(place, re.sub(r"(?: [.,;:)])+$", "", _AFTER.sub("", text)))
        for place, page in texts.items()
        for text in _MENTION.findall(_SYNOPSIS.sub("", page))
    ]


def _of_readme() -> Iterator[Line]:
    for block in re.findall(r"^```\w*\n(.*?)^```", README, re.DOTALL | re.MULTILINE):
        yield from _lines("README.md", block)
    prose = re.sub(r"^```.*?^```", "", README, flags=re.DOTALL | re.MULTILINE)
    for text in re.findall(rf"`([^`]*\bkleader (?:{_NAMES}) [^`]+)`", " ".join(prose.split())):
        yield Line("README.md", text)


def _of_pages() -> Iterator[Line]:
    for name, text in _pages().items():
        for line, block in _DISPLAY.findall(text):
            yield from _lines(name, line or block)
        for line in _QUOTED.findall(text):
            yield from _lines(name, line)


def _pages() -> dict[str, str]:
    """Each page by its name, with whole lines and without the escapes of roff."""
    return {
        path.name: re.sub(r"\\e\n +", "", path.read_text("utf-8")).replace("\\-", "-").replace("\\&", "")
        for path in sorted((ROOT / "man").glob("*.[17]"))
    }


def _of_help() -> Iterator[Line]:
    for name, command in cli.commands.items():
        _, _, examples = str(command.epilog).partition("Examples:\n")
        yield from _lines(f"kleader {name} --help", re.sub("^  ", "", examples, flags=re.MULTILINE))


def _lines(place: str, block: str) -> Iterator[Line]:
    variables = _VARIABLE.findall(block)
    for each in block.splitlines():
        text = _AFTER.sub("", _BEFORE.sub("", each, count=1))
        if text.startswith(_PROGRAMS) or _CALL.search(text):
            yield Line(place, " ".join([*variables, text]))
