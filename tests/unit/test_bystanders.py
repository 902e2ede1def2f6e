"""Processes beside the command, which are not killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleader.ipc import messages as m
from kleader.ipc.channel import _MAX_MESSAGE_BYTES
from kleader.procs import bystanders
from kleader.procs.bystanders import Bystanders

if TYPE_CHECKING:
    import pytest


def test_the_elector_learns_of_the_command_beside_any_number_of_bystanders(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that is too long is not sent, and the elector would not know what to kill."""
    monkeypatch.setattr(bystanders, "is_alive", lambda _pid, _start: True)
    many = Bystanders({4_000_000 + i: 10**12 + i for i in range(20_000)})
    assert len(m.encode(m.Message(1, m.Started(2, 3, many.listed)))) < _MAX_MESSAGE_BYTES
