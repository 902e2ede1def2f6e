"""How the supervisor gets its elector: a process at the other end of a link."""

from __future__ import annotations

import os
import socket

from kleader import system
from kleader.exits import FAILED
from kleader.ipc import spawn
from kleader.ipc.channel import Channel
from kleader.locks import file_lock, path_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.ipc.plan import Plan
    from kleader.log import Log
    from kleader.system import Process


class Electors(spawn.Launcher):
    """Processes of their own Python, for locks at the API: ``command`` reads the plan from 3 and the link from 4.

    With ``alone`` an elector finds at 5 a socket that only the electors and the supervisor share. The name that an
    elector binds it to (kleader.locks.instance_lock) is taken while one of these processes lives. The command does not
    inherit it.
    """

    releases = True

    def __init__(self, plan_fd: int, command: list[str], heartbeat_timeout: float, *, alone: bool) -> None:
        self._plan_fd, self._command, self.heartbeat_timeout = plan_fd, command, heartbeat_timeout
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) if alone else None

    def start(self, *, leading: bool) -> tuple[int, Channel]:  # noqa: ARG002
        """Fork and exec one. OSError where there is no room for it."""
        return spawn.process(self._command, self._plan_fd, (self._socket.fileno(),) if self._socket else ())


class FileElectors(spawn.Launcher):
    """Forks of the supervisor itself, for the file lock: tiny, and on the same open file.

    A file elector sends no heartbeats: while it waits it is in flock(2), where nothing can hang but the kernel, which
    also chooses the next leader. A file elector that is stopped or dies is replaced, as waitpid shows.
    """

    def __init__(self, plan: Plan, log: Log, supervisor: Process) -> None:
        from kleader.elector.file_elector import FileElector  # noqa: PLC0415 - now: an upgrade may follow

        self._file_elector = FileElector
        self._plan, self._log, self._supervisor = plan, log, supervisor
        self._fd, self._path_fds = -1, list[int]()

    def start(self, *, leading: bool) -> tuple[int, Channel]:
        """Fork one. For a new candidacy it opens the file again, and releases what an earlier elector may hold."""
        if not leading:
            self._open()
        return spawn.connected(self._run)

    def _run(self, link: socket.socket) -> int:
        """In the forked process."""
        try:
            system.close_all_but({2, link.fileno(), self._fd, *self._path_fds, *self._log.descriptors})
            self._log.write_behind()
            self._file_elector(self._plan, Channel(link), self._log, self._supervisor, self._fd, self._path_fds).run()
        except BaseException as error:  # noqa: BLE001 - a traceback would reach no log; the supervisor starts another
            self._log.error(
                f"the elector failed: {type(error).__name__}: {error}; please report it", event="elector_failed"
            )
            return FAILED
        finally:
            self._log.finish()
        return 0

    def holder(self) -> str:
        """The last holder, as the file names it: the elector, which waits for the lock, cannot read it."""
        return file_lock.last_holder(self._fd) if self._fd >= 0 else ""

    def close_lock(self) -> None:
        """Close all: the path's lock first, because the next leader takes it second."""
        for fd in (*self._path_fds, self._fd):
            if fd >= 0:
                os.close(fd)
        self._fd, self._path_fds, self.inherited = -1, [], ()

    def _open(self) -> None:
        self.close_lock()
        self._fd = file_lock.open_lock(self._plan.file)
        self.inherited = (self._fd,)  # while the command or a descendant has the descriptor, the file is locked
        self._path_fds = path_lock.open_path_locks(self._plan.file)
