"""Hooks and standbys: a shortage ends no term, and each failure is logged."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from kleader.supervisor.subtree import Subtree


class Said(list[str]):
    """Stands for a log."""

    def warning(self, message: str, **_: str) -> None:
        """Likewise."""
        self.append(message)


def never(_status: int, _now: float) -> None:
    """It did not end, for it was not started."""
    raise AssertionError


@pytest.mark.parametrize("call", ["pipe", "fork"])
def test_a_hook_that_finds_no_room_is_logged_and_leaks_no_descriptor(
    monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Too many open files or processes on the machine: the command must not die of that."""
    said: Any = Said()
    before = os.listdir("/dev/fd")  # noqa: PTH208

    def refuse() -> None:
        raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))

    monkeypatch.setattr(os, call, refuse)
    assert not Subtree("the hook", said, said, None, never).start(["true"], {}, 0.0)
    assert said == [f"cannot start the hook: {os.strerror(errno.ENFILE)}"]
    assert os.listdir("/dev/fd") == before  # noqa: PTH208


@pytest.mark.parametrize(
    ("status", "told"),
    [(0, []), (1, ["exited with status 1"]), (137, ["was ended by SIGKILL"]), (255, ["exited with status 255"])],
)
def test_the_failure_of_a_hook_is_logged_by_its_signal_or_its_status(status: int, told: list[str]) -> None:
    said: Any = Said()
    Subtree("the hook", said, said, None, never).log_failure(status, 0.0)
    assert said == [f"the hook {each}" for each in told]
