"""python -m tests.coverage: which lines of kleader/ the tests that need no cluster run, in every process of theirs.

The tests run in a copy of the tree whose package starts coverage.py where it is imported: kleader's own processes have
an interpreter that reads no site-packages. A process that is killed reports nothing, so the figure is a lower bound.
Prints the lines that none ran, and the share of the others. Exit status 1: a test failed. Tests of what a
process takes, such as time, memory or descriptors, are left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import coverage

from tests.support.copied import ROOT, copied

PLACE = ROOT / "build" / "coverage"
MEASURING = "not (memory or descriptor or quick or imports_little or takes_little or environment or portable or arrows)"
START = '''

def _record() -> None:
    """Start coverage.py, and save what it has before each way out that runs no atexit."""
    import os
    import sys

    sys.path.append({site!r})
    from coverage import Coverage

    sys.path.remove({site!r})
    if Coverage.current():
        return
    recorder = Coverage(data_file={data!r}, data_suffix=True, source_pkgs=["kleader"], config_file=False)
    recorder._auto_save, recorder._warn_no_data, recorder._warn_unimported_source = True, False, False
    recorder.start()
    for name in ("_exit", "execv", "execve"):

        def saving(*args: object, leave: object = getattr(os, name)) -> None:
            try:
                recorder.save()
            except Exception:
                pass
            leave(*args)

        setattr(os, name, saving)


_record()
'''


def main() -> int:
    """Run the tests there; returns the exit status."""
    shutil.rmtree(PLACE, ignore_errors=True)
    tree = copied(PLACE / "tree")
    data = str(PLACE / "data")
    package = tree / "kleader" / "__init__.py"
    package.write_text(package.read_text() + START.format(site=str(Path(coverage.__file__).parents[1]), data=data))
    rooms = sys.argv[1:] or [f"tests/{room}" for room in ("unit", "fuzz", "simulation", "process")]
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not alone", "-k", MEASURING]
    tests += ["--numprocesses", "auto", "--maxschedchunk", "1", *rooms]
    status = subprocess.run(tests, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, check=False).returncode
    recorded = coverage.Coverage(data_file=data, source_pkgs=["kleader"], config_file=False)
    os.chdir(tree)
    sys.path.insert(0, str(tree))
    recorded.combine([str(PLACE)])
    here, not_its_own = f"{tree}/kleader/*", "*/kleader/__init__.py"  # a test's copy of the package is not the package
    recorded.report(show_missing=True, skip_covered=True, include=[here], omit=[not_its_own])
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())
