"""Processes as proc(5) shows them. Not psutil: a snapshot of a thousand costs a tenth, and memory counts here."""

from __future__ import annotations

import errno
import os
import signal

from kleader.system.table import Process, descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

_NOT_SHOWN = {errno.ENOENT, errno.ESRCH, errno.EACCES, errno.EPERM}  # gone, or hidden (hidepid=)
_LISTS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")  # else: no CONFIG_PROC_CHILDREN


def process(pid: int) -> Process | None:
    """The process with this pid, None if there is none to be seen. OSError where the system is short of something."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = os.read(fd, 4096)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in _NOT_SHOWN:
            return None
        raise
    fields = text[text.rfind(b")") + 2 :].split(None, 20)
    return Process(pid, int(fields[1]), int(fields[2]), fields[0].decode(), int(fields[17]), int(fields[19]))


def myself() -> Process:
    """The calling process. OSError, with the remedy, where /proc is another PID namespace's."""
    try:
        shown = os.readlink("/proc/self")
    except OSError:
        shown = ""
    found = process(os.getpid()) if shown == str(os.getpid()) else None
    if found is None:
        message = "/proc does not show this PID namespace: mount it (unshare --mount-proc, mount -t proc proc /proc)"
        raise OSError(errno.EINVAL, message)
    return found


def processes() -> dict[int, Process]:
    """Every process on the machine that /proc shows, by pid. Not one moment: what forks meanwhile may be missing."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdecimal() and (each := process(int(name))):
            found[each.pid] = each
    return found


def below(root: int, but: Collection[int]) -> Iterator[Process]:
    """The descendants of ``root``, parents first, without those in ``but`` and what is below them.

    Each is given after its own children were read, so that killing it on the way loses none. Costs what the tree
    is large, not the machine. Racy: what forks or dies meanwhile may be missing.
    """
    if not _LISTS_CHILDREN:
        yield from descendants(processes(), (root,), but)
        return
    seen = {root, *but}
    waiting = _of_all_threads(root)
    for pid in waiting:
        if pid in seen:
            continue
        each, children = _family(pid)
        if each and each.parent in seen and each.parent not in but:  # else another process has its pid by now
            seen.add(pid)
            waiting += children
            yield each


def children(but: Collection[int]) -> list[int]:
    """The children of this process, dead or alive, without those. OSError: too many open files.

    This process is single-threaded and alone reaps them: no other process gets their pids until then, and a child
    that exists when the reading begins is still listed when it ends. So an empty list is proof, as long as orphans come
    to this process, that no descendant is alive outside the trees of ``but``.
    """
    me = os.getpid()
    if _LISTS_CHILDREN:
        return [pid for pid in _of_thread(me, me) if pid not in but]
    return [pid for pid, each in processes().items() if each.parent == me and pid not in but]


def entered(seen: set[int]) -> list[Process]:
    """As PID 1: the processes that entered this PID namespace from outside, and so have no parent in it.

    ``seen``: pids that were looked at before, which this keeps up to date.
    """
    pids = {int(name) for name in os.listdir("/proc") if name.isdecimal()}
    found = [each for pid in pids - seen - {os.getpid()} if (each := process(pid)) and each.parent == 0]
    seen &= pids
    seen |= pids
    return found


def kill(target: Process, signum: int = signal.SIGKILL) -> bool:
    """Signal this very process, not one that has its pid by now. False if it is gone; PermissionError if not ours."""
    try:
        fd = os.pidfd_open(target.pid)
    except ProcessLookupError:
        return False
    except (OSError, AttributeError):  # no such call, or a seccomp filter: a window of microseconds remains
        return _same(target) and _send(lambda: os.kill(target.pid, signum))
    try:
        return _same(target) and _send(lambda: signal.pidfd_send_signal(fd, signum))
    finally:
        os.close(fd)


def sigkill(target: Process) -> bool:
    """SIGKILL for this very process, and at once for the whole process group that it leads. False if it is not ours.

    A group is killed only with its leader, which is not reaped yet, so that the number is still this group's. A process
    that leads a group is not in kleader's group, and no process joins a group except by its own call.
    """
    try:
        if target.group == target.pid > 1 and _same(target):
            _send(lambda: os.killpg(target.pid, signal.SIGKILL))
        kill(target)
    except PermissionError:
        return False
    return True


def dead_for_good(child: int) -> bool:
    """Whether a child of ours is a zombie with one thread that cannot be reaped: another process traces it."""
    found = process(child)
    if found is None or not found.dead:
        return False
    try:
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


def name_of(pid: int) -> str:
    """The name of the program that a process runs, for a message; "?" where it cannot be told."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip() or "?"
    except OSError:
        return "?"


def environment_has(pid: int, marker: str) -> bool:
    """Whether the process was started with the variable ``marker`` (its /proc/PID/environ; setproctitle wipes it)."""
    return f"\0{marker}=".encode() in b"\0" + environment(pid)


def environment(pid: int) -> bytes:
    """What the process was started with, each variable ended by a NUL; b"" where that cannot be told."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""


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


def _family(pid: int) -> tuple[Process | None, list[int]]:
    """A process, and its children as they were before that."""
    children = _of_thread(pid, pid)
    each = process(pid)
    if each is None or each.threads == 1:
        return each, children
    children = _of_all_threads(pid)
    return (each, children) if _same(each) else (None, [])


def _of_all_threads(pid: int) -> list[int]:
    """Each has its own children."""
    try:
        return [child for thread in os.listdir(f"/proc/{pid}/task") for child in _of_thread(pid, thread)]
    except OSError as error:
        if error.errno in _NOT_SHOWN:
            return []
        raise


def _of_thread(pid: int, thread: int | str) -> list[int]:
    found = b""
    try:
        fd = os.open(f"/proc/{pid}/task/{thread}/children", os.O_RDONLY | os.O_CLOEXEC)
        try:
            while piece := os.read(fd, 1 << 16):
                found += piece
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno not in _NOT_SHOWN:
            raise
    return [int(child) for child in found.split()]


def _same(target: Process) -> bool:
    now = process(target.pid)
    return now is not None and now.start == target.start


def _send(send: Callable[[], None]) -> bool:
    try:
        send()
    except ProcessLookupError:
        return False
    return True
