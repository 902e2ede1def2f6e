"""The processes beside the command, one at a time."""

from __future__ import annotations

import errno
import os

import pytest

from kleader.backoff import Backoff
from kleader.supervisor.child_process import ChildProcess


def no_room() -> tuple[int, None]:
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def test_pauses_between_failed_starts_grow() -> None:
    """Though the last process that was started ran for long."""
    process = ChildProcess(None, lambda _status, _now: None, Backoff(1.0, 30.0, steady=60.0))
    process.start(0.0, lambda: (4_000_000, None))
    process.reaped(0, 100.0)
    assert process.pause(100.0) == 1
    pauses = []
    for now in (101.0, 103.0, 107.0):
        with pytest.raises(OSError, match="unavailable"):
            process.start(now, no_room)
        pauses.append(process.pause(now))
    assert pauses == [2, 4, 8]
