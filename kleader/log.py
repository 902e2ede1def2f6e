"""The log on stderr: one line for each event, as text or JSON.

A write never blocks: a reader that has stopped (``kleader … 2>&1 | less``) must not delay a deadline. Lines that find
no room are dropped and counted. A write to a file may block while its disk hangs; so a process that can afford a thread
calls ``write_behind``.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from itertools import accumulate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Write = Callable[[bytes], bool]  # False: there is no room for it

ERROR, WARNING, INFO, DEBUG = "ERROR", "WARNING", "INFO", "DEBUG"
_LEVELS = {ERROR: 0, WARNING: 1, INFO: 2, DEBUG: 3}
_MAX_MESSAGE_CHARS = 1000  # of a message, escaped: a pipe takes a line of PIPE_BUF bytes whole or not at all
_MAX_ESCAPE_CHARS = 12  # JSON's for a character beyond U+FFFF
_MAX_WAITING_LINES = 256  # for the thread
_MAX_FLUSH_SECONDS = 0.3
_MAX_PAUSE_SECONDS = 300.0  # between two lines with the same message
_MARKS = {ERROR: "error: ", WARNING: "warning: ", INFO: "", DEBUG: "debug: "}
_ROLES = {"resting": "not competing", "giving way": "stopping standby", "sweeping": "cleaning up"}  # JSON's are stable


class Log:
    """Writes lines with the lock and the candidate's role.

    ``form``: text or json. ``verbosity``: 0 for warnings and errors, 1 also for INFO, 2 for all. ``label``: the lock in
    a text line, else its namespace and name. ``suffix``: tells this candidate's text lines from another's; "" for none.
    ``context``: keys of every JSON line. ``descriptors``: those that it needs beside stderr.
    """

    def __init__(
        self, form: str = "text", verbosity: int = 1, *, label: str = "", suffix: str = "", **context: str
    ) -> None:
        self._is_json = form == "json"
        self._label, self._suffix = _unspaced(label), suffix and f" [{_unspaced(suffix)}]"
        self._max_level = _LEVELS[WARNING] + verbosity
        self._context, self._identity = context, context.get("identity", "")
        self._write, self.descriptors, self._may_block = _open_stderr()
        self._thread: _WriterThread | None = None
        self._dropped = 0
        self._repeated: dict[str, tuple[float, float, float]] = {}  # when it came last, when it is due, the next pause
        self.role = "candidate"

    def add_context(self, **context: str) -> None:
        """Add to the context, such as the namespace that the credentials name."""
        self._context.update(context)

    def introduce(self, words: str) -> str:
        """``words`` and the candidate's identity, in the first sentence that has it; later "": no line repeats it."""
        identity, self._identity = self._identity, ""
        return identity and f"{words}{identity}"

    def write_behind(self) -> None:
        """From here on have a thread write, if a write may block. Not for a process that forks."""
        if self._may_block and not self._thread:
            try:
                self._write = self._thread = _WriterThread(self._write)
            except RuntimeError:  # no thread is left
                return

    def finish(self) -> None:
        """Wait a moment for the thread to write what it has: before the process ends."""
        if self._thread:
            self._thread.flush(_MAX_FLUSH_SECONDS)

    # Each takes a sentence, the name of the event as kleader-operations(7) lists it, and more keys for JSON.

    def info(self, message: str, *, event: str, **fields: object) -> None:
        """Log what happened."""
        self._log(INFO, message, {"event": event, **fields})

    def debug(self, message: str, *, event: str, **fields: object) -> None:
        """Log what helps to find a fault."""
        self._log(DEBUG, message, {"event": event, **fields})

    def warning(self, message: str, *, event: str, **fields: object) -> None:
        """Log what an operator should look at."""
        self._log(WARNING, message, {"event": event, **fields})

    def error(self, message: str, *, event: str, **fields: object) -> None:
        """Log what went wrong, and how to fix it."""
        self._log(ERROR, message, {"event": event, **fields})

    def repeated(
        self, message: str, every: float = 10.0, *, event: str, info: bool = False, growing: bool = False
    ) -> None:
        """Warn, or inform where it is ``info``; the same message at most once in ``every`` seconds.

        ``growing``: then after twice as long, and so on up to 5 minutes, unless it had not come for ``every`` seconds.
        """
        now = time.monotonic()
        self._repeated = {text: last for text, last in self._repeated.items() if now - last[0] < every}
        _, due, pause = self._repeated.get(message, (now, now, every))
        if now >= due:
            due, pause = now + pause, min(2 * pause, _MAX_PAUSE_SECONDS) if growing else every
            (self.info if info else self.warning)(message, event=event)
        self._repeated[message] = now, due, pause

    def _log(self, level: str, message: str, fields: dict[str, object]) -> None:
        if _LEVELS[level] > self._max_level:
            return
        message, context = _shorten(message), self._context
        seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
        now = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{milliseconds:03d}Z"
        if self._is_json:
            known = {key: value or None for key, value in context.items()}
            keys = {"time": now, "level": level, "message": message, **known, "role": self.role, **fields}
            line = printable_json(json.dumps(keys, ensure_ascii=False))
        else:
            lock = self._label or "/".join(filter(None, (context.get("namespace"), context.get("name"))))
            who = " ".join(filter(None, ("kleader", lock, _ROLES.get(self.role, self.role))))
            line = printable(f"{now} {who}{self._suffix}: {_MARKS[level]}{message}")
        lost = f"kleader: warning: {self._dropped} log lines were dropped: the reader of stderr is too slow\n"
        if self._dropped and self._write(lost.encode()):
            self._dropped = 0
        if not self._write(f"{line}\n".encode(errors="backslashreplace")):
            self._dropped += 1


