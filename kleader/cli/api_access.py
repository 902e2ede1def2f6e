"""How the command line reaches the API server: with which credentials, and in an event loop of its own."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from kleader import launch
from kleader.cli.console import warn
from kleader.exits import SIGNALLED

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping

    from kleader.kube.client import ApiClient
    from kleader.kube.credentials import Credentials

T = TypeVar("T")


def access(params: Mapping[str, Any]) -> dict[str, str]:
    """The connection options as kleader.kube.credentials takes them, the URL without a password."""
    named = {key: params[key] for key in ("kubeconfig", "context", "cluster", "user", "server", "as")}
    if "@" in named["server"]:
        from kleader.kube.urls import without_userinfo

        named["server"] = without_userinfo(named["server"])
    return named


def credentials_of(access: Mapping[str, str], warn: Callable[[str], None] = lambda _: None) -> Credentials:
    """The credentials that the elector would use; ``warn`` gets the warnings of the API server."""
    from kleader.kube.credentials import Credentials

    path = [place for place in sys.path if place and os.path.isabs(place)]
    return Credentials(access, lambda text: [*launch.interpreter(), "kubeconfig", text, *path], warn, in_process=True)


@asynccontextmanager
async def client(params: Mapping[str, Any]) -> AsyncGenerator[ApiClient, None]:
    """A client for the cluster that the options name. SetUpError."""
    from kleader.kube.client import ApiClient

    api = ApiClient(credentials_of(access(params)))
    try:
        await api.credentials.refresh()
        yield api
    finally:
        api.close()


def default_namespace() -> str:
    """The namespace without -n: the context's, the Pod's, or default."""
    from kleader.kube import kubeconfig
    from kleader.kube.errors import SetUpError

    credentials = credentials_of({})
    try:
        run(credentials.read_without_plugins())
    except SetUpError as error:
        if any(map(os.path.exists, kubeconfig.paths({}))):
            warn(f"{error}; the namespace is therefore {credentials.namespace}: give -n to choose another")
    return credentials.namespace


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine in an event loop. Signals have their default effect, also in PID 1."""
    import asyncio
    import logging

    if os.getpid() == 1:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: os._exit(SIGNALLED + number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
    logging.getLogger("asyncio").addHandler(logging.NullHandler())  # it logs tracebacks
    logging.getLogger("asyncio").propagate = False
    sys.unraisablehook = lambda _: None
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))  # ends a task that has not begun: Python would warn about it
