"""The state file: replaced as a whole, by a thread of its own, for a disk may hang."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kleader.log import Log

_PARTING = 0.5  # seconds that a removal may take


class StateFile:
    """The newest state wins; what found no time to be written is left out."""

    def __init__(self, path: str, log: Log) -> None:
        self._path, self._log = path, log
        self._news = threading.Condition()
        self._state: dict[str, Any] | None = None
        self._over = False
        self._failing = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def put(self, state: dict[str, Any]) -> None:
        """Have it written."""
        with self._news:
            self._state = state
            self._news.notify()

    def remove(self) -> None:
        """The end: what is not there cannot be taken for the truth. Waits for it no longer than half a second."""
        with self._news:
            self._over = True
            self._news.notify()
        self._thread.join(_PARTING)

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._over or self._state is not None)
                state, self._state = self._state, None
            try:
                if self._over:
                    os.unlink(self._path)
                    return
                self._write(state)
                self._failing = False
            except OSError as error:
                if self._over:
                    return
                if not self._failing:
                    trouble = f"cannot write the state file {self._path}: {error.strerror}: what it says is old"
                    self._log.warning(trouble)
                self._failing = True

    def _write(self, state: dict[str, Any] | None) -> None:
        """A file of our own, whatever somebody may have put where it is made."""
        beside = f"{self._path}.tmp"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        with open(beside, "x", encoding="utf-8") as file:
            json.dump(state, file, indent=2)
            file.write("\n")
        os.rename(beside, self._path)
