"""Minds the elector: one is at work while it is of use, and at the end it gives up the lock."""

from __future__ import annotations

import math
import os

from kleader.link import messages as m
from kleader.supervisor.states import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.link.plan import Plan
    from kleader.log import Log
    from kleader.platform import Signals
    from kleader.supervisor.command import Command
    from kleader.supervisor.elector import Elector
    from kleader.supervisor.term import Term

_ENDING = {State.RESTING, State.RELEASING}  # the elector gives up what may be ours, then ends
_REPLACED = 2.0  # seconds that a successor may take to be there
_PARTING = 1.0  # seconds that an elector gets to end, beyond a last request


class Minder:
    """Starts the elector, replaces one that died or hangs, and starts another for a release that is owed."""

    def __init__(self, plan: Plan, log: Log, signals: Signals, elector: Elector, command: Command) -> None:
        self._plan, self._log, self._signals, self._elector, self._command = plan, log, signals, elector, command
        self._drowsy = False  # Ctrl-Z on a candidate: it sleeps once its elector has ended
        self._owed = False  # a release was asked for, and is not done
        self._parted = False  # it has said what became of the lock
        self._done = False  # about the lock, whatever else kleader's end waits for
        self._end_by = math.inf  # when the elector must have ended
        self.memory = ""  # what an elector asked to be remembered for the next

    def due(self, state: State, term: Term) -> float:
        """When the next one has to be started, or the present one counts as hung."""
        elector = self._elector
        if state in _ENDING and elector.pid:
            return self._end_by
        if state in _ENDING:
            return 0.0 if self._owed or (state is State.RELEASING and not self._done) else math.inf
        if state is State.WAITING:
            return math.inf if elector.pid or self._drowsy else elector.start_at
        if term.lost or state is State.ENDED or not self._plan.lock:
            return math.inf
        return elector.silent_until() if elector.pid else elector.start_at

    def alone_since(self, term: Term) -> float:
        """From when on no elector would kill in the supervisor's place; infinite where one would.

        Before the loss another is on its way; after it none is started.
        """
        if self._elector.fd is not None:
            return math.inf
        return self._elector.gone_at + (0.0 if term.lost else _REPLACED)

    def mind(self, state: State, term: Term, now: float) -> bool:
        """Do what is due. False once there is no elector, and there will be none."""
        due = now >= self.due(state, term)
        if self._elector.pid:
            if due and state in _ENDING:
                self.abandon()
            elif due:
                self._elector.replace(now)  # before a word of it, as everywhere: the log's disk may hang
                self._log.warning("the elector is silent: replacing it")
        elif self._drowsy and state is not State.RELEASING:
            self._sleep()
        elif state in _ENDING:
            return self._release_after_all(term, now)
        elif due:
            return self._start(state, term, now)
        return True

    def ended(self, status: int, now: float) -> None:
        """Take in what waitpid said of it."""
        if os.WIFSTOPPED(status):
            self._elector.replace(now)
            self._log.warning("the elector was stopped: replacing it")
            return
        self._command.tree.spared.discard(self._elector.pid)
        self._elector.reaped(now, failed=status != 0 and not self._drowsy and self._end_by == math.inf)

    def suspend(self, state: State) -> None:
        """Ctrl-Z on a candidate: it does not contend while it is stopped. One that rests gives up its lock first."""
        self._drowsy = True
        if state is State.WAITING:
            self._elector.kill()

    def stay_awake(self) -> None:
        """A Ctrl-Z came too late: a leader does not sleep."""
        self._drowsy = False

    def return_to_work(self) -> None:
        """There is to be an elector again."""
        self._end_by, self._parted = math.inf, False

    def dismiss(self, term: Term, now: float) -> None:
        """Nothing runs. It gives up what may be ours, then ends."""
        elector, self._done = self._elector, False
        asks, (release, to) = elector.starter.releases and not term.lost, term.parting(self._plan.release)
        self._end_by = now + _PARTING + (2 * self._plan.request_timeout if asks else 0.0)  # one may be under way
        self._owed = asks and release and term.lead is not None and not self._parted
        if not term.lead and not elector.starter.releases:
            elector.kill()  # what it may have locked meanwhile goes with us
        elector.tell(m.Empty(term.number, release, to))

    def released(self, said: m.Released, term: Term) -> None:
        """It has done about the lock what it could."""
        self._owed, self._parted = False, True
        if said.released:
            self._log.info(f"released the lock{said.why and ': '}{said.why}")
        elif term.lead and not (self._plan.release or term.asked):
            self._log.info(f"not released{'' if self._plan.pod else ', as asked'}: {self._fate}")
        elif term.lead and not term.lost:
            self._log.warning(f"did not release the lock: {said.why}; {self._fate}")

    def abandon(self) -> None:
        """It takes too long over its end."""
        self._end_by, self._owed = math.inf, False
        self._elector.kill()
        if not self._parted:
            self._log.warning("the elector did not end in time: not released")

    @property
    def _fate(self) -> str:
        """What becomes of a lock that is not released."""
        return f"the lock stays with the Pod {self._plan.pod}" if self._plan.pod else "the lock runs out by itself"

    def _start(self, state: State, term: Term, now: float) -> bool:
        elector = self._elector
        if state is State.WAITING and elector.hopeless:
            self._log.error("the elector keeps dying before it says a word")
            return False
        leading = term.lead is not None
        try:
            known = self._command.tree.members() if leading else []
            elector.start(now, term.assignment(known, self.memory))
        except OSError as error:
            self._log.repeated(f"cannot start the elector: {error.strerror}")
            give_up = math.inf if leading or self._plan.wait is None else self._plan.started + self._plan.wait
            elector.start_at = min(now + 1, give_up)
            return now < give_up
        self._command.tree.spared.add(elector.pid)
        if leading:
            if state is not State.LEADING:
                elector.tell(m.Stopping(term.number))
            goes_on = "; the command goes on" if self._command.runs else ""
            self._log.warning(f"the elector died: replaced by pid {elector.pid}{goes_on}")
        return True

    def _release_after_all(self, term: Term, now: float) -> bool:
        """The elector ended before it could release: another may, once."""
        owed, self._owed = self._owed, False
        if owed and now < self._end_by:
            self._start(State.RELEASING, term, now)
        self._elector.tell(m.Empty(term.number, *term.parting(release=True)))
        self._done = self._elector.pid == 0
        return not self._done

    def _sleep(self) -> None:
        """Nothing contends, and nothing is held that the last elector may have locked."""
        self._elector.starter.let_go()
        self._log.info("suspended")
        self._signals.suspend()
        self._drowsy = False
        self._log.info("continued")
