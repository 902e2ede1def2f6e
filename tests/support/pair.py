"""A lock's two objects at one API server, and candidates of every kind for them, in one virtual time."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from kleader.election import events as e
from kleader.election.events import Failure, Instant, Kind
from kleader.election.record import SECOND
from kleader.election.state import Candidate, State
from kleader.election.step_function import step
from kleader.kube.errors import LockError
from kleader.locks import multilock
from kleader.locks.annotation_lock import EndpointsLock
from kleader.locks.base import Place
from kleader.locks.lease import LeaseLock
from tests.support.election import TIMING, WALL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kleader.election.record import Record
    from kleader.locks.base import Lock


class Server:
    """Stands for an Api: keeps objects by their resource, and takes no write but over the version that is there."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, Any]] = {}
        self._version = 100
        self._before: list[tuple[str, str, Callable[[], Awaitable[None]]]] = []

    def before(self, method: str, resource: str, do: Callable[[], Awaitable[None]]) -> None:
        """Let something happen, once, between the request that comes next and what the server does about it."""
        self._before.append((method, resource, do))

    async def call(self, method: str, target: str, body: dict[str, Any] | None, _timeout: float) -> dict[str, Any]:
        """As ApiClient does."""
        resource = target.partition("/namespaces/")[2].split("/")[1]
        for hook in [each for each in self._before if each[:2] == (method, resource)][:1]:
            self._before.remove(hook)
            await hook[2]()
        there = self.found.get(resource)
        if body is None:
            if there is None:
                raise LockError(Kind.MISSING, "there is none")
            return there
        if body["metadata"].get("resourceVersion") != (there and there["metadata"]["resourceVersion"]):
            raise LockError(Kind.CONFLICT, "another version is there")
        self._version += 1
        metadata = {**body["metadata"], "uid": "u", "resourceVersion": str(self._version)}
        self.found[resource] = {**body, "metadata": metadata}
        return self.found[resource]


class Contender:
    """One elector. It polls; its command runs from Acquired to kill_at, or until another candidate leads."""

    def __init__(self, world: World, name: str, lock: Lock) -> None:
        self._world, self.name, self._lock = world, name, lock
        self._state = State(Candidate(name, TIMING, TIMING.request_timeout, **lock.properties._asdict()), f"of {name}")
        self._answers: list[tuple[float, e.Event]] = []
        self._kill_at = -inf
        self.delays: list[float] = []  # of the answers to come, in seconds
        self.cut = False  # no request of it arrives any more

    @property
    def leads(self) -> bool:
        return self._world.now < self._kill_at

    @property
    def due(self) -> float:
        return min([self._state.wake_at, *(at for at, _ in self._answers)])

    async def act(self) -> None:
        """One step, now, and its requests."""
        world = self._world
        arrived = min((each for each in self._answers if each[0] <= world.now), key=lambda each: each[0], default=None)
        if arrived:
            self._answers.remove(arrived)
        event = arrived[1] if arrived else e.TimerFired()
        wall = WALL + round(world.now * SECOND)
        self._state, actions = step(self._state, event, Instant(world.now, wall))
        for action in actions:
            if isinstance(action, (e.Acquired, e.Renewed)):
                self._kill_at = action.kill_at
            elif isinstance(action, e.Lost) and action.kill_now:
                self._kill_at = world.now
            elif isinstance(action, e.Watch):
                self._answers.append((world.now, e.WatchEnded("not here", denied=True, begun=False)))
            elif isinstance(action, (e.Get, e.Write)):
                answer = await self._answer(action)
                delay = action.timeout if self.cut else self.delays.pop(0) if self.delays else 0.0
                self._answers.append((world.now + delay, answer))

    async def _answer(self, request: e.Get | e.Write) -> e.Event:
        if self.cut:
            return e.RequestFailed(request, Failure(Kind.UNREACHABLE, "cut off"))
        try:
            if isinstance(request, e.Get):
                return e.GetDone(request, await self._lock.get(request.timeout))
            written = await self._lock.write(request.base, request.record, request.incarnation, request.timeout)
            return e.WriteDone(request, written)
        except LockError as error:
            return e.RequestFailed(request, error.failure)


class World:
    """All of them. ``overlaps``: who led at the same time, and since when."""

    def __init__(self) -> None:
        self.now = 0.0
        self.server: Any = Server()
        self._contenders: list[Contender] = []
        self.overlaps: list[tuple[float, set[str]]] = []

    def endpoints(self) -> EndpointsLock:
        return EndpointsLock(Place(self.server, "n", "x"))

    def lease(self) -> LeaseLock:
        return LeaseLock(Place(self.server, "n", "x"))

    def both(self) -> multilock.MultiLock:
        return multilock.MultiLock(self.endpoints(), self.lease(), TIMING.lease_duration)

    def enter(self, name: str, lock: Lock) -> Contender:
        """A candidate starts."""
        self._contenders.append(Contender(self, name, lock))
        return self._contenders[-1]

    async def put(self, lock: EndpointsLock | LeaseLock, record: Record) -> None:
        """The record is there, and who wrote it is none of these."""
        await lock.write(None, record, "", 1)

    async def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while (first := min(self._contenders, key=lambda each: each.due)).due <= end:
            self.now = max(self.now, first.due)
            await self.step(first)
        self.now = end

    async def step(self, contender: Contender) -> None:
        """One step of one of them."""
        await contender.act()
        leading = {each.name for each in self._contenders if each.leads}
        if len(leading) > 1:
            self.overlaps.append((self.now, leading))

    async def until_led_by(self, contender: Contender) -> None:
        """It alone acts, at this instant, until it leads."""
        for _ in range(10):
            if not contender.leads:
                await self.step(contender)
        assert contender.leads
