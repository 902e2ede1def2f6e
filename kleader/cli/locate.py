"""Finds the locks that a command is about."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kleader.cli import types
from kleader.cli.api_access import access, credentials_of
from kleader.cli.console import fail, warn
from kleader.exits import FAILED
from kleader.ipc.plan import FOR_LIFE
from kleader.kube.errors import SetUpError
from kleader.locks.file_lock import default_path

if TYPE_CHECKING:
    from kleader.observe.follow import LockSource

_MICRO = 1_000_000


class Query(NamedTuple):
    """The locks that a command is about; checked."""

    kind: str  # as --lock names it; "": every kind
    path: str  # of a lock file
    name: str  # "": every name
    namespace: str  # "": the default one
    all_namespaces: bool
    all_leases: bool
    access: dict[str, str]
    request_timeout: float  # seconds


def query(params: dict[str, Any], argument: str | None, *, one_lock: bool = False) -> Query:
    """The locks that the options and NAME name; click.UsageError, with ``one_lock`` also if they name none."""
    given = click.get_current_context().get_parameter_source("name") is click.core.ParameterSource.COMMANDLINE
    if argument and given and params["name"] != argument:
        raise click.UsageError(f"NAME {argument} and --name {params['name']} are different locks: give one")
    name = argument or params["name"] or ""
    kind, path = params["lock"] or ("", "")
    if one_lock and not name and not path:
        raise click.UsageError("which lock? give its NAME")
    namespace = params["namespace"] or ""
    if kind in {"file", FOR_LIFE}:  # on this machine, or of this Pod
        namespace = namespace or types.variable("POD_NAMESPACE", types.namespace)
    if params["request_timeout"] <= 0:
        raise click.UsageError("--request-timeout must be more than 0s")
    return Query(
        kind,
        path,
        name,
        namespace,
        bool(params.get("all_namespaces")),
        bool(params.get("all_leases")),
        access(params),
        params["request_timeout"],
    )


async def sources(query: Query) -> tuple[list[LockSource], str]:
    """The sources that show those locks, and their namespace, "" for all. Exits with 125 without a cluster."""
    if query.kind == "file":
        return [_file_source(query)], "" if query.all_namespaces else query.namespace or "default"
    from kleader.observe.follow import kube_sources
    from kleader.observe.kube_source import Scope

    # The user of a query for every kind did not choose the kinds that the API server warns about.
    credentials = credentials_of(query.access, warn) if query.kind else credentials_of(query.access)
    try:
        await credentials.refresh()
    except SetUpError as error:
        fail(str(error), FAILED)
    for notice in credentials.notices:
        warn(notice)
    namespace = "" if query.all_namespaces else query.namespace or credentials.namespace
    scope = Scope(namespace, query.name, query.all_leases)
    return [*kube_sources(credentials, query.kind, scope, query.request_timeout)], namespace


def _file_source(query: Query) -> LockSource:
    from kleader.observe.file_source import FileSource

    if query.path:
        return FileSource(query.path)
    namespace = query.namespace or "default"
    path = default_path(namespace, query.name or "x")
    if query.name and not query.all_namespaces:
        return FileSource(path)
    return FileSource(os.path.dirname(path), "" if query.all_namespaces else f"{namespace}.", query.name)


class Clock:
    """The API server's time of day, if this machine's clock is clearly another; else this machine's."""

    def __init__(self, sources: list[LockSource]) -> None:
        self._sources = sources

    def now(self) -> int:
        """Microseconds since the epoch."""
        return time.time_ns() // 1000 + round(self.behind * _MICRO)

    @property
    def behind(self) -> float:
        """Seconds by which this machine's clock is certainly behind the server's; 0 if that is uncertain."""
        for source in self._sources:
            skew = source.skew
            if skew and abs(skew.seconds) > skew.error + 1:
                return skew.seconds
        return 0.0
