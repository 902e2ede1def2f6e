"""The file lock's guard: waits for the lock in flock(2), then stays, holds it, and is the second guard.

It shares the open file and the sockets with the supervisor, which forked it: what it locks is locked for both.
"""

from __future__ import annotations

import math
import os
import select
import signal
import time

from kleader import platform
from kleader.election.duration import text
from kleader.elector.orphans import Orphans
from kleader.link import messages as m
from kleader.locks import file

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from kleader.link.channel import Channel
    from kleader.link.plan import Plan
    from kleader.log import Log
    from kleader.platform import Process

NOT_ACQUIRED, FAILED = 124, 125
_LOOK_EVERY = 1.0  # seconds between two looks at the lock file's path and at the tree
_CLAIM_EVERY = 0.1  # likewise, while another leader's end is awaited
_RING_EVERY = 0.5  # after --wait is over: the first ring may come a moment before flock(2) is entered


class _TimeIsUp(Exception):  # noqa: N818
    """--wait is over."""


class Guard:
    """One candidacy for the file lock, and the term that follows."""

    def __init__(  # noqa: PLR0913, PLR0917 - what it shares with the supervisor
        self,
        plan: Plan,
        channel: Channel,
        log: Log,
        supervisor: Process,
        fd: int,
        claims: Sequence[socket.socket],
    ) -> None:
        self._plan, self._channel, self._log, self._fd, self._claims = plan, channel, log, fd, claims
        self._supervisor = supervisor

    def run(self) -> None:
        """Until the supervisor is content, or dead."""
        assign = self._assignment()
        if assign is None:
            return
        self._term = assign.term
        supervisor = self._supervisor
        self._orphans = Orphans(supervisor.pid, supervisor.start, m.MARKER + assign.incarnation)
        for pid, start in assign.started:
            self._orphans.started(pid, start)
        self._orphans.look()
        if not assign.leading and not self._acquire(assign):
            return
        self._serve()

    def _assignment(self) -> m.Assign | None:
        self._wait_for_word(None)
        first = self._channel.receive()[:1]
        return first[0] if first and isinstance(first[0], m.Assign) else None

    # --- waiting

    def _acquire(self, assign: m.Assign) -> bool:
        """Take the lock and tell the supervisor. Dies with it meanwhile: there is nothing to guard yet."""
        platform.die_with_parent(signal.SIGKILL)
        if os.getppid() != self._supervisor.pid:
            return False
        try:
            if not self._take():
                return False
        except _TimeIsUp:
            self._give_up()
            return False
        except OSError as error:  # a file system without locks
            reason = f"cannot lock {self._plan.file}: {error.strerror}: give --lock file:PATH on another file system"
            self._channel.send(m.Failed(self._term, reason, FAILED))
            return False
        platform.die_with_parent(0)
        if os.getppid() != self._supervisor.pid:
            return False
        return self._begin(assign)

    def _take(self) -> bool:
        """False: the path names another file by now, and the supervisor has to open that one."""
        plan = self._plan
        if not file.take(self._fd, wait=False):
            self._tell_holder()
            if self._hurried:  # the kernel's lock is held by the living
                raise _TimeIsUp
            self._set_alarm()
            file.take(self._fd, wait=True)
        pause = 0.001  # the last leader's end lets go of the sockets a moment before or after the lock
        wanted: list[bytes] = []
        while file.in_place(self._fd, plan.file):
            wanted = wanted or file.addresses(plan.file)  # once: a socket keeps the address that it has
            if file.claim(self._claims, wanted):
                signal.setitimer(signal.ITIMER_REAL, 0)
                return file.in_place(self._fd, plan.file)
            if pause >= _CLAIM_EVERY:
                self._log.repeated("the lock file was removed or replaced under a leader: waiting for its end")
                if self._hurried:
                    raise _TimeIsUp
            self._set_alarm()  # not before the first try: a short --wait takes what is free
            time.sleep(pause)
            pause = min(_CLAIM_EVERY, 2 * pause)
        return False

    @property
    def _hurried(self) -> bool:
        """Whether to give up on a lock that is held, as by the living it is; --wait is of the first candidacy."""
        return self._term == 1 and (self._plan.wait == 0 or self._plan.live)

    def _set_alarm(self) -> None:
        if self._plan.wait and self._term == 1:
            signal.signal(signal.SIGALRM, _ring)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM,))
            left = self._plan.started + self._plan.wait - platform.clock()
            signal.setitimer(signal.ITIMER_REAL, max(1e-6, left), _RING_EVERY)

    def _tell_holder(self) -> None:
        if holder := file.holder(self._fd):
            self._channel.send(m.Observe(self._term, holder, self._plan.namespace))
        else:
            self._log.info("the lock is held, and its file does not tell by whom")

    def _give_up(self) -> None:
        record = file.read(self._fd) or {}
        acquired = file.number(record, "acquireTime")
        since = ""
        if acquired is not None:
            since = f" since {text(max(0, round(time.time() - acquired / 1e6)))}"
        who = file.holder(self._fd) or "another process"
        reason = f"held by {who[:256]}{since}; the lock is free when it has ended"
        self._channel.send(m.Failed(self._term, reason, NOT_ACQUIRED))

    def _begin(self, assign: m.Assign) -> bool:
        """The token is on disk before anything is started on it."""
        wall = time.time_ns() // 1000
        token = file.next_token(self._fd, wall)
        transitions = file.number(file.read(self._fd) or {}, "transitions")
        count = 0 if transitions is None else transitions + 1
        record = {
            "holderIdentity": self._plan.identity,
            "incarnation": assign.incarnation,
            "acquireTime": wall,
            "transitions": count,
            "token": str(token),
            "pid": self._supervisor.pid,
        }
        try:
            file.write(self._fd, record)
        except OSError as error:
            reason = f"cannot write the fencing token into {self._plan.file}: {error.strerror}"
            self._channel.send(m.Failed(self._term, reason, FAILED))
            return False
        self._log.role = "leader"
        self._channel.send(m.Lead(self._term, math.inf, math.inf, str(token), wall, count, self._plan.namespace))
        return True

    # --- leading

    def _serve(self) -> None:
        lost = False
        while True:
            self._wait_for_word(_LOOK_EVERY)
            for message in self._channel.receive():
                if message.term != self._term:
                    continue
                if isinstance(message, m.Started):
                    self._orphans.started(message.pid, message.start)
                elif isinstance(message, m.Empty):
                    why = "" if message.release else "asked not to"
                    self._channel.send(m.Released(self._term, message.release, why))
                    return
                elif isinstance(message, m.Again):
                    return  # the supervisor opens the file anew
            if not self._channel.open:
                self._deserted()
                return
            self._orphans.look()
            if not lost and not file.in_place(self._fd, self._plan.file):
                lost = True
                reason = f"the lock file {self._plan.file} was removed or replaced"
                self._channel.send(m.Lost(self._term, reason, kill_now=True))

    def _deserted(self) -> None:
        """The supervisor is dead. The lock is let go last, by ending."""
        if self._orphans.any:
            while not self._orphans.sweep_until_none():
                self._log.repeated("some of the command's processes will not die: the lock is kept")
            self._log.error("the supervisor is gone: killed what was left of the command")

    def _wait_for_word(self, seconds: float | None) -> None:
        poll = select.poll()
        poll.register(self._channel.fd, select.POLLIN)
        poll.poll(None if seconds is None else seconds * 1000)


def _ring(_number: int, _frame: object) -> None:
    raise _TimeIsUp
