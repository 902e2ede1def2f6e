"""python -m tests.tour: "The life of a term" in CONTRIBUTING.md, each paragraph with the code that it names.

Each function is printed once, whole, with its file and line numbers. It is what to read first, in ten minutes.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

KLEADER = Path(__file__).parents[1] / "kleader"
_PAGE = (KLEADER.parent / "CONTRIBUTING.md").read_text("utf-8")
_DOCSTRINGS = ("election/__init__.py", "election/timing.py", "election/lock_delay.py")


def pointers(text: str) -> list[tuple[str, list[str]]]:
    """What a page names as "`room/module.py: function, function`": files, relative to kleader/, and functions."""
    found = re.findall(r"`(\w+/\w+\.py): ([\w, ]+)`", " ".join(text.split()))
    return [(file, names.split(", ")) for file, names in found]


def functions(file: str, names: list[str]) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions and methods of these names in a file of kleader/, in the file's order."""
    tree = ast.parse((KLEADER / file).read_text("utf-8"))
    found = (each for each in ast.walk(tree) if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return [each for each in found if each.name in names]


def everywhere() -> list[tuple[str, list[str]]]:
    """The pointers of CONTRIBUTING.md."""
    return pointers(_PAGE)


def lines() -> Iterator[str]:
    """The tour, line by line."""
    for file in _DOCSTRINGS:
        yield f"== kleader/{file}"
        yield from (ast.get_docstring(ast.parse((KLEADER / file).read_text("utf-8"))) or "").splitlines()
    section = _PAGE.partition("## The life of a term\n")[2].partition("\n## ")[0]
    shown: set[tuple[str, int]] = set()
    for paragraph in re.split(r"\n(?=\n|\d\. |- )", section):
        yield from paragraph.splitlines()
        last = ""
        for file, names in pointers(paragraph):
            code = (KLEADER / file).read_text("utf-8").splitlines()
            for each in functions(file, names):
                if (file, each.lineno) not in shown:
                    shown.add((file, each.lineno))
                    if file != last:
                        yield f"== kleader/{file}"
                    last = file
                    for number in range(each.lineno, (each.end_lineno or 0) + 1):
                        yield f"{number:4} {code[number - 1]}".rstrip()


if __name__ == "__main__":
    print("\n".join(lines()))  # noqa: T201
