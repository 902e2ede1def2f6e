"""What no term depends on: it follows the election, its requests may fail, and no exception is raised."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kleader.kube.client import ApiClient
from kleader.kube.errors import ForbiddenError, LockError

if TYPE_CHECKING:
    from kleader.election.state import State
    from kleader.kube.credentials import Credentials
    from kleader.log import Log

TIMEOUT = 5.0  # seconds for one request


class Follower:
    """Follows an election, without a part in it. One that has to wait starts a task."""

    def follow(self, state: State) -> None:
        """Note the election's state, after each step."""

    def became_leader(self) -> None:
        """Note that the last step began a term."""

    def command(self, *, runs: bool) -> None:
        """Note that the command was started, or is asked to stop."""

    async def settle(self, seconds: float) -> None:
        """Before the last write of a term: finish what others should see earlier, in at most so many seconds."""

    async def end(self, seconds: float, *, unhealthy: bool) -> None:
        """At the end of the elector: finish, in at most so many seconds. ``unhealthy``: why the candidacy ends."""


class StateWriter(Follower):
    """Writes the state that is wanted until it is written; one request at a time: the order of two would be unknown.

    ``written``: the state at first; None: unknown.
    """

    def __init__(self, written: str | None) -> None:
        self._wanted, self._written = "", written
        self._changed = asyncio.Event()  # what is wanted
        self._work: asyncio.Task[None] | None = None

    def _want(self, state: str) -> None:
        if state != self._wanted:
            self._wanted = state
            self._changed.set()
        if state != self._written and not (self._work and not self._work.done()):
            self._work = asyncio.get_running_loop().create_task(self._keep())

    async def _keep(self) -> None:
        """Write what is wanted."""
        raise NotImplementedError

    async def _finish(self, seconds: float) -> None:
        """Wait until the state is written, at most so many seconds."""
        if self._work:
            await asyncio.wait([self._work], timeout=seconds)


class BestEffortCall:
    """Each request has a connection of its own, so that no request of the lock waits for it.

    ``event``: of the log; ``failure``: a sentence for a request that failed; ``grant``: one for a missing permission.
    The log warns of a missing permission once. If the call ``is_important``, it warns of other failures too, and of
    each again after a success.
    """

    def __init__(  # noqa: PLR0913 - what the log says of it
        self, credentials: Credentials, log: Log, *, event: str, failure: str, grant: str, is_important: bool = False
    ) -> None:
        self._credentials, self._log = credentials, log
        self._event, self._failure, self._grant, self._is_important = event, failure, grant, is_important
        self._warned: set[str] = set()

    async def run(self, method: str, target: str, body: dict[str, Any]) -> bool:
        """Whether the request succeeded."""
        api = ApiClient(self._credentials, shared=True)
        try:
            await api.call(method, target, body, TIMEOUT)
        except ForbiddenError as error:
            self._report(self._grant, str(error), warn=True)
        except LockError as error:
            self._report(self._failure, str(error), warn=self._is_important)
        except Exception as error:  # noqa: BLE001 - no exception may end a term
            self._report(self._failure, f"{type(error).__name__}: {error}", warn=self._is_important)
        else:
            if self._is_important:
                self._warned.clear()
            return True
        finally:
            api.close()
        return False

    def _report(self, what: str, reason: str, *, warn: bool) -> None:
        is_news = warn and what not in self._warned
        (self._log.warning if is_news else self._log.debug)(f"{what}: {reason}", event=self._event)
        self._warned |= {what} if warn else set()