class _WriterThread:
    """Writes in order; a line that finds no room in its queue is refused."""

    def __init__(self, write: Write) -> None:
        import queue  # noqa: PLC0415 - the supervisor does without
        import threading  # noqa: PLC0415

        self._lines = queue.Queue[bytes](_MAX_WAITING_LINES)
        threading.Thread(target=self._run, args=(write,), daemon=True).start()

    def __call__(self, data: bytes) -> bool:
        """Whether there was room."""
        if self._lines.full():  # this is the only thread that puts lines
            return False
        self._lines.put_nowait(data)
        return True

    def flush(self, seconds: float) -> None:
        """Wait until all lines are written, at most so many seconds."""
        lines = self._lines
        with lines.all_tasks_done:
            lines.all_tasks_done.wait_for(lambda: not lines.unfinished_tasks, seconds)

    def _run(self, write: Write) -> None:
        while True:
            write(self._lines.get())
            self._lines.task_done()


def printable(text: str) -> str:
    """Escape control, bidirectional and format characters: foreign text cannot move the cursor or break a line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_json(text: str) -> str:
    """Escape those characters in JSON text, whose values stay the same; its line breaks are between values."""
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def _unspaced(text: str) -> str:
    """Escape what ends a part of the prefix: an identity such as ``x]: error: `` cannot imitate a severity."""
    return "".join(f"\\x{ord(c):02x}" if c in " []:" else c for c in text)


def _shorten(message: str) -> str:
    message = message[:_MAX_MESSAGE_CHARS]
    lengths = accumulate(1 if c.isprintable() else _MAX_ESCAPE_CHARS for c in message)
    return "".join(c for c, length in zip(message, lengths, strict=True) if length <= _MAX_MESSAGE_CHARS)


def fill_standard_descriptors() -> None:
    """Open /dev/null where 0, 1 or 2 is closed: another file would take its number, and be written to as a log.

    Across exec they stay closed, so that the command finds them so.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:  # noqa: PLR2004
        pass
    os.close(fd)


def _open_stderr() -> tuple[Write, tuple[int, ...], bool]:
    """What writes to stderr, the descriptors that it needs besides, and whether it may block."""
    try:
        mode = os.fstat(2).st_mode
    except OSError:  # it is closed
        return lambda _data: True, (), False
    if stat.S_ISSOCK(mode):
        import socket  # noqa: PLC0415 - only where stderr is one

        sock = socket.socket(fileno=os.dup(2))
        return lambda data: _try(lambda: sock.send(data, socket.MSG_DONTWAIT)), (sock.fileno(),), False
    if not (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        return lambda data: _try(lambda: os.write(2, data)), (), True
    # O_NONBLOCK on descriptor 2 would be the command's too; the same pipe opened again has flags of its own.
    if sys.platform == "linux":
        try:
            fd = os.open("/proc/self/fd/2", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:  # another user's pipe or terminal
            pass
        else:
            return lambda data: _try(lambda: os.write(fd, data)), (fd,), False
    return _write_if_ready, (), False


def _write_if_ready(data: bytes) -> bool:
    import select  # noqa: PLC0415

    poll = select.poll()
    poll.register(2, select.POLLOUT)
    return bool(poll.poll(0)) and _try(lambda: os.write(2, data))


def _try(write: Callable[[], int]) -> bool:
    """Whether there was room; also True where the reader is gone or the disk is full: no line would tell of it."""
    try:
        write()
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
