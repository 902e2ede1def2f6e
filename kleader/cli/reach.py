"""How a command that only looks finds the locks that it was asked for."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from kleader import boot
from kleader.cli import options, types
from kleader.cli.say import FAILED, fail
from kleader.locks.base import SetUpError
from kleader.locks.file import LockFileError, default_path

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from kleader.locks.credentials import Credentials
    from kleader.watching.fleet import Follows

T = TypeVar("T")
_MICRO = 1_000_000


class Asked(NamedTuple):
    """Which locks; checked."""

    kind: str  # as --lock names it; "": of every kind
    path: str  # of a lock file
    name: str  # "": of every name
    namespace: str  # "": the surroundings'
    everywhere: bool
    all_leases: bool
    access: dict[str, str]
    timeout: float


def asked(given: dict[str, Any], argument: str | None) -> Asked:
    """What the options and NAME say; click.UsageError."""
    if argument and given["name"] not in {None, argument} and _told("name"):
        msg = f"NAME {argument} and --name {given['name']} are two locks: leave one out"
        raise click.UsageError(msg)
    name = argument or given["name"] or ""
    kind, path = given["lock"] or ("", "")
    everywhere = bool(given.get("all_namespaces"))
    namespace = types.namespace_name("--namespace", given["namespace"] or "") or types.namespace_name(
        "POD_NAMESPACE", os.environ.get("POD_NAMESPACE", "")
    )
    if given["request_timeout"] <= 0:
        msg = "--request-timeout must be more than 0s"
        raise click.UsageError(msg)
    return Asked(
        kind,
        path,
        types.object_name(name) if name and not path else name,
        namespace,
        everywhere,
        bool(given.get("all_leases")),
        options.access(given),
        given["request_timeout"],
    )


def _told(param: str) -> bool:
    return click.get_current_context().get_parameter_source(param) is click.core.ParameterSource.COMMANDLINE


def credentials_of(access: Mapping[str, str]) -> Credentials:
    """As ROAD's options have them, read as the elector reads them."""
    from kleader.locks.credentials import Credentials

    path = [place for place in sys.path if place and os.path.isabs(place)]
    return Credentials(access, lambda told: [*boot.interpreter(), "kubeconfig", told, *path])


async def sources(what: Asked) -> tuple[list[Follows], str]:
    """Where those locks may be, and the namespace that is looked at, "" for all. Ends with 125 where no road leads."""
    if what.kind == "file":
        return [_files(what)], "" if what.everywhere else what.namespace or "default"
    from kleader.watching import fleet
    from kleader.watching.source import Where

    credentials = credentials_of(what.access)
    try:
        await credentials.refresh()
    except SetUpError as error:
        fail(str(error), FAILED)
    namespace = "" if what.everywhere else what.namespace or credentials.namespace
    where = Where(namespace, what.name, what.all_leases)
    return [*fleet.sources(credentials, what.kind, where, what.timeout)], namespace


def _files(what: Asked) -> Follows:
    from kleader.watching.files import Files

    if what.path:
        return Files(what.path)
    try:
        path = default_path(what.namespace or "default", what.name or "x")
    except LockFileError as error:
        fail(error.strerror, FAILED)
    if what.name and not what.everywhere:
        return Files(path)
    return Files(os.path.dirname(path), "" if what.everywhere else f"{what.namespace or 'default'}.", what.name)


class Clock:
    """The time of day as the API server has it, where this machine's is clearly another."""

    def __init__(self, sources: list[Follows]) -> None:
        self._sources = sources

    def now(self) -> int:
        """Microseconds since the epoch."""
        return time.time_ns() // 1000 + round(self.behind * _MICRO)

    @property
    def behind(self) -> float:
        """By how many seconds this machine's clock is behind the server's; 0 where that is not beyond doubt."""
        for source in self._sources:
            skew = source.skew
            if skew and abs(skew.seconds) > skew.error + 1:
                return skew.seconds
        return 0.0


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run it. Signals do what they do by default, as PID 1 too."""
    import asyncio
    import logging

    if os.getpid() == 1:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: os._exit(128 + number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
    logging.getLogger("asyncio").addHandler(logging.NullHandler())  # its own remarks end in tracebacks
    logging.getLogger("asyncio").propagate = False
    sys.unraisablehook = lambda _: None
    return asyncio.new_event_loop().run_until_complete(work)
