"""Answers whoever asks on this machine what this kleader is doing: ``kleader is-leader`` does."""

from __future__ import annotations

import math
import os
import socket

from kleader.link import local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kleader.log import Log

_MOST = 16  # answered in one turn, so that a flood cannot keep a deadline waiting
_REST = 0.02  # seconds until the next turn, after one with so many: nor does it take the processor
_QUIETLY = socket.MSG_DONTWAIT | getattr(socket, "MSG_NOSIGNAL", 0)


class Desk:
    """Its socket. Anybody may ask who can reach it, and hears the same; nothing that is sent there is read."""

    def __init__(self, name: str, log: Log) -> None:
        self._socket: socket.socket | None = None
        self._path = ""
        self._rest_until = -math.inf
        try:
            self._socket, self._path = local.listen(name)
        except OSError as error:
            trouble = f"is-leader cannot ask this kleader: {error.strerror or error}: see {local.RUNTIME_DIR}"
            log.warning(trouble)

    @property
    def fd(self) -> int | None:
        """For poll."""
        return self._socket.fileno() if self._socket and self.due == math.inf else None

    @property
    def due(self) -> float:
        """When to look though poll says nothing."""
        return self._rest_until if self._rest_until > 0 else math.inf

    def serve(self, now: float, answer: Callable[[], bytes]) -> None:
        """Answer those who have come."""
        if self._socket is None or now < self._rest_until:
            return
        self._rest_until = -math.inf
        said = b""
        for _ in range(_MOST):
            try:
                asker = self._socket.accept()[0]
            except BlockingIOError:
                return
            except OSError:  # too many open files
                break
            said = said or answer()
            try:
                asker.send(said, _QUIETLY)  # finds room, or is for somebody who has gone
            except OSError:
                pass
            asker.close()
        self._rest_until = now + _REST

    def close(self) -> None:
        """Leave no file."""
        if self._path:
            try:
                os.unlink(self._path)
            except OSError:
                return
