"""An installed kleader of a test's own, which another version can replace while it runs, as `make install` does."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "kleader"


class Installed:
    """The package `kleader` below `place`: start `python -m kleader` with this as its working directory."""

    def __init__(self, place: Path) -> None:
        self.place = place
        shutil.copytree(SOURCE, place / "kleader")

    def upgrade(self) -> None:
        """Put the tree of another version in the place of this one; both are complete before and after."""
        new = self.place / "new"
        shutil.copytree(SOURCE, new)
        text = (new / "__init__.py").read_text()
        (new / "__init__.py").write_text(re.sub(r'(?m)^__version__ = ".*"$', '__version__ = "999.0.0"', text))
        (self.place / "kleader").rename(self.place / "old")
        new.rename(self.place / "kleader")

    def spoil(self) -> None:
        """Whatever imports a module of this tree from now on, or runs it, ends at once."""
        for path in (self.place / "kleader").rglob("*.py"):
            path.write_text("raise SystemExit(1)\n")
