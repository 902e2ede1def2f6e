"""Linux by ctypes: prctl(2), timerfd_create(2), timer_create(2), signalfd(2)."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import time
from typing import NamedTuple

from kleader.system import dispositions

MISSING = ""  # the safeguards that this system lacks, in words

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_CLOCK_BOOTTIME, _TIMER_ABSTIME = 7, 1
_SIGEV_SIGNAL = 0
_MFD_CLOEXEC = 1
_SI_KERNEL = 0x80
_NANO = 1_000_000_000
_LONGEST_READ = 0.005  # seconds of taking signals, so that a flood cannot keep a deadline waiting

_libc = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class _Sigevent(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_byte * 48),
    )


def clock() -> float:
    """Seconds since boot, suspend included (CLOCK_BOOTTIME): the clock on which everything is decided."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def die_with_parent(signum: int) -> None:
    """Have ``signum`` sent here when the thread that forked this process ends; 0: no longer.

    Cleared by fork and by any change of credentials, a set-uid exec among them (prctl(2)).
    """
    _check(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signum), 0, 0, 0))


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0))


def link_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets that keep messages apart and tell of the other's death."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def anonymous_file() -> int:
    """A descriptor of a file that has no name and needs no writable disk."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("kleader", os.MFD_CLOEXEC)
    return _check(_libc.memfd_create(b"kleader", _MFD_CLOEXEC))  # this Python was built without it


def take_priority(level: int) -> None:
    """Have this process run before others where it may (root, CAP_SYS_NICE), its children as it was started itself.

    Else its deadline would come late beside a thousand processes that all want the processor. ``level``: from 1, of the
    real-time priorities; the higher one runs first.
    """
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        if os.sched_getscheduler(0) != os.SCHED_OTHER:
            return  # an operator has chosen already
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(level))
    except OSError:
        return
    os.register_at_fork(after_in_child=lambda: os.setpriority(os.PRIO_PROCESS, 0, before))


class Timer:
    """Makes ``fd`` readable at an instant of :func:`clock`. poll's own timeout does not count suspend."""

    def __init__(self) -> None:
        self.fd = _check(_libc.timerfd_create(_CLOCK_BOOTTIME, os.O_NONBLOCK | os.O_CLOEXEC))
        self._at = float("inf")

    def arm(self, at: float) -> None:
        """Wake at ``at`` instead of any instant before; inf: never."""
        if at != self._at:
            self._at = at
            _check(_libc.timerfd_settime(self.fd, _TIMER_ABSTIME, ctypes.byref(_at(at)), None))

    def drain(self) -> None:
        """Take note that it rang."""
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            return
        self._at = float("inf")

    @property
    def poll_ms(self) -> int:
        """What to give to poll: no timeout of its own."""
        return -1


class KillTimer:
    """The kernel's timer: SIGKILLs this process at an instant, even while it is stopped. Without effect on PID 1."""

    def __init__(self) -> None:
        self._timer = ctypes.c_void_p()
        event = _Sigevent(signal=signal.SIGKILL, notify=_SIGEV_SIGNAL)
        library = _libc if hasattr(_libc, "timer_create") else ctypes.CDLL("librt.so.1", use_errno=True)  # glibc < 2.34
        self._settime = library.timer_settime
        if library.timer_create(_CLOCK_BOOTTIME, ctypes.byref(event), ctypes.byref(self._timer)) < 0:
            code = ctypes.get_errno()  # EAGAIN: this user's RLIMIT_SIGPENDING, which a flood of signals uses up, too
            message = f"cannot make the kernel's timer: {os.strerror(code)}: see ulimit -i (pending signals)"
            raise OSError(code, message)

    def arm(self, at: float) -> None:
        """Kill at ``at`` of :func:`clock` instead of any instant before; inf: never."""
        _check(self._settime(self._timer, _TIMER_ABSTIME, ctypes.byref(_at(at)), None))


class SignalInfo(NamedTuple):
    """A signal that arrived; ``terminal``: the kernel sent it, as for Ctrl-C; ``sender``: else who did."""

    number: int
    terminal: bool
    sender: int


class Signals:
    """Every signal that a program may want, blocked and queued, so that none interrupts anything: the shape is tini's.

    Blocked signals are never ignored by the kernel, not even for PID 1. Those in ``held`` were blocked by kleader's own
    start, so that none was lost.
    """

    def __init__(self, numbers: set[int], held: set[int]) -> None:
        self._numbers = numbers
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers) - held
        self._children_ignored = signal.signal(signal.SIGCHLD, signal.SIG_DFL) is signal.SIG_IGN
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # not Python's KeyboardInterrupt, in no forked child either
        word = 8 * ctypes.sizeof(ctypes.c_ulong)
        mask = (ctypes.c_ulong * (1024 // word))()
        for number in numbers:
            mask[(number - 1) // word] |= 1 << (number - 1) % word
        self.fd = _check(_libc.signalfd(-1, ctypes.byref(mask), os.O_NONBLOCK | os.O_CLOEXEC))

    def read(self) -> list[SignalInfo]:
        """The next signals that have arrived, in the kernel's order; ``fd`` stays readable while there are more.

        For one that overtakes others the kernel looks through its whole queue: milliseconds, where 90,000 wait. So
        CHLD, of which one says as much as many, is taken once.
        """
        found: list[SignalInfo] = []
        numbers, until = self._numbers, clock() + _LONGEST_READ
        while clock() < until and (info := signal.sigtimedwait(numbers, 0)):
            found.append(SignalInfo(info.si_signo, info.si_code == _SI_KERNEL, info.si_pid))
            if info.si_signo == signal.SIGCHLD:
                numbers = numbers - {signal.SIGCHLD}
        return found

    def restore(self) -> None:
        """In a forked child: the dispositions and the mask that kleader itself was started with."""
        dispositions.restore(self._before, children_ignored=self._children_ignored)


def _at(instant: float) -> _Itimerspec:
    """An absolute one-shot; never 0, which would disarm. inf disarms."""
    nano = 0 if instant == float("inf") else max(1, int(instant * _NANO))
    return _Itimerspec(value=_Timespec(*divmod(nano, _NANO)))


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
