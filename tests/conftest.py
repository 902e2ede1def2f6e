"""What every test has: processes that do not outlive it, a witness, trials that are counted, and no silent skip.

Where pytest-xdist runs tests in several workers, each has its own session: its own servers, and its own orphans. What
the workers counted is summed up.
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections import Counter
from contextlib import suppress
from functools import partialmethod
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from tests.support.checker import Witness
from tests.support.processes import Processes, adopt_orphans, any_child, sweep

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

_trials: Counter[str] = Counter()
_skipped: list[str] = []
untried: list[str] = []  # what a module leaves out, outside of CI, since it is not installed; the summary says so

if "mix_stderr" in signature(CliRunner).parameters:  # before click 8.2
    CliRunner.__init__ = partialmethod(CliRunner.__init__, mix_stderr=False)  # type: ignore[assignment]
    Result.output = property(lambda self: self.stdout + self.stderr)  # type: ignore[method-assign, assignment]


class Trials:
    """Counts what a test tried, for the summary: a rate without its number of trials says nothing."""

    def count(self, number: int, what: str) -> None:
        """Add `number` trials of `what`, a plural: `trials.count(50, "planned handovers")`."""
        _trials[what] += number


@pytest.fixture
def trials() -> Trials:
    return Trials()


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    yield
    sweep()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    started = Processes(tmp_path)
    yield started
    started.end()


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    return Witness(tmp_path / "witness.log", any_child)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--allow-skips", action="store_true", help="a skipped test does not fail the run")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """More than there are cores: tests of processes wait half of the time, those of a cluster most of it.

    None: what xdist takes.
    """
    more = 4 if all("cluster" in Path(room).parts for room in config.args) else 2
    return (os.cpu_count() or 1) + more if config.option.numprocesses == "auto" else None


def pytest_configure() -> None:
    adopt_orphans()
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):  # nohup, a background job: not what is tested
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        _skipped.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _skipped.append(report.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let each worker import the modules from another one on: it compiles that part, and finds the others' parts."""
    if (worker := getattr(session.config, "workerinput", None)) is None:
        return
    modules = sorted(path for room in session.config.args for path in Path(room).glob("test_*.py"))
    first = len(modules) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for path in modules[first:] + modules[:first]:
        with suppress(Exception, pytest.skip.Exception):  # collecting tells of it
            import_module(".".join(path.with_suffix("").parts))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In workers, put those first that say they may take long, and last those that want to be alone."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: (_alone(item), not item.get_closest_marker("slow"), -_limit(item)))


def _alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


def _limit(item: pytest.Item) -> float:
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark else 0.0


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """What wants to be alone waits for the other workers' tests, and they for it; outside of any test's time limit."""
    if not hasattr(item.config, "workerinput"):
        return (yield)
    with (Path(item.config.option.basetemp).parent / "turns").open("w") as turns:
        fcntl.flock(turns, fcntl.LOCK_EX if _alone(item) else fcntl.LOCK_SH)
        return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:  # noqa: ANN401 - a worker, of a plugin that may not be there
    """What a worker leaves at its end; a worker that crashed leaves nothing, and its test has failed."""
    output = getattr(node, "workeroutput", {})
    _trials.update(output.get("trials", {}))
    untried.extend(what for what in output.get("untried", ()) if what not in untried)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput |= {"trials": dict(_trials), "untried": untried}
    if _skipped and not session.config.getoption("allow_skips") and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if _skipped and not config.getoption("allow_skips"):
        terminalreporter.write_line(f"{len(_skipped)} skipped: a skipped test fails the run (--allow-skips)", red=True)
    for what in untried:
        terminalreporter.write_line(f"not tried: {what}", yellow=True)
    if _trials:
        counts = ", ".join(f"{number} {what}" for what, number in sorted(_trials.items()))
        terminalreporter.write_line(f"trials: {counts}")
