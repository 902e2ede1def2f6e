"""What ``run`` does: one state (kleader.supervisor.states), and what messages, signals, ends and the clock make of it.

The promise is kept by two rules. A command starts only in LEADING, which follows on WAITING, where no process of a term
is alive, or on KILLING, once the tree is proven empty. The elector is asked for a release only on the same two ways.
"""

from __future__ import annotations

import math
import os
import signal

from kleader import system
from kleader.exits import FAILED, NOT_ACQUIRED, SIGNALLED
from kleader.ipc import messages as m
from kleader.ipc.plan import FOR_LIFE
from kleader.procs import last_resort
from kleader.procs.tree_killer import TreeKiller
from kleader.supervisor import metrics_file
from kleader.supervisor.child import Command
from kleader.supervisor.deadline import Deadline
from kleader.supervisor.elector_process import ElectorProcess
from kleader.supervisor.environment import beside, environment, of_end
from kleader.supervisor.hooks import Health, NewLeader, OnEnd
from kleader.supervisor.signals import ENDING, POLITE, name
from kleader.supervisor.standby import Standby
from kleader.supervisor.states import CONTENDING, LIMITED, TRANSITIONS, Event, State
from kleader.supervisor.status_report import StatusReport
from kleader.supervisor.term import Term

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from kleader.ipc.plan import Plan
    from kleader.log import Log
    from kleader.supervisor.child import Child
    from kleader.supervisor.elector_process import Launcher
    from kleader.supervisor.status_report import Launch

    Handler = Callable[[Any, float], None]

_DELIBERATE_SECONDS = 1.0  # a signal so long after the killing began is meant to leave what does not die
_MAX_LEADER_CHARS = 256
_ANY = frozenset(State)
_CAN_STEP_DOWN = frozenset({State.STOPPING_STANDBY, State.LEADING, State.KILLING})


