"""The reporter's loop: hears the supervisor, and answers others by what it heard last."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import TYPE_CHECKING

from kleader import platform
from kleader.link.messages import Status
from kleader.reporter import answers
from kleader.reporter.answers import Answer, plain
from kleader.reporter.file import StateFile
from kleader.reporter.http import Connection

if TYPE_CHECKING:
    import socket

    from kleader.link.channel import Channel
    from kleader.link.plan import Plan
    from kleader.log import Log


def main(plan: Plan, channel: Channel, log: Log, served: socket.socket | None) -> None:
    """Until the supervisor ends, whatever signals arrive."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    logging.getLogger("asyncio").addHandler(logging.NullHandler())  # its own remarks end in tracebacks
    logging.getLogger("asyncio").propagate = False
    sys.unraisablehook = lambda event: log.debug(repr(event.exc_value))
    asyncio.new_event_loop().run_until_complete(Reporter(plan, channel, log).run(served))


class Reporter:
    """Knows what it was told last."""

    def __init__(self, plan: Plan, channel: Channel, log: Log) -> None:
        self._plan, self._channel, self._log = plan, channel, log
        self._told: Status | None = None
        self._over = asyncio.Event()
        self._file: StateFile | None = None
        if plan.state_file:
            self._file = StateFile(plan.state_file, log)

    async def run(self, served: socket.socket | None) -> None:
        """Until the supervisor ends."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._on_error)
        loop.add_reader(self._channel.fd, self._hear)
        self._hear()
        if served:
            from kleader.reporter import metrics  # noqa: PLC0415 - half of the memory, for HTTP alone

            self._metrics = metrics.answer
            connections: dict[Connection, None] = {}
            await loop.create_server(lambda: Connection(self.answer, connections), sock=served)
        await self._over.wait()
        if self._file:
            self._file.remove()

    def answer(self, path: str, accept: str) -> Answer:
        """Whoever asks over HTTP."""
        told, now = self._told, platform.clock()
        if path == "/healthz":
            return answers.healthz(told, self._plan.lease_duration, now) if told else plain(200, "ok")
        if told is None:
            return plain(503, "nothing is known yet")
        if path == "/readyz":
            return answers.readyz(told)
        if path in {"/leader", "/"}:
            return answers.leader(told, now)
        if path == "/metrics":
            return self._metrics(told, now, accept)
        return plain(404, "there are /healthz, /readyz, /leader and /metrics")

    def _hear(self) -> None:
        for message in self._channel.receive():
            if isinstance(message, Status):
                self._told = message
        if self._told and self._file:
            self._file.put(answers.state(self._told, platform.clock()))
        if not self._channel.open:
            asyncio.get_running_loop().remove_reader(self._channel.fd)
            self._over.set()

    def _on_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """What asyncio would print with a traceback."""
        self._log.debug(f"{context.get('message')}: {context.get('exception')}")
