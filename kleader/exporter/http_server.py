"""An HTTP server for GET and HEAD: one request a connection, with bounds on all that a client decides."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import h11

from kleader.exporter.health import HttpResponse, plain_text

if TYPE_CHECKING:
    from collections.abc import Callable

    Respond = Callable[[str, str], HttpResponse]

_MAX_CONNECTIONS = 64
_MAX_CONNECTION_SECONDS = 5.0
_MAX_REQUEST_BYTES = 8192
_NOT_ALLOWED = 405


class HttpConnection(asyncio.Protocol):
    """One connection. ``connections``: all of the server, in order; ``respond`` is given path and Accept header."""

    def __init__(self, respond: Respond, connections: dict[HttpConnection, None]) -> None:
        self._respond, self._connections = respond, connections
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_REQUEST_BYTES)
        self._is_answered = self._is_head = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Abort it after five seconds, and the oldest connection if there are too many."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - TCP's
        self._transport = transport
        self._timer = asyncio.get_running_loop().call_later(_MAX_CONNECTION_SECONDS, transport.abort)
        self._connections[self] = None
        if len(self._connections) > _MAX_CONNECTIONS:
            oldest = next(iter(self._connections))
            del self._connections[oldest]
            oldest._transport.abort()  # noqa: SLF001 - of this class

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Count it no more."""
        self._timer.cancel()
        self._connections.pop(self, None)

    def data_received(self, data: bytes) -> None:
        """Respond once the request's head is complete; a body is not read."""
        if self._is_answered:
            return
        try:
            self._http.receive_data(data)
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            self._send(plain_text(error.error_status_hint, "this is no HTTP request"))
            return
        if isinstance(event, h11.Request):
            self._send(self._response(event))
        elif event is not h11.NEED_DATA:  # the client closed it without a request
            self._transport.close()

    def _response(self, request: h11.Request) -> HttpResponse:
        self._is_head = request.method == b"HEAD"
        if request.method not in {b"GET", b"HEAD"}:
            return plain_text(_NOT_ALLOWED, "GET and HEAD only")
        accept = b",".join(value for name, value in request.headers if name == b"accept")
        return self._respond(request.target.decode("ascii").partition("?")[0], accept.decode("latin-1"))

    def _send(self, response: HttpResponse) -> None:
        self._is_answered = True
        headers = [
            ("Content-Type", response.content_type),
            ("Content-Length", str(len(response.body))),
            ("Cache-Control", "no-store"),
            ("Connection", "close"),
        ]
        if response.status == _NOT_ALLOWED:
            headers.append(("Allow", "GET, HEAD"))
        data = self._http.send(h11.Response(status_code=response.status, headers=headers)) or b""
        if not self._is_head:
            data += self._http.send(h11.Data(data=response.body)) or b""
        self._transport.write(data)
        self._transport.close()
