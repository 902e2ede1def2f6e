"""A candidate that waits makes itself known (kleader.locks.candidate_registry), for ``status`` and ``transfer``.

It writes when it has waited for a moment, every five minutes, and when it waits no more. Nothing waits for it: neither
an acquisition nor a release.
"""

from __future__ import annotations

import _blake2
import random
import time
from typing import TYPE_CHECKING, Any

from kleader import __version__
from kleader.backoff import Backoff
from kleader.election.events import Kind
from kleader.election.state import Phase
from kleader.elector.best_effort import StateWriter
from kleader.kube.client import ApiClient
from kleader.kube.errors import ForbiddenError, LockError
from kleader.kube.timeout import wait_at_most
from kleader.locks import candidate_registry as registry
from kleader.locks.candidate_registry import READY, UNHEALTHY, Registered

if TYPE_CHECKING:
    from collections.abc import Callable

    from kleader.election.state import State
    from kleader.ipc.plan import Plan
    from kleader.kube.credentials import Credentials
    from kleader.log import Log

_DELAY_SECONDS = 1.0  # after a change: a handover has this machine and the API server to itself
_TIMEOUT = 5.0  # seconds for one request
_UNKNOWN = "unknown"  # what an earlier elector, or a request without an answer, may have written


class Registration(StateWriter):
    """Writes this candidate's state, "" for none, until the registry has it.

    ``clock``: the API server's, in microseconds since the epoch; None: not known. ``fresh``: no elector before this one
    has written anything.
    """

    def __init__(  # noqa: PLR0913 - who it is, and where
        self,
        plan: Plan,
        credentials: Credentials,
        log: Log,
        namespace: str,
        clock: Callable[[], int | None],
        *,
        fresh: bool,
    ) -> None:
        super().__init__("" if fresh else _UNKNOWN)
        self._plan, self._credentials, self._log = plan, credentials, log
        self._namespace, self._clock = namespace, clock
        unique = _blake2.blake2b(f"{plan.identity} {plan.started}".encode(errors="replace"), digest_size=10)
        self._key = registry.entry_key(unique.hexdigest())
        self._name, self._target = registry.registry_name(plan.name), registry.target(namespace, plan.name)
        self._since = 0
        self._exists = False  # the registry, as far as is known
        self._outdated: list[str] = []
        self._warned = False
        self._ended = False

    def follow(self, state: State) -> None:
        """Note the election's state, after each step. A candidate that gives up soon does not wait for leadership."""
        if state.phase is not Phase.FOLLOWING:
            self._want("")
            return
        holder = state.observed.record.holder if state.observed else ""
        if holder not in {"", state.me.identity} and not (state.me.one_try or state.me.live):
            self._want(READY)

    async def end(self, seconds: float, *, unhealthy: bool) -> None:
        """Write the last state, in at most so many seconds."""
        self._ended = True
        self._changed.set()
        self._want(UNHEALTHY if unhealthy else "")
        await self._finish(seconds)

    def _want(self, state: str) -> None:
        if self._plan.registers and not (self._ended and state == READY):
            super()._want(state)

    async def _keep(self) -> None:
        """Write what is wanted, and renew it."""
        backoff = Backoff(2.0, registry.RENEWAL)
        while self._is_due:
            self._changed.clear()
            if self._wanted != self._written and not self._ended:
                await wait_at_most(self._changed, _DELAY_SECONDS)
                if self._wanted == self._written:
                    continue
            wanted, self._written = self._wanted, _UNKNOWN
            try:
                await self._write(wanted)
            except ForbiddenError as error:
                grant = f"grant get, update, create and patch on the Lease {registry.registry_name(self._plan.name)}"
                self._report(f"{grant}, so that status and transfer know this candidate: {error}", warn=True)
                pause = registry.RENEWAL
            except Exception as error:  # noqa: BLE001 - no exception may end a term
                refused = isinstance(error, LockError) and error.failure.kind is Kind.REFUSED
                self._report(f"this candidate is not registered: {type(error).__name__}: {error}", warn=refused)
                pause = backoff.pause()
            else:
                self._written = wanted
                self._log.debug(f"registered as {wanted}" if wanted else "not registered any more", event="registered")
                backoff.reset()
                pause = registry.RENEWAL * (1 - random.random() / 10)  # noqa: S311 - spreads candidates
            if self._is_due:
                await wait_at_most(self._changed, pause)

    @property
    def _is_due(self) -> bool:
        """Whether there is something to write, now or later."""
        return self._wanted != self._written or (self._wanted != "" and not self._ended)

    async def _write(self, state: str) -> None:
        """LockError. The first write reads the registry before: another program may have a Lease of its name."""
        api = ApiClient(self._credentials, shared=True)
        try:
            if self._exists or await self._find(api, state):
                entries = {self._key: self._entry(state), **dict.fromkeys(self._outdated)}
                patch = {"metadata": {"annotations": entries}}
                self._note(await api.call("PATCH", self._target, patch, _TIMEOUT))
        except LockError as error:
            self._exists &= error.failure.kind is not Kind.MISSING
            raise
        finally:
            api.close()

    async def _find(self, api: ApiClient, state: str) -> bool:
        """Read the registry, or create it with this candidate in it; whether something is left to write."""
        try:
            found = await api.call("GET", self._target, None, _TIMEOUT)
        except LockError as error:
            if error.failure.kind is not Kind.MISSING:
                raise
            if state:
                body = registry.blank(self._namespace, self._plan.name, {self._key: self._entry(state)})
                self._note(await api.call("PUT", self._target, body, _TIMEOUT))
            return False
        if not registry.is_registry(found):
            raise LockError(Kind.REFUSED, f"the Lease {self._namespace}/{self._name} is another program's")
        self._note(found)
        return bool(state) or registry.has_entry(found, self._key)

    def _note(self, found: dict[str, Any]) -> None:
        self._exists, self._outdated = True, registry.outdated_keys(found, self._now)

    @property
    def _now(self) -> int:
        return self._clock() or time.time_ns() // 1000

    def _entry(self, state: str) -> str | None:
        if not state:
            return None
        plan, now = self._plan, self._now
        self._since = self._since or now
        me = Registered(plan.identity, plan.lock, state, self._since, now, plan.priority, plan.pod.name, __version__)
        return registry.to_text(me)

    def _report(self, what: str, *, warn: bool) -> None:
        is_news = warn and not self._warned
        (self._log.warning if is_news else self._log.debug)(what, event="registration_failed")
        self._warned |= warn