class RunStateMachine:
    """One plan, from the first candidacy to the exit status. It is told what happens and when, and never waits."""

    def __init__(
        self, plan: Plan, log: Log, signals: system.Signals, launcher: Launcher, launch_exporter: Launch | None
    ) -> None:
        self._plan, self._log = plan, log
        self._deadline = Deadline(system.KillTimer() if os.getpid() != 1 else None, plan.kill)
        self._command = Command(plan, log, signals)
        tree = self._command.tree
        self._killer = TreeKiller(tree, self._deadline, log)
        self._elector = ElectorProcess(plan, log, launcher, self._command)
        self._standby = Standby(plan, log, signals, tree, self._killer)
        self._new_leader = NewLeader(plan, log, signals, tree, launcher.holder)
        self._health = Health(plan, log, signals, tree)
        self._on_end = OnEnd(plan, log, signals, tree)
        self._report = StatusReport(plan, log, self._command, self._deadline, self._elector, launch_exporter)
        subtrees = (each.subtree.process for each in (self._standby, self._new_leader, self._health, self._on_end))
        self._own = (self._elector.process, self._report.exporter.process, *subtrees)
        self._state = State.WAITING
        self._term = Term(1)
        self._namespace = plan.namespace
        self._contend_at = 0.0  # the end of NOT_CONTENDING, if the candidate is healthy by then
        self._status = 0  # what kleader will exit with
        self._interrupted = False  # by Ctrl-C, before it led
        self._handlers: dict[type[m.Message], tuple[Handler, Collection[State]]] = {  # and when a message counts
            m.Lead: (self._on_lead, {State.WAITING}),
            m.Extend: (self._on_extend, _ANY),
            m.Lost: (self._on_lost, LIMITED | {State.KILLING}),
            m.Yield: (self._on_yield, _CAN_STEP_DOWN),
            m.Observe: (self._on_observe, _ANY),
            m.Failed: (self._on_failed, _ANY),
            m.Released: (lambda message, _now: self._elector.released(message, self._term), _ANY),
        }

    def begin(self) -> None:
        """Without an election the command runs at once; an unhealthy candidate does not contend."""
        if not self._plan.lock:
            self._fire(Event.ACQUIRED)
            self._term.start_at = 0.0
        elif not self._health.healthy:
            self._fire(Event.REST)

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do."""
        return self._state is State.ENDED

    def exit_status(self) -> int:
        """The exit status, at the end; does not return where kleader is to die of Ctrl-C as its command did.

        A shell wants to see that death, to end its loop or script as well; not where kleader leads its session.
        """
        self._elector.launcher.let_go()
        self._report.close()
        metrics_file.write(self._plan, self._log, self._namespace, self._term, self._status)
        interrupted = self._interrupted or self._command.interrupted
        if interrupted and self._status == SIGNALLED + signal.SIGINT and os.getsid(0) != os.getpid():
            system.die_of(signal.SIGINT)
        return self._status

    def kill_blindly(self) -> None:
        """The supervisor cannot go on: no process of the command is left behind. It may be the killer that failed."""
        try:
            self._kill_main()
            self._killer.kill_until_empty()
        except BaseException:  # noqa: BLE001, S110 - the last resort shares no code with it
            pass
        main, tree = self._command.main, self._command.tree
        last_resort.kill_children(main.pid if main else 0, tree.own_pids, tree.bystanders)

    @property
    def fds(self) -> tuple[int | None, ...]:
        """For poll: the links of the elector, of a new command, and of is-leader."""
        return self._elector.fd, self._command.fd, self._report.fd

    # --- the clock

    @property
    def _kill_at(self) -> float:
        return self._deadline.kill_by(self._elector.kill_alone_at(self._term))

    @property
    def _wait_ends_at(self) -> float:
        """The end of --wait, which is of the first candidacy. While an elector contends, the elector judges it."""
        wait, known = self._plan.wait, self._state is not State.NOT_CONTENDING or self._health.known
        if wait is None or self._term.number > 1 or self._term.lead or not (wait or known):
            return math.inf
        return self._plan.started + wait

    def due(self) -> float:
        """The next instant at which something has to be done even if nothing happens."""
        state, term, runs = self._state, self._term, self._command.runs
        due = [term.start_at, term.kill_stopping_at, term.standby_deadline, self._killer.next_at]
        due += [self._elector.due(state, term), self._standby.due(state, term), self._new_leader.due(state)]
        due += [self._health.due(state, runs=runs), self._on_end.due, self._report.due]
        if runs:
            due.append(self._command.tree.bystanders.scan_at)
        if state is State.NOT_CONTENDING and not self._elector.process.pid:
            due += [self._wait_ends_at, self._contend_at if self._health.healthy else math.inf]
        if state is State.WAITING and self._elector.start_failed:
            due.append(self._wait_ends_at)
        if state in LIMITED:
            due += [self._kill_at, math.inf if term.lost else self._deadline.stop_at]
        return min(due)

    def act(self, now: float) -> None:
        """Do what is due, and what is due in the next state, until the state stands."""
        before = None
        while before is not self._state:
            before = self._state
            self._act_once(now)
        self._report.publish(self._state, self._term, now)

    def _act_once(self, now: float) -> None:
        bystanders = self._command.tree.bystanders
        self._deadline.awake(now)
        if self._command.runs and now >= bystanders.scan_at:
            bystanders.scan(now)
        self._check_end_of_term(now)
        if self._state is State.LEADING and now >= self._term.start_at:
            self._start(now)
        if self._state is State.KILLING:
            self._kill_more(now)
        if now >= self._term.standby_deadline and not self.ended:
            self._give_up_lock(now)
        self._check_processes(now)

    def _check_end_of_term(self, now: float) -> None:
        """The deadlines first; then whatever else stops or kills the command, or the standby."""
        if self._state in LIMITED and now >= min(self._deadline.stop_at, self._kill_at):
            kill = now >= self._kill_at
            self._lose("the lease is about to expire" if kill else "the renew deadline has passed", now, kill=kill)
        if not self._health.healthy:
            self._on_unhealthy(now)
        if self._elector.other_version and self._state in _CAN_STEP_DOWN:
            self._on_yield(m.Yield(self._term.number, "kleader was upgraded"), now)
        if self._command.draining and self._command.tree.is_empty():
            self._kill(now)
        if self._state is State.STOPPING_STANDBY and not self._standby.subtree.process.pid:
            self._kill(now)
        if now >= self._term.kill_stopping_at:
            self._kill(now)
            self._log.warning("the command did not stop in time: killing", event="command_killed")

    def _check_processes(self, now: float) -> None:
        """What runs beside the command: started, killed, waited for."""

        def variables() -> dict[str, str]:
            return beside(self._plan, self._term.lead, self._term.incarnation, self._namespace)

        self._elector.check(self._state, self._term, now)
        self._on_end.check(now)
        if self._state is State.WAITING:  # the next candidacy
            self._on_end.start(now)
        self._new_leader.check(self._state, variables, now)  # before the end, which waits for it no longer than that
        if not self._elector.process.pid:
            self._without_elector(now)
        self._standby.check(self._state, self._term, self._namespace, now)
        self._health.check(self._state, variables, now, runs=self._command.runs)

    def _without_elector(self, now: float) -> None:
        """There is no elector now."""
        if self._state is State.WAITING and self._elector.cannot_work:
            if not self._elector.other_version:
                self._log.error("the elector exits at start-up every time; giving up", event="elector_failing")
            self._end(FAILED, now)
        elif self._state is State.WAITING and self._elector.start_failed and now >= self._wait_ends_at:
            self._end(FAILED, now)
        elif self._state is State.NOT_CONTENDING:
            self._elector.launcher.let_go()  # what the last one may have locked
            self._on_end.start(now)
            if self._term.lead:
                self._term = Term(self._term.number + 1)
            if self._health.healthy and now >= self._contend_at:
                self._elector.contend()
                self._fire(Event.CONTEND)
            elif now >= self._wait_ends_at:
                self._log.error(
                    "not acquired within --wait: the --health command has not succeeded", event="not_acquired"
                )
                self._end(NOT_ACQUIRED, now)
        elif self._state is State.RELEASING and self._standby.ended(now):
            self._elector.launcher.let_go()  # no hook delays that
            self._on_end.start(now)
            if not (self._new_leader.subtree.running or self._on_end.subtree.running):
                self._fire(Event.RELEASED)

    # --- the elector's messages

    def receive(self, now: float) -> None:
        """Take in all messages since the last turn. Those of another term, or of no use in this state, do not count."""
        self._command.check_executed()
        messages = self._elector.receive(now)
        for message in messages:
            self._report.note(message)
            if isinstance(message, m.Remember):
                self._elector.resume_state = message.what
            elif message.term == self._term.number:
                handler, states = self._handlers.get(type(message), (None, ()))
                if handler and self._state in states:
                    handler(message, now)
        if messages:
            self._elector.send(m.Alive(self._term.number, self._deadline.kill_at))

    def _on_lead(self, lead: m.Lead, now: float) -> None:
        term = self._term
        term.lead, term.led_at, term.t0 = lead, now, lead.stop_at - self._plan.renew_deadline
        self._health.begin(now)
        self._deadline.begin(lead.stop_at, lead.kill_at, now)
        self._fire(Event.ACQUIRED_BESIDE_STANDBY if self._plan.standby else Event.ACQUIRED)
        self._note_leader(self._plan.identity, lead.namespace)
        what = f"token {lead.token}, transitions {lead.transitions}"
        self._log.info(f"became leader: {what}", event="became_leader", token=lead.token, transitions=lead.transitions)
        if lead.done:
            self._log.info(lead.done, event="already_done")
            self._status = self._plan.once_exit_code
            self._command.restart_wanted = False  # of the command of an earlier term
            self._kill(now)
        elif self._plan.standby:  # it has the grace of a loss, for there is no leader meanwhile
            term.standby_deadline = now + self._plan.renew_deadline
            grace = min(self._plan.grace, self._plan.renew_deadline / 2)
            self._standby.ask_to_stop(self._stop_signal(), now + grace)
        else:
            term.start_at = now

    def _on_extend(self, extend: m.Extend, now: float) -> None:
        if self._state is State.WAITING:  # its Lead was lost: the next elector finds the lock held by this candidate
            self._elector.replace(now)
        elif not self._term.lost:
            self._deadline.extend(extend.stop_at, extend.kill_at, now)
            self._term.t0 = max(self._term.t0, extend.stop_at - self._plan.renew_deadline)

    def _on_lost(self, lost: m.Lost, now: float) -> None:
        self._lose(lost.reason, now, kill=lost.kill_now)

    def _on_yield(self, message: m.Yield, now: float) -> None:
        term, killing = self._term, self._state is State.KILLING
        if killing and (term.over or term.shutdown_signal or not (self._command.restart_wanted or term.stops_standby)):
            return  # the term ends anyway
        term.step_down = message
        term.begin_end(now, name(self._stop_signal()), message.reason)
        self._status = self._plan.loss_exit_code
        self._log.info(f"giving up leadership: {message.reason}", event="stepping_down")
        if not killing:
            self._stop(self._stop_signal(), now, now + self._plan.stop_timeout, send=True)

    def _on_observe(self, observe: m.Observe, _now: float) -> None:
        self._note_leader(observe.leader, observe.namespace)
        if observe.leader != self._plan.identity:
            leader = observe.leader[:_MAX_LEADER_CHARS]
            one_try = self._term.number == 1 and (self._plan.wait == 0 or self._plan.live)  # its last line has the name
            if one_try:
                self._log.debug(f"the leader is {leader}", event="leader_observed", leader=leader)
            else:
                self._log.info(f"the leader is {leader}", event="leader_observed", leader=leader)

    def _on_failed(self, failed: m.Failed, now: float) -> None:
        """The elector cannot acquire the lock. That another candidate holds it is no error."""
        status = failed.status
        if status == NOT_ACQUIRED:
            status = self._plan.busy_exit_code
            self._log.info(f"not acquired: {failed.reason}", event="not_acquired", status=status)
        else:
            self._log.error(failed.reason, event="acquire_failed", status=status)
        if self._state is State.WAITING:
            self._end(status, now)

    def _note_leader(self, leader: str, namespace: str) -> None:
        if self._plan.lock != "file":
            self._log.add_context(namespace=namespace)
        self._namespace = namespace
        self._new_leader.leads(leader)

    # --- signals

    def on_signal(self, number: int, now: float, *, terminal: bool) -> None:
        """What a signal means depends on the state. ``terminal``: the rest of kleader's process group got it too."""
        if self._state in CONTENDING:
            if number == signal.SIGTSTP:
                self._log.info("SIGTSTP ignored: a candidate is not suspended", event="suspend_ignored")
            elif number in POLITE or (number in ENDING and (terminal or not self._plan.standby)):
                self._log.info(f"{name(number)}: ending", event="signal_received")
                self._interrupted = terminal
                self._end(SIGNALLED + number, now, number)
            else:
                self._standby.signal(number)
        elif self._state is State.RELEASING:
            if number in ENDING:
                self._hurry(now)
        elif self._state is not State.ENDED:
            if number in POLITE:
                self._on_polite(number, now, terminal=terminal)
            else:
                self._command.forward(number, terminal=terminal)

    def _on_polite(self, number: int, now: float, *, terminal: bool) -> None:
        """TERM and INT: the first one stops, the second kills, a third one leaves what does not die."""
        term, sent = self._term, self._command.got_it_too(terminal=terminal)
        if not term.shutdown_signal:
            term.shutdown_signal = number
            if self._state is State.LEADING:
                term.begin_end(now, name(self._stop_signal(number)), f"{name(number)} came")
                self._status = self._status if self._command.runs else SIGNALLED + number
                self._stop(self._stop_signal(number), now, now + self._plan.stop_timeout, send=not sent)
            elif self._state is State.STOPPING and not sent:
                self._command.ask_to_stop(self._stop_signal(number))
            elif term.stops_standby:
                self._status = SIGNALLED + number
        elif self._state is not State.KILLING:
            self._kill(now)
            self._log.warning(f"{name(number)} again: killing", event="command_killed")
        elif now >= self._killer.began_at + _DELIBERATE_SECONDS:
            self._log.error(
                f"{name(number)} again: leaving processes that will not die; the lock is not released",
                event="processes_abandoned",
            )
            self._status = self._status or SIGNALLED + number
            self._fire(Event.ABANDON)

    def _stop_signal(self, received: int = signal.SIGTERM) -> int:
        return self._plan.stop_signal or received

    # --- children

    def reaped(self, pid: int, waitstatus: int, now: float) -> None:
        """A child ended, or was stopped, as waitpid says."""
        self._killer.reaped(pid)
        main = self._command.main
        if main and pid == main.pid:
            self._on_main(main, waitstatus, now)
            return
        for process in self._own:
            if process.pid == pid:
                process.reaped(waitstatus, now)
                if process is self._elector.process:
                    self._on_elector(waitstatus, now)
                return

    def _on_elector(self, waitstatus: int, now: float) -> None:
        if os.WIFSTOPPED(waitstatus):
            self._elector.replace(now)  # even if it does not die, it would not kill in the supervisor's place
            self._log.warning("the elector was stopped: replacing it", event="elector_stopped")
        self.receive(now)  # its final messages, before another one is started

    def _on_main(self, main: Child, waitstatus: int, now: float) -> None:
        if os.WIFSTOPPED(waitstatus):
            if self._state in {State.LEADING, State.STOPPING}:
                self._command.suspended(waitstatus)
            return
        self._command.ended(main, waitstatus, now)
        if self._state is State.ENDED:
            return
        if main.late:
            self._lose("the deadline passed before the command could start", now, kill=True)
            return
        self._term.begin_end(now, "", "the command ended")
        if not self._term.over or self._term.shutdown_signal:
            self._status = main.status or 0
        if self._plan.until_empty and self._state in {State.LEADING, State.STOPPING} and not main.failure:
            self._command.draining = True
            if self._state is State.STOPPING:
                self._command.ask_to_stop(self._stop_signal(self._term.shutdown_signal or signal.SIGTERM))
        elif self._state is not State.KILLING:
            self._kill(now)

    # --- transitions

    def _fire(self, event: Event) -> None:
        """Go to the next state. KeyError: a fault of kleader, which kills the command and ends."""
        self._state = TRANSITIONS[self._state][event]
        self._log.role = self._state.value

    def _start(self, now: float) -> None:
        """Fork the command; the elector knows the process before it may execute anything."""
        term = self._term
        term.start_at = math.inf
        variables = environment(self._plan, term.lead, term.incarnation)
        try:
            main = self._command.fork(variables, self._elector.launcher.inherited, self._deadline.stop_at, now)
        except OSError as error:
            self._log.error(f"cannot start the command: {error.strerror}", event="command_not_started")
            term.begin_end(now, "", "the command could not be started")
            self._status = FAILED
            self._kill(now)
            return
        term.started_at = min(term.started_at, now)
        self._elector.send(m.Started(term.number, main.pid, main.start, self._command.tree.bystanders.listed))
        main.release()
        self._health.begin(now)
        self._log.debug(f"forked the command: pid {main.pid}", event="command_forked", pid=main.pid)

    def _lose(self, reason: str, now: float, *, kill: bool) -> None:
        """Leadership is lost. With ``kill`` there is no grace, nor past kill_at, when it is lost once more."""
        term = self._term
        first, term.lost = not term.lost, True
        kill |= not self._command.runs
        term.begin_end(now, "SIGKILL" if kill else name(self._stop_signal()), f"the lock was lost: {reason}")
        if first and not term.shutdown_signal:
            self._status = self._plan.loss_exit_code
        if kill and self._state is not State.KILLING:
            self._kill(now)
        if first:  # after the kill: a log on a disk that hangs must not delay it
            self._log.error(f"lost the lock: {reason}", event="lost")
        if first and self._state is not State.KILLING:
            by = min(term.kill_stopping_at, now + self._plan.grace)
            if self._state is State.LEADING:
                self._stop(self._stop_signal(), now, by, send=True)
            term.kill_stopping_at = by

    def _stop(self, number: int, now: float, by: float, *, send: bool) -> None:
        if not self._command.runs:  # between two starts
            self._kill(now)
            return
        self._fire(Event.STOP)
        self._term.kill_stopping_at = by
        self._log.info(f"stopping the command with {name(number)}", event="command_stopping")
        self._elector.send(m.Stopping(self._term.number))
        if send:
            self._command.ask_to_stop(number)

    def _kill(self, now: float) -> None:
        """SIGKILL from here on, until the tree is empty. A standby that is being stopped is part of the tree."""
        self._term.start_at = self._term.kill_stopping_at = math.inf
        self._command.draining = False
        self._fire(Event.KILL)
        self._kill_main()
        self._standby.kill(now)
        self._killer.begin(now)

    def _kill_main(self) -> None:
        """What can be killed without a search for it: that takes time, and descriptors that may be short."""
        if self._command.main:
            self._command.main.kill()

    def _kill_more(self, now: float) -> None:
        """Kill, until the tree is proven empty. What took the elector's death, too, is a lost lock: not released."""
        empty = self._killer.poll(now)
        if self._killer.killed_all and not self._term.lost:
            self._lose("the deadline has passed", now, kill=True)
        if empty:
            self._after_killing(now)

    def _after_killing(self, now: float) -> None:
        """No process of the term is alive."""
        term = self._term
        stopped_standby, term.standby_deadline = term.stops_standby, math.inf
        if stopped_standby and not (term.over or term.shutdown_signal):
            self._fire(Event.START)
            term.start_at = now
        elif self._command.restart_wanted and not (term.over or term.shutdown_signal):
            self._fire(Event.START)
            term.cancel_end()
            term.start_at = now + self._command.pause(now)
        else:
            term.log_end(self._log, now)
            term.note_run(self._status, now)
            about = beside(self._plan, term.lead, term.incarnation, self._namespace)
            self._on_end.term_ended(about | of_end(term, self._status))
            if term.over and self._plan.on_loss == "wait" and not term.shutdown_signal:
                self._contend_again(now)
            else:
                self._end(self._status, now)

    def _contend_again(self, now: float) -> None:
        healthy, plan = self._health.healthy, self._plan
        # of leader-for-life only a new elector can tell these from processes of an earlier candidacy
        accompanied = plan.lock == FOR_LIFE and (plan.standby or plan.health or plan.on_new_leader or plan.on_end)
        if self._elector.fd is None or not healthy or accompanied:  # one that has just died releases by another one
            self._rest(now, 0.0 if healthy and not self._term.asked else plan.lease_duration)
            return
        self._fire(Event.CONTEND)
        self._deadline.end()
        previous, self._term = self._term, Term(self._term.number + 1)
        self._status = 0
        self._standby.contend(now)
        release, to = previous.release_decision(release=plan.release)
        again = m.Again(previous.number, self._term.incarnation, release, to, previous.asked)
        self._elector.send_end(previous, again)

    def _on_unhealthy(self, now: float) -> None:
        """A leader steps down; a candidate does not contend, and releases what it may hold."""
        if self._state is State.LEADING:
            reason = f"the --health command failed {self._plan.health_failures} times in a row"
            self._on_yield(m.Yield(self._term.number, reason), now)
        elif self._state is State.WAITING:
            self._log.warning("health check failing; not competing", event="unhealthy")
            self._rest(now, 0.0)

    def _rest(self, now: float, seconds: float) -> None:
        """No process of a term is alive. No elector contends until the candidate is healthy, nor for ``seconds``."""
        self._fire(Event.REST)
        self._deadline.end()
        self._status = 0
        self._contend_at = now + seconds
        self._elector.end(self._term, now)

    def _give_up_lock(self, now: float) -> None:
        """The standby does not die. Another candidate may lead beside a standby, so that the lock is released."""
        self._term.standby_deadline = math.inf
        self._log.error("the standby does not die: giving up the lock", event="standby_unkillable")
        self._standby.abandon()
        self._end(self._plan.loss_exit_code, now)

    def _end(self, status: int, now: float, number: int = signal.SIGTERM) -> None:
        """No process of a term is alive: the elector releases what this candidate may hold; the standby is stopped."""
        self._status = status
        self._health.subtree.stop(now)
        self._new_leader.finish(now)
        self._fire(Event.END)
        self._deadline.end()
        self._standby.ask_to_stop(self._stop_signal(number), now + self._plan.stop_timeout)
        self._elector.end(self._term, now)

    def _hurry(self, now: float) -> None:
        """One more signal at the end: kill what is left; leave what was killed already."""
        self._standby.hurry(now)
        self._new_leader.subtree.stop(now)
        self._health.subtree.stop(now)
        self._on_end.hurry(now)
        self._elector.abandon()
