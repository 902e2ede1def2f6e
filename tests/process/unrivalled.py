"""A real supervisor with a real elector, on a lock in memory without another candidate: `unrivalled.py COMMAND …`.

The elector looks at the tree when the term begins, and then only where it has a reason; and it is slow to notice that
the supervisor is dead.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import TYPE_CHECKING, cast

from kleader import launch, system
from kleader.cli.commands import cli
from kleader.election.events import Kind, Observed
from kleader.elector import launchers, loop
from kleader.elector.loop import Loop
from kleader.ipc import plan as plans
from kleader.ipc import spawn
from kleader.ipc.channel import Channel
from kleader.kube.errors import LockError
from kleader.locks.base import LockProperties

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncGenerator, Sequence

    from kleader.election.record import Record
    from kleader.elector.best_effort import Follower
    from kleader.ipc.messages import Assign
    from kleader.ipc.plan import Plan
    from kleader.locks.base import Lock


class Ours:
    """Keeps what is written."""

    namespace = "default"
    properties = LockProperties()

    def __init__(self) -> None:
        self._seen: Observed | None = None

    async def get(self, timeout: float) -> Observed:  # noqa: ARG002
        """What was written last."""
        if self._seen is None:
            raise LockError(Kind.MISSING, "not there")
        return self._seen

    async def write(self, base: Observed | None, record: Record, incarnation: str, timeout: float) -> Observed:  # noqa: ARG002
        """Always."""
        self._seen = Observed(record, incarnation, str(int(base.version if base else 0) + 1))
        return self._seen

    async def watch(self, after: Observed | None, timeout: float) -> AsyncGenerator[Observed | None, None]:  # noqa: ARG002
        """Nobody else changes anything."""
        await asyncio.Event().wait()
        yield after

    def references(self, seen: Observed) -> Sequence[dict[str, str]]:  # noqa: ARG002
        """Nothing that could be shown."""
        return ()

    def register(self) -> None:
        """Nothing to be told."""

    async def unregister(self, timeout: float) -> None:
        """Likewise."""


class Slow(Loop):
    """One that hears of the supervisor's end when all of that is over, and its orphans are init's."""

    def _supervisor_died(self) -> None:
        while self._tracker.supervisor_lives():
            time.sleep(0.001)
        super()._supervisor_died()


class Electors(spawn.Launcher):
    """Forks of the supervisor."""

    releases = True

    def __init__(self, plan_fd: int, *_: object, **__: object) -> None:
        self._plan = plans.load(plan_fd)

    def start(self, *, leading: bool) -> tuple[int, Channel]:  # noqa: ARG002
        """One more."""
        supervisor = system.myself()

        def run(theirs: socket.socket) -> int:
            log, channel = launch.log_of(self._plan), Channel(theirs)
            asyncio.run(Slow(self._plan, channel, log, (supervisor.pid, supervisor.start), find_lock).run())
            return 0

        return spawn.connected(run)


async def find_lock(_term: int, _assign: Assign) -> tuple[Lock, list[Follower]]:
    """Always the same; there is nobody to be told of it."""
    return cast("Lock", Ours()), []


def main() -> None:
    """As the head of this file says."""
    caught: list[Plan] = []
    launch.become_supervisor = caught.append  # type: ignore[assignment]
    # Between the elector's turn and the kernel's lies a quarter of the kill budget: time for a busy machine.
    times = ("--lease-duration=9s", "--renew-deadline=2500ms", "--retry-period=1s", "--kill-budget=4s")
    words = ["run", "--name=t", "--identity=a", *times, "--", *sys.argv[1:]]
    cli.main(words, prog_name="kleader", standalone_mode=False)
    loop._HEARTBEAT_SECONDS = 3600.0
    launchers.Electors = Electors  # type: ignore[assignment,misc]
    fd = system.anonymous_file()
    plans.save(caught[0], fd)
    os._exit(launch.supervise(fd))


main()
