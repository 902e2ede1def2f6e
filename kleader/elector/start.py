"""How the supervisor gets its elector, or its guard: a process at the other end of a link."""

from __future__ import annotations

import os
import socket

from kleader import platform
from kleader.link import start
from kleader.link.channel import Channel
from kleader.locks import file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.link.plan import Plan
    from kleader.log import Log
    from kleader.platform import Process


class Electors:
    """Processes of their own Python, for locks at the API: ``command`` reads the plan from 3 and the link from 4.

    Where ``alone`` it finds at 5 a socket that all of them share with the supervisor and with nobody else: what one of
    them binds it to (kleader.locks.abstract) is taken as long as one of these processes lives. The command does not
    inherit it.
    """

    inherited: tuple[int, ...] = ()
    releases = True

    def __init__(self, plan_fd: int, command: list[str], *, alone: bool) -> None:
        self._plan_fd, self._command = plan_fd, command
        self._claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) if alone else None

    def start(self, *, leading: bool) -> tuple[int, Channel]:  # noqa: ARG002
        """Fork and exec one. OSError where there is no room for it."""
        return start.process(self._command, self._plan_fd, (self._claim.fileno(),) if self._claim else ())

    def holder(self) -> str:
        """Is told by the elector."""
        return ""

    def let_go(self) -> None:
        """A lease ends by itself."""


class Guards:
    """Forks of the supervisor itself, for the file lock: tiny, and on the same open file."""

    releases = False

    def __init__(self, plan: Plan, log: Log, supervisor: Process) -> None:
        self._plan, self._log, self._supervisor = plan, log, supervisor
        self._default = plan.file == file_default(plan)
        self._fd = -1
        self._claims: list[socket.socket] = []

    @property
    def inherited(self) -> tuple[int, ...]:
        """The command inherits the lock: while it or a descendant keeps the descriptor, nobody else can have it."""
        return (self._fd,)

    def start(self, *, leading: bool) -> tuple[int, Channel]:
        """Fork one. For a new candidacy the file is opened anew: what an earlier guard may have locked is let go."""
        if not leading:
            self._open()
        claims = self._claims  # opened for the candidacy that led here
        ours, theirs = platform.link_pair()
        pid = start.fork(ours, theirs)
        if pid == 0:
            status = 1
            try:
                held = (self._fd, *(each.fileno() for each in claims))
                platform.close_all_but({2, theirs.fileno(), *held, *self._log.descriptors})
                self._log.write_behind()
                from kleader.elector.guard import Guard  # noqa: PLC0415

                Guard(self._plan, Channel(theirs), self._log, self._supervisor, self._fd, claims).run()
                status = 0
            except BaseException as error:  # noqa: BLE001 - nobody sees a traceback; the supervisor starts another
                self._log.error(f"the guard failed: {type(error).__name__}: {error}")
            finally:
                try:
                    self._log.finish()
                finally:  # the alarm of --wait may ring on
                    os._exit(status)
        theirs.close()
        return pid, Channel(ours)

    def holder(self) -> str:
        """Who had the lock last, as the file tells: its guard, which waits for it, cannot look."""
        return file.holder(self._fd) if self._fd >= 0 else ""

    def let_go(self) -> None:
        """Close all: the sockets first, for who gets the lock asks for those next."""
        for claim in self._claims:
            claim.close()
        self._claims = []
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        self.let_go()
        self._fd = file.open_lock(self._plan.file, make_directory=self._default)
        self._claims = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(file.ADDRESSES)]


def file_default(plan: Plan) -> str:
    """Where this plan's lock file would be if no path had been given; "" where there is no such place."""
    try:
        return file.default_path(plan.namespace, plan.name)
    except file.LockFileError:
        return ""
