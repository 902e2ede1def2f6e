"""Kubernetes Events on the lock's objects, as client-go's resourcelock has its ``record`` package write them."""

from __future__ import annotations

import asyncio
import time
import urllib.parse
from typing import TYPE_CHECKING, Any

from kleader.election.state import Phase
from kleader.elector.best_effort import BestEffortCall

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kleader.election.state import State
    from kleader.elector.pod_label import PodLabel
    from kleader.elector.recommendation import Recommendation
    from kleader.elector.registration import Registration
    from kleader.kube.credentials import Credentials
    from kleader.locks.base import Lock
    from kleader.log import Log

BECAME, STOPPED = "became leader", "stopped leading"
_HANDOVER_SECONDS = 0.06  # in which this machine and the API server have a handover to do first
_MAX_LABEL_SECONDS = 0.5  # that a release waits for the Pod's label
_MAX_NAME_CHARS = 253  # of any object
_GRANT = "grant create on events, so that Events tell which candidate leads"


class EventRecorder:
    """Writes an Event for the begin and the end of each term, each once.

    It passes on to the Pod's label, the registration and the recommendation what they follow. ``component``: the source
    of the Events; client-go's users take the lock's name.
    """

    unhealthy = False  # how the candidacy ends

    def __init__(  # noqa: PLR0913, PLR0917 - what an Event names, and what follows the election with it
        self,
        credentials: Credentials,
        log: Log,
        identity: str,
        component: str,
        label: PodLabel | None = None,
        registration: Registration | None = None,
        recommendation: Recommendation | None = None,
    ) -> None:
        self.label, self._registration, self._recommendation = label, registration, recommendation
        self._call = BestEffortCall(
            credentials, log, event="kubernetes_event_failed", failure="no Event was written", grant=_GRANT
        )
        self._identity, self._component = identity, component
        self._tasks: set[asyncio.Task[None]] = set()
        self._references: Sequence[dict[str, str]] = ()  # to the lock's objects, during a term

    def follow(self, lock: Lock, state: State) -> None:
        """Note the election's state, after each step; record the end of a term, whatever ended it."""
        if self.label:
            self.label.follow(state)
        if self._registration:
            self._registration.follow(state)
        if self._recommendation:
            self._recommendation.follow(state)
        if state.phase is Phase.LEADING:
            self._references = lock.references(state.observed) if state.observed else self._references
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

    def command(self, *, runs: bool) -> None:
        """Note that the command was started, or is asked to stop."""
        if self.label:
            self.label.command(runs=runs)
        if self._recommendation and not runs:
            self._recommendation.stopping()

    async def settle(self, seconds: float) -> float:
        """Before a release: wait for the Pod's label, at most so many seconds; the seconds that it took."""
        return await self.label.settle(min(seconds, _MAX_LABEL_SECONDS)) if self.label else 0.0

    async def drain(self, seconds: float) -> None:
        """At the end: wait for all requests, at most so many seconds."""
        ending = self._registration.end(seconds, unhealthy=self.unhealthy) if self._registration else asyncio.sleep(0)
        await asyncio.gather(ending, self._drain(seconds))

    async def _drain(self, seconds: float) -> None:
        left = seconds - await self.settle(seconds)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=left)

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
