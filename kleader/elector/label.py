"""``--pod-label``: a label on the Pod that this runs in tells its role, so that a Service can select the leader's.

It routes, it never excludes: who is cut off from the API server cannot take its own label back.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from typing import TYPE_CHECKING, Any, NamedTuple

from kleader import platform
from kleader.election.state import Phase
from kleader.elector.errand import Errand
from kleader.locks.within import within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kleader.election.state import State
    from kleader.locks.api import Api
    from kleader.locks.credentials import Credentials
    from kleader.log import Log

TIMEOUT = 5.0  # seconds for one try
_MOMENT = 0.06  # seconds: machine and server have a handover to do first
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0  # seconds between two tries
_DOUBT = 60.0  # seconds that an API server gives a request; afterwards one that was not answered is not taken either


class Pod(NamedTuple):
    """Whose label; ``uid``: "" for whatever Pod has the name."""

    namespace: str
    name: str
    uid: str


class Label:
    """Written again and again until it is there.

    ``told``: its key, the leader's value, and that of all others, "" for no label.
    """

    def __init__(self, credentials: Credentials, log: Log, pod: Pod, told: Sequence[str]) -> None:
        self._log, self._pod = log, pod
        self._key, *self._values = told
        grant = f"grant patch on pods, so that the label {self._key} tells who leads"
        self._errand = Errand(credentials, log, grant, f"the Pod's label {self._key} is not written", matters=True)
        self._runs = False
        self._wanted = ""
        self._written: str | None = None  # what an earlier process has left is not known
        self._changed = asyncio.Event()
        self._work: asyncio.Task[None] | None = None

    def follow(self, state: State) -> None:
        """After each step of the election."""
        self._runs = self._runs and state.phase is Phase.LEADING
        self._want(self._values[0 if self._runs else 1])

    def runs(self, *, well: bool) -> None:
        """The command was started; or it is asked to stop, and nobody is to be sent here any more."""
        self._runs = well
        self._want(self._values[0 if well else 1])

    async def settle(self, seconds: float) -> float:
        """Wait, no longer than that, until it is as it should be. Seconds that it took."""
        began = platform.clock()
        if self._work:
            await asyncio.wait([self._work], timeout=seconds)
        return platform.clock() - began

    def _want(self, value: str) -> None:
        if value != self._wanted:
            self._changed.set()
        self._wanted = value
        if value != self._written and not (self._work and not self._work.done()):
            self._work = asyncio.get_running_loop().create_task(self._keep_at_it())

    async def _keep_at_it(self) -> None:
        """One after the other: of two requests at once nobody knows which the server would take last."""
        pause = _FIRST_PAUSE
        while self._written != self._wanted:
            self._changed.clear()
            value = self._wanted
            if value == self._values[0]:
                await self._sleep(_MOMENT)
                if value != self._wanted:  # the term is over: nobody is to be sent here
                    continue
            if await self._write(value):
                self._written, pause = value, _FIRST_PAUSE
            else:
                self._written = None  # nobody knows what it has done
                if value == self._values[0]:
                    asyncio.get_running_loop().call_later(_DOUBT, self._write_again)
                await self._sleep(pause)
                pause = min(_LONGEST_PAUSE, 2 * pause)

    def _write_again(self) -> None:
        """The leader's value, written without an answer, may have come after what was written since."""
        if self._written == self._values[1]:
            self._written = None
        self._want(self._wanted)

    async def _sleep(self, seconds: float) -> None:
        """Or until something else is wanted."""
        try:
            async with within(seconds):
                await self._changed.wait()
        except asyncio.TimeoutError:
            return

    async def _write(self, value: str) -> bool:
        metadata: dict[str, Any] = {"labels": {self._key: value or None}}
        if self._pod.uid:
            metadata["uid"] = self._pod.uid  # another Pod of this name is none of ours
        target = "/api/v1/namespaces/{}/pods/{}".format(*(urllib.parse.quote(each, safe="") for each in self._pod[:2]))

        async def patch(api: Api) -> None:
            await api.call("PATCH", target, {"metadata": metadata}, TIMEOUT)

        done = await self._errand.run(patch)
        if done:
            self._log.debug(f"the Pod's label {self._key} is {value or 'removed'}")
        return done
