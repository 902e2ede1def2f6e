"""README and kleader(7) tell for each kind of lock exactly what kleader.locks.permissions asks for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped,unused-ignore]

from kleader.locks import permissions
from kleader.locks.permissions import events, needed, rules

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PAGE = (ROOT / "man/kleader.7").read_text("utf-8")
MACROS = {" No ": " ", " Fl -": " --", " ,": ","}  # of mdoc, as they are shown
EACH = "each of them"
COORDINATED = "lease with --coordinated, besides"
KINDS = (*permissions._LOCKS, COORDINATED, EACH)


def asked(kind: str) -> tuple[str, str]:
    """What this kind of lock asks for its name alone, and for any name, in words."""
    if kind == COORDINATED:
        needs = tuple(each for each in needed("lease", "x", candidate="") if each not in needed("lease", "x"))
    else:
        needs = events() if kind == EACH else needed(kind, "x")
    found = rules(needs)
    words = [(each.get("resourceNames"), f"{', '.join(each['verbs'])} {each['resources'][0]}") for each in found]
    named, unnamed = ("; ".join(said for names, said in words if (names == ["x"]) is by) for by in (True, False))
    return named, unnamed


def table() -> dict[str, tuple[str, str]]:
    """The README's, without its backquotes."""
    text = (
        README.replace("`", "").partition("(resourceNames) | for any name |\n|---|---|---|\n")[2].partition("\n\n")[0]
    )
    rows = re.findall(r"^\| (.*?) *\| (.*?) *\| *(.*?) *\|$", text, re.MULTILINE)
    return {kind: (named, unnamed) for kind, named, unnamed in rows}


def section() -> dict[str, tuple[str, str]]:
    """The manual page's."""
    told = PAGE.partition(".Sh PERMISSIONS\n")[2].partition("\n.El")[0]
    items = re.split(r"^\.It (?:Cm )?(.*)\n", told, flags=re.MULTILINE)[1:]
    bodies = (" ".join(body.split()) for body in items[1::2])
    said = [[re.search(rf"{what}: (.*?)\.", body) for what in ("By name", "For any name")] for body in bodies]
    kinds = (re.sub(r" No | Fl -| ,(?= )", lambda macro: MACROS[macro[0]], item) for item in items[::2])
    return {kind: (a[1] if a else "", b[1] if b else "") for kind, (a, b) in zip(kinds, said, strict=True)}


@pytest.mark.parametrize("where", [table, section])
def test_what_is_told_is_what_is_asked_for(where: object) -> None:
    """For every kind of lock, no right too few and none too many."""
    assert callable(where)
    assert where() == {kind: asked(kind) for kind in KINDS}


@pytest.mark.parametrize("name", ["README.md", "man/kleader-run.1"])
def test_the_role_that_is_shown_is_the_least(name: str) -> None:
    (shown,) = re.findall(r"^rules:\n(?:[- ] .*\n)+", (ROOT / name).read_text("utf-8"), re.MULTILINE)
    assert yaml.safe_load(shown)["rules"] == rules((*needed("lease", "worker"), *events()))
