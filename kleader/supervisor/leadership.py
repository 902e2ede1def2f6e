"""A term: from the acquired lock until no process of the term is alive. Starts, stops and kills the command.

The promise is kept by two rules. A command starts only in LEADING, which follows on WAITING, where no process of a term
is alive, or on KILLING, once the tree is proven empty. The elector is asked for a release only on the same two ways.
"""

from __future__ import annotations

import math
import os
import signal

from kleader.election.duration import text
from kleader.election.protocol import Acquired, Renewed, StepDown
from kleader.exits import FAILED, SIGNALLED
from kleader.ipc import messages as m
from kleader.procs import last_resort
from kleader.supervisor.environment import environment
from kleader.supervisor.signals import SHUTDOWN, name
from kleader.supervisor.states import LIMITED, Event, RunState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.ipc.plan import Plan
    from kleader.log import Log
    from kleader.procs.tree_killer import TreeKiller
    from kleader.supervisor.child import Child, Command
    from kleader.supervisor.deadline import Deadline
    from kleader.supervisor.elector_process import ElectorProcess
    from kleader.supervisor.hooks import Health
    from kleader.supervisor.standby import Standby
    from kleader.supervisor.term import RunProgress

_DELIBERATE_SECONDS = 1.0  # a signal so long after the killing began is meant to leave what does not die
_CAN_STEP_DOWN = frozenset({RunState.STOPPING_STANDBY, RunState.LEADING, RunState.KILLING})


