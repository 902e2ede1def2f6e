"""One end of the connection between two processes of one kleader. A send never blocks: the peer may be stopped."""

from __future__ import annotations

import errno
import socket

from kleader.ipc.messages import Body, Message, decode, encode

_MAX_MESSAGE_BYTES = 1 << 18  # the kernel cuts longer ones, which then cannot be decoded
_MAX_MESSAGES = 256  # received in one call, so that a flood cannot delay a deadline


class Channel:
    """Messages over a connected socket: packets on Linux, lines of a stream elsewhere.

    ``open`` is False once the peer has closed its end or died. ``full``: the last send found the peer's queue full.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._incomplete = b""  # the beginning of a line
        self._packets = sock.type != socket.SOCK_STREAM
        self.open, self.full = True, False

    @property
    def fd(self) -> int:
        """The socket's descriptor, for poll."""
        return self._socket.fileno()

    def send(self, term: int, body: Body) -> bool:
        """Hand a message to the kernel; False if the peer is gone, its queue full, or the message too long for it."""
        data, self.full = encode(Message(term, body)), False
        try:
            return self._socket.send(data) == len(data)
        except BlockingIOError:
            self.full = True
            return False
        except OSError as error:
            self.open = self.open and error.errno == errno.EMSGSIZE
            return False

    def receive(self) -> list[Message]:
        """The messages that have arrived, in order; the peer's last ones also after its death."""
        messages: list[Message] = []
        for _ in range(_MAX_MESSAGES):
            try:
                data = self._socket.recv(_MAX_MESSAGE_BYTES)
            except BlockingIOError:
                break
            except ConnectionResetError:  # the peer died with messages of ours unread; its last ones are still here
                continue
            except OSError:
                data = b""
            if not data:
                self.open = False
                break
            *lines, rest = (self._incomplete + data).split(b"\n")
            self._incomplete = b"" if self._packets else rest[-_MAX_MESSAGE_BYTES:]
            messages += filter(None, map(decode, lines))
        return messages

    def close(self) -> None:
        """Close this end, as the peer sees."""
        self.open = False
        self._socket.close()


class ReliableChannel(Channel):
    """The elector's end: a supervisor that was stopped for long, and whose queue is full, misses no fact.

    The latest message of each kind waits for room, in order, and is sent with the next message, such as a heartbeat.
    """

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._unsent: dict[type[Body], Message] = {}

    def send(self, term: int, body: Body) -> bool:
        """As of a Channel; False while a message waits. No message overtakes another, even if there is room for it."""
        sent, self._unsent[type(body)] = True, Message(term, body)
        for kind, waiting in [*self._unsent.items()]:
            sent &= super().send(*waiting)
            if self.full:
                break
            del self._unsent[kind]
        return sent
