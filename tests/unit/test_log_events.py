"""The event names of the log are a promise to programs that read it: kleader-operations(7) lists them."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
POSITIONS = {"Report": 0, "Errand": 3}  # where it stands among the arguments; elsewhere it is a keyword


def events_of(path: Path) -> Iterator[str]:
    """Each event name that a module passes on."""
    for call in ast.walk(ast.parse(path.read_text())):
        if isinstance(call, ast.Call):
            passed = [keyword.value for keyword in call.keywords if keyword.arg == "event"]
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            passed += call.args[POSITIONS[name] :][:1] if name in POSITIONS else []
            for node in (node for value in passed for node in ast.walk(value)):
                if isinstance(node, ast.Constant) and re.fullmatch(r"[a-z_]+", str(node.value)):
                    yield str(node.value)


def test_manual_page_lists_exactly_the_events_that_are_logged() -> None:
    section = (ROOT / "man/kleader-operations.7").read_text().split(".Sh LOG EVENTS\n")[1].split(".Sh ")[0]
    listed = re.findall(r"^\.It Cm (\S+)$", section, re.MULTILINE)
    logged = {event for path in (ROOT / "kleader").rglob("*.py") for event in events_of(path)}
    assert listed == sorted(logged)
