"""Removes what `make install` made, and nothing else: ``python -m tools.uninstall PREFIX [--destdir DIR]``.

First it removes the links by which a kleader is started, so that none starts any more; then the pages, the completions,
and each tree that no process of this host runs from. Directories that other programs may use too stay.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools import install

TREE = r"kleader-(before|[^-]+-[0-9a-f]{10})"


def main() -> int:
    """Uninstall; returns the exit status: 1 if a tree is left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prefix")
    parser.add_argument("--destdir", default="")
    args = parser.parse_args()
    try:
        running = uninstall(Path(f"{args.destdir}{args.prefix}"))
    except PermissionError as error:
        print(f"error: cannot remove {error.filename}: sudo make uninstall", file=sys.stderr)
        return 1
    for tree, pids in running.items():
        print(f"left for the kleader that runs from it, pid {' '.join(pids)}: {tree}", file=sys.stderr)
    if running:
        print("error: not everything is removed: make uninstall again when it has ended", file=sys.stderr)
    return 1 if running else 0


def uninstall(root: Path) -> dict[Path, list[str]]:
    """Remove what was installed below ``root``; each tree that is left, and the pids that need it. PermissionError."""
    lib = root / "lib"
    trees = [tree for tree in sorted(lib.glob("kleader-*")) if re.fullmatch(TREE, tree.name)]
    links = {root / "bin" / program: f"../lib/kleader/bin/{program}" for program in install.PROGRAMS}
    for link, to in {**links, lib / "kleader": TREE}.items():
        if link.is_symlink() and re.fullmatch(to, str(link.readlink())):
            link.unlink()
    running = {tree: pids for tree in trees if (pids := users(tree, root))}
    for file in {file.relative_to(tree) for tree in trees for file in (tree / "share").rglob("*") if file.is_file()}:
        (root / file).unlink(missing_ok=True)
    for tree in trees:
        if tree not in running:
            shutil.rmtree(tree)
            print(f"removed {tree}")
    return running


def users(tree: Path, root: Path) -> list[str]:
    """The pids of the processes that run from a tree, or were started by a link that may have led to it."""
    places = [f"{tree}/", f"{root}/lib/kleader/", *(f"{root}/bin/{program}" for program in install.PROGRAMS)]
    listed = subprocess.run(["ps", "-axww", "-o", "pid=,args="], capture_output=True, text=True, check=True).stdout
    found = (line.split(maxsplit=1) for line in listed.splitlines())
    return [pid for pid, *arguments in found if any(place in "".join(arguments) for place in places)]


if __name__ == "__main__":
    sys.exit(main())
