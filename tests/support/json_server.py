"""A server that answers every request with JSON and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator


class Asked(NamedTuple):
    """A request."""

    method: str
    path: str
    headers: dict[str, str]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Nothing: a client may not trust the certificate."""


@contextmanager
def json_server(
    answer: Callable[[Asked, int], object], tls: ssl.SSLContext | None = None
) -> Iterator[tuple[int, list[Asked]]]:
    """The port on 127.0.0.1, and the requests so far; ``answer`` gets each request and the port."""
    seen: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = Asked(self.command, self.path, dict(self.headers))
            seen.append(asked)
            body = json.dumps(answer(asked, server.server_port)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with _Server(("127.0.0.1", 0), Handler) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port, seen
        server.shutdown()
