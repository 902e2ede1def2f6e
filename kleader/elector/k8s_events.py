"""Kubernetes Events on the lock's objects, as client-go's resourcelock has its ``record`` package write them."""

from __future__ import annotations

import asyncio
import time
import urllib.parse
from typing import TYPE_CHECKING, Any

from kleader.election.state import Phase
from kleader.elector.best_effort import BestEffortCall, Follower

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kleader.election.state import State
    from kleader.kube.credentials import Credentials
    from kleader.locks.base import Lock
    from kleader.log import Log

BECAME, STOPPED = "became leader", "stopped leading"
_HANDOVER_SECONDS = 0.06  # in which this machine and the API server have a handover to do first
_MAX_NAME_CHARS = 253  # of any object
_GRANT = "grant create on events, so that Events tell which candidate leads"


class EventRecorder(Follower):
    """Writes an Event for the begin and the end of each term, each once.

    ``component``: the source of the Events; client-go's users take the lock's name.
    """

    def __init__(self, credentials: Credentials, log: Log, identity: str, component: str, lock: Lock) -> None:
        self._call = BestEffortCall(
            credentials, log, event="kubernetes_event_failed", failure="no Event was written", grant=_GRANT
        )
        self._identity, self._component, self._lock = identity, component, lock
        self._tasks: set[asyncio.Task[None]] = set()
        self._references: Sequence[dict[str, str]] = ()  # to the lock's objects, during a term

    def follow(self, state: State) -> None:
        """Record the end of a term, whatever ended it."""
        if state.phase is Phase.LEADING:
            self._references = self._lock.references(state.observed) if state.observed else self._references
        elif state.phase is not Phase.RELEASING:
            for reference in self._references:
                self.record(reference, STOPPED)
            self._references = ()

    def became_leader(self) -> None:
        """Record that the last step began a term."""
        for reference in self._references:
            self.record(reference, BECAME)

    def record(self, reference: Mapping[str, str], text: str) -> asyncio.Task[None]:
        """Write an Event that the identity did ``text`` now, on an object (core/v1 ObjectReference).

        The task, which the caller need not keep, ends within the timeout of a best-effort call and a moment.
        """
        body = event(reference, f"{self._identity} {text}", self._component, time.time_ns())
        task = asyncio.get_running_loop().create_task(self._send(body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def end(self, seconds: float, *, unhealthy: bool) -> None:  # noqa: ARG002
        """Wait for all requests."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def _send(self, body: dict[str, Any]) -> None:
        await asyncio.sleep(_HANDOVER_SECONDS)
        namespace = urllib.parse.quote(body["metadata"]["namespace"], safe="")
        await self._call.run("POST", f"/api/v1/namespaces/{namespace}/events", body)


def event(reference: Mapping[str, str], message: str, component: str, now: int) -> dict[str, Any]:
    """A core/v1 Event, as recorderImpl.makeEvent and generateEvent make it. ``now``: nanoseconds since the epoch."""
    timestamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now // 1_000_000_000))
    name = f"{reference['name']}.{now:x}"  # util.GenerateEventName
    if len(name) > _MAX_NAME_CHARS:
        import uuid  # noqa: PLC0415 - a waiting candidate would keep it in memory

        name = str(uuid.uuid4())
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": reference["namespace"]},
        "involvedObject": dict(reference),
        "reason": "LeaderElection",
        "message": message,
        "source": {"component": component},
        "firstTimestamp": timestamp,
        "lastTimestamp": timestamp,
        "count": 1,
        "type": "Normal",
        "eventTime": None,
        "reportingComponent": component,
        "reportingInstance": "",
    }
