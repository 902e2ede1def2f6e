"""The elector, which holds the lock for the supervisor: started, listened to, replaced, and asked for the release."""

from __future__ import annotations

import functools
import math
import os

from kleader import __version__
from kleader.backoff import Backoff
from kleader.election.duration import text
from kleader.election.protocol import AllProcessesExited, Released
from kleader.ipc import messages as m
from kleader.ipc.plan import FOR_LIFE, OTHER_VERSION
from kleader.supervisor.child_process import ChildProcess
from kleader.supervisor.states import ENDING, RunState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.ipc.channel import Channel
    from kleader.ipc.plan import Plan
    from kleader.ipc.spawn import Launcher
    from kleader.log import Log
    from kleader.supervisor.child import Command
    from kleader.supervisor.term import Term

_MAX_MISSED = 2  # checks in a row that find no heartbeat, after which an elector hangs
_CANDIDATE_FACTOR = 3  # times as long between two checks while a candidate waits, whose elector sends fewer
_START_SECONDS = 30.0  # until the first check of a candidate's elector, which may start slowly
_REPLACED_SECONDS = 2.0  # that the start of the next elector may take
_SHUTDOWN_SECONDS = 1.0  # that an elector gets for its end, beyond its last request
_MAX_EARLY_DEATHS = 5  # in a row, after which another elector would die, too
_EARLY_SECONDS = 10.0


