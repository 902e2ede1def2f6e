"""What ``run`` does: one state (kleader.supervisor.states), and what messages, signals, ends and the clock make of it.

From the acquired lock until no process of the term is alive that is :mod:`kleader.supervisor.leadership`; here are the
candidacies before and after, the hooks, and the end.
"""

from __future__ import annotations

import math
import os
import signal

from kleader import system
from kleader.election.duration import text
from kleader.election.protocol import Acquired, AcquireFailed, Lost, NewLeader, Released, Renewed, Restart, StepDown
from kleader.exits import FAILED, NOT_ACQUIRED, SIGNALLED
from kleader.ipc import messages as m
from kleader.ipc.plan import FOR_LIFE
from kleader.procs.tree_killer import TreeKiller
from kleader.supervisor import metrics_file
from kleader.supervisor.child import Command
from kleader.supervisor.deadline import Deadline
from kleader.supervisor.elector_process import ElectorProcess
from kleader.supervisor.environment import end_variables, hook_environment
from kleader.supervisor.hooks import Health, OnEnd, OnNewLeader
from kleader.supervisor.leadership import Leadership
from kleader.supervisor.service_manager import MAX_LEADER_CHARS
from kleader.supervisor.signals import ENDS_CANDIDATE, SHUTDOWN, name
from kleader.supervisor.standby import Standby
from kleader.supervisor.states import ACTIVE, CONTENDING, Event, RunState
from kleader.supervisor.status_report import StatusReport
from kleader.supervisor.term import RunProgress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.ipc.plan import Plan
    from kleader.ipc.spawn import Launcher
    from kleader.log import Log
    from kleader.supervisor.status_report import Launch


