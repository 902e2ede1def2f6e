"""Exit statuses and signals travel through real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.process.conftest import IN_NAMESPACE, as_pid_1
from tests.support.processes import PATIENCE, wait_until

if TYPE_CHECKING:
    from tests.conftest import Trials
    from tests.process.conftest import Start
    from tests.support.processes import Process

HERE = Path(__file__).parent
HARMLESS = {"CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "WINCH"}
FATAL = sorted(
    {signal.SIGRTMIN, signal.SIGRTMAX, *signal.Signals} - {getattr(signal, f"SIG{name}") for name in HARMLESS}
)
STATUSES = [0, 1, 2, 63, 124, 125, 126, 127, 128, 129, 130, 137, 143, 192, 254, 255]  # kleader has its own for most
FAULTS = {"SEGV", "BUS", "FPE", "ILL", "TRAP", "SYS", "ABRT", "KILL", "STOP"}
NEVER = {"CHLD", "TTIN", "TTOU"}
FORWARDED = sorted(
    int(number)
    for number in signal.valid_signals()
    - {getattr(signal, f"SIG{name}") for name in FAULTS | NEVER | {"TERM", "INT", "CONT"}}
)


def run_all(commands: list[list[str]], *options: str) -> list[int]:
    """The exit status of kleader for each command."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.process.many", *options],
        input=json.dumps(commands), capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: list[int] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("where", [(), ("pid1",)], ids=["anywhere", "as PID 1"])
def test_the_exit_status_of_the_command_is_kleaders(trials: Trials, where: tuple[str, ...]) -> None:
    """All 256 are tested in unit/test_child.py."""
    commands = [["sh", "-c", f"exit {number}"] for number in STATUSES]
    assert run_all(commands, *where) == STATUSES
    trials.count(len(STATUSES), "exit statuses")


@pytest.mark.slow
@pytest.mark.parametrize("where", [(), ("pid1",)], ids=["anywhere", "as PID 1"])
def test_death_by_each_fatal_signal_is_128_plus_its_number(trials: Trials, where: tuple[str, ...]) -> None:
    commands = [["sh", "-c", f"kill -{number} $$"] for number in FATAL]
    assert run_all(commands, *where) == [128 + number for number in FATAL]
    trials.count(len(FATAL), "deaths by a signal")


def reported(process: Process) -> list[int]:
    """The signals that the command reports."""
    return [int(line) for line in process.out.split() if line.isdecimal()]


def has_reported(process: Process, number: int) -> bool:
    """Whether this was the last signal."""
    return reported(process)[-1:] == [number]


@pytest.mark.parametrize("pid_1", [False, True], ids=["anywhere", "as PID 1"])
def test_every_catchable_signal_except_chld_ttin_and_ttou_reaches_the_command(
    alone: Start,
    trials: Trials,
    pid_1: bool,  # noqa: FBT001
) -> None:
    kleader = alone([sys.executable, str(HERE / "reporter.py")], before=IN_NAMESPACE if pid_1 else [])
    wait_until(lambda: "ready" in kleader.out, "the command")
    fd = os.pidfd_open(as_pid_1(kleader) if pid_1 else kleader.pid)

    def send(number: int) -> None:
        signal.pidfd_send_signal(fd, number)

    for name in NEVER:
        send(getattr(signal, f"SIG{name}"))
    for number in FORWARDED:
        send(number)
        wait_until(partial(has_reported, kleader, number), f"signal {number}")
    send(signal.SIGCONT)
    wait_until(partial(has_reported, kleader, signal.SIGCONT), "SIGCONT")
    send(signal.SIGTERM)
    assert kleader.wait() == 0
    os.close(fd)
    assert reported(kleader) == [*FORWARDED, signal.SIGCONT, signal.SIGTERM, signal.SIGCONT]
    trials.count(len(FORWARDED) + 3, "signals forwarded")
