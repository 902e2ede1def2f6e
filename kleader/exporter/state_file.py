"""The state file: a command reads there how long it may lead. Replaced atomically, by a thread, for a disk may hang."""

from __future__ import annotations

import contextlib
import json
import math
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from kleader import system
from kleader.exporter.health import is_leading

if TYPE_CHECKING:
    from kleader.ipc.messages import Status
    from kleader.log import Log

_REMOVAL_SECONDS = 0.5  # after which kleader ends without waiting for the disk


def state_of(status: Status, now: float) -> dict[str, Any]:
    """The file's content. Each instant by two clocks: CLOCK_BOOTTIME decides, the wall clock is for people."""
    wall = time.time()

    def instant(at: float) -> dict[str, Any] | None:
        if not status.held or math.isinf(at):
            return None
        then = wall + at - now
        written = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(then))}.{int(then % 1 * 1e6):06d}Z"
        return {"boot": at, "time": written}

    return {
        "role": status.role,
        "leading": is_leading(status, now),
        "identity": status.identity,
        "leader": status.leader,
        "lock": status.lock,
        "namespace": status.namespace,
        "name": status.name,
        "token": status.token if status.held else None,
        "transitions": status.transitions if status.held else None,
        "renewed": instant(status.renewed),
        "stopAt": instant(status.stop_at),
        "killAt": instant(status.kill_at),
        "pid": status.pid or None,
    }


class StateFile:
    """Written by a thread of its own. The newest state wins; a state that the disk was too slow for is skipped."""

    def __init__(self, path: str, log: Log) -> None:
        self._path, self._log = path, log
        self._changed = threading.Condition()
        self._state: dict[str, Any] | None = None
        self._is_over = self._is_failing = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def put(self, state: dict[str, Any]) -> None:
        """Have the state written."""
        with self._changed:
            self._state = state
            self._changed.notify()

    def remove(self) -> None:
        """Remove the file, so that no process relies on an old state. Waits for the disk half a second at most."""
        with self._changed:
            self._is_over = True
            self._changed.notify()
        self._thread.join(_REMOVAL_SECONDS)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_over or self._state is not None)
                state, self._state = self._state, None
            if self._is_over:
                with contextlib.suppress(OSError):
                    os.unlink(self._path)
                return
            try:
                system.replace_file(self._path, f"{json.dumps(state, indent=2)}\n")
                self._is_failing = False
            except OSError as error:
                if not self._is_failing:
                    why = f"cannot write the state file {self._path}: {error.strerror}: what it says is old"
                    self._log.warning(why, event="state_file_failed")
                self._is_failing = True
