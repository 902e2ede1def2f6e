"""A step of the election in progress, and what its parts (acquire, hold, renew, release) do to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from kleader.election import events as e
from kleader.election.duration import text
from kleader.election.events import Action, Failure, Instant, Kind
from kleader.election.record import UNKNOWN, fresh_time
from kleader.election.state import Phase, State
from kleader.election.timing import JITTER

_MAX_JITTER_FACTOR = 1.1  # times the seconds of stay_away
_MAX_POLLS, _LITTLE_JITTER = 5, 0.2  # operator-lib's: the fifth pause and all later ones take 16 s


@dataclass(slots=True)
class Step:
    """The next state, which the parts change in place; the instant of the step; and the actions so far."""

    state: State
    now: Instant
    actions: list[Action] = field(default_factory=list)

    def do(self, action: Action) -> None:
        """Add an action."""
        self.actions.append(action)

    @property
    def wall(self) -> int:
        """Microseconds since the epoch, as exactly as the lock's records keep them."""
        return self.now.wall // self.state.me.tick * self.state.me.tick

    def fresh_time(self, previous: int | None) -> int:
        """A renewTime that every reader tells from ``previous``."""
        return fresh_time(previous, self.now.wall, self.state.me.tick)

    def send(self, request: e.Get | e.Write) -> None:
        """Make a request. The instant of this step is before it is sent: a term may count from it."""
        state = self.state
        state.pending, state.serial, state.sent_at = request, request.serial + 1, self.now.boot
        self.do(request)

    def pause(self, failure: Failure) -> None:
        """Make no request for as long as the failure requires; a first failure is tried again at once."""
        state, jitter, period = self.state, self.now.jitter, self.state.me.timing.retry_period
        lost_or_raced = failure.kind in (Kind.CONFLICT, Kind.MISSING, Kind.UNREACHABLE)
        asked = max(failure.retry_after, 1.0 if failure.kind is Kind.THROTTLED else 0.0)
        if asked and state.phase is Phase.FOLLOWING:
            self.retry_after(asked)
            wait = 0.0
        elif asked:
            wait = min(asked, period) * (1 - jitter / 10)
        elif state.consecutive_failures == 0 and lost_or_raced:
            wait = 0.0
        elif failure.kind in (Kind.CONFLICT, Kind.MISSING) or state.phase is Phase.RELEASING:
            wait = period / 10 * (1 + jitter)
        elif state.phase in {Phase.HOLDING, Phase.LEADING}:
            wait = max(0.0, state.sent_at + period - self.now.boot)
        else:
            wait = self.poll_period()
        wait_until = self.now.boot + wait
        state.next_request_at = max(state.next_request_at, wait_until)  # a watch may have been asked for longer
        state.consecutive_failures += 1

    def retry_after(self, seconds: float) -> None:
        """Make no request for as long as the API server asks, at most a lease duration: the lock may be free then."""
        self.stay_away(min(seconds, self.state.me.timing.lease_duration / _MAX_JITTER_FACTOR))

    def stay_away(self, seconds: float) -> None:
        """Make no request for ``seconds`` and up to a tenth more: other candidates may have been asked the same."""
        self.state.next_request_at = max(
            self.state.next_request_at, self.now.boot + seconds * (1 + self.now.jitter / 10)
        )

    def stand_aside(self) -> None:
        """Make no request for a lease duration: another candidate is to lead."""
        pause = self.state.me.timing.lease_duration
        self.do(
            e.Report(
                "standing_aside", f"not competing for {text(pause)}, so that another candidate can lead", info=True
            )
        )
        self.state.next_request_at = self.now.boot + pause

    def poll_period(self) -> float:
        """client-go's wait.JitterUntil: the retry period, lengthened by up to 1.2 times itself.

        Without expiry operator-lib's: 1 s doubling to 16 s, lengthened by up to a fifth; the retry period for a leader.
        """
        state = self.state
        if not state.me.non_expiring:
            return state.me.timing.retry_period * (1 + self.now.jitter * JITTER)
        if state.phase is Phase.LEADING:
            return state.me.timing.retry_period
        state.polls = min(state.polls + 1, _MAX_POLLS)
        return 2.0 ** (state.polls - 1) * (1 + self.now.jitter * _LITTLE_JITTER)

    def observe_leader(self, holder: str) -> None:
        """Report the leader, once for each change."""
        if holder not in {self.state.leader, UNKNOWN}:
            self.state.leader = holder
            self.do(e.NewLeader(holder))

    def unwatch(self) -> None:
        """End the watch, if there is one."""
        if self.state.watching:
            self.state.watch_began_at = inf
            self.do(e.Unwatch())

    def end(self, *, released: bool, why: str = "") -> None:
        """End the candidacy. The answer to a request under way is ignored."""
        state = self.state
        self.unwatch()
        if state.phase is not Phase.OVER:
            self.do(state.exit_reason or e.Released(released, why))
        state.phase, state.pending = Phase.OVER, None
