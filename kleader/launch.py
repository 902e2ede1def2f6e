"""Starts the lean processes: ``python -I -S launch.py ROLE …``. The only module that knows all rooms.

On Linux they run without site-packages, and everywhere without click: what is imported here stays in the memory of
every waiting candidate. Only the elector and the exporter get the packages' path, from the plan.
"""

from __future__ import annotations

import functools
import os
import sys

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if _HERE not in sys.path:
    sys.path.insert(0, _HERE)

from kleader import preload  # noqa: E402 - found by the line above
from kleader.exits import FAILED  # noqa: E402 - found by the line above
from kleader.ipc import plan as plans  # noqa: E402
from kleader.ipc import spawn  # noqa: E402
from kleader.ipc.channel import Channel, ReliableChannel  # noqa: E402
from kleader.log import Log, fill_standard_descriptors  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from kleader.ipc.plan import Plan

_PLAN_FD, _CHANNEL_FD, _SOCKET_FD = 3, 4, 5  # as kleader.ipc.spawn numbers them


def interpreter() -> list[str]:
    """Run this script isolated: no user site, no PYTHON* variables, no modules of the working directory."""
    from kleader import system

    no_packages = [] if system.MISSING else ["-S"]  # psutil is one
    return [sys.executable, "-I", *no_packages, os.path.abspath(__file__)]


def become_supervisor(plan: Plan) -> None:
    """Replace this process by the supervisor, which keeps the pid. Does not return."""
    from kleader import system

    fill_standard_descriptors()
    fd = system.anonymous_file()
    plans.save(plan, fd)
    os.set_inheritable(fd, True)
    os.execv(sys.executable, [*interpreter(), "supervise", str(fd), _lock_for_ps(plan), "--", *plan.command])


def supervise(plan_fd: int) -> int:
    """Run the supervisor; the exit status."""
    from kleader import system
    from kleader.supervisor import main as supervisor
    from kleader.supervisor import signals

    fill_standard_descriptors()
    system.take_priority(2)
    queue = signals.take()
    os.set_inheritable(plan_fd, False)
    plan = plans.load(plan_fd)
    log = log_of(plan)
    try:
        me = system.myself()
        launcher = spawn.Launcher()
        if plan.lock == "file":
            from kleader.elector.launchers import FileElectors

            launcher = FileElectors(plan, log, me)
        elif plan.lock:
            from kleader.elector.launchers import Electors

            heartbeat_timeout = max(plan.timing.renew_deadline / 2, 3.0)
            command = _command("elect", plan, me.pid, me.start)
            launcher = Electors(plan_fd, command, heartbeat_timeout, alone=plan.lock == plans.FOR_LIFE)
        launch_exporter = None
        if plan.http or plan.state_file:
            listener = (plan.http_fd,) if plan.http else ()
            for fd in listener:
                os.set_inheritable(fd, False)
            launch_exporter = functools.partial(spawn.process, _command("export", plan), plan_fd, listener)
        return supervisor.run(plan, log, queue, launcher, launch_exporter)
    except OSError as error:
        log.error(error.strerror or str(error), event="start_failed")  # noqa: TRY400 - not of logging
        return FAILED
    except Exception as error:  # noqa: BLE001 - a traceback would reach no log; the command dies with this process
        log.error(f"internal error: {type(error).__name__}: {error}; please report it", event="internal_error")  # noqa: TRY400, G004 - as above
        return FAILED


def elect(supervisor: tuple[int, int]) -> None:
    """Run the elector of a supervisor with this pid and start time."""
    import socket

    from kleader import system

    system.take_priority(1)  # else a fork bomb keeps it from renewing, and from killing in the supervisor's place
    plan, log = _begin()
    try:
        from kleader.elector import kube_elector
    except ImportError as error:
        _cannot_start(log, "elector", error)
    channel = ReliableChannel(socket.socket(fileno=_CHANNEL_FD))
    instance_lock = socket.socket(fileno=_SOCKET_FD) if plan.lock == plans.FOR_LIFE else None
    helper = [*interpreter(), "kubeconfig"]
    log.write_behind()
    kube_elector.main(plan, channel, log, supervisor, lambda options: [*helper, options, *plan.path], instance_lock)
    log.finish()


def export() -> None:
    """Run the exporter."""
    import socket

    plan, log = _begin()
    try:
        from kleader.exporter import main as exporter
    except ImportError as error:
        _cannot_start(log, "exporter", error)
    listener = socket.socket(fileno=_SOCKET_FD) if plan.http else None
    exporter.main(plan, Channel(socket.socket(fileno=_CHANNEL_FD)), log, listener)


def kubeconfig(options: str, path: list[str]) -> None:
    """Print the access that a kubeconfig gives, as JSON. ``options``: JSON; ``path``: sys.path."""
    import json

    from kleader import system

    system.default_signals()
    sys.path[:] = [_HERE, *path]
    from kleader.kube import credential_plugins

    credential_plugins.main(json.loads(options))


def log_of(plan: Plan) -> Log:
    """The log of a candidate for this lock."""
    namespace, name, label = plan.namespace, plan.name, ""
    if plan.lock == "file":
        namespace, name, label = "", plan.file, f"{plan.namespace}/{plan.name}"
    context = {"lock": plan.lock, "namespace": namespace, "name": name, "identity": plan.identity}
    return Log(plan.log_format, plan.verbosity, label=label, suffix=plan.log_suffix, **context)


def _command(role: str, plan: Plan, *arguments: int) -> list[str]:
    return [*interpreter(), role, *map(str, arguments), _lock_for_ps(plan)]


def _lock_for_ps(plan: Plan) -> str:
    """The lock, as ps shows it among the arguments."""
    if not plan.lock:
        return "no-election"
    return f"{plan.lock}:{plan.file}" if plan.lock == "file" else f"{plan.lock}/{plan.name}"


def _begin() -> tuple[Plan, Log]:
    """The plan and the log of a process that the supervisor has started; from here on packages can be imported."""
    try:
        plan = plans.load(_PLAN_FD)
    except plans.OtherVersionError:  # the supervisor learns it by the exit status, and logs it
        os._exit(plans.OTHER_VERSION)
    os.close(_PLAN_FD)
    sys.path[:] = [_HERE, *plan.path]
    return plan, log_of(plan)


def _cannot_start(log: Log, what: str, error: ImportError) -> NoReturn:
    log.error(f"the {what} cannot start: {error}: install kleader again", event="start_failed")  # noqa: G004 - not of logging
    os._exit(FAILED)


def main() -> None:
    """Run the role that the first argument names."""
    preload.give_back()
    role, *rest = sys.argv[1:]
    if role == "supervise":
        os._exit(supervise(int(rest[0])))  # nothing is buffered, and Python's own exit would delay a handover
    elif role == "elect":
        elect((int(rest[0]), int(rest[1])))
        os._exit(0)
    elif role == "export":
        export()
        os._exit(0)
    else:
        kubeconfig(rest[0], rest[1:])


if __name__ == "__main__":
    main()
