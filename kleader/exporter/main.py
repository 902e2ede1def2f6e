"""The exporter's main loop: receives the supervisor's status, and answers HTTP requests from the last one."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import TYPE_CHECKING

from kleader import system
from kleader.exporter import health
from kleader.exporter.health import HttpResponse, plain_text
from kleader.exporter.http_server import HttpConnection
from kleader.exporter.state_file import StateFile, state_of
from kleader.ipc.messages import Status

if TYPE_CHECKING:
    import socket

    from kleader.ipc.channel import Channel
    from kleader.ipc.plan import Plan
    from kleader.log import Log


def main(plan: Plan, channel: Channel, log: Log, listener: socket.socket | None) -> None:
    """Run until the supervisor ends, whatever signals arrive. ``listener``: for HTTP; None for the state file alone."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    logging.getLogger("asyncio").addHandler(logging.NullHandler())  # asyncio's own messages have tracebacks
    logging.getLogger("asyncio").propagate = False
    sys.unraisablehook = lambda event: log.debug(repr(event.exc_value), event="internal_warning")
    asyncio.new_event_loop().run_until_complete(Exporter(plan, channel, log).run(listener))


class Exporter:
    """Keeps the last status."""

    def __init__(self, plan: Plan, channel: Channel, log: Log) -> None:
        self._plan, self._channel, self._log = plan, channel, log
        self.last_status: Status | None = None
        self._over = asyncio.Event()
        self._state_file = StateFile(plan.state_file, log) if plan.state_file else None

    async def run(self, listener: socket.socket | None) -> None:
        """Run until the supervisor ends."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._on_error)
        loop.add_reader(self._channel.fd, self._receive)
        self._receive()
        if listener:
            from kleader.exporter import metrics  # noqa: PLC0415 - half of the memory, for HTTP alone

            self._metrics = metrics.response
            connections: dict[HttpConnection, None] = {}
            await loop.create_server(lambda: HttpConnection(self.respond, connections), sock=listener)
        await self._over.wait()
        if self._state_file:
            self._state_file.remove()

    def respond(self, path: str, accept: str) -> HttpResponse:
        """The response to a GET of this path, with this Accept header."""
        status, now = self.last_status, system.clock()
        if path in {"/healthz", "/healthz/leaderElection"}:  # the latter is kube-controller-manager's
            return health.healthz(status, self._plan.timing.lease_duration, now) if status else plain_text(200, "ok")
        if status is None:
            return plain_text(503, "nothing is known yet")
        if path == "/readyz":
            return health.readyz(status, self._plan.timing.lease_duration, now)
        if path in {"/leader", "/"}:
            return health.leader(status, now)
        if path == "/metrics":
            return self._metrics(status, now, accept)
        return plain_text(404, "there are /healthz, /readyz, /leader and /metrics")

    def _receive(self) -> None:
        for message in self._channel.receive():
            if isinstance(message.body, Status):
                self.last_status = message.body
        if self.last_status and self._state_file:
            self._state_file.put(state_of(self.last_status, system.clock()))
        if not self._channel.open:
            asyncio.get_running_loop().remove_reader(self._channel.fd)
            self._over.set()

    def _on_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """Log what asyncio would print with a traceback."""
        self._log.debug(f"{context.get('message')}: {context.get('exception')}", event="internal_warning")
