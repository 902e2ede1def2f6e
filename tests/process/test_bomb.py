"""A fork bomb is dead before another may lead: it refills faster than a loop kills it pid by pid."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.process.conftest import IN_NAMESPACE, lead, may_take_priority
from tests.support.bomb import OWN_USER
from tests.support.processes import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Trials
    from tests.process.conftest import Heard, Scripted

BOMB = Path(__file__).parents[1] / "support/bomb.py"
LIMIT = 1000


# What leaves its group is found one by one: in time only by who has the processor before it.
PRIVILEGED = may_take_priority()
KINDS = ["group", "chain", *(["setsid", "chain-setsid"] if PRIVILEGED else [])]


def living(program: Path) -> list[int]:
    """The processes that run this, zombies not counted, in one look at the machine."""
    processes = psutil.process_iter(["status", "exe"])
    running = (each for each in processes if each.info["status"] != psutil.STATUS_ZOMBIE)
    return [each.pid for each in running if each.info["exe"] == str(program)]


@pytest.fixture
def program() -> Iterator[Path]:
    """The bomb, where its user may run it; it does not outlive a test that fails: one call kills all of that user's."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        Path(place).chmod(0o755)
        made = Path(place, "bomb")
        yield made
        if os.geteuid() == 0 and living(made):
            if os.fork() == 0:
                os.setuid(OWN_USER)
                os.kill(-1, signal.SIGKILL)
                os._exit(0)
            os.wait()


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize("before", [[], IN_NAMESPACE], ids=["as any process", "as PID 1"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fork_bomb_is_dead_once_kill_at_has_passed(  # noqa: PLR0917
    scripted: Scripted, heard: Heard, trials: Trials, program: Path, kind: str, before: list[str]
) -> None:
    """Counted from outside; its user's limit keeps it from filling the machine.

    With the default kill budget. More of it leaves an unprivileged kleader time to be given the processor, before the
    kernel's timer ends it: there is no elector here that would kill in its place.
    """
    bomb = f"{sys.executable} -I -S {BOMB} {kind} {LIMIT} {program}"
    command = ["sh", "-c", f"trap '' TERM; {bomb} & while :; do sleep 1; done"]
    for seconds in (3, 10, 60):  # a crowded machine takes longer to start it
        script = [[0, "acquired", lead(seconds, seconds)]]
        kleader = scripted(command, script, before=before, plan={"kill": 0.5 if PRIVILEGED else 8})
        assert kleader.wait(2 * seconds + PATIENCE) == 255
        if program.exists():
            break
    assert program.exists()
    assert living(program) == []
    assert not any(said["release"] for said in heard("AllProcessesExited"))
    trials.count(1, "fork bombs killed")
