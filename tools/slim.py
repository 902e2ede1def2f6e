"""What kleader does not use of the packages that it needs.

It asks the package ``kubernetes`` for one thing, the token of an OIDC provider. The client's models, its calls and the
second client for asyncio, with what that one alone imports, are 130 MB that nothing loads: tests/process/test_oidc.py
asks for a token without them.
"""

from __future__ import annotations

import shutil
from importlib.metadata import Distribution
from pathlib import Path

UNUSED = (  # by kubernetes.aio alone
    "aiohappyeyeballs",
    "aiohttp",
    "aiohttp-retry",
    "aiosignal",
    "attrs",
    "frozenlist",
    "multidict",
    "propcache",
    "yarl",
)
UNUSED_OF_KUBERNETES = ("aio", "client/api", "client/models")
_KEPT = "client/models/__init__.py"  # imported, and loads a model when one is asked for


def slim(packages: Path) -> None:
    """Remove it from a directory that packages were installed to."""
    for distribution in Distribution.discover(path=[str(packages)]):
        if distribution.name in UNUSED:
            for file in distribution.files or ():
                Path(distribution.locate_file(file)).unlink(missing_ok=True)  # type: ignore[arg-type]
    kubernetes = packages / "kubernetes"
    kept = (kubernetes / _KEPT).read_bytes()
    for unused in UNUSED_OF_KUBERNETES:
        shutil.rmtree(kubernetes / unused)
    (kubernetes / _KEPT).parent.mkdir()
    (kubernetes / _KEPT).write_bytes(kept)
    for directory in sorted((each for each in packages.rglob("*") if each.is_dir()), reverse=True):
        if not any(directory.iterdir()):
            directory.rmdir()
