"""Logs on stderr: one line per state change, as text or JSON.

A write never blocks: a reader that stopped (``kleader … 2>&1 | less``) must not delay a deadline. Lines that find no
room are dropped and counted. To a file it may, for its disk may hang: processes that can afford a thread have it write.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ERROR, WARNING, INFO, DEBUG = "ERROR", "WARNING", "INFO", "DEBUG"
_LONGEST = 1000  # characters of a message: a pipe takes a whole line or nothing (PIPE_BUF)
_MOST = 256  # lines that wait for the thread
_FAREWELL = 0.3  # seconds for those, at the end
_LEVELS = {ERROR: 0, WARNING: 1, INFO: 2, DEBUG: 3}


class Log:
    """Writes lines that each say lock, identity and role.

    ``verbosity``: 0 warnings and errors, 1 informs too, 2 and more all.
    """

    def __init__(self, form: str = "text", verbosity: int = 1, **about: str) -> None:
        self._json = form == "json"
        self._most = _LEVELS[INFO] - 1 + verbosity
        self._about = about
        self._write, self.descriptors, self._may_hang = _sink()
        self._behind: _Behind | None = None
        self._dropped = 0
        self._said: dict[str, float] = {}
        self.role = "candidate"

    def about(self, **more: str) -> None:
        """What is known meanwhile, such as the namespace that the credentials named."""
        self._about.update(more)

    def write_behind(self) -> None:
        """Have a thread write from here on, if a write may hang. Not for a process that forks."""
        if self._may_hang and not self._behind:
            try:
                self._write = self._behind = _Behind(self._write)
            except RuntimeError:  # there is no room for a thread
                return

    def finish(self) -> None:
        """Before the end of the process: wait a moment for what is not written yet."""
        if self._behind:
            self._behind.drain(_FAREWELL)

    def info(self, message: str, **fields: object) -> None:
        """Say what happened."""
        self._line(INFO, message, fields)

    def debug(self, message: str, **fields: object) -> None:
        """Say what only somebody who looks for a fault wants to know."""
        self._line(DEBUG, message, fields)

    def warning(self, message: str, **fields: object) -> None:
        """Say what somebody should look at."""
        self._line(WARNING, message, fields)

    def error(self, message: str, **fields: object) -> None:
        """Say what went wrong, and the mend."""
        self._line(ERROR, message, fields)

    def repeated(self, message: str, every: float = 10.0, *, usual: bool = False) -> None:
        """Warn, or inform where it is ``usual``, but at most every so many seconds of the same."""
        now = time.monotonic()
        if now - self._said.get(message, -every) >= every:
            self._said = {text: at for text, at in self._said.items() if now - at < every}
            self._said[message] = now
            (self.info if usual else self.warning)(message)

    def _line(self, level: str, message: str, fields: dict[str, object]) -> None:
        if _LEVELS[level] > self._most:
            return
        message = message[:_LONGEST]
        seconds, rest = divmod(time.time_ns() // 1_000_000, 1000)
        moment = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:03d}Z"
        if self._json:
            about = {key: value or None for key, value in self._about.items()}
            line = json.dumps(
                {"time": moment, "level": level, "message": message, **about, "role": self.role, **fields},
                ensure_ascii=False,
            )
        else:
            where = self._about.get("lock", "")
            namespace, name = self._about.get("namespace", ""), self._about.get("name", "")
            what = f"{namespace}/{name}" if namespace else name
            who = " ".join(part for part in (where, what, self._about.get("identity", ""), self.role) if part)
            line = f"{moment} kleader {level} {who}: {_printable(message)}"
        data = (line + "\n").encode(errors="backslashreplace")
        if self._dropped and self._write(f"kleader: {self._dropped} lines of log found no room\n".encode()):
            self._dropped = 0
        if not self._write(data):
            self._dropped += 1


class _Behind:
    """Writes in order, from a thread of its own; what finds no room is refused."""

    def __init__(self, write: Callable[[bytes], bool]) -> None:
        import queue  # noqa: PLC0415 - the supervisor does without
        import threading  # noqa: PLC0415

        self._lines = queue.Queue[bytes](_MOST)
        threading.Thread(target=self._run, args=(write,), daemon=True).start()

    def __call__(self, data: bytes) -> bool:
        """Whether there was room."""
        if self._lines.full():  # nobody else puts anything
            return False
        self._lines.put_nowait(data)
        return True

    def drain(self, seconds: float) -> None:
        """Wait until all is written, for so long at most."""
        lines = self._lines
        with lines.all_tasks_done:
            lines.all_tasks_done.wait_for(lambda: not lines.unfinished_tasks, seconds)

    def _run(self, write: Callable[[bytes], bool]) -> None:
        while True:
            write(self._lines.get())
            self._lines.task_done()


def _printable(text: str) -> str:
    """No control characters: what a server answers must not move a terminal's cursor, nor break a line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _sink() -> tuple[Callable[[bytes], bool], tuple[int, ...], bool]:
    """What writes to stderr and tells whether it could, the descriptors that it needs, and whether it may block."""
    try:
        mode = os.fstat(2).st_mode
    except OSError:
        return lambda _data: True, (), False
    if stat.S_ISSOCK(mode):
        import socket  # noqa: PLC0415 - only where stderr is one

        sock = socket.socket(fileno=os.dup(2))
        return lambda data: _try(lambda: sock.send(data, socket.MSG_DONTWAIT)), (sock.fileno(),), False
    if not (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        return lambda data: _try(lambda: os.write(2, data)), (), True
    # O_NONBLOCK on descriptor 2 itself would be the command's too; the same pipe opened again has flags of its own.
    if sys.platform == "linux":
        try:
            fd = os.open("/proc/self/fd/2", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:  # another user's pipe or terminal
            pass
        else:
            return lambda data: _try(lambda: os.write(fd, data)), (fd,), False
    return _when_ready, (), False


def _when_ready(data: bytes) -> bool:
    import select  # noqa: PLC0415

    poll = select.poll()
    poll.register(2, select.POLLOUT)
    return bool(poll.poll(0)) and _try(lambda: os.write(2, data))


def _try(write: Callable[[], int]) -> bool:
    try:
        write()
    except BlockingIOError:
        return False
    except OSError:  # closed by its reader, or a full disk: nobody is there to be told
        return True
    return True
