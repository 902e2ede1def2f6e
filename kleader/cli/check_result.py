"""The result of one check of ``kleader check``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kleader.cli.console import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

OK, WARN, FAIL = "ok", "warn", "fail"


class CheckResult(NamedTuple):
    """A line of the report. The fields are the keys of ``-o json``."""

    level: str  # OK; WARN: it works, with a limit; FAIL: no run can lead, or not safely
    check: str
    message: str
    mend: str = ""  # how to fix it

    @property
    def line(self) -> str:
        """The line for people."""
        return f"{self.level:4}  " + one_line(f"{self.check}: {self.message}{f'; {self.mend}' if self.mend else ''}")


class CheckReport:
    """The results, each shown as it comes."""

    def __init__(self, show: Callable[[CheckResult], None]) -> None:
        self._show = show
        self.results: list[CheckResult] = []

    def add(self, level: str, check: str, message: str, fix: str = "") -> None:
        """Add a result of that level, and show it."""
        self.results.append(CheckResult(level, check, message, fix))
        self._show(self.results[-1])

    def ok(self, check: str, message: str) -> None:
        """Add what is as it should be."""
        self.add(OK, check, message)

    def warn(self, check: str, message: str, fix: str = "") -> None:
        """Add what works with a limit."""
        self.add(WARN, check, message, fix)

    def fail(self, check: str, message: str, fix: str = "") -> None:
        """Add what keeps a run from leading, or from leading safely."""
        self.add(FAIL, check, message, fix)
