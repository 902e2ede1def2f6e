"""One candidate's election, told event by event, so that a test of the step function reads like a story."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from kleader.election import events as e
from kleader.election.events import Failure, Instant, Kind, Observed
from kleader.election.record import SECOND, Record
from kleader.election.state import Candidate, Phase, State, resume
from kleader.election.step_function import step
from kleader.election.timing import choose

if TYPE_CHECKING:
    from typing_extensions import Self

ME, TERM = "me", "term-1"
TIMING = choose(15, 10, 2)
START = 1000.0  # on the boot clock
WALL = 1_700_000_000 * SECOND  # at START

A = TypeVar("A", bound=e.Action)


def candidate(**fields: object) -> Candidate:
    """Candidate ``me`` with the default timings."""
    return replace(Candidate(ME, TIMING, TIMING.request_timeout), **fields)  # type: ignore[arg-type]


def resumed(me: Candidate, t0: float, *, acquired: int, transitions: int) -> State:
    """The state of an elector that replaces one which died in the middle of a term."""
    return resume(me, TERM, t0, Record(me.identity, me.timing.lease_duration, acquired, None, transitions))


class Story:
    """Tells one state machine what happens, and keeps what it asked for in ``actions`` since the last event told.

    After every step it is checked that the machine does not spin: it never asks to be woken in the past.
    """

    def __init__(self, state: State | None = None, **fields: object) -> None:
        self.state = state or State(candidate(**fields), TERM)
        self.now = START
        self.luck = 0.0
        self.actions: list[e.Action] = []
        self._version = 100

    # --- values

    @property
    def wall(self) -> int:
        """Microseconds since the epoch; goes with the boot clock."""
        return WALL + round((self.now - START) * SECOND)

    def version(self) -> str:
        """A resourceVersion newer than all before."""
        self._version += 1
        return str(self._version)

    def lock(self, holder: str = "", incarnation: str = "", **fields: object) -> Observed:
        """A state of the lock object, just written: free, or held for 15 s."""
        record = Record(holder, 15 if holder else 1, self.wall, self.wall, 3)
        return Observed(replace(record, **fields), incarnation, self.version())  # type: ignore[arg-type]

    def relabelled(self, seen: Observed) -> Observed:
        """The same record in a new version, as somebody's label makes it."""
        return replace(seen, version=self.version())

    # --- events

    def tell(self, event: e.Event) -> Self:
        """One step, now."""
        self.actions = list(self._step(event))
        return self

    def wakes(self) -> Self:
        """The instant that was asked for has come (or so the loop says)."""
        return self.tell(e.TimerFired())

    def waits(self, seconds: float) -> Self:
        """Time passes, and wakes it whenever it asked to be woken; requests under way stay unanswered."""
        end = self.now + seconds
        asked: list[e.Action] = []
        while self.state.wake_at <= end:
            self.now = max(self.now, self.state.wake_at)
            asked += self._step(e.TimerFired())
        self.now, self.actions = end, asked
        return self

    def renews(self, seconds: float) -> Self:
        """Time passes, and every write that it asks for, or has asked for, is done at once."""
        end = self.now + seconds
        while isinstance(self.state.pending, e.Write) or self.state.wake_at <= end:
            if isinstance(self.state.pending, e.Write):
                self.writes()
            else:
                self.waits(max(0.0, self.state.wake_at - self.now))
        return self.waits(end - self.now)

    def idles(self, seconds: float) -> Self:
        """It makes no request for so long, and has made none since the last event."""
        assert not self.requests
        self.waits(seconds)
        assert not self.requests, f"asked for {self.requests}"
        return self

    def reads(self, seen: Observed | None) -> Self:
        """The Get under way is answered."""
        return self.tell(e.GetDone(self.pending(e.Get), seen))

    def writes(self, *, after: float = 0.0) -> Self:
        """The Write under way is answered, ``after`` seconds: done."""
        self.now += after
        return self.tell(e.WriteDone(self.pending(e.Write), self.landed()))

    def landed(self) -> Observed:
        """What the Write under way makes of the lock."""
        write = self.pending(e.Write)
        ours = self.state.me.non_expiring and bool(write.record.holder)
        handed_over = bool(write.record.holder) and not write.incarnation
        return Observed(write.record, write.incarnation, self.version(), owned_by_me=ours, handed_over=handed_over)

    def fails(self, kind: Kind, *, after: float = 0.0, retry_after: float = 0.0, partly_done: bool = False) -> Self:
        """The request under way fails, ``after`` seconds."""
        self.now += after
        assert self.state.pending, "no request is under way"
        return self.tell(
            e.RequestFailed(self.state.pending, Failure(kind, f"it was {kind.value}", retry_after, partly_done))
        )

    def sees(self, seen: Observed | None) -> Self:
        """A watch event."""
        return self.tell(e.WatchEvent(seen))

    # --- chapters that many stories begin with

    def leads(self) -> Self:
        """It created the lock and leads, since now."""
        self.wakes().reads(None).writes()
        assert self.state.phase is Phase.LEADING
        return self

    def follows(self, seen: Observed | None = None) -> Self:
        """It has read that somebody else holds the lock, and watches."""
        self.wakes().reads(seen or self.lock("other"))
        assert self.state.watching
        return self

    # --- what it asked for

    def asked(self, kind: type[A]) -> A:
        """The only action of its kind since the last event."""
        found = self.all(kind)
        assert len(found) == 1, f"{kind.__name__}: {self.actions}"
        return found[0]

    def all(self, kind: type[A]) -> list[A]:
        """All actions of a kind since the last event."""
        return [action for action in self.actions if isinstance(action, kind)]

    def pending(self, kind: type[A]) -> A:
        """The request under way, which is of this kind."""
        assert isinstance(self.state.pending, kind), f"{kind.__name__}: {self.state.pending}"
        return self.state.pending

    @property
    def requests(self) -> list[e.Action]:
        """Every Get and Write since the last event."""
        return [action for action in self.actions if isinstance(action, (e.Get, e.Write))]

    def _step(self, event: e.Event) -> tuple[e.Action, ...]:
        before = replace(self.state)
        state, actions = step(self.state, event, Instant(self.now, self.wall, self.luck))
        assert self.state == before, "a step changed the state that it was given"
        assert state.wake_at > self.now, f"spins: {state}"
        self.state = state
        return actions
