"""Run many supervisors from one process, each a real one: `many.py [pid1]`, then a JSON list of commands on stdin.

Answers with the list of their exit statuses. The command line is read once, so that many of them take seconds.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys
from typing import TYPE_CHECKING

from kleader import launch, system
from kleader.cli.commands import cli
from kleader.ipc import plan as plans

if TYPE_CHECKING:
    from kleader.ipc.plan import Plan

_NEW_NAMESPACES = 0x20000000 | 0x00020000  # PID and mount
_AT_ONCE = 4


def checked() -> Plan:
    """The plan that the command line makes."""
    caught: list[Plan] = []
    launch.become_supervisor = caught.append  # type: ignore[assignment]
    cli.main(["run", "--leader-elect=false", "-q", "--", "true"], prog_name="kleader", standalone_mode=False)
    return caught[0]


def supervise(plan: Plan, command: list[str]) -> None:
    """Become one supervisor; never returns."""
    fd = system.anonymous_file()
    plans.save(plan._replace(command=command), fd)
    os._exit(launch.supervise(fd))


def first_of_namespace(plan: Plan, command: list[str]) -> None:
    """The same as PID 1, with a /proc of its own; never returns."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NAMESPACES):
        sys.exit(f"unshare: {os.strerror(ctypes.get_errno())}")
    if (pid := os.fork()) == 0:
        if libc.mount(b"none", b"/", None, 0x44000, None) or libc.mount(b"proc", b"/proc", b"proc", 0, None):
            sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
        supervise(plan, command)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def main() -> None:
    """As the head of this file says."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    plan, become = checked(), first_of_namespace if "pid1" in sys.argv[1:] else supervise
    statuses: dict[int, int] = {}
    running: dict[int, int] = {}
    for number, command in enumerate(json.load(sys.stdin)):
        if len(running) == _AT_ONCE:
            pid, status = os.wait()
            statuses[running.pop(pid)] = os.waitstatus_to_exitcode(status)
        if (pid := os.fork()) == 0:
            become(plan, command)
        running[pid] = number
    while running:
        pid, status = os.wait()
        statuses[running.pop(pid)] = os.waitstatus_to_exitcode(status)
    print(json.dumps([statuses[number] for number in sorted(statuses)]))  # noqa: T201


main()
