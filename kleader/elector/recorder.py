"""Events on the lock's objects, as client-go's resourcelock has its ``record`` package write them: best effort."""

from __future__ import annotations

import asyncio
import time
import urllib.parse
from typing import TYPE_CHECKING, Any

from kleader.election.state import Phase
from kleader.elector.errand import Errand

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kleader.election.state import State
    from kleader.elector.label import Label
    from kleader.elector.roll import Roll
    from kleader.locks.api import Api
    from kleader.locks.base import Lock
    from kleader.locks.credentials import Credentials
    from kleader.log import Log

BECAME, STOPPED = "became leader", "stopped leading"
TIMEOUT = 5.0  # seconds for one Event
_MOMENT = 0.06  # seconds: machine and server have a handover to do first, the last leader's or one's own
_LONGEST_PARTING = 0.5  # seconds that a release waits for the Pod's label
_LONGEST_NAME = 253  # characters, of any object
_GRANT = "grant create on events, so that Events tell who leads"


class Recorder:
    """Tells of one identity, in the name of one component: client-go's users take the lock's name for that.

    Each Event has one try.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - who tells, of whom, and what else is told
        self,
        credentials: Credentials,
        log: Log,
        identity: str,
        component: str,
        label: Label | None = None,
        roll: Roll | None = None,
    ) -> None:
        self.label = label  # which tells the same on the Pod
        self._roll = roll  # which tells the control plane in time who else is there
        self._errand = Errand(credentials, log, _GRANT, "no Event was written")
        self._identity, self._component = identity, component
        self._under_way: set[asyncio.Task[None]] = set()
        self._about: Sequence[dict[str, str]] = ()  # the lock's objects, in a term

    def follow(self, lock: Lock, state: State) -> None:
        """Keep, after each step, what Events of this term are about; tell of its end, however that came."""
        if self.label:
            self.label.follow(state)
        if self._roll:
            self._roll.follow(state)
        if state.phase is Phase.LEADING or (state.phase is Phase.RELEASING and state.led):
            self._about = lock.references(state.seen) if state.seen else self._about
        else:
            for reference in self._about:
                self.record(reference, STOPPED)
            self._about = ()

    def became_leader(self) -> None:
        """Tell of the beginning of the term that the last step began."""
        for reference in self._about:
            self.record(reference, BECAME)

    def record(self, reference: Mapping[str, str], text: str) -> asyncio.Task[None]:
        """Tell that the identity did ``text`` now, on an object (core/v1 ObjectReference), in a moment; in a loop.

        The task, which need not be kept, is over TIMEOUT after that.
        """
        body = event(reference, f"{self._identity} {text}", self._component, time.time_ns())
        task = asyncio.get_running_loop().create_task(self._send(body))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    def command(self, *, runs: bool) -> None:
        """It was started, or winds down."""
        if self.label:
            self.label.runs(well=runs)
        if self._roll and not runs:
            self._roll.call()

    async def part(self, seconds: float) -> float:
        """Before the lock is given up: wait for what should be told first, but no longer. Seconds that it took."""
        return await self.label.settle(min(seconds, _LONGEST_PARTING)) if self.label else 0.0

    async def drain(self, seconds: float) -> None:
        """Wait for what is under way, but no longer."""
        left = seconds - await self.part(seconds)
        under_way = self._under_way | (self._roll.under_way if self._roll else set())
        if under_way:
            await asyncio.wait(under_way, timeout=left)

    async def _send(self, body: dict[str, Any]) -> None:
        await asyncio.sleep(_MOMENT)
        namespace = urllib.parse.quote(body["metadata"]["namespace"], safe="")

        async def send(api: Api) -> None:
            await api.call("POST", f"/api/v1/namespaces/{namespace}/events", body, TIMEOUT)

        await self._errand.run(send)


def event(reference: Mapping[str, str], message: str, component: str, now: int) -> dict[str, Any]:
    """A core/v1 Event as recorderImpl.makeEvent and generateEvent have it; ``now``: nanoseconds since the epoch."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now // 1_000_000_000))
    name = f"{reference['name']}.{now:x}"  # util.GenerateEventName
    if len(name) > _LONGEST_NAME:
        import uuid  # noqa: PLC0415 - which a waiting candidate would carry

        name = str(uuid.uuid4())
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": reference["namespace"]},
        "involvedObject": dict(reference),
        "reason": "LeaderElection",
        "message": message,
        "source": {"component": component},
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
        "type": "Normal",
        "eventTime": None,
        "reportingComponent": component,
        "reportingInstance": "",
    }
