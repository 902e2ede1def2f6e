"""One loop, one place for every signal, fact and deadline.

Each turn first hears the elector, so that a supervisor that slept knows of every renewal before it looks at its
deadlines; then takes signals; then reaps; then acts on what the clock says.
"""

from __future__ import annotations

import math
import os
import select
import signal

from kleader import platform
from kleader.election.duration import text
from kleader.link import messages as m
from kleader.supervisor import child as children
from kleader.supervisor.deadline import Deadline
from kleader.supervisor.environment import environment
from kleader.supervisor.states import NEXT, State
from kleader.supervisor.terminal import Terminal
from kleader.supervisor.tree import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.link.plan import Plan
    from kleader.log import Log
    from kleader.supervisor.elector import Elector

FAILED = 125
_TELL_EVERY = 10.0
_PARTING = 1.0  # seconds that an elector gets to end, beyond a last request
_STEADY = 60.0  # a command that ran so long starts its backoff anew
_LONGEST_BACKOFF = 30.0
_FAULTS = {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS", "SIGABRT", "SIGKILL", "SIGSTOP"}
_OURS = {signal.SIGCHLD, signal.SIGTTIN, signal.SIGTTOU}
_POLITE = {signal.SIGTERM, signal.SIGINT}
_ENDING = _POLITE | {signal.SIGHUP, signal.SIGQUIT}
_BACKGROUND = {signal.SIGINT, signal.SIGQUIT, signal.SIGHUP}  # what a shell or nohup has a background job ignore


def signals() -> platform.Signals:
    """Block and queue every signal but faults, and but those that kleader was started to ignore."""
    numbers = {int(number) for number in signal.valid_signals()}
    numbers -= {int(signal.Signals[name]) for name in _FAULTS if name in signal.Signals.__members__}
    numbers -= {int(number) for number in _BACKGROUND if signal.getsignal(number) is signal.SIG_IGN}
    return platform.Signals(numbers)


class Supervisor:
    """Runs one plan to its exit status. ``elector`` is None where no election was wanted."""

    def __init__(self, plan: Plan, log: Log, queue: platform.Signals, elector: Elector | None) -> None:
        self._plan, self._log, self._signals, self._elector = plan, log, queue, elector
        guard = platform.KillTimer() if os.getpid() != 1 else None
        self._deadline = Deadline(guard, plan.kill)
        self._timer = platform.Timer()
        self._poll = select.poll()
        self._tree = Tree()
        self._terminal = Terminal()
        self._state = State.WAITING
        self._status = 0  # what kleader will exit with
        self._child: children.Child | None = None
        self._lead: m.Lead | None = None
        self._term = 1
        self._incarnation = os.urandom(16).hex()
        self._new_term()

    def _new_term(self) -> None:
        self._lost = False
        self._quit = 0  # the signal that asked kleader to end
        self._start_at = math.inf  # when to start the command
        self._stop_by = math.inf  # when what was asked to stop is killed
        self._sweep_at = self._tell_at = math.inf
        self._end_by = math.inf  # when the elector must have ended
        self._restarts = 0
        self._began = 0.0
        self._draining = False  # the command's main process has ended, its tree has not
        self._again = False  # start the command again after the sweep
        self._suspend = False

    # --- the loop

    def run(self) -> int:
        """Everything; returns the exit status."""
        platform.adopt_orphans()
        self._poll.register(self._signals.fd, select.POLLIN)
        if self._timer.fd is not None:
            self._poll.register(self._timer.fd, select.POLLIN)
        if not self._elector:
            self._to(State.LEADING)
            self._start_at = 0.0
        while True:
            self._act(platform.clock())
            if self._state is State.ENDED:
                return self._status
            self._timer.arm(self._due())
            self._wait()
            self._hear(platform.clock())
            self._take_signals()
            self._reap(platform.clock())

    def _wait(self) -> None:
        fd = self._elector.fd if self._elector else None
        if fd is not None:
            self._poll.register(fd, select.POLLIN)
        self._poll.poll(self._timer.poll_ms)
        self._timer.drain()
        if fd is not None:
            self._poll.unregister(fd)

    def _due(self) -> float:
        """The next instant at which something has to be done even if nothing happens."""
        due = [self._start_at, self._stop_by, self._sweep_at, self._end_by]
        if self._state in (State.LEADING, State.STOPPING):
            due += [self._deadline.kill_at, math.inf if self._lost else self._deadline.stop_at]
        if self._elector:
            if self._wants_elector():
                due.append(self._elector.start_at)
            elif self._state in (State.LEADING, State.STOPPING) and not self._lost:
                due.append(self._elector.silent_until())
        return min(due)

    def _to(self, state: State) -> None:
        if state not in NEXT[self._state]:
            msg = f"from {self._state} to {state}"
            raise AssertionError(msg)
        self._state = state
        self._log.role = state.value

    # --- what the elector says

    def _hear(self, now: float) -> None:
        if not self._elector:
            return
        heard = self._elector.hear(now)
        for message in heard:
            if message.term != self._term:
                continue
            if isinstance(message, m.Lead):
                self._on_lead(message, now)
            elif isinstance(message, m.Extend):
                if self._state is not State.WAITING and not self._lost:
                    self._deadline.extend(message.stop_at, message.kill_at)
            elif isinstance(message, m.Lost):
                self._on_lost(message, now)
            elif isinstance(message, m.Observe):
                self._log.info(f"the leader is {message.leader[:256]}", leader=message.leader)
            elif isinstance(message, m.Failed):
                self._on_failed(message, now)
            elif isinstance(message, m.Released):
                self._on_released(message)
        if heard and self._elector.fd is not None:
            self._elector.tell(m.Alive(self._term))

    def _on_lead(self, lead: m.Lead, now: float) -> None:
        if self._state is not State.WAITING:
            return
        self._lead = lead
        self._deadline.begin(lead.stop_at, lead.kill_at)
        self._to(State.LEADING)
        if self._plan.lock != "file":
            self._log.about(namespace=lead.namespace)
        self._log.info(
            f"became leader: token {lead.token}, transitions {lead.transitions}",
            token=lead.token,
            transitions=lead.transitions,
        )
        self._start_at = now

    def _on_lost(self, message: m.Lost, now: float) -> None:
        if self._state in (State.LEADING, State.STOPPING, State.SWEEPING):
            self._lose(message.reason, now, kill=message.kill_now)

    def _on_failed(self, message: m.Failed, now: float) -> None:
        if self._state is State.WAITING:
            self._log.error(message.reason, status=message.status)
            self._end(message.status, now)

    def _on_released(self, message: m.Released) -> None:
        if message.released:
            self._log.info("released the lock")
        elif self._lead is not None and not self._lost:
            self._log.warning(f"did not release the lock: {message.why}; it runs out by itself")

    # --- signals

    def _take_signals(self) -> None:
        for each in self._signals.read():
            if each.number in _OURS:
                continue
            if each.number == signal.SIGPIPE and each.sender == os.getpid():
                continue  # our own log met a closed pipe
            self._on_signal(each.number, terminal=each.terminal)

    def _on_signal(self, number: int, *, terminal: bool) -> None:
        now = platform.clock()
        if self._state in (State.WAITING, State.RELEASING):
            if number == signal.SIGTSTP and self._state is State.WAITING:
                self._suspend = True
                if self._elector:
                    self._elector.kill()
            elif number in _ENDING:
                self._log.info(f"{_name(number)}: ending")
                self._force_end() if self._state is State.RELEASING else self._end(128 + number, now)
        elif number in _POLITE:
            self._on_polite(number, now, terminal=terminal)
        elif self._child and not (terminal and not self._child.own_group):
            self._child.send(number)

    def _on_polite(self, number: int, now: float, *, terminal: bool) -> None:
        """TERM and INT: once politely, again to kill, and once more to leave what will not die."""
        if not self._quit:
            self._quit = number
            if self._state is State.LEADING:
                had_it = terminal and self._child is not None and not self._child.own_group
                self._stop(self._plan.stop_signal or number, now, send=not had_it)
                self._stop_by = min(self._stop_by, now + self._plan.stop_timeout)
            elif self._state is State.STOPPING and self._child:
                self._child.send(self._plan.stop_signal or number)
        elif self._state is not State.SWEEPING:
            self._log.warning(f"{_name(number)} again: killing")
            self._sweep(now)
        elif now >= self._tell_at - _TELL_EVERY + 1:
            self._log.error(f"{_name(number)} again: leaving processes that will not die; the lock is not released")
            self._status = self._status or 128 + number
            self._abandon()

    # --- children

    def _reap(self, now: float) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._elector and pid == self._elector.pid:
                if not os.WIFSTOPPED(status):
                    self._tree.spared.discard(pid)
                    self._elector.reaped(now)
                    self._hear(now)  # its last words
            elif self._child and pid == self._child.pid:
                self._on_child(self._child, status, now)

    def _on_child(self, child: children.Child, status: int, now: float) -> None:
        if os.WIFSTOPPED(status):
            if os.WSTOPSIG(status) == signal.SIGTSTP and self._state is State.LEADING:
                self._log.warning("the command was suspended, but a leader does not sleep: continuing it")
                self._signal_group(signal.SIGCONT)
            return
        child.ended(status)
        if child.foreground:
            self._terminal.take_back(child.pid)
        self._child = None
        if child.late:
            self._lose("the deadline passed before the command could start", now, kill=True)
            return
        if child.failure:
            self._log.error(child.failure)
        else:
            how = f"ended by {_name(child.signal)}" if child.signal else f"exited with status {child.status}"
            self._log.info(f"the command {how} after {text(round(now - self._began, 1))}", status=child.status)
        if not self._lost or self._quit:
            self._status = child.status or 0
        self._again = self._restarts_after(child)
        if self._plan.until_empty and self._state is State.LEADING and not child.failure:
            self._draining = True
        elif self._state is not State.SWEEPING:
            self._sweep(now)

    def _restarts_after(self, child: children.Child) -> bool:
        if self._plan.restart == "no" or child.failure or self._quit or self._lost:
            return False
        if child.foreground and child.signal in (signal.SIGINT, signal.SIGQUIT):
            return False  # somebody at the terminal wanted it to end
        return self._plan.restart == "always" or child.status != 0

    def _signal_group(self, number: int) -> None:
        """To the command's process group; where that is kleader's own too, to those of the tree in it."""
        if self._child:
            self._tree.signal(number, group=self._child.pid if self._child.own_group else os.getpgrp())

    # --- what the clock says

    def _act(self, now: float) -> None:
        self._deadline.awake(now)
        if self._state in (State.LEADING, State.STOPPING):
            if now >= self._deadline.kill_at:
                self._lose("the lease is about to expire", now, kill=True)
            elif now >= self._deadline.stop_at:
                self._lose("the renew deadline has passed", now, kill=False)
        if self._draining and self._tree.empty():
            self._draining = False
            self._sweep(now)
        if self._state is State.LEADING and now >= self._start_at:
            self._start(now)
        if now >= self._stop_by:
            self._log.warning("the command did not stop in time: killing")
            self._sweep(now)
        if self._state is State.SWEEPING:
            self._sweep_round(now)
        if now >= self._end_by:
            self._force_end()
        self._mind_elector(now)

    def _start(self, now: float) -> None:
        self._start_at = math.inf
        try:
            child = children.spawn(
                self._plan.command,
                environment(self._plan, self._lead, self._incarnation),
                keep=self._elector.starter.inherited if self._elector else (),
                signals=self._signals,
                terminal=self._terminal,
                stop_at=self._deadline.stop_at,
            )
        except OSError as error:
            self._log.error(f"cannot start the command: {error.strerror}")
            self._status = FAILED
            self._again = False
            self._sweep(now)
            return
        self._child, self._began = child, now
        if self._elector:
            self._elector.tell(m.Started(self._term, child.pid, child.start))
        child.let_through()
        self._log.info(f"started the command: pid {child.pid}", pid=child.pid)

    def _lose(self, reason: str, now: float, *, kill: bool) -> None:
        """Leadership is lost. With ``kill`` there is no grace; without, as much as fits before kill_at."""
        first, self._lost = not self._lost, True
        if first:
            self._log.error(f"lost the lock: {reason}")
            self._status = self._plan.loss_exit_code if not self._quit else self._status
        if self._state is State.SWEEPING:
            return
        if kill or not (self._child or self._draining):
            self._sweep(now)
        elif first:
            if self._state is State.LEADING:
                self._stop(self._plan.stop_signal or signal.SIGTERM, now, send=True)
            self._stop_by = min(self._stop_by, now + self._plan.grace, self._deadline.kill_at)

    def _stop(self, number: int, now: float, *, send: bool) -> None:
        """The stop signal, then CONT: a stopped process never acts on TERM."""
        self._start_at = math.inf
        if not self._child and not self._draining:
            self._status = self._status if self._lost else 128 + number
            self._again = False
            self._sweep(now)
            return
        self._to(State.STOPPING)
        self._log.info(f"stopping the command with {_name(number)}")
        if self._elector:
            self._elector.tell(m.Stopping(self._term))
        if send and self._child:
            for each in (number, signal.SIGCONT):
                self._signal_group(each) if self._plan.stop_group else self._child.send(each)
        if self._draining:
            self._tree.signal(number)

    def _sweep(self, now: float) -> None:
        """From here on SIGKILL, until nothing is left."""
        self._start_at = self._stop_by = math.inf
        self._draining = False
        self._to(State.SWEEPING)
        self._sweep_at, self._tell_at = now, now + _TELL_EVERY
        self._sweep_round(now)

    def _sweep_round(self, now: float) -> None:
        if self._tree.empty():
            self._sweep_at = math.inf
            self._swept(now)
            return
        if now < self._sweep_at:
            return
        refused = self._tree.kill()
        self._sweep_at = now + self._deadline.margin / 2
        if self._elector and now >= self._deadline.kill_at:
            self._elector.tell(m.Alive(self._term))
        if now >= self._tell_at:
            self._tell_at = now + _TELL_EVERY
            who = ", ".join(str(each.pid) for each in refused or self._tree.members())
            why = "may not be killed by this user" if refused else "do not die"
            self._log.error(f"processes {who} {why}: the lock is not released while they live")

    def _swept(self, now: float) -> None:
        """Nothing of the term is alive."""
        if self._lost:
            if self._plan.on_loss == "wait" and not self._quit:
                self._contend_again()
            else:
                self._end(self._status, now)
        elif self._again and not self._quit:
            self._to(State.LEADING)
            self._restarts = 0 if now - self._began >= _STEADY else self._restarts + 1
            pause = min(_LONGEST_BACKOFF, 2.0 ** (self._restarts - 1)) if self._restarts else 1.0
            self._start_at = now + pause
            self._log.info(f"restarting the command in {text(pause)}")
        else:
            self._end(self._status, now)

    def _contend_again(self) -> None:
        self._to(State.WAITING)
        self._deadline.end()
        previous, self._term, self._incarnation = self._term, self._term + 1, os.urandom(16).hex()
        self._new_term()
        self._lead, self._status = None, 0
        if self._elector:
            self._elector.tell(m.Again(previous, self._incarnation))

    # --- the end

    def _end(self, status: int, now: float) -> None:
        """Nothing runs. The elector gives up what may be ours, then ends; then so do we."""
        self._status = status
        if not self._elector or not self._elector.pid:
            self._deadline.end()
            self._to(State.ENDED)
            return
        waiting = self._state is State.WAITING
        self._to(State.RELEASING)
        if waiting and not self._elector.starter.hears_while_waiting:
            self._elector.kill()  # what it may have locked meanwhile goes with us
        self._elector.tell(m.Empty(self._term, self._plan.release and not self._lost))
        self._end_by = min(self._deadline.kill_at, now + self._plan.request_timeout + _PARTING)
        self._deadline.end()

    def _force_end(self) -> None:
        self._end_by = math.inf
        self._log.warning("the elector did not end in time: not released")
        if self._elector:
            self._elector.kill()

    def _abandon(self) -> None:
        """Leave without a release: the lock runs out, and the elector sweeps what it can."""
        self._sweep_at = math.inf
        self._to(State.ENDED)

    # --- the elector

    def _wants_elector(self) -> bool:
        if not self._elector or self._elector.pid or self._suspend:
            return False
        if self._state is State.WAITING:
            return True
        return not self._lost and self._state in (State.LEADING, State.STOPPING, State.SWEEPING)

    def _mind_elector(self, now: float) -> None:
        elector = self._elector
        if not elector:
            return
        if self._state is State.RELEASING and not elector.pid:
            self._to(State.ENDED)
        elif self._suspend and not elector.pid:
            self._sleep()
        elif self._wants_elector() and now >= elector.start_at:
            self._start_elector(elector, now)
        elif elector.pid and self._state in (State.LEADING, State.STOPPING) and not self._lost:
            if now >= elector.silent_until():
                self._log.warning("the elector is silent: replacing it")
                elector.replace()

    def _start_elector(self, elector: Elector, now: float) -> None:
        if self._state is State.WAITING and elector.hopeless:
            self._log.error("the elector keeps dying before it says a word")
            self._end(FAILED, now)
            return
        lead = self._lead
        try:
            elector.start(now, leading=lead is not None)
        except OSError as error:
            self._log.error(f"cannot start the elector: {error.strerror}")
            elector.start_at = now + 1
            return
        self._tree.spared = {elector.pid}
        elector.tell(
            m.Assign(
                self._term,
                self._incarnation,
                lead is not None,
                elector.replaces,
                self._deadline.stop_at - self._plan.renew_deadline if lead else 0.0,
                lead.token if lead else "",
                lead.acquired if lead else 0,
                lead.transitions if lead else 0,
                [[self._child.pid, self._child.start]] if self._child else [],
            ),
        )
        if lead is not None:
            self._log.warning(f"the elector died: replaced by pid {elector.pid}; the command goes on")

    def _sleep(self) -> None:
        """Ctrl-Z on a candidate: it does not contend while it is stopped."""
        self._log.info("suspended")
        os.kill(os.getpid(), signal.SIGSTOP)
        self._suspend = False
        self._log.info("continued")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