class Leadership:
    """What happens in STOPPING_STANDBY, LEADING, STOPPING and KILLING, from :meth:`begin` until :meth:`act` is true."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts that it moves
        self,
        plan: Plan,
        log: Log,
        run: RunProgress,
        command: Command,
        deadline: Deadline,
        killer: TreeKiller,
        elector: ElectorProcess,
        standby: Standby,
        health: Health,
    ) -> None:
        self._plan, self._log, self._run, self._command, self._deadline = plan, log, run, command, deadline
        self._killer, self._elector, self._standby, self._health = killer, elector, standby, health

    def begin(self, lead: Acquired, now: float) -> None:
        """The lock is acquired: start the command, once the standby has ended."""
        term = self._run.term
        term.lead, term.led_at, term.t0 = lead, now, lead.t0
        self._health.begin(now)
        self._deadline.begin(lead.stop_at, lead.kill_at, now)
        self._run.fire(Event.ACQUIRED_BESIDE_STANDBY if self._plan.standby else Event.ACQUIRED)
        if term.succession:
            what, before, gave_up, idle = term.succession
            self._log.info(what, event="acquired", predecessor=before, gave_up=gave_up, leaderless=idle)
        what = f"became leader{self._log.introduce(' as ')}: fencing token {lead.token}, transitions {lead.transitions}"
        self._log.info(what, event="became_leader", token=lead.token, transitions=lead.transitions)
        if lead.done:
            self._log.info(lead.done, event="already_done")
            term.status = self._plan.once_exit_code
            self._command.restart_wanted = False  # of the command of an earlier term
            self._kill(now)
        elif self._plan.standby:  # it has the grace of a loss, for there is no leader meanwhile
            term.standby_deadline = now + self._plan.timing.renew_deadline
            grace = min(self._plan.timing.grace, self._plan.timing.renew_deadline / 2)
            self._standby.ask_to_stop(self.stop_signal(), now + grace)
        else:
            term.start_at = now

    def renewed(self, renewed: Renewed, now: float) -> None:
        """The lock was renewed. After a loss that does not count."""
        term = self._run.term
        if not term.lost:
            self._deadline.extend(renewed.stop_at, renewed.kill_at, now)
            term.t0 = max(term.t0, renewed.t0)

    def lose(self, reason: str, now: float, *, kill: bool) -> None:
        """Leadership is lost. With ``kill`` there is no grace, nor past kill_at, when it is lost once more."""
        term = self._run.term
        first, term.lost = not term.lost, True
        ran = self._command.runs
        kill |= not ran
        term.begin_end(now, "SIGKILL" if kill else name(self.stop_signal()), f"the lock was lost: {reason}")
        if first and not term.shutdown_signal:
            term.status = self._plan.loss_exit_code
        if kill and self._run.state is not RunState.KILLING:
            self._kill(now)
        if first:  # after the kill: a log on a disk that hangs must not delay it
            self._log.error(f"lost the lock: {reason}", event="lost")
            if kill and ran:
                self._log.warning("killed the command with SIGKILL", event="command_killed")
        if first and self._run.state is not RunState.KILLING:
            by = min(term.kill_stopping_at, now + self._plan.timing.grace)
            if self._run.state is RunState.LEADING:
                self._stop(self.stop_signal(), now, by, send=True)
            term.kill_stopping_at = by

    def step_down(self, message: StepDown, now: float) -> None:
        """End the term in good order, unless it ends anyway."""
        term, killing = self._run.term, self._run.state is RunState.KILLING
        if killing and (term.over or term.shutdown_signal or not (self._command.restart_wanted or term.stops_standby)):
            return
        term.step_down = message
        term.begin_end(now, name(self.stop_signal()), message.reason)
        term.status = self._plan.loss_exit_code
        self._log.info(f"stepping down: {message.reason}", event="stepping_down")
        if not killing:
            self._stop(self.stop_signal(), now, now + self._plan.stop_timeout, send=True)

    def stop_signal(self, received: int = signal.SIGTERM) -> int:
        """The signal that asks the command to stop, where kleader itself received this one."""
        return self._plan.stop_signal or received

    def on_signal(self, number: int, now: float, *, terminal: bool) -> None:
        """TERM and INT: the first one stops, the second kills, a third one leaves what does not die.

        Every other signal is the command's. ``terminal``: the rest of kleader's process group got it too.
        """
        if number not in SHUTDOWN:
            self._command.forward(number, terminal=terminal)
            return
        term, sent = self._run.term, self._command.got_it_too(terminal=terminal)
        if not term.shutdown_signal:
            term.shutdown_signal = number
            if self._run.state is RunState.LEADING:
                term.begin_end(now, name(self.stop_signal(number)), f"{name(number)} came")
                term.status = term.status if self._command.runs else SIGNALLED + number
                self._stop(
                    self.stop_signal(number),
                    now,
                    now + self._plan.stop_timeout,
                    send=not sent,
                    why=f"{name(number)} came: ",
                )
            elif self._run.state is RunState.STOPPING and not sent:
                self._command.ask_to_stop(self.stop_signal(number))
            elif term.stops_standby:
                term.status = SIGNALLED + number
        elif self._run.state is not RunState.KILLING:
            self._kill(now)
            self._log.warning(f"{name(number)} came again: killed the command with SIGKILL", event="command_killed")
        elif now >= self._killer.began_at + _DELIBERATE_SECONDS:
            self._log.error(
                f"{name(number)} came again: leaving processes that do not die; the lock is not released",
                event="processes_abandoned",
            )
            term.status = term.status or SIGNALLED + number
            self._run.fire(Event.ABANDON)

    def reaped(self, pid: int, waitstatus: int, now: float) -> bool:
        """A child of the supervisor ended, or was stopped, as waitpid says. True: it was the main process."""
        self._killer.reaped(pid)
        main = self._command.main
        if main and pid == main.pid:
            self._on_main(main, waitstatus, now)
            return True
        return False

    def _on_main(self, main: Child, waitstatus: int, now: float) -> None:
        term, state = self._run.term, self._run.state
        if os.WIFSTOPPED(waitstatus):
            if state in {RunState.LEADING, RunState.STOPPING}:
                self._command.suspended(waitstatus)
            return
        self._command.ended(main, waitstatus, now)
        if state is RunState.ENDED:
            return
        if main.late:
            self.lose("the deadline passed before the command could start", now, kill=True)
            return
        term.begin_end(now, "", "the command ended")
        if not term.over or term.shutdown_signal:
            term.status = main.status or 0
        if self._plan.until_empty and state in {RunState.LEADING, RunState.STOPPING} and not main.failure:
            self._command.draining = True
            if state is RunState.STOPPING:
                self._command.ask_to_stop(self.stop_signal(term.shutdown_signal or signal.SIGTERM))
        elif state is not RunState.KILLING:
            self._kill(now)

    def kill_after_fault(self) -> None:
        """The supervisor cannot go on: no process of the command is left. It may be the killer that failed."""
        try:
            self._kill_main()
            self._killer.kill_until_empty()
        except BaseException:  # noqa: BLE001, S110 - the last resort shares no code with it
            pass
        main, tree = self._command.main, self._command.tree
        last_resort.kill_children(main.pid if main else 0, tree.own_pids, tree.bystanders)

    # --- the clock

    @property
    def _kill_at(self) -> float:
        return self._deadline.kill_by(self._elector.kill_alone_at(self._run.term))

    def due(self) -> float:
        """The next instant at which :meth:`act` has something to do even if nothing happens."""
        term = self._run.term
        due = [term.start_at, term.kill_stopping_at, self._killer.next_at]
        if self._command.runs:
            due.append(self._command.tree.bystanders.scan_at)
        if self._run.state in LIMITED:
            due += [self._kill_at, math.inf if term.lost else self._deadline.stop_at]
        return min(due)

    def act(self, now: float) -> bool:
        """Do what is due. True: the term is over, and no process of it is alive."""
        bystanders = self._command.tree.bystanders
        self._deadline.awake(now)
        if self._command.runs and now >= bystanders.scan_at:
            bystanders.scan(now)
        self._check_end_of_term(now)
        if self._run.state is RunState.LEADING and now >= self._run.term.start_at:
            self._start(now)
        return self._run.state is RunState.KILLING and self._kill_more(now)

    def _check_end_of_term(self, now: float) -> None:
        """The deadlines first; then whatever else stops or kills the command, or the standby."""
        run, term = self._run, self._run.term
        if run.state in LIMITED and now >= min(self._deadline.stop_at, self._kill_at):
            kill = now >= self._kill_at
            self.lose("the lease is about to expire" if kill else "the renew deadline has passed", now, kill=kill)
        if not self._health.healthy and run.state is RunState.LEADING:
            reason = f"the --health command failed {self._plan.health_failures} times in a row"
            self.step_down(StepDown(reason), now)
        if self._elector.other_version and run.state in _CAN_STEP_DOWN:
            self.step_down(StepDown("kleader was upgraded"), now)
        if self._command.draining and self._command.tree.is_empty():
            self._kill(now)
        if run.state is RunState.STOPPING_STANDBY and not self._standby.subtree.process.pid:
            self._kill(now)
        if now >= term.kill_stopping_at:
            self._kill(now)
            self._log.warning("the command did not stop in time: killed it with SIGKILL", event="command_killed")

    def _start(self, now: float) -> None:
        """Fork the command; the elector knows the process before it may execute anything."""
        term = self._run.term
        term.start_at = math.inf
        variables = environment(self._plan, term)
        try:
            main = self._command.fork(variables, self._elector.launcher.inherited, self._deadline.stop_at, now)
        except OSError as error:
            self._log.error(f"cannot start the command: {error.strerror}", event="command_not_started")
            term.begin_end(now, "", "the command could not be started")
            term.status = FAILED
            self._kill(now)
            return
        term.started_at = min(term.started_at, now)
        self._elector.send(term, m.Started(main.pid, main.start, self._command.tree.bystanders.listed))
        main.release()
        self._health.begin(now)
        self._log.debug(f"forked the command: pid {main.pid}", event="command_forked", pid=main.pid)

    def _stop(self, number: int, now: float, by: float, *, send: bool, why: str = "") -> None:
        if not self._command.runs:  # between two starts
            self._kill(now)
            return
        self._run.fire(Event.STOP)
        self._run.term.kill_stopping_at = by
        limit = f"; SIGKILL follows in {text(round(max(0.0, by - now), 1))}" if by < math.inf else ""
        self._log.info(f"{why}stopping the command with {name(number)}{limit}", event="command_stopping")
        self._elector.send(self._run.term, m.Stopping())
        if send:
            self._command.ask_to_stop(number)

    def _kill(self, now: float) -> None:
        """SIGKILL from here on, until the tree is empty. A standby that is being stopped is part of the tree."""
        self._run.term.start_at = self._run.term.kill_stopping_at = math.inf
        self._command.draining = False
        self._run.fire(Event.KILL)
        self._kill_main()
        self._standby.kill(now)
        self._killer.begin(now)

    def _kill_main(self) -> None:
        """What can be killed without a search for it: that takes time, and descriptors that may be short."""
        if self._command.main:
            self._command.main.kill()

    def _kill_more(self, now: float) -> bool:
        """Kill, until the tree is proven empty. Where all processes were killed, the elector too, the lock is lost."""
        empty = self._killer.poll(now)
        if self._killer.killed_all and not self._run.term.lost:
            self.lose("the deadline has passed", now, kill=True)
        return empty and self._after_killing(now)

    def _after_killing(self, now: float) -> bool:
        """No process of the term is alive: the command starts, or starts again, or the term is over."""
        term = self._run.term
        stopped_standby, term.standby_deadline = term.stops_standby, math.inf
        if stopped_standby and not (term.over or term.shutdown_signal):
            self._run.fire(Event.START)
            term.start_at = now
            return False
        if self._command.restart_wanted and not (term.over or term.shutdown_signal):
            self._run.fire(Event.START)
            term.cancel_end()
            term.start_at = now + self._command.pause(now)
            return False
        term.log_end(self._log, now)
        term.note_run(now)
        return True
