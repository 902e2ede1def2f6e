"""What runs beside the command ends nothing when there is no room for it, and is told of as it was."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from kleader.supervisor.aside import Aside


class Said(list[str]):
    """Stands for a log."""

    def warning(self, message: str) -> None:
        """Likewise."""
        self.append(message)


@pytest.mark.parametrize("call", ["pipe", "fork"])
def test_a_machine_that_is_full_is_told_of_and_costs_no_descriptor(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """Too many open files, or processes, of anybody: the command beside it must not die of that."""
    said: Any = Said()
    before = os.listdir("/dev/fd")  # noqa: PTH208

    def refuse() -> None:
        raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))

    monkeypatch.setattr(os, call, refuse)
    assert not Aside("the hook", said, said).start(["true"], {})
    assert said == [f"cannot start the hook: {os.strerror(errno.ENFILE)}"]
    assert os.listdir("/dev/fd") == before  # noqa: PTH208


@pytest.mark.parametrize(
    ("status", "told"),
    [(0, []), (1, ["exited with status 1"]), (137, ["was ended by SIGKILL"]), (255, ["exited with status 255"])],
)
def test_a_status_that_no_signal_has_is_told_as_it_is(status: int, told: list[str]) -> None:
    said: Any = Said()
    Aside("the hook", said, said).tell(status, 0.0)
    assert said == [f"the hook {each}" for each in told]
