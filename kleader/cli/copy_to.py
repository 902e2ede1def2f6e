"""``kleader copy-to``: the standalone tree copies itself, for an image that has no kleader."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click

from kleader.cli.command_line import Command
from kleader.cli.console import fail
from kleader.exits import FAILED

EPILOG = """
\b
Examples:
  kleader copy-to /kleader      in an init container, to a volume
"""


@click.command(cls=Command, epilog=EPILOG)
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
def copy_to(directory: Path) -> None:
    """Copy this kleader to DIR, from where it runs in any image.

    The copy is started as DIR/bin/kleader. Only a kleader of the standalone archive can be copied: it needs nothing of
    the system around. An earlier copy is replaced file by file, so that a kleader that runs from there keeps running.
    """
    tree = Path(sys.executable).parents[1]
    if not (tree / "lib" / "loader" / "kleader").exists():
        fail(
            "this kleader needs the Python that it was installed for: only one of the standalone archive copies itself",
            FAILED,
        )
    directory.mkdir(parents=True, exist_ok=True)
    for part in tree.iterdir():  # not the tree itself: DIR may be a volume, whose mode only root can change
        shutil.copytree(part, directory / part.name, copy_function=_replace, dirs_exist_ok=True)


def _replace(source: str, place: str) -> None:
    """Copy a file to a new one that takes the name at once."""
    new = f"{place}.new"
    shutil.copy(source, new)
    os.replace(new, place)
