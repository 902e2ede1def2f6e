"""The supervisor's loop: one place for every signal, message and deadline.

Each turn first receives the elector's messages, so that a supervisor that slept knows of every renewal before it judges
its deadlines; then takes signals; then reaps; then acts on what the clock says.
"""

from __future__ import annotations

import select

from kleader import system
from kleader.procs.tree_killer import reap
from kleader.supervisor.signals import wanted
from kleader.supervisor.state_machine import RunStateMachine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.ipc.plan import Plan
    from kleader.ipc.spawn import Launcher
    from kleader.log import Log
    from kleader.supervisor.status_report import Launch

_MAX_REAPED = 500  # in one turn, so that processes that die all the time delay no deadline


def run(
    plan: Plan, log: Log, signals: system.Signals, launcher: Launcher, launch_exporter: Launch | None = None
) -> int:
    """Run one plan to its exit status. Whatever is raised, no process of the command is left."""
    machine = RunStateMachine(plan, log, signals, launcher, launch_exporter)
    try:
        return _loop(machine, log, signals)
    except BaseException:
        machine.kill_after_fault()
        raise


def _loop(machine: RunStateMachine, log: Log, signals: system.Signals) -> int:
    system.adopt_orphans()
    if system.MISSING:
        log.warning(system.MISSING, event="kernel_feature_missing")
    timer, poll, more_to_reap = system.Timer(), select.poll(), False
    for fd in (signals.fd, timer.fd):
        if fd is not None:
            poll.register(fd, select.POLLIN)
    machine.begin()
    while True:
        machine.act(system.clock())
        if machine.ended:
            return machine.exit_status()
        timer.arm(machine.due())
        links = [fd for fd in machine.fds if fd is not None]
        for fd in links:
            poll.register(fd, select.POLLIN)
        poll.poll(0 if more_to_reap else timer.poll_ms)
        timer.drain()
        for fd in links:
            poll.unregister(fd)
        machine.receive(system.clock())
        for info in wanted(signals):
            machine.on_signal(info.number, system.clock(), terminal=info.terminal)
        reaped = reap(_MAX_REAPED)
        more_to_reap = len(reaped) == _MAX_REAPED
        now = system.clock()
        for pid, waitstatus in reaped:
            machine.reaped(pid, waitstatus, now)
