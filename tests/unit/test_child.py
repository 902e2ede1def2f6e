"""What a command's end makes of kleader's exit status."""

from __future__ import annotations

import os
import signal

import pytest

from kleader.supervisor.child import Child


def ended(waitstatus: int) -> Child:
    """A command that has ended so; waitpid(2) tells its status in the high byte, its signal in the low one."""
    child = Child(os.getpid(), -1, -1, own_group=True, foreground=False)
    child.ended(waitstatus)
    return child


@pytest.mark.parametrize("status", range(256))
def test_each_of_256_statuses_of_the_command_is_kleaders(status: int) -> None:
    assert (ended(status << 8).status, ended(status << 8).signal) == (status, 0)


@pytest.mark.parametrize("number", sorted(signal.valid_signals()))
def test_death_by_each_signal_is_128_plus_its_number_with_or_without_a_core_dump(number: int) -> None:
    for waitstatus in (number, number | 0x80):
        assert (ended(waitstatus).status, ended(waitstatus).signal) == (128 + number, number)
