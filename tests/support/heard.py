"""A log that keeps its lines."""

from __future__ import annotations

from kleader.log import Log


class Heard(Log):
    """What would be written to stderr: level and message of each line."""

    def __init__(self) -> None:
        super().__init__(verbosity=2)
        self.lines: list[tuple[str, str]] = []

    def _log(self, level: str, message: str, _fields: dict[str, object]) -> None:
        self.lines.append((level, message))

    def of(self, level: str) -> list[str]:
        """The messages of one level."""
        return [message for each, message in self.lines if each == level]
