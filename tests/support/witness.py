"""The witness: a command that proves, in one log, when it lived. `python -I -S witness.py LOG [OPTION[=VALUE]]...`.

It takes a flock on LOG.lock, which its descendants keep, and appends records to LOG: `start` (or `clash`, where the
flock was held: somebody of an earlier term lives), `beat` every 20 ms, `end`. `checker.py` reads them.

    --ignore-term        go on after TERM
    --term-delay=S       take S seconds to end after TERM, beating on
    --descendant         leave a child that is setsid, double-forked, deaf to TERM, and beats until it is killed
    --zombie-leader      the main thread exits; a second one beats on: state Z, and alive
    --exit-after=S       end by itself after S seconds
    --exit-when=FILE     end by itself once FILE exists
    --status=N           exit status when it ends by itself or on TERM; default 0
    --most=S             end in any case after S seconds, so that no test leaves it for ever; default 600
    --rival              started by a candidate that promises nothing: it keeps no flock, but looks whether one is held

It imports what starts fastest: what happens between exec and `start` is what its log cannot show (see checker.py).
"""

import _signal  # type: ignore[import-not-found]  # signal itself costs as much as all the rest: it imports enum
import fcntl
import os
import sys
import time

BEAT = 0.02
RECORD = 256  # divides the page: a record is never torn, even by SIGKILL
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock() -> int:
    """Nanoseconds on the clock that all candidates on one machine share."""
    return time.clock_gettime_ns(CLOCK)


def born() -> int:
    """The latest instant at which this process can have been forked: the kernel keeps it in ticks, rounded down."""
    try:
        with open("/proc/self/stat", "rb") as stat:  # noqa: PTH123 - pathlib is slow to import
            fields = stat.read().rpartition(b")")[2].split()
        tick = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        return (int(fields[19]) + 1) * tick
    except OSError:
        return sys.maxsize


class Log:
    """Appends one process's records: event, time, birth, life, parent's life, pid, token, identity."""

    def __init__(self, path: str, birth: int, parent: str = "-") -> None:
        self.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self.life = os.urandom(6).hex()  # a pid is not unique: there are PID namespaces
        token = os.environ.get("KLEADER_FENCING_TOKEN") or "-"
        identity = "_".join(os.environ.get("KLEADER_IDENTITY", "-").split())
        self.who = f"{birth} {self.life} {parent} {os.getpid()} {token[:60]} {identity[:100]}"

    def write(self, event: str, at: int = 0) -> None:
        """Append one record; OSError where the disk is full."""
        text = f"{event} {at or clock()} {self.who}"
        os.write(self.fd, f"{text:<{RECORD - 1}.{RECORD - 1}}\n".encode("ascii", "replace"))


def options(arguments: list[str]) -> dict[str, str]:
    """Split --name=value; SystemExit for a name that does not exist."""
    known = {"ignore-term", "term-delay", "descendant", "zombie-leader", "exit-after", "exit-when", "status", "most"}
    known |= {"rival"}
    given = dict(argument.removeprefix("--").partition("=")[::2] for argument in arguments)
    if unknown := set(given) - known:
        sys.exit(f"witness: error: no such option: {', '.join(sorted(unknown))}")
    return given


def take(lock: int, how: int = fcntl.LOCK_EX) -> bool:
    """Take the flock, unless another process holds it."""
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def leave_descendant(path: str, parent: str, lock: int, most: int) -> None:
    """Fork a descendant that init or a subreaper adopts; return once its `start` is in the log."""
    told, tell = os.pipe()
    if (child := os.fork()) == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        keep_only(lock, tell)
        log = Log(path, min(born(), clock()), parent)
        log.write("start")
        os.close(tell)
        while clock() < most:
            time.sleep(BEAT)  # TERM and INT stay blocked
            log.write("beat")
        os._exit(0)
    os.close(tell)
    os.waitpid(child, 0)
    os.read(told, 1)
    os.close(told)


def keep_only(*keep: int) -> None:
    """Close every other descriptor, as daemons do: a file lock's and the tests' pipes among them."""
    low = 0
    for fd in sorted(keep):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, 65536)


def leave_thread(log: Log, until: int) -> None:
    """Start a thread that beats on, and end the main one: never returns."""
    import _thread  # noqa: PLC0415 - both cost start time
    import ctypes  # noqa: PLC0415

    def beat() -> None:
        while clock() < until:
            time.sleep(BEAT)
            log.write("beat")
        os._exit(0)

    _thread.start_new_thread(beat, ())
    sys_exit = {"x86_64": 60, "aarch64": 93}[os.uname().machine]
    ctypes.CDLL(None).syscall(sys_exit, 0)  # of this thread alone; ctypes has let go of the interpreter's lock


def main() -> None:
    """Live, and write it down."""
    at = clock()
    birth = min(born(), at)
    path, option = os.path.abspath(sys.argv[1]), options(sys.argv[2:])  # noqa: PTH100 - likewise
    ends = {_signal.SIGTERM, _signal.SIGINT}
    _signal.pthread_sigmask(_signal.SIG_BLOCK, ends)
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    rival = "rival" in option
    alone = take(lock, fcntl.LOCK_SH if rival else fcntl.LOCK_EX)
    log = Log(path, birth)
    if rival:
        fcntl.flock(lock, fcntl.LOCK_UN)
        log.write("rival", at)
    log.write("start" if alone else "clash", at)
    most = at + seconds(option, "most", "600")
    if "descendant" in option:
        leave_descendant(path, log.life, lock, most)
    until = min(most, at + seconds(option, "exit-after", "600"))
    if "zombie-leader" in option:
        leave_thread(log, until)
    signalled = 0
    while clock() < until and not ("exit-when" in option and os.path.exists(option["exit-when"])):  # noqa: PTH110
        # After a stop that lasts beyond the time, CPython returns the data of no signal.
        got = _signal.sigtimedwait(ends, BEAT)
        log.write("beat")
        alone = alone or rival or take(lock)  # after a clash: the next one must not find it free while we live
        if got is not None and got.si_signo in ends and not signalled and "ignore-term" not in option:
            signalled = got.si_signo
            until = min(until, clock() + seconds(option, "term-delay", "0"))
    log.write("end")
    if signalled == _signal.SIGINT:  # as a program of the terminal dies
        _signal.signal(signalled, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, ends)
        os.kill(os.getpid(), signalled)
    os._exit(int(option.get("status", "0")))


def seconds(option: dict[str, str], name: str, default: str) -> int:
    """Return the option's seconds in nanoseconds."""
    return int(float(option.get(name, default)) * 1e9)


if __name__ == "__main__":
    main()
