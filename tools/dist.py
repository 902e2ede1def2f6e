"""Builds the wheel and the source distribution, whose bytes depend on this source alone: ``python -m tools.dist``."""

from __future__ import annotations

import os
from pathlib import Path

from flit_core import buildapi

SOURCE = Path(__file__).parents[1]
WHEN = 315_532_800  # 1980-01-01, where the times of a zip file begin


def main() -> None:
    """Build both into dist/."""
    os.umask(0o022)
    os.chdir(SOURCE)
    os.environ["SOURCE_DATE_EPOCH"] = str(WHEN)
    Path("dist").mkdir(exist_ok=True)
    for build in (buildapi.build_wheel, buildapi.build_sdist):
        print(Path("dist", build("dist")).resolve())


if __name__ == "__main__":
    main()
