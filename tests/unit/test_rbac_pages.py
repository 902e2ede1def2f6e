"""kleader-locks(7) tells for each kind of lock exactly what kleader.locks.rbac asks for."""

from __future__ import annotations

import re
from pathlib import Path

import yaml  # type: ignore[import-untyped,unused-ignore]

from kleader.locks import rbac
from kleader.locks.base import MULTILOCKS
from kleader.locks.rbac import (
    event_permissions,
    lock_permissions,
    registration_permissions,
    role_rules,
    rollout_permissions,
)

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "man/kleader-locks.7").read_text("utf-8")
MACROS = {" No ": " ", " Fl -": " --", " ,": ","}  # of mdoc, as they are shown
EACH = "every type, in addition"
DEPLOYED = "every type in a Deployment, in addition"
COORDINATED = "lease with --coordinated, in addition"
KINDS = (*rbac._RESOURCES, *MULTILOCKS, COORDINATED, EACH, DEPLOYED)


def asked(kind: str) -> tuple[str, str]:
    """What this kind of lock asks for its name alone, and for any name, in words."""
    if kind == COORDINATED:
        needs = tuple(
            each for each in lock_permissions("lease", "x", candidate="") if each not in lock_permissions("lease", "x")
        )
    elif kind == DEPLOYED:
        needs = rollout_permissions()
    else:
        needs = (*registration_permissions("x"), *event_permissions()) if kind == EACH else lock_permissions(kind, "x")
    found = role_rules(needs)
    words = [
        (each.get("resourceNames", [""])[0], f"{', '.join(each['verbs'])} {each['resources'][0]}") for each in found
    ]
    words = [(name, f"{said} candidates.NAME" if name == "candidates.x" else said) for name, said in words]
    named, unnamed = ("; ".join(said for name, said in words if bool(name) is by) for by in (True, False))
    return named, unnamed


def section() -> dict[str, tuple[str, str]]:
    """The page's rows."""
    told = PAGE.partition(".Sh PERMISSIONS\n")[2].partition("\n.El")[0]
    items = re.split(r"^\.It (?:Cm )?(.*)\n", told, flags=re.MULTILINE)[1:]
    bodies = (" ".join(body.split()) for body in items[1::2])
    said = [[re.search(rf"{what}: (.*?)\.(?: |$)", body) for what in ("By name", "For any name")] for body in bodies]
    kinds = (re.sub(r" No | Fl -| ,(?= )", lambda macro: MACROS[macro[0]], item) for item in items[::2])
    return {kind: (a[1] if a else "", b[1] if b else "") for kind, (a, b) in zip(kinds, said, strict=True)}


def test_page_lists_exactly_the_permissions_that_each_lock_type_needs() -> None:
    assert section() == {kind: asked(kind) for kind in KINDS}


def test_role_of_the_page_grants_the_least_permissions() -> None:
    page = (ROOT / "man/kleader-run.1").read_text("utf-8")
    (shown,) = re.findall(r"^rules:\n(?:[- ] .*\n)+", page, re.MULTILINE)
    needed = (*lock_permissions("lease", "worker"), *registration_permissions("worker"), *event_permissions())
    assert yaml.safe_load(shown)["rules"] == role_rules(needed)
