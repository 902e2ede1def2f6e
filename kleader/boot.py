"""Starts the lean processes: ``python -I -S boot.py ROLE …``. The only module that knows all rooms.

They run without site-packages and without click: what a candidate carries while it waits for weeks is decided here.
The elector and the reporter alone get the packages' path, from the plan.
"""

from __future__ import annotations

import functools
import os
import sys

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if _HERE not in sys.path:
    sys.path.insert(0, _HERE)

from kleader.link import plan as plans  # noqa: E402 - found by the line above
from kleader.link import start  # noqa: E402
from kleader.link.channel import Channel  # noqa: E402
from kleader.log import Log  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from kleader.link.plan import Plan

FAILED = 125
_PLAN, _LINK, _MORE = 3, 4, 5  # descriptors of the processes that the supervisor starts


def interpreter() -> list[str]:
    """How this Python is started, isolated: no user site, no PYTHON* variables, nothing from the working directory."""
    return [sys.executable, "-I", "-S", os.path.abspath(__file__)]


def become_supervisor(plan: Plan) -> None:
    """Replace this process by the supervisor; the pid stays. Does not return."""
    from kleader import platform

    _open_standard()
    fd = platform.anonymous_file()
    plans.save(plan, fd)
    os.set_inheritable(fd, True)
    os.execv(sys.executable, [*interpreter(), "supervise", str(fd), _shown(plan), "--", *plan.command])


def _shown(plan: Plan) -> str:
    """The lock, for who looks at ps."""
    if not plan.lock:
        return "no-election"
    return f"{plan.lock}:{plan.file}" if plan.lock == "file" else f"{plan.lock}/{plan.name}"


def _open_standard() -> None:
    """Let no file of ours become 0, 1 or 2 where those were closed; across exec they stay closed."""
    while (fd := os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)) <= 2:  # noqa: PLR2004
        pass
    os.close(fd)


def supervise(fd: int) -> int:
    """The supervisor's whole life; returns the exit status."""
    from kleader import platform
    from kleader.supervisor import loop, signals
    from kleader.supervisor.elector import Elector, Nobody

    _open_standard()
    queue = signals.take()
    os.set_inheritable(fd, False)
    plan = plans.load(fd)
    log = log_of(plan)
    try:
        me = platform.myself()
        elector = Elector(Nobody())
        if plan.lock == "file":
            from kleader.elector.start import Guards

            elector = Elector(Guards(plan, log, me))
        elif plan.lock:
            from kleader.elector.start import Electors

            command = [*interpreter(), "elect", str(_PLAN), str(_LINK), str(me.pid), str(me.start), _shown(plan)]
            electors = Electors(fd, command, alone=plan.lock == plans.FOR_LIFE)
            elector = Elector(electors, max(plan.renew_deadline / 2, 3.0))
        reporter = None
        if plan.http or plan.state_file:
            served = (plan.http_fd,) if plan.http else ()
            for each in served:
                os.set_inheritable(each, False)
            words = [*interpreter(), "report", str(_PLAN), str(_LINK), _shown(plan)]
            reporter = functools.partial(start.process, words, fd, served)
        return loop.Supervisor(plan, log, queue, elector, reporter).run()
    except OSError as error:
        log.error(error.strerror or str(error))  # noqa: TRY400 - not of logging
        return FAILED
    except Exception as error:  # noqa: BLE001 - nobody sees a traceback; what runs dies with us
        log.error(f"internal error: {type(error).__name__}: {error}; please report it")  # noqa: TRY400, G004 - likewise
        return FAILED


def elect(plan_fd: int, link_fd: int, supervisor: tuple[int, int]) -> None:
    """The elector's whole life."""
    import socket

    plan, log = _arrive(plan_fd)
    try:
        from kleader.elector import api
    except ImportError as error:
        _cannot_start(log, "elector", error)
    channel = Channel(socket.socket(fileno=link_fd))
    claim = socket.socket(fileno=_MORE) if plan.lock == plans.FOR_LIFE else None
    helper = [*interpreter(), "kubeconfig"]
    log.write_behind()
    api.main(plan, channel, log, supervisor, lambda options: [*helper, options, *plan.path], claim)
    log.finish()


def report(plan_fd: int, link_fd: int) -> None:
    """The reporter's whole life."""
    import socket

    plan, log = _arrive(plan_fd)
    try:
        from kleader.reporter import loop
    except ImportError as error:
        _cannot_start(log, "reporter", error)
    served = socket.socket(fileno=_MORE) if plan.http else None
    loop.main(plan, Channel(socket.socket(fileno=link_fd)), log, served)


def _arrive(plan_fd: int) -> tuple[Plan, Log]:
    """What a process of the supervisor's finds first; from then on libraries can be imported."""
    plan = plans.load(plan_fd)
    os.close(plan_fd)
    sys.path[:] = [_HERE, *plan.path]
    return plan, log_of(plan)


def _cannot_start(log: Log, what: str, error: ImportError) -> NoReturn:
    log.error(f"the {what} cannot start: {error}: install kleader anew")  # noqa: G004 - not of logging
    os._exit(FAILED)


def kubeconfig(options: str, path: list[str]) -> None:
    """Print the access that a kubeconfig gives."""
    import json

    from kleader import platform

    platform.default_signals()
    sys.path[:] = [_HERE, *path]
    from kleader.locks import kubeconfig as reader

    reader.main(json.loads(options))


def log_of(plan: Plan) -> Log:
    """The log of a candidate for this lock."""
    name = plan.file if plan.lock == "file" else plan.name
    namespace = "" if plan.lock == "file" else plan.namespace
    return Log(plan.log_format, plan.verbosity, lock=plan.lock, namespace=namespace, name=name, identity=plan.identity)


def main() -> None:
    """Dispatch on the role."""
    role, *rest = sys.argv[1:]
    if role == "supervise":
        status = supervise(int(rest[0]))
        os._exit(status)  # nothing is buffered, and the interpreter's farewell would delay a handover
    elif role == "elect":
        plan_fd, link_fd, pid, start = map(int, rest[:4])
        elect(plan_fd, link_fd, (pid, start))
        os._exit(0)
    elif role == "report":
        report(int(rest[0]), int(rest[1]))
        os._exit(0)
    else:
        kubeconfig(rest[0], rest[1:])


if __name__ == "__main__":
    main()
