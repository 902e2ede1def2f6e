"""Builds and tries all that is released, and says what a person still has to do: ``python -m tools.release``.

`make release-check` calls it: the versions agree and the tree is clean; then `make test-standalone` builds the wheel,
the source distribution, the archive and the image twice, compares their bytes, and runs them in root file systems.
"""

from __future__ import annotations

import re
import subprocess
import sys

from tools.install import SOURCE, version
from tools.standalone.debian import digest


def main() -> int:
    """Check; returns the exit status."""
    if found := problems():
        for problem in found:
            print(f"error: {problem}", file=sys.stderr)
        return 1
    if tried := subprocess.run(["make", "test-standalone"], cwd=SOURCE, check=False).returncode:
        return tried
    print(f"\nkleader {version()} in dist/, of the same bytes when it was built again elsewhere:")
    for file in sorted((SOURCE / "dist").glob(f"kleader-{version()}*")):
        print(f"  {digest(file)}  {file.name}")
    print("\nTo do by a person:")
    for number, task in enumerate(tasks(), 1):
        print(f"  {number}. {task}")
    return 0


def problems() -> list[str]:
    """What keeps this source from being a release, each in one line."""
    wanted, (top, _), found = version(), newest_change(), []
    if top != wanted:
        found.append(f"kleader.__version__ is {wanted}, and the newest version of CHANGELOG.md is {top}")
    if _git("status", "--porcelain"):
        found.append("the tree is not clean: git status")
    here = _git("tag", "--points-at", "HEAD").split()
    if here and here != [f"v{wanted}"]:
        found.append(f"kleader.__version__ is {wanted}, and this commit has the tag {' '.join(here)}")
    if not here and _git("tag", "--list", f"v{wanted}"):
        found.append(f"v{wanted} is the tag of another commit: this one needs a version of its own")
    return found


def tasks() -> list[str]:
    """What no program does, of which some may be done."""
    tag, (_, date) = f"v{version()}", newest_change()
    done = {
        "pyproject.toml: [project.urls], of the source and its issues": "[project.urls]" in _text("pyproject.toml"),
        "SECURITY.md: the contact, and how soon a report is answered": "TO BE SET" not in _text("SECURITY.md"),
        "CHANGELOG.md: the date of this version": date != "Unreleased",
        f"git tag -s {tag}, and make release-check again": tag in _git("tag", "--points-at", "HEAD").split(),
    }
    always = [
        "make standalone ARCHITECTURE=aarch64, and a try of it: no machine of that architecture has run it",
        "make test-node, with KLEADER_TEST_KUBECONFIG of a disposable cluster",
        "upload: the wheel and the source distribution, the archives, the image, and the sums above; then push the tag",
    ]
    return [task for task, is_done in done.items() if not is_done] + always


def newest_change() -> tuple[str, str]:
    """The version at the top of CHANGELOG.md, and its date or ``Unreleased``."""
    found = re.search(r"(?m)^## \[(.+)\] - (\S+)$", _text("CHANGELOG.md"))
    return (found[1], found[2]) if found else ("none", "")


def _text(file: str) -> str:
    return (SOURCE / file).read_text()


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=SOURCE, capture_output=True, check=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
