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
    the system. An earlier copy is replaced file by file, so that a kleader that runs from there keeps running.
    """
    tree = Path(sys.executable).parents[1]
    if not (tree / "lib" / "loader" / "kleader").exists():
        fail(
            "only the kleader of the standalone archive can be copied: this one needs its Python",
            FAILED,
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)  # its mode stays: of a volume, only root can change it
        for part in sorted(tree.rglob("*")):
            _copy(part, directory / part.relative_to(tree))
    except OSError as error:
        fail(f"cannot copy kleader to {directory}: {error.strerror}", FAILED)


def _copy(part: Path, place: Path) -> None:
    """Copy a directory without its content, or a file to a new one that takes the name at once."""
    if part.is_dir():
        if not place.is_dir():
            place.mkdir()
            place.chmod(0o755)  # the user of the other image runs the copy, whatever the umask is
    else:
        new = f"{place}.new"
        shutil.copy(part, new)
        os.replace(new, place)
