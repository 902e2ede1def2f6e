"""The roll that a leader of coordinated election calls when its term begins to end: it asks who else is still alive.

The control plane believes a sign of life for 5 s, and waits as long for one that it has asked for (pingTime; see
reconcileElectionStep of pkg/controlplane/controller/leaderelection). A candidate that crashed just before the leader
goes is therefore named first, and asked only when it has not led. Asked in the same way while the leader's command
still winds down, the living have answered by the time that the lock is free, and the dead have used up some of their
5 s.
"""

from __future__ import annotations

import asyncio
import time
import urllib.parse
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple

from kleader import platform
from kleader.election.events import Kind
from kleader.election.record import micro_time
from kleader.election.state import Phase
from kleader.elector.errand import Errand
from kleader.locks.base import LockError
from kleader.locks.candidate import PATIENCE, instant
from kleader.locks.object import texts
from kleader.locks.pages import pages
from kleader.locks.within import within

if TYPE_CHECKING:
    from kleader.election.state import State
    from kleader.locks.answers import Skew
    from kleader.locks.api import Api
    from kleader.locks.candidate import LeaseCandidate
    from kleader.locks.credentials import Credentials
    from kleader.log import Log

_PAGE = "500"  # LeaseCandidates; the API server selects them by no field of theirs
_SECOND = 1_000_000  # microseconds
_GRANT = "grant list and patch on leasecandidates, so that one that crashed delays no handover long"


class Present(NamedTuple):
    """A LeaseCandidate of this lock, as the list shows it; instants in microseconds since the epoch, 0: none."""

    name: str
    uid: str
    version: str
    renewed: int
    pinged: int


class Roll:
    """Called once in a term; nothing waits for it.

    ``own`` is the LeaseCandidate that is not asked; ``timeout``: seconds for each request.
    """

    def __init__(self, credentials: Credentials, log: Log, own: LeaseCandidate, timeout: float) -> None:
        self._errand = Errand(credentials, log, _GRANT, "the roll was not called")
        self._log, self._own, self._timeout = log, own, timeout
        self._term, self._until = "", 0.0  # the present one, and when it is lost unless it is renewed
        self._called = ""  # in this one
        self.under_way: set[asyncio.Task[None]] = set()

    def follow(self, state: State) -> None:
        """After each step of the election: a command that ended by itself was not asked to."""
        self._term, self._until = state.incarnation, state.stop_at
        if state.phase is Phase.RELEASING and state.led:
            self.call()

    def call(self) -> None:
        """The term begins to end in good order. One that is past its deadline has no time to give away."""
        if self._called != self._term and platform.clock() < self._until:
            self._called = self._term
            task = asyncio.get_running_loop().create_task(self._run())
            self.under_way.add(task)
            task.add_done_callback(self.under_way.discard)

    async def _run(self) -> None:
        await self._errand.run(self._all)

    async def _all(self, api: Api) -> None:
        """One after the other, the latest sign of life first: those are the ones that would be believed."""
        async with within(PATIENCE):  # an answer that is asked for later helps nobody
            present = await self._listed(api)
            now, skew, asked = time.time_ns() // 1000, api.skew, 0
            for each in sorted(present, key=lambda each: -each.renewed):
                if skew and (ping := ping_time(each, now, skew)):
                    asked += await self._ask(api, each, ping)
        self._log.debug(f"called the roll: asked {asked} of {len(present)} candidates for a sign of life")

    async def _listed(self, api: Api) -> list[Present]:
        """Those of this lock but one's own. Of a namespace full of others no more than a page is kept at a time."""
        found: list[Present] = []
        async with aclosing(pages(api, self._own.collection, {"limit": _PAGE}, self._timeout)) as listed:
            async for items, _ in listed:
                found += [each for item in items if (each := present(item, self._own.lease))]
        return [each for each in found if each.name != self._own.identity]

    async def _ask(self, api: Api, each: Present, ping: int) -> bool:
        """One that was written since it was listed lives, or has been asked by the control plane."""
        target = f"{self._own.collection}/{urllib.parse.quote(each.name, safe='')}"
        body = {"metadata": {"uid": each.uid, "resourceVersion": each.version}, "spec": {"pingTime": micro_time(ping)}}
        try:
            await api.call("PATCH", target, body, self._timeout)
        except LockError as error:
            if error.failure.kind in {Kind.CONFLICT, Kind.MISSING}:
                return False
            raise
        return True


def present(found: object, lease: str) -> Present | None:
    """What an item of the list is to the roll; None: a candidate for another lock, or nothing that can be read."""
    metadata, spec = (texts(found.get(part)) for part in ("metadata", "spec")) if isinstance(found, dict) else ({}, {})
    words = [metadata.get(key) for key in ("name", "uid", "resourceVersion")]
    if spec.get("leaseName") != lease or not all(isinstance(word, str) and word for word in words):
        return None
    name, uid, version = map(str, words)
    return Present(name, uid, version, instant(spec, "renewTime"), instant(spec, "pingTime"))


def ping_time(each: Present, now: int, skew: Skew) -> int | None:
    """The pingTime that asks it for a sign of life; None: it is not to be asked. Microseconds.

    ``now`` is this machine's time, which decides nothing: the control plane waits until 5 s after a pingTime by its own
    clock, so the API server's is taken, at the earliest that its Date can have meant. Where the last sign of life is
    not before that, it is the instant after, as every answer is later. Who has not answered an earlier ping is left
    alone: a newer one would be waited for anew. So is whose clock is ahead: a time to come would have to be asked for.
    """
    least, most = (now + round((skew.seconds + error) * _SECOND) for error in (-skew.error, skew.error))
    if not each.renewed or each.pinged > each.renewed or each.renewed >= most:
        return None
    return max(least, each.renewed + 1)
