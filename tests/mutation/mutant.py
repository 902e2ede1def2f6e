"""One guard taken away, in a copy of the tree: what the test that must fail says to it."""

from __future__ import annotations

import compileall
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from tests.mutation.guard import Guard

ROOT = Path(__file__).parents[2]
ROOMS = ("kleader", "tests", "pyproject.toml")
LONGEST = 150.0  # seconds for one pytest; a test that hangs fails by pytest-timeout before that
PATIENCE = "10"  # seconds that its tests wait for anything: a mutant often never does it
# PIDs of its own: whatever a mutant may start, stop or kill, it is nobody else's, and ends with it.
APART = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"])]
APART += ["--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", '"$@"; exit $?', "-"]  # PID 1 is the shell
_once = threading.Lock()
_whole: list[tempfile.TemporaryDirectory[str]] = []  # a copy of the tree, compiled
# A mutant that cannot even run shows nothing.
_BROKEN = re.compile(
    r"\b(?:SyntaxError|ImportError|ModuleNotFoundError|NameError|UnboundLocalError|fixture '.*' not)\b"
)


class Outcome(NamedTuple):
    """What pytest said."""

    good: bool  # all passed
    failed: list[str]  # the tests that failed, by name
    passed: list[str]
    seconds: float
    text: str  # all that it printed

    @property
    def broken(self) -> str:
        """Why this shows nothing about a guard; "" if it does."""
        if not (self.failed or self.passed):
            return "pytest did not run the test"
        found = _BROKEN.search(self.text)
        return f"it fails by a {found[0]}" if found and self.failed else ""


def copy(into: Path) -> None:
    """The tree as it was when this was first called; its files are linked: replace them, and write to none."""
    with _once:
        if not _whole:
            _whole.append(tempfile.TemporaryDirectory(prefix="kleader-tree-"))
            for room in ROOMS:
                if (ROOT / room).is_dir():
                    shutil.copytree(ROOT / room, Path(_whole[0].name, room), symlinks=True)
                else:
                    shutil.copy2(ROOT / room, Path(_whole[0].name, room))
            compileall.compile_dir(_whole[0].name, quiet=2)
    shutil.copytree(_whole[0].name, into, symlinks=True, copy_function=os.link, dirs_exist_ok=True)


def pytest(tree: Path, *tests: str) -> Outcome:
    """Run these tests there, up to the first that fails where there is one alone."""
    report = tree / "report.xml"
    words = ["-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "--timeout=120", f"--junitxml={report}"]
    words += ["-x"] if len(tests) == 1 else []
    if not any(test.startswith("fuzz/") for test in tests):  # its plugin takes longer to import than most tests run
        words += ["-p", "no:hypothesispytest"]
    began = time.monotonic()
    with (tree / "output").open("wb") as output:
        running = subprocess.Popen(
            [*APART, sys.executable, *words, *(f"tests/{test}" for test in tests)],
            cwd=tree, env={**os.environ, "KLEADER_TEST_PATIENCE": PATIENCE, "KLEADER_TEST_EFFORT": "4"},
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            running.wait(LONGEST * len(tests))
        except BaseException as error:
            running.kill()
            running.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
    failed, passed = [], []
    if report.exists():
        for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest's own
            trouble = case.find("failure")
            name = f"{case.get('classname', '')}::{case.get('name')}"
            if trouble is not None:
                failed.append(name)
            elif case.find("error") is None and case.find("skipped") is None:
                passed.append(name)
    seconds, text = time.monotonic() - began, (tree / "output").read_text(errors="replace")
    return Outcome(running.returncode == 0, failed, passed, seconds, text)


def judge(guard: Guard) -> Outcome:
    """Run its test without the guard."""
    with tempfile.TemporaryDirectory(prefix="kleader-mutant-") as scratch:
        tree = Path(scratch)
        copy(tree)
        path = tree / "kleader" / guard.file
        mutated = guard.applied(tree)
        path.unlink()
        path.write_text(mutated)
        for cached in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):  # known by the second it was written in
            cached.unlink()
        return pytest(tree, guard.test)


def whole(tests: list[str]) -> Outcome:
    """Run these tests with every guard in place."""
    with tempfile.TemporaryDirectory(prefix="kleader-whole-") as scratch:
        copy(Path(scratch))
        return pytest(Path(scratch), *tests)
