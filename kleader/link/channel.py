"""One end of the link. A send never blocks: a peer that is stopped must not stop us."""

from __future__ import annotations

import errno
import socket

from kleader.link.messages import Message, decode, encode

_MOST = 1 << 18  # bytes of one message; longer ones are cut by the kernel, and then are none
_FULLEST = 256  # messages taken in one go, so that a flood cannot keep a deadline waiting


class Channel:
    """Messages over a connected socket: packets on Linux, lines of a stream elsewhere."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._rest = b""
        self._packets = sock.type != socket.SOCK_STREAM
        self.open = True

    @property
    def fd(self) -> int:
        """For poll."""
        return self._socket.fileno()

    def send(self, message: Message) -> bool:
        """Hand the message to the kernel; False if the peer is gone, its queue full, or the message too long for it."""
        data = encode(message)
        try:
            return self._socket.send(data) == len(data)
        except BlockingIOError:
            return False
        except OSError as error:
            self.open = self.open and error.errno == errno.EMSGSIZE
            return False

    def receive(self) -> list[Message]:
        """What has arrived, in order. ``open`` turns False at the peer's death, after its last message was read."""
        found: list[Message] = []
        for _ in range(_FULLEST):
            try:
                data = self._socket.recv(_MOST)
            except BlockingIOError:
                break
            except ConnectionResetError:  # it died with something of ours unread; its last words are still there
                continue
            except OSError:
                data = b""
            if not data:
                self.open = False
                break
            found += self._messages(data)
        return found

    def close(self) -> None:
        """Let the peer see the end."""
        self.open = False
        self._socket.close()

    def _messages(self, data: bytes) -> list[Message]:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = b"" if self._packets else rest[-_MOST:]
        return [message for line in lines if (message := decode(line))]
