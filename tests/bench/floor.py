"""The floor: what a handover costs where nobody thinks. One process, one thread, bytes prepared beforehand.

PUT that frees → its watch event on another connection → PUT that takes → fork and exec → the command's first act.
"""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import time
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from tests.bench.journal import clock
from tests.support.api import lease, lease_path

if TYPE_CHECKING:
    from tests.bench.journal import Journal
    from tests.support.api import Object
    from tests.support.plane import Plane

_VERSION = re.compile(rb'"resourceVersion":"(\d+)"')
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: (\d+)\r\n")
_PLACE = b'"resourceVersion":"the version, once it is known"'


class Floor:
    """Three connections and a Lease of its own."""

    def __init__(self, plane: Plane, namespace: str, headers: str, journal: Journal) -> None:
        self._plane, self._headers, self._journal = plane, headers, journal
        self._path = lease_path(namespace, "floor")
        self._uid: str = ""
        plane.api.create(lease(namespace, "floor", "one"))
        self._free, self._take = _connect(plane), _connect(plane)
        self._watch = _connect(plane)
        collection, _, name = self._path.rpartition("/")
        query = urlencode({"watch": "1", "fieldSelector": f"metadata.name={name}"})
        self._watch.sendall(self._head("GET", f"{collection}?{query}") + b"\r\n")
        _read_until(self._watch, b"}\n")  # the present state
        self._children: list[int] = []

    def trial(self) -> float:
        """Seconds from before the first PUT is sent to the command's first act."""
        now = self._plane.api.get(self._path)
        free = _with(self._put(now, ""), now["metadata"]["resourceVersion"].encode())
        take = self._put(now, "two")
        argv = self._journal.argv()
        count = len(self._journal.look())
        began = clock()
        self._free.sendall(free)
        version = _VERSION.findall(_read_until(self._watch, b"}\n"))[-1]
        self._take.sendall(_with(take, version))
        _read_answer(self._take)
        pid = os.posix_spawn(argv[0], argv, os.environ)
        started = self._journal.wait_runs(count + 1).start
        _read_answer(self._free)
        _read_until(self._watch, b"}\n")
        os.kill(pid, 15)
        os.waitpid(pid, 0)
        return started - began

    def close(self) -> None:
        """Let go of the connections."""
        for sock in (self._free, self._take, self._watch):
            sock.close()

    def _head(self, method: str, target: str) -> bytes:
        host = f"{self._plane.api.host}:{self._plane.api.port}"
        return f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\n{self._headers}".encode()

    def _put(self, now: Object, holder: str) -> bytes:
        """A whole PUT, with _PLACE in the place of the version."""
        micro = f"{time.time_ns() // 1000 % 1_000_000:06d}"
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime()) + micro + "Z"
        body = {
            **now,
            "metadata": {**now["metadata"], **json.loads(b"{%b}" % _PLACE)},
            "spec": {**now["spec"], "holderIdentity": holder, "renewTime": stamp},
        }
        data = json.dumps(body, separators=(",", ":")).encode()
        more = f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        return self._head("PUT", self._path) + more.encode() + data


def _with(put: bytes, version: bytes) -> bytes:
    """Put the version in its place, and keep the length."""
    return put.replace(_PLACE, (b'"resourceVersion":"%b"' % version).ljust(len(_PLACE)))


def _connect(plane: Plane) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(plane.ca_file))
    host = urlsplit(plane.url).hostname or ""
    sock = socket.create_connection((plane.api.host, plane.api.port), timeout=30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(sock, server_hostname=host)


def _read_until(sock: ssl.SSLSocket, end: bytes) -> bytes:
    data = b""
    while end not in data:
        piece = sock.recv(65536)
        assert piece, "the API server closed the floor's connection"
        data += piece
    return data


def _read_answer(sock: ssl.SSLSocket) -> None:
    """The whole answer; AssertionError unless it is a 200."""
    data = _read_until(sock, b"\r\n\r\n")
    assert data.startswith(b"HTTP/1.1 200"), data[:500]
    found = _LENGTH.search(data)
    assert found, data[:500]
    missing = data.index(b"\r\n\r\n") + 4 + int(found[1]) - len(data)
    while missing > 0:
        missing -= len(sock.recv(missing))
