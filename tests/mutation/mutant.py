"""One guard taken away, in a copy of the tree: what the test that must fail says to it.

Each trial is a fork of a process that has imported pytest and all that no guard is in, in PID and mount namespaces of
its own: whatever a mutant may start, stop or kill, it is nobody else's, and ends with it.
"""

from __future__ import annotations

import compileall
import contextlib
import ctypes
import gc
import importlib
import io
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import deque
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.mutation.guard import Guard

ROOT = Path(__file__).parents[2]
ROOMS = ("kleader", "tests", "pyproject.toml")
LONGEST = 150  # seconds for one pytest; a test that hangs fails by pytest-timeout before that
PATIENCE = "10"  # seconds that its tests wait for anything: a mutant often never does it
LIBRARIES = ("asyncio", "click.testing", "h11", "hypothesis", "prometheus_client", "psutil", "trustme", "yaml")
_OURS = {"kleader", "tests"}
_NEW_USER, _NEW_PIDS_AND_MOUNTS = 0x10000000, 0x20000000 | 0x00020000
_PRIVATE = 0x44000  # MS_REC | MS_PRIVATE
_PR_SET_PDEATHSIG = 1
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


class Trial(NamedTuple):
    """These tests, below tests/, without the guard; or with every guard in place."""

    tests: list[str]
    guard: Guard | None = None


def tried(trials: Iterable[Trial], jobs: int) -> Iterator[tuple[Trial, Outcome]]:
    """Try all of them, so many at once; each is told of as it ends. For a process with one thread."""
    _tree()
    _import_libraries()
    waiting = deque(trials)
    running: dict[int, tuple[Trial, tempfile.TemporaryDirectory[str], float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                trial = waiting.popleft()
                scratch = tempfile.TemporaryDirectory(prefix="kleader-mutant-", ignore_cleanup_errors=True)
                running[_forked(Path(scratch.name), trial)] = trial, scratch, time.monotonic()
            pid, status = os.wait()
            trial, scratch, began = running.pop(pid)
            with scratch as tree:
                yield trial, _outcome(Path(tree), good=status == 0, seconds=time.monotonic() - began)
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@cache
def _tree() -> tempfile.TemporaryDirectory[str]:
    """A copy of the tree as it is now, compiled."""
    made = tempfile.TemporaryDirectory(prefix="kleader-tree-")
    for room in ROOMS:
        if (ROOT / room).is_dir():
            shutil.copytree(ROOT / room, Path(made.name, room), symlinks=True)
        else:
            shutil.copy2(ROOT / room, Path(made.name, room))
    compileall.compile_dir(made.name, quiet=2)
    return made


@cache
def _import_libraries() -> None:
    """Import what every trial would: pytest with its plugins, and what the tests and kleader take from others."""
    import pytest  # noqa: PLC0415 - only where trials are run

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        pytest.main(["--noconftest", "--version", "--version"])
    for name in LIBRARIES:
        importlib.import_module(name)
    gc.freeze()


def _outcome(tree: Path, *, good: bool, seconds: float) -> Outcome:
    failed, passed, report, output = [], [], tree / "report.xml", tree / "output"
    if report.exists():
        for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest's own
            trouble = case.find("failure")
            name = f"{case.get('classname', '')}::{case.get('name')}"
            if trouble is not None:
                failed.append(name)
            elif case.find("error") is None and case.find("skipped") is None:
                passed.append(name)
    return Outcome(good, failed, passed, seconds, output.read_text(errors="replace") if output.exists() else "")


# --- in the fork
def _forked(tree: Path, trial: Trial) -> int:
    """Begin a trial; returns its pid."""
    if pid := os.fork():
        return pid
    try:
        _die_with_parent()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LONGEST * len(trial.tests))
        _fill(tree, trial.guard)
        _enter(tree)
        _in_namespaces(trial.tests)
    except BaseException:  # noqa: BLE001 - the fork ends here, whatever happens
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


def _fill(tree: Path, guard: Guard | None) -> None:
    """Put the tree there, without the guard. Files are linked: they are replaced, and never written to."""
    shutil.copytree(_tree().name, tree, symlinks=True, copy_function=os.link, dirs_exist_ok=True)
    if guard:
        path = tree / "kleader" / guard.file
        mutated = guard.applied(tree)
        path.unlink()
        path.write_text(mutated)
        for cached in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):  # known by the second it was written in
            cached.unlink()


def _enter(tree: Path) -> None:
    os.chdir(tree)
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open("output", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for fd, number in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(fd, number)
    os.closerange(3, max(nothing, output) + 1)
    os.environ.update(KLEADER_TEST_PATIENCE=PATIENCE, KLEADER_TEST_EFFORT="4")


def _in_namespaces(tests: list[str]) -> NoReturn:
    """Run pytest there, as a child of PID 1, and end with its status."""
    user, group = os.geteuid(), os.getegid()
    _call("unshare", _NEW_PIDS_AND_MOUNTS | (_NEW_USER if user else 0))
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    _call("mount", b"none", b"/", None, _PRIVATE, None)
    if first := os.fork():
        os._exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) != 0)
    _die_with_parent()
    _call("mount", b"proc", b"/proc", b"proc", 0, None)
    if last := os.fork():
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # which PID 1 does not die of
        while (ended := os.wait())[0] != last:
            pass
        os._exit(os.waitstatus_to_exitcode(ended[1]) != 0)
    os._exit(_pytest(tests))


def _pytest(tests: list[str]) -> int:
    """Run these tests, up to the first that fails where there is one alone."""
    import pytest  # noqa: PLC0415 - only where trials are run

    for name in [name for name in sys.modules if name.partition(".")[0] in _OURS]:
        del sys.modules[name]
    words = [
        "-q",
        "--tb=short",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
        "-p",
        "no:cacheprovider",
        "--timeout=120",
        "--junitxml=report.xml",
    ]
    words += ["-x"] if len(tests) == 1 else []
    sys.path[0] = str(Path.cwd())
    sys.argv = ["pytest", *words]
    status = pytest.main([*words, *(f"tests/{test}" for test in tests)])
    sys.stdout.flush()
    sys.stderr.flush()
    return int(status)


def _die_with_parent() -> None:
    _call("prctl", _PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def _call(name: str, *arguments: bytes | int | None) -> None:
    """Call the C library. OSError."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
