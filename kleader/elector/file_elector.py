"""The file lock's elector: waits for the lock in flock(2), then holds it, and kills the command if the supervisor dies.

It shares the open files with the supervisor, which forked it: a lock that it takes is held by both.
"""

from __future__ import annotations

import math
import os
import select
import signal
import time

from kleader import system
from kleader.backoff import Backoff
from kleader.election.duration import text
from kleader.election.protocol import Acquired, AcquireFailed, AllProcessesExited, Lost, NewLeader, Released, Restart
from kleader.elector import run_record
from kleader.exits import FAILED, NOT_ACQUIRED
from kleader.ipc import messages as m
from kleader.locks import file_lock, path_lock, run_history
from kleader.procs.process_tracker import ProcessTracker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from kleader.ipc.channel import Channel
    from kleader.ipc.plan import Plan
    from kleader.log import Log
    from kleader.system import Process

_CHECK_EVERY = 1.0  # seconds between two checks of the lock file's path and of the tree
_RETRY_EVERY = 0.1  # seconds between two tries while another leader has the lock of the path
_ALARM_EVERY = 0.5  # seconds, after --wait is over: the first alarm may come a moment before flock(2) is entered


class _WaitIsOver(Exception):  # noqa: N818
    """--wait is over."""


class FileElector:
    """One candidacy for the file lock, and the term that follows."""

    def __init__(  # noqa: PLR0913, PLR0917 - what it shares with the supervisor
        self,
        plan: Plan,
        channel: Channel,
        log: Log,
        supervisor: Process,
        fd: int,
        path_fds: Sequence[int],
    ) -> None:
        self._plan, self._channel, self._log, self._fd, self._path_fds = plan, channel, log, fd, path_fds
        self._supervisor = supervisor
        self._unread: list[m.Message] = []  # that came with the assignment

    def run(self) -> None:
        """Return once the lock is released, or the supervisor is dead and its command killed."""
        messages = self._next_messages(None)
        if not messages or not isinstance(assign := messages[0].body, m.Assign):
            return
        self._term, self._unread = messages[0].term, messages[1:]
        supervisor = self._supervisor
        self._tracker = ProcessTracker(supervisor.pid, supervisor.start, m.MARKER + assign.incarnation, assign.excluded)
        for pid, start in assign.started:
            self._tracker.add(pid, start)
        self._tracker.scan()
        if not assign.leading and not self._acquire(assign):
            return
        self._lead()

    # --- waiting

    def _acquire(self, assign: m.Assign) -> bool:
        """Take the lock and say so to the supervisor. Until then it dies with it: no command runs that it must kill."""
        system.die_with_parent(signal.SIGKILL)
        if os.getppid() != self._supervisor.pid:
            return False
        try:
            if not self._lock():
                return False
        except _WaitIsOver:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._report_failure()
            return False
        except OSError as error:  # a file system without locks
            reason = f"cannot lock {self._plan.file}: {error.strerror}: give --lock file:PATH on another file system"
            self._send(AcquireFailed(reason, FAILED))
            return False
        system.die_with_parent(0)
        if os.getppid() != self._supervisor.pid:
            return False
        return self._become_leader(assign)

    def _lock(self) -> bool:
        """False: the path names another file by now, and the supervisor has to open that one."""
        plan = self._plan
        if not file_lock.acquire(self._fd, wait=False):
            self._report_holder()
            if self._gives_up_at_once:  # the kernel's lock is held by the living
                raise _WaitIsOver
            self._set_alarm()
            file_lock.acquire(self._fd, wait=True)
        backoff = Backoff(0.001, _RETRY_EVERY)  # the last leader's end frees the path a moment before or after the lock
        keys: list[int] = []
        while file_lock.in_place(self._fd, plan.file):
            keys = keys or path_lock.path_keys(plan.file)  # once: in two orders, two could wait for each other
            if path_lock.acquire_path(self._path_fds, keys):
                signal.setitimer(signal.ITIMER_REAL, 0)
                return file_lock.in_place(self._fd, plan.file)
            pause = backoff.pause()
            if pause >= _RETRY_EVERY:
                self._log.repeated(
                    "the lock file was removed or replaced while a leader holds it: waiting for that leader's end",
                    event="lock_file_replaced",
                )
                if self._gives_up_at_once:
                    raise _WaitIsOver
            self._set_alarm()  # not before the first try: a short --wait takes what is free
            time.sleep(pause)
        return False

    @property
    def _gives_up_at_once(self) -> bool:
        """Whether --wait allows no waiting for a lock that another process holds."""
        wait = self._plan.wait_of(self._term)
        return wait.one_try or wait.live

    def _set_alarm(self) -> None:
        until = self._plan.wait_of(self._term).until
        if until < math.inf:
            signal.signal(signal.SIGALRM, _on_alarm)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM,))
            signal.setitimer(signal.ITIMER_REAL, max(1e-6, until - system.clock()), _ALARM_EVERY)

    def _report_holder(self) -> None:
        if holder := file_lock.last_holder(self._fd):
            self._send(NewLeader(holder))
        elif not self._gives_up_at_once:
            self._log.info("the lock is held; its file does not name the holder", event="holder_unknown")

    def _report_failure(self) -> None:
        record = file_lock.read_record(self._fd)
        acquired = file_lock.number(record, "acquireTime")
        since = ""
        if acquired is not None:
            since = f" for {text(max(0, round(time.time() - acquired / 1e6)))}"
        who = file_lock.last_holder(self._fd) or "another process"
        reason = f"held by {who[:256]}{since}; the lock is free when that process has ended"
        self._send(AcquireFailed(reason, NOT_ACQUIRED))

    def _become_leader(self, assign: m.Assign) -> bool:
        """The token is on disk before anything is started on it."""
        wall = time.time_ns() // 1000
        before = file_lock.read_record(self._fd)
        runs, token = file_lock.runs(before), file_lock.next_token(before, wall)
        transitions = file_lock.number(before, "transitions")
        count = 0 if transitions is None else transitions + 1
        done = run_record.done(self._plan, runs, wall, 0) if run_record.has_once(self._plan) else ""
        record = {
            "holderIdentity": self._plan.identity,
            "incarnation": assign.incarnation,
            "acquireTime": wall,
            "transitions": count,
            "token": str(token),
            "pid": self._supervisor.pid,
            "runs": run_history.as_json(runs),
            "lastEnded": count if done else file_lock.number(before, "lastEnded"),
        }
        try:
            file_lock.write_record(self._fd, record)
        except OSError as error:
            reason = f"cannot write the fencing token into {self._plan.file}: {error.strerror}"
            self._send(AcquireFailed(reason, FAILED))
            return False
        self._log.role = "leader"
        self._send(Acquired(math.inf, math.inf, math.inf, str(token), count, wall, done))
        return True

    # --- leading

    def _lead(self) -> None:
        lost = False
        while True:
            for message in self._next_messages(_CHECK_EVERY):
                match message.body:
                    case _ if message.term != self._term:
                        continue
                    case m.Started(pid, start, excluded):
                        self._tracker.add(pid, start, excluded)
                    case m.Ran() as ran:
                        self._record(ran)
                    case AllProcessesExited(release):
                        self._send(Released(release, "" if release else "asked not to"))
                        return
                    case Restart():
                        return  # the supervisor opens the file again
            if not self._channel.open:
                self._supervisor_died()
                return
            self._tracker.scan()
            if not lost and not file_lock.in_place(self._fd, self._plan.file):
                lost = True
                reason = f"the lock file {self._plan.file} was removed or replaced"
                self._send(Lost(reason, kill_now=True))

    def _record(self, ran: m.Ran) -> None:
        """Record the run in the file while the lock is held. That may fail: then the command is run once more."""
        record = file_lock.read_record(self._fd)
        run = run_record.run_of(self._plan, ran, time.time_ns() // 1000)
        runs = run_history.add(file_lock.runs(record), run)
        try:
            new = {**record, "runs": run_history.as_json(runs), "lastEnded": record.get("transitions")}
            file_lock.write_record(self._fd, new, sync=run_record.has_once(self._plan))
        except OSError as error:
            reason = f"cannot write into {self._plan.file}: {error.strerror}"
            self._log.warning(f"did not record the run: {reason}", event="run_not_recorded")

    def _supervisor_died(self) -> None:
        """Kill what is left of the command. This process ends after that, which closes the lock."""
        if self._tracker.has_command:
            while not self._tracker.kill_until_none():
                self._log.repeated(
                    "some processes of the command do not die: the lock stays held", event="processes_not_killed"
                )
            self._log.error(
                "the supervisor died: killed the remaining processes of the command", event="supervisor_died"
            )

    def _send(self, body: m.Body) -> None:
        self._channel.send(self._term, body)

    def _next_messages(self, seconds: float | None) -> list[m.Message]:
        """What came with the assignment at once; then what comes within so many seconds, None: whenever it comes."""
        if not self._unread:
            poll = select.poll()
            poll.register(self._channel.fd, select.POLLIN)
            poll.poll(None if seconds is None else seconds * 1000)
        messages, self._unread = [*self._unread, *self._channel.receive()], []
        return messages


def _on_alarm(_number: int, _frame: object) -> None:
    raise _WaitIsOver
