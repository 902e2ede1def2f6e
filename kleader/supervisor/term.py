"""Where a run stands, as data: its state, and one candidacy with the term that may follow from it."""

from __future__ import annotations

import math
import os
import signal

from kleader.election.duration import text
from kleader.ipc import messages as m
from kleader.supervisor.states import TRANSITIONS, Event, RunState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.election.protocol import Acquired, StepDown
    from kleader.log import Log
    from kleader.procs.tree_killer import ProcessTree

EXITED, STOPPED, STEPPED_DOWN, LOST, SKIPPED = "exited", "stopped", "stepped-down", "lost", "skipped"
_WHY = {
    EXITED: "the command ended",
    STEPPED_DOWN: "this leader stepped down",
    LOST: "the lock was lost",
    SKIPPED: "the command was not started",
}
NOT_LED = "not-led"
_MAX_PROCESSES = 500  # of the command in one message; an elector finds the others itself


class Term:
    """A candidacy, and the leadership that may follow from it. Instants are infinite while nothing is due."""

    def __init__(self, number: int, namespace: str = "") -> None:
        self.number = number
        self.namespace = namespace  # of the lock, as far as it is known
        self.incarnation = os.urandom(16).hex()
        self.succession: m.Succession | None = None  # None: no holder before this one was observed
        self.lead: Acquired | None = None  # the message that began the term; None: this candidate has not led in it
        self.t0 = 0.0  # of the last write that counted; inf where nothing expires
        self.status = 0  # what kleader would exit with
        self.lost = False
        self.step_down: StepDown | None = None  # the elector or the health check asked for its end
        self.shutdown_signal = 0  # the TERM or INT that asked kleader to end
        self.start_at = math.inf  # when to start the command
        self.kill_stopping_at = math.inf  # when what was asked to stop is killed
        self.standby_deadline = math.inf  # when the standby must have ended, or the lock is given up
        self.led_at = math.inf  # when it began to lead
        self.started_at = math.inf  # when its command was started first
        self.ran: m.Ran | None = None  # how the command's run ended
        self._end: tuple[float, str, str] | None = None  # when its end began, by which signal, and why

    @property
    def over(self) -> bool:
        """Whether leadership ends for another reason than the command's end or a signal."""
        return self.lost or self.step_down is not None

    @property
    def stops_standby(self) -> bool:
        """Whether the command waits for the standby's end."""
        return self.standby_deadline < math.inf

    @property
    def asked(self) -> bool:
        """Whether an operator asked for its end (resign, transfer)."""
        return self.step_down is not None and self.step_down.asked

    def release_decision(self, *, release: bool) -> tuple[bool, str]:
        """Whether the lock is released at the end, and to which candidate, "" for any. A request overrides the plan."""
        if self.step_down is None or self.lost:
            return release and not self.lost, ""
        return release or self.step_down.asked, self.step_down.to

    def begin_end(self, now: float, by: str, why: str) -> None:
        """The command is made to end, or has ended. The first reason counts."""
        self._end = self._end or (now, by, why)

    def cancel_end(self) -> None:
        """The command is started again."""
        self._end = None

    def log_end(self, log: Log, now: float) -> None:
        """Log how long it led, why it ended, and how long its processes took to die."""
        if self.lead and self._end:
            began, by, why = self._end
            led, dying = round(now - self.led_at, 3), round(now - began, 3)
            how = f"{text(dying)} {f'after {by}' if by else 'later'}"
            what = f"led for {text(led)}, until {why}; the last process of the command ended {how}"
            log.info(what, event="term_ended", led=led, dying=dying, signal=by or None, why=why)

    @property
    def reason(self) -> str:
        """Why it ended, as KLEADER_REASON and the record of the run have it."""
        if self.lead and self.lead.done:
            return SKIPPED
        if self.lost:
            return LOST
        return STEPPED_DOWN if self.step_down else STOPPED if self.shutdown_signal else EXITED

    @property
    def why_ended(self) -> str:
        """The same in words."""
        return _WHY[self.reason] if self.reason in _WHY else f"{signal.Signals(self.shutdown_signal).name} came"

    def note_run(self, now: float) -> None:
        """No process of the command is alive, and ``status`` is kleader's exit status for it."""
        if self.started_at < math.inf:
            token = self.lead.token if self.lead else ""
            detail = self.step_down.reason if self.step_down and self.reason == STEPPED_DOWN else ""
            self.ran = m.Ran(token, self.status, self.reason, self.started_at, now, detail)

    def assignment(self, tree: ProcessTree, resume_state: str, *, replaces: bool) -> m.Assign:
        """What an elector has to know; ``replaces``: it is not the first one. OSError: too many open files."""
        lead = self.lead
        known = list(tree.below()) if lead else []
        return m.Assign(
            self.incarnation,
            lead is not None,
            replaces,
            self.t0,
            lead.acquired if lead else 0,
            lead.transitions if lead else 0,
            [[process.pid, process.start] for process in known[:_MAX_PROCESSES]],
            resume_state,
            tree.bystanders.listed,
            tree.cgroup,
        )


class RunProgress:
    """The state and the term of one ``kleader run``. Only :meth:`fire` changes the state."""

    def __init__(self, log: Log, namespace: str) -> None:
        self._log = log
        self.state = RunState.WAITING
        self.term = Term(1, namespace)

    def fire(self, event: Event) -> None:
        """Go to the next state. KeyError: a fault of kleader, which kills the command and ends."""
        self.state = TRANSITIONS[self.state][event]
        self._log.role = self.state.value

    def next_candidacy(self) -> Term:
        """A new candidacy, with an incarnation of its own, begins; returns the term before it."""
        previous, self.term = self.term, Term(self.term.number + 1, self.term.namespace)
        return previous