class RunStateMachine:
    """One plan, from the first candidacy to the exit status. It is told what happens and when, and never waits."""

    def __init__(
        self, plan: Plan, log: Log, signals: system.Signals, launcher: Launcher, launch_exporter: Launch | None
    ) -> None:
        self._plan, self._log, self._run = plan, log, RunProgress(log, plan.namespace)
        self._deadline = Deadline(system.KillTimer() if os.getpid() != 1 else None, plan.timing.kill)
        self._command = Command(plan, log, signals)
        tree = self._command.tree
        killer = TreeKiller(tree, self._deadline, log)
        self._elector = ElectorProcess(plan, log, launcher, self._command)
        self._standby = Standby(plan, log, signals, tree, killer)
        self._new_leader = OnNewLeader(plan, log, signals, tree, launcher.holder)
        self._health = Health(plan, log, signals, tree)
        self._on_end = OnEnd(plan, log, signals, tree)
        self._report = StatusReport(plan, log, self._command, self._deadline, self._elector, launch_exporter)
        self._leadership = Leadership(
            plan, log, self._run, self._command, self._deadline, killer, self._elector, self._standby, self._health
        )
        beside = (self._standby, self._new_leader, self._health, self._on_end)
        self._subtrees = [part.subtree for part in beside]
        subreapers = (subtree.process for subtree in self._subtrees)
        self._children = (self._elector.process, self._report.exporter.process, *subreapers)
        self._contend_at = 0.0  # the end of NOT_CONTENDING, if the candidate is healthy by then
        self._interrupted = False  # by Ctrl-C, before it led

    def begin(self) -> None:
        """Without an election the command runs at once; an unhealthy candidate does not contend."""
        if not self._plan.lock:
            self._run.fire(Event.ACQUIRED)
            self._run.term.start_at = 0.0
        elif not self._health.healthy:
            self._run.fire(Event.STOP_CONTENDING)

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do."""
        return self._run.state is RunState.ENDED

    def exit_status(self) -> int:
        """The exit status, at the end; does not return where kleader is to die of Ctrl-C as its command did.

        A shell wants to see that death, to end its loop or script as well; not where kleader leads its session.
        """
        term = self._run.term
        if term.lead:
            what = f"exiting with status {term.status}: {term.why_ended}"
            self._log.info(what, event="exiting", status=term.status)
        status = term.status
        self._elector.launcher.close_lock()
        self._report.close()
        metrics_file.write(self._plan, self._log, term)
        interrupted = self._interrupted or self._command.interrupted
        if interrupted and status == SIGNALLED + signal.SIGINT and os.getsid(0) != os.getpid():
            system.die_of(signal.SIGINT)
        return status

    def kill_after_fault(self) -> None:
        """The supervisor cannot go on: no process of the command is left."""
        self._leadership.kill_after_fault()

    @property
    def fds(self) -> tuple[int | None, ...]:
        """For poll: the links of the elector, of a new command, and of is-leader."""
        return self._elector.fd, self._command.fd, self._report.fd

    # --- the clock

    @property
    def _wait_ends_at(self) -> float:
        """The end of --wait, which is of the first candidacy. While an elector contends, the elector judges it."""
        term = self._run.term
        wait = self._plan.wait_of(term.number)
        if wait.one_try and (self._run.state is not RunState.NOT_CONTENDING or self._health.known):
            wait = wait._replace(until=self._plan.started)
        return math.inf if term.lead else wait.until

    def due(self) -> float:
        """The next instant at which something has to be done even if nothing happens."""
        state, term = self._run.state, self._run.term
        due = [self._leadership.due(), term.standby_deadline, self._report.due]
        due += [subtree.overdue_at for subtree in self._subtrees]
        due += [self._elector.due(state, term), self._standby.due(state, term), self._new_leader.due(state)]
        due.append(self._health.due(state, runs=self._command.runs))
        if state is RunState.NOT_CONTENDING and not self._elector.process.pid:
            due += [self._wait_ends_at, self._contend_at if self._health.healthy else math.inf]
        if state is RunState.WAITING and self._elector.start_failed:
            due.append(self._wait_ends_at)
        return min(due)

    def act(self, now: float) -> None:
        """Do what is due, and what is due in the next state, until the state stands."""
        before = None
        while before is not self._run.state:
            before = self._run.state
            self._act_once(now)
        self._report.publish(self._run.state, self._run.term, now)

    def _act_once(self, now: float) -> None:
        if self._leadership.act(now):
            self._after_term(now)
        if self._run.state is RunState.WAITING and not self._health.healthy:
            self._log.warning("health check failing; not competing", event="unhealthy")
            self._stop_contending(now, 0.0)
        if now >= self._run.term.standby_deadline and not self.ended:
            self._give_up_lock(now)
        self._check_processes(now)

    def _check_processes(self, now: float) -> None:
        """The processes other than the command: start, kill and wait for them."""

        def variables() -> dict[str, str]:
            return hook_environment(self._plan, self._run.term)

        self._elector.check(self._run.state, self._run.term, now)
        for subtree in self._subtrees:
            subtree.check_overdue(now)
        if self._run.state is RunState.WAITING:  # the next candidacy
            self._on_end.start(now)
        self._new_leader.check(self._run.state, variables, now)  # before the end, which waits for it only that long
        if not self._elector.process.pid:
            self._without_elector(now)
        self._standby.check(self._run.state, self._run.term, now)
        self._health.check(self._run.state, variables, now, runs=self._command.runs)

    def _without_elector(self, now: float) -> None:
        """There is no elector now."""
        state = self._run.state
        if state is RunState.WAITING and self._elector.cannot_work:
            if not self._elector.other_version:
                self._log.error("the elector exits at start-up every time; giving up", event="elector_failing")
            self._end(FAILED, now)
        elif state is RunState.WAITING and self._elector.start_failed and now >= self._wait_ends_at:
            self._end(FAILED, now)
        elif state is RunState.NOT_CONTENDING:
            self._elector.launcher.close_lock()  # what the last one may have locked
            self._on_end.start(now)
            if self._run.term.lead:
                self._run.next_candidacy()
                self._standby.contend(now)
            if self._health.healthy and now >= self._contend_at:
                self._elector.contend()
                self._run.fire(Event.CONTEND)
            elif now >= self._wait_ends_at:
                self._log.error(
                    "not acquired: the --health command has not succeeded within --wait", event="not_acquired"
                )
                self._end(NOT_ACQUIRED, now)
        elif state is RunState.RELEASING and self._standby.ended(now):
            self._elector.launcher.close_lock()  # no hook delays that
            self._on_end.start(now)
            if not (self._new_leader.subtree.running or self._on_end.subtree.running):
                self._run.fire(Event.RELEASED)

    # --- the elector's messages

    def receive(self, now: float) -> None:
        """Take in all messages since the last turn. Those of another term, or of no use in this state, do not count."""
        self._command.check_executed()
        messages = self._elector.receive(now)
        for message in messages:
            self._report.note(message.body)
            if isinstance(message.body, m.ResumeState):
                self._elector.resume_state = message.body.state
            elif message.term == self._run.term.number:
                if isinstance(message.body, m.Succession):
                    self._run.term.succession = message.body
                self._on_message(message.body, now)
        if messages:
            self._elector.send(self._run.term, m.Alive(self._deadline.kill_at))

    def _on_message(self, body: m.Body, now: float) -> None:
        state = self._run.state
        match body:
            case m.LockFound(namespace):
                self._run.term.namespace = namespace
                self._log.add_context(namespace=namespace)
            case Acquired() if state is RunState.WAITING:
                self._new_leader.leads(self._plan.identity)
                self._leadership.begin(body, now)
            case Renewed() if state is RunState.WAITING:
                self._elector.replace(now)  # its Acquired was lost: the next elector finds that this candidate holds it
            case Renewed():
                self._leadership.renewed(body, now)
            case Lost(reason, kill_now) if state in ACTIVE:
                self._leadership.lose(reason, now, kill=kill_now)
            case StepDown() if state in ACTIVE - {RunState.STOPPING}:
                self._leadership.step_down(body, now)
            case NewLeader(leader):
                self._on_new_leader(leader)
            case AcquireFailed():
                self._on_failed(body, now)
            case Released():
                self._elector.released(body, self._run.term)

    def _on_new_leader(self, leader: str) -> None:
        self._new_leader.leads(leader)
        if leader != self._plan.identity:
            leader = leader[:MAX_LEADER_CHARS]
            wait = self._plan.wait_of(self._run.term.number)
            what = f"the leader is {leader}{self._log.introduce('; this candidate waits as ')}"
            if wait.one_try or wait.live:  # its last line has it
                self._log.debug(what, event="leader_observed", leader=leader)
            else:
                self._log.info(what, event="leader_observed", leader=leader)

    def _on_failed(self, failed: AcquireFailed, now: float) -> None:
        """The elector cannot acquire the lock. That another candidate holds it is no error."""
        status = failed.status
        if status == NOT_ACQUIRED:
            status = self._plan.busy_exit_code
            self._log.info(f"not acquired: {failed.reason}", event="not_acquired", status=status)
        else:
            self._log.error(failed.reason, event="acquire_failed", status=status)
        if self._run.state is RunState.WAITING:
            self._end(status, now)

    # --- signals and children

    def on_signal(self, number: int, now: float, *, terminal: bool) -> None:
        """What a signal means depends on the state. ``terminal``: the rest of kleader's process group got it too."""
        if self._run.state in CONTENDING:
            if number == signal.SIGTSTP:
                self._log.info("ignored SIGTSTP: a waiting candidate is not suspended", event="suspend_ignored")
            elif number in SHUTDOWN or (number in ENDS_CANDIDATE and (terminal or not self._plan.standby)):
                self._log.info(
                    f"{name(number)} came: exiting with status {SIGNALLED + number}", event="signal_received"
                )
                self._interrupted = terminal
                self._end(SIGNALLED + number, now, number)
            else:
                self._standby.signal(number)
        elif self._run.state is RunState.RELEASING:
            if number in ENDS_CANDIDATE:
                self._kill_now(now)
        elif self._run.state is not RunState.ENDED:
            self._leadership.on_signal(number, now, terminal=terminal)

    def reaped(self, pid: int, waitstatus: int, now: float) -> None:
        """A child ended, or was stopped, as waitpid says."""
        if self._leadership.reaped(pid, waitstatus, now):
            return
        for process in self._children:
            if process.pid == pid:
                process.reaped(waitstatus, now)
                if process is self._elector.process:
                    self._on_elector(waitstatus, now)
                return

    def _on_elector(self, waitstatus: int, now: float) -> None:
        if os.WIFSTOPPED(waitstatus):
            self._elector.replace(now)  # even if it does not die, it would not kill in the supervisor's place
            self._log.warning("the elector was stopped by a signal: replacing it", event="elector_stopped")
        self.receive(now)  # its final messages, before another one is started

    # --- after a term, and the end

    def _after_term(self, now: float) -> None:
        """No process of the term is alive: kleader contends again, or ends."""
        term = self._run.term
        self._on_end.term_ended(hook_environment(self._plan, term) | end_variables(term))
        if term.over and self._plan.on_loss == "wait" and not term.shutdown_signal:
            self._contend_again(now)
        else:
            self._end(term.status, now)

    def _contend_again(self, now: float) -> None:
        """After a loss the elector goes on: another one may find no credentials without a network.

        After any other end it releases the lock, records the run, and ends; the next candidacy has another one.
        """
        healthy, plan, previous = self._health.healthy, self._plan, self._run.term
        # of leader-for-life only a new elector can tell these from processes of an earlier candidacy
        accompanied = plan.lock == FOR_LIFE and (plan.standby or plan.health or plan.on_new_leader or plan.on_end)
        if previous.asked or not previous.lost or self._elector.fd is None or not healthy or accompanied:
            if previous.asked:
                pause = text(plan.timing.lease_duration)
                self._log.info(f"not competing for {pause}, so that another candidate can lead", event="standing_aside")
            self._stop_contending(now, 0.0 if healthy and not previous.asked else plan.timing.lease_duration)
            return
        self._run.fire(Event.CONTEND)
        self._deadline.end()
        self._run.next_candidacy()
        self._standby.contend(now)
        self._elector.send(previous, Restart(self._run.term.incarnation))

    def _stop_contending(self, now: float, seconds: float) -> None:
        """No process of a term is alive. No elector contends until the candidate is healthy, nor for ``seconds``."""
        self._run.fire(Event.STOP_CONTENDING)
        self._deadline.end()
        self._contend_at = now + seconds
        self._elector.end(self._run.term, now, unhealthy=not self._health.healthy)

    def _give_up_lock(self, now: float) -> None:
        """The standby does not die. Another candidate may lead beside a standby, so that the lock is released."""
        self._run.term.standby_deadline = math.inf
        self._log.error(
            "the standby does not die: releasing the lock, so that another candidate can lead",
            event="standby_unkillable",
        )
        self._standby.abandon()
        self._end(self._plan.loss_exit_code, now)

    def _end(self, status: int, now: float, number: int = signal.SIGTERM) -> None:
        """No process of a term is alive: the elector releases what this candidate may hold; the standby is stopped."""
        self._run.term.status = status
        self._health.subtree.stop(now)
        self._new_leader.finish(now)
        self._run.fire(Event.END)
        self._deadline.end()
        self._standby.ask_to_stop(self._leadership.stop_signal(number), now + self._plan.stop_timeout)
        self._elector.end(self._run.term, now)

    def _kill_now(self, now: float) -> None:
        """One more signal at the end: kill what is left; leave what was killed already."""
        self._standby.kill_now(now)
        self._new_leader.subtree.stop(now)
        self._health.subtree.stop(now)
        self._on_end.kill_now(now)
        self._elector.abandon()
