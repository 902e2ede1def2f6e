"""Processes as proc(5) shows them. Own code instead of psutil: a snapshot of a thousand costs a tenth, and memory counts here."""

from __future__ import annotations

import os
import signal
from typing import NamedTuple


class Process(NamedTuple):
    """One process at one moment. ``start`` (clock ticks since boot) tells it from a later one with the same pid."""

    pid: int
    parent: int
    group: int
    state: str
    threads: int
    start: int

    @property
    def dead(self) -> bool:
        """A zombie whose other threads are gone too: a zombie leader with a second thread still works."""
        return self.state in "ZX" and self.threads <= 1


def process(pid: int) -> Process | None:
    """The process with this pid, None if there is none."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        text = os.read(fd, 4096)
    except ProcessLookupError:
        return None
    finally:
        os.close(fd)
    fields = text[text.rfind(b")") + 2 :].split(None, 20)
    return Process(pid, int(fields[1]), int(fields[2]), fields[0].decode(), int(fields[17]), int(fields[19]))


def processes() -> dict[int, Process]:
    """Every process on the machine that /proc shows, by pid. Not one moment: what forks meanwhile may be missing."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdecimal() and (each := process(int(name))):
            found[each.pid] = each
    return found


def has_children(but: set[int]) -> bool:
    """Whether this (single-threaded) process has a child, dead or alive, other than those.

    Only this process reaps its children, so one that exists when the reading begins is still there when it ends: False
    is proof, as long as orphans come here, that no descendant is alive outside the trees of ``but``.
    """
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
            return any(int(pid) not in but for pid in file.read().split())
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        me = os.getpid()
        return any(each.parent == me and each.pid not in but for each in processes().values())


def kill(target: Process, signum: int = signal.SIGKILL) -> bool:
    """Signal exactly this process, not one that has its pid by now. False if it is gone; PermissionError if not ours."""
    try:
        fd = os.pidfd_open(target.pid)
    except ProcessLookupError:
        return False
    except OSError:  # a kernel before 5.3, or a seccomp filter: a window of microseconds remains
        if not _same(target):
            return False
        return _send(lambda: os.kill(target.pid, signum))
    try:
        return _same(target) and _send(lambda: signal.pidfd_send_signal(fd, signum))
    finally:
        os.close(fd)


def environment_has(pid: int, marker: str) -> bool:
    """Whether the process was started with the variable ``marker`` (its /proc/PID/environ; setproctitle wipes it)."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"\0{marker}=".encode() in b"\0" + file.read()
    except OSError:
        return False


def filesystem(device: int) -> str:
    """The type of the file system that is mounted as this device (st_dev); "" if that cannot be told."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                fields = line.split()
                if fields[2] == wanted and "-" in fields:
                    return fields[fields.index("-") + 1]
    except OSError:
        pass
    return ""


def _same(target: Process) -> bool:
    now = process(target.pid)
    return now is not None and now.start == target.start


def _send(send: object) -> bool:
    try:
        send()  # type: ignore[operator]
    except ProcessLookupError:
        return False
    return True


def below(root: int, but: int) -> list[Process]:
    """The descendants of ``root`` except ``but`` and what is below it: a glance that costs what the tree is large, not the
    machine. Racy: what forks or dies meanwhile may be missing.
    """
    found = []
    parents = [root]
    for parent in parents:
        for pid in _children(parent):
            if pid != but and (each := process(pid)):
                found.append(each)
                parents.append(pid)
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:
        return found
    return found