class ElectorProcess:
    """At most one elector at a time: the next one is started after the last one was killed and reaped.

    A stopped elector that went on would release the next one's term.

    An elector without a heartbeat for ``heartbeat_timeout`` seconds of a term is replaced. Missed heartbeats are
    counted in the supervisor's own waking time: a freeze or a suspend of any length is one check that finds none.
    """

    def __init__(self, plan: Plan, log: Log, launcher: Launcher, command: Command) -> None:
        self._plan, self._log, self.launcher, self._command = plan, log, launcher, command
        self.process = ChildProcess(command.tree, self._ended, Backoff(0.05, 2.0, steady=_EARLY_SECONDS))
        self._channel: Channel | None = None
        self._final_messages: list[m.Message] = []
        self._period = launcher.heartbeat_timeout / _MAX_MISSED
        self._missed = 0
        self._last_heartbeat = math.inf  # or the last check
        self._early_deaths = 0
        self._ending = False  # it was asked to end, and no other one is to follow
        self._shutdown_at = math.inf  # when an elector that was asked to end is killed
        self._end_pending = False  # a release or a record of the run is wanted, and no elector has answered
        self._end_sent = False  # to an elector that lived, as far as its link tells
        self._end_answered = False
        self.other_version = False  # kleader was upgraded: the next elector would be of another version
        self.start_failed = False  # there was no room for the last one
        self.restarts = 0  # after one that failed
        self._silent_since = math.inf
        self.gone_at = 0.0  # when the last link was closed
        self.resume_state = ""  # what an elector asked to be given to the next one

    @property
    def fd(self) -> int | None:
        """For poll; None while there is no link."""
        return self._channel.fd if self._channel else None

    @property
    def silent_since(self) -> float:
        """When the first heartbeat was missed; infinite while they come, or none is expected."""
        return math.inf if self._ending and not self.process.pid else self._silent_since

    @property
    def cannot_work(self) -> bool:
        """Whether another elector would end as early as the last ones did."""
        return self.other_version or self._early_deaths >= _MAX_EARLY_DEATHS

    def kill_alone_at(self, term: Term) -> float:
        """From when on no elector would kill in the supervisor's place; infinite while one would.

        Before a loss the next elector is being started; after a loss there is none.
        """
        if self._channel:
            return math.inf
        return self.gone_at + (0.0 if term.lost else _REPLACED_SECONDS)

    # --- messages

    def send(self, term: Term, body: m.Body) -> None:
        """Send a fact. An elector whose queue is full has been stopped for long: it is replaced."""
        if self._channel and not self._channel.send(term.number, body):
            self.process.kill()

    def receive(self, now: float) -> list[m.Message]:
        """What it sent since. After its death, or once it is replaced: its final messages, then nothing."""
        if not self._channel:
            final, self._final_messages = self._final_messages, []
            return final
        messages = self._channel.receive()
        if messages:
            self._missed, self._last_heartbeat, self._silent_since = 0, now, math.inf
        if not self._channel.open:
            self.process.kill()  # first, as below
            self._hang_up(now)
        return messages

    def replace(self, now: float) -> None:
        """Kill it, then close the link: else it would believe the supervisor dead, and kill the command."""
        self.process.kill()
        if self._channel:
            self._final_messages += self._channel.receive()
        self._hang_up(now)

    # --- its life

    def due(self, state: RunState, term: Term) -> float:
        """When :meth:`check` has something to do."""
        if state in ENDING:
            return self._shutdown_at if self.process.pid else 0.0 if self._end_pending else math.inf
        if state is not RunState.WAITING and (term.lost or state is RunState.ENDED or not self._plan.lock):
            return math.inf
        if self.other_version:
            return math.inf
        if self.process.pid:
            period = self._period * (_CANDIDATE_FACTOR if state is RunState.WAITING else 1)
            return self._last_heartbeat + period if self._channel else math.inf
        return self.process.start_at

    def check(self, state: RunState, term: Term, now: float) -> None:
        """Start an elector where one is missing; kill one that hangs or does not end.

        One that died before it was asked for the release is replaced, once. The next elector of one that died
        afterwards only records the run, unless the lock does not expire: the release may have been done, and the record
        that the next elector would find have been put back.
        """
        if now < self.due(state, term):
            return
        if self.process.pid and state in ENDING:
            self.abandon()
        elif self.process.pid:
            self._missed, self._last_heartbeat = self._missed + 1, now
            self._silent_since = min(self._silent_since, now)
            if self._missed >= _MAX_MISSED:
                self.replace(now)  # before the log, whose disk may hang
                self._log.warning("the elector does not answer: replacing it", event="elector_unresponsive")
        elif state in ENDING:
            self._end_pending = False
            release, to = term.release_decision(release=self._plan.release)
            if release and self._end_sent and self.launcher.releases and self._plan.lock != FOR_LIFE:
                what = f"did not release the lock: the elector died; {self._unreleased}"
                self._log.warning(what, event="not_released")
                release, self._end_answered = False, True
            if (release or self._run(term)) and now < self._shutdown_at and not self.other_version:
                self._start(state, term, now)
                self._send_end(term, release=release, to=to)
        elif not self.cannot_work or state is not RunState.WAITING:
            self._start(state, term, now)

    def contend(self) -> None:
        """A candidacy follows a time without contention."""
        self._ending, self._shutdown_at, self._silent_since = False, math.inf, math.inf
        self._end_sent = self._end_answered = False

    def end(self, term: Term, now: float, *, unhealthy: bool = False) -> None:
        """No process of the term is alive: it releases what this candidate may hold, records the run, then ends."""
        requests = self.launcher.releases and not term.lost
        release, to = term.release_decision(release=self._plan.release)
        timeout = 2 * self._plan.request_timeout if requests else 0.0  # a request may be under way
        self._ending, self._shutdown_at = True, now + _SHUTDOWN_SECONDS + timeout
        wanted = (requests and release and term.lead is not None) or self._run(term) is not None
        self._end_pending = wanted and not self._end_answered
        self._end_sent |= self._channel is not None
        if not term.lead and not self.launcher.releases:
            self.process.kill()  # a file lock that it may have acquired is free when kleader has ended
        self._send_end(term, release=release, to=to, unhealthy=unhealthy)

    def _send_end(self, term: Term, *, release: bool, to: str, unhealthy: bool = False) -> None:
        """Send that no process of the term is alive, after what is to be recorded of its run."""
        ran = self._run(term)
        if ran:
            self.send(term, ran)
        self.send(term, AllProcessesExited(release, to, record=ran is not None, unhealthy=unhealthy))

    def _run(self, term: Term) -> m.Ran | None:
        """The run that the lock is to record: nothing is written to a lock that was lost."""
        return term.ran if term.lead and not term.lost and self._plan.lock != FOR_LIFE else None

    def released(self, answer: Released, term: Term) -> None:
        """It has done about the lock what it could."""
        first, self._end_pending, self._end_answered = not self._end_answered, False, True
        if not first:
            return
        if answer.released:
            self._log.info(f"released the lock{answer.why and ': '}{answer.why}", event="released")
        elif term.lead and not (self._plan.release or term.asked):
            why = "" if self._plan.lock == FOR_LIFE else " (--no-release)"
            self._log.info(f"did not release the lock{why}: {self._unreleased}", event="not_released")
        elif term.lead and not term.lost:
            self._log.warning(f"did not release the lock: {answer.why}; {self._unreleased}", event="not_released")

    def abandon(self) -> None:
        """Kill one that takes too long over its end."""
        self._shutdown_at, self._end_pending = math.inf, False
        self.process.kill()
        if not self._end_answered:
            self._log.warning(
                f"did not release the lock: the elector did not end in time; {self._unreleased}", event="not_released"
            )

    @property
    def _unreleased(self) -> str:
        """What becomes of a lock that is not released."""
        if self._plan.lock == FOR_LIFE:
            return f"the Pod {self._plan.pod.name} keeps it until that Pod is deleted"
        return f"it expires within {text(self._plan.timing.lease_duration)}"

    def _start(self, state: RunState, term: Term, now: float) -> None:
        leading, replaces = term.lead is not None, self.process.started_at > -math.inf
        try:
            assign = term.assignment(self._command.tree, self.resume_state, replaces=replaces)
            self._channel = self.process.start(now, functools.partial(self.launcher.start, leading=leading))
        except OSError as error:
            self.start_failed, self.process.start_at = True, now + 1
            self._log.repeated(f"cannot start the elector: {error.strerror}", event="elector_not_started")
            return
        self.start_failed = False
        self.restarts += self._early_deaths > 0
        self._missed, self._last_heartbeat = 0, now if leading else now + _START_SECONDS
        if self._period == math.inf:
            self._silent_since = math.inf
        self.send(term, assign)
        if leading:
            if state is not RunState.LEADING:
                self.send(term, m.Stopping())
            goes_on = "; the command goes on" if self._command.runs else ""
            self._log.warning(
                f"the elector died: replaced by pid {self.process.pid}{goes_on}", event="elector_replaced"
            )

    def _ended(self, waitstatus: int, now: float) -> None:
        """It was reaped. Its final messages are kept for :meth:`receive`."""
        self.replace(now)
        self.other_version = os.waitstatus_to_exitcode(waitstatus) == OTHER_VERSION
        if self.other_version:
            what = f"kleader {__version__} was replaced by another version while it runs, and cannot start an elector"
            self._log.error(f"{what}: it ends; its lock is not released; start kleader again", event="version_changed")
        if waitstatus == 0 or self._ending:
            self._early_deaths, self.process.start_at = 0, now
            return
        early = now - self.process.started_at < _EARLY_SECONDS
        self._early_deaths = self._early_deaths + 1 if early else 1
        self.process.pause(now)

    def _hang_up(self, now: float) -> None:
        if self._channel:
            self._channel.close()
            self._channel, self.gone_at = None, now
            self._silent_since = min(self._silent_since, now)
