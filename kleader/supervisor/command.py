"""The command through its starts, its signals and its ends."""

from __future__ import annotations

import os
import signal

from kleader.election.duration import text
from kleader.supervisor import child as children
from kleader.supervisor.signals import name
from kleader.supervisor.terminal import Terminal
from kleader.supervisor.tree import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from kleader.link.plan import Plan
    from kleader.log import Log
    from kleader.platform import Signals

_STEADY = 60.0  # seconds; a command that ran so long starts its backoff anew
_LONGEST_BACKOFF = 30.0
_BY_TERMINAL = (128 + signal.SIGINT, 128 + signal.SIGQUIT)


class Backoff:
    """Pauses before restarts: 1, 2, 4 … 30 seconds, and from 1 again after a run of a minute or more."""

    def __init__(self) -> None:
        self._pause = 1.0

    def after(self, run: float) -> float:
        """The pause after a run of so many seconds."""
        pause = 1.0 if run >= _STEADY else self._pause
        self._pause = min(_LONGEST_BACKOFF, pause * 2)
        return pause


class Command:
    """The main process, if it runs, and all that descends from it."""

    def __init__(self, plan: Plan, log: Log, signals: Signals) -> None:
        self._plan, self._log, self._signals = plan, log, signals
        self._backoff = Backoff()
        self._began = 0.0
        self._reached = False  # Ctrl-C or Ctrl-\ came to it without us
        self.interrupted = False  # it died of Ctrl-C
        self.tree = Tree()
        self._terminal = Terminal(self.tree.spared)
        self.main: children.Child | None = None
        self.draining = False  # the main process has ended, what it left has not, and --until-empty waits for that
        self.again = False  # start it again once its tree is swept
        self.restarts = 0

    @property
    def runs(self) -> bool:
        """Whether there is somebody to be asked to stop."""
        return self.main is not None or self.draining

    def fork(self, environment: Mapping[str, str], keep: tuple[int, ...], stop_at: float, now: float) -> children.Child:
        """A new main process, held at its gate. OSError where there is no room for it."""
        self.again = self._reached = False
        self._began = now
        self.main = children.spawn(
            self._plan.command, environment, keep=keep, signals=self._signals, terminal=self._terminal, stop_at=stop_at
        )
        return self.main

    @property
    def news(self) -> int | None:
        """For poll: readable once :meth:`look` has something to tell."""
        return self.main.news if self.main else None

    def look(self) -> None:
        """Say it once the main process has become the command."""
        if self.main and self.main.executed():
            self._log.info(f"started the command: pid {self.main.pid}", pid=self.main.pid)

    def forward(self, number: int, *, terminal: bool) -> None:
        """A signal that kleader got, to the main process alone; not what the terminal has sent to it already."""
        if self.has(terminal=terminal):
            self._reached |= number in {signal.SIGINT, signal.SIGQUIT}
        elif self.main:
            self.main.send(number)

    def has(self, *, terminal: bool) -> bool:
        """Whether a signal of this origin went to the command too, because it shares kleader's process group."""
        return terminal and self.main is not None and not self.main.own_group

    def ask_to_stop(self, number: int) -> None:
        """The stop signal, then CONT: a stopped process never acts on TERM."""
        if self.draining:
            self.tree.signal(number, signal.SIGCONT)
        elif self._plan.stop_group:
            self._signal_group(number, signal.SIGCONT)
        elif self.main:
            self.main.send(number)
            self.main.send(signal.SIGCONT)

    def suspended(self, waitstatus: int) -> None:
        """The main process was stopped: by Ctrl-Z not for long."""
        number = os.WSTOPSIG(waitstatus)
        if number == signal.SIGTSTP:
            self._log.warning("the command was suspended, but a leader does not sleep: continuing it")
            self._signal_group(signal.SIGCONT)
        else:
            self._log.warning(f"the command was stopped by {name(number)}; the lock is kept meanwhile")

    def ended(self, main: children.Child, waitstatus: int, now: float) -> None:
        """Take in how the main process ended; it says whether there is to be another."""
        self.look()
        main.ended(waitstatus)
        self.main = None
        if main.foreground:
            self._terminal.take_back(main.pid)
        if main.failure:
            self._log.error(main.failure)
            return
        how = f"ended by {name(main.signal)}" if main.signal else f"exited with status {main.status}"
        self._log.info(f"the command {how} after {text(round(now - self._began, 1))}", status=main.status)
        if (main.foreground or self._reached) and main.status in _BY_TERMINAL:
            self.interrupted = main.signal == signal.SIGINT
            return  # somebody at the terminal wanted it to end
        self.again = self._plan.restart == "always" or (self._plan.restart == "on-failure" and main.status != 0)

    def pause(self, now: float) -> float:
        """Seconds until it is started again."""
        self.restarts += 1
        pause = self._backoff.after(now - self._began)
        self._log.info(f"restarting the command in {text(pause)}")
        return pause

    def _signal_group(self, *numbers: int) -> None:
        """To the command's process group; where that is kleader's own too, to those of the tree in it."""
        if self.main:
            self.tree.signal(*numbers, group=self.main.pid if self.main.own_group else os.getpgrp())
