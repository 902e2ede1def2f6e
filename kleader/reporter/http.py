"""An HTTP server that answers one GET or HEAD a connection, bounded in all that somebody else decides."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import h11

from kleader.reporter.answers import Answer, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    Respond = Callable[[str, str], Answer]

_MOST = 64  # connections at once
_LONGEST = 5.0  # seconds of one
_LARGEST = 8192  # bytes of a request
_NOT_ALLOWED = 405


class Connection(asyncio.Protocol):
    """One of ``all_of_them``, in order; ``respond`` is given the path and the Accept header."""

    def __init__(self, respond: Respond, all_of_them: dict[Connection, None]) -> None:
        self._respond, self._all = respond, all_of_them
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_LARGEST)
        self._answered = self._bodiless = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Abort it when its time is over, and the oldest if there are too many."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - TCP's
        self._transport = transport
        self._timer = asyncio.get_running_loop().call_later(_LONGEST, transport.abort)
        self._all[self] = None
        if len(self._all) > _MOST:
            oldest = next(iter(self._all))
            del self._all[oldest]
            oldest._transport.abort()  # noqa: SLF001 - one of us

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """It counts no more."""
        self._timer.cancel()
        self._all.pop(self, None)

    def data_received(self, data: bytes) -> None:
        """Answer once the request is complete, as far as anything of it matters."""
        if self._answered:
            return
        try:
            self._http.receive_data(data)
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            self._send(plain(error.error_status_hint, "this is no request"))
            return
        if isinstance(event, h11.Request):
            self._send(self._answer(event))
        elif event is not h11.NEED_DATA:  # it was closed before it began
            self._transport.close()

    def _answer(self, request: h11.Request) -> Answer:
        self._bodiless = request.method == b"HEAD"
        if request.method not in {b"GET", b"HEAD"}:
            return plain(_NOT_ALLOWED, "GET and HEAD only")
        accept = b",".join(value for name, value in request.headers if name == b"accept")
        return self._respond(request.target.decode("ascii").partition("?")[0], accept.decode("latin-1"))

    def _send(self, answer: Answer) -> None:
        self._answered = True
        headers = [
            ("Content-Type", answer.content),
            ("Content-Length", str(len(answer.body))),
            ("Cache-Control", "no-store"),
            ("Connection", "close"),
        ]
        if answer.status == _NOT_ALLOWED:
            headers.append(("Allow", "GET, HEAD"))
        said = self._http.send(h11.Response(status_code=answer.status, headers=headers)) or b""
        if not self._bodiless:
            said += self._http.send(h11.Data(data=answer.body)) or b""
        self._transport.write(said)
        self._transport.close()
