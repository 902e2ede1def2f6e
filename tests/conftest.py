"""What every test has: processes that do not outlive it, a witness, trials that are counted, and no silent skip."""

from __future__ import annotations

import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.support.checker import Witness
from tests.support.processes import Processes, adopt_orphans, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_trials: Counter[str] = Counter()
_skipped: list[str] = []
untried: list[str] = []  # what a module leaves out, outside of CI, since it is not installed; the summary says so


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
    return Witness(tmp_path / "witness.log")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--allow-skips", action="store_true", help="a skipped test does not fail the run")


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
def pytest_sessionfinish(session: pytest.Session) -> None:
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
