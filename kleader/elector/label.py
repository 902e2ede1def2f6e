"""``--pod-label``: a label on the Pod that this runs in tells its role, so that a Service can select the leader's.

It routes, it never excludes: who is cut off from the API server cannot take its own label back.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from typing import TYPE_CHECKING, Any, NamedTuple

from kleader import platform
from kleader.election.state import Phase
from kleader.locks.answers import ForbiddenError
from kleader.locks.api import Api
from kleader.locks.base import LockError

if TYPE_CHECKING:
    from kleader.election.state import State
    from kleader.locks.credentials import Credentials
    from kleader.log import Log

TIMEOUT = 5.0  # seconds for one try
_MOMENT = 0.06  # seconds: machine and server have a handover to do first
_LONGEST_PAUSE = 30.0  # seconds between two tries


class Pod(NamedTuple):
    """Whose label; ``uid``: "" for whatever Pod has the name."""

    namespace: str
    name: str
    uid: str


class Label:
    """Written on a connection of its own, again and again until it is there; no request of the lock waits for it.

    ``values``: the leader's, and that of all others, "" for no label.
    """

    def __init__(self, credentials: Credentials, log: Log, pod: Pod, key: str, values: tuple[str, str]) -> None:
        self._credentials, self._log, self._pod, self._key, self._values = credentials, log, pod, key, values
        self._wanted = ""
        self._written: str | None = None  # what an earlier process has left is not known
        self._stopping = False
        self._work: asyncio.Task[None] | None = None
        self._warned = False

    def follow(self, state: State) -> None:
        """After each step of the election."""
        leads = state.phase is Phase.LEADING
        self._stopping = self._stopping and leads
        self._want(self._values[0 if leads and not self._stopping else 1])

    def stopping(self) -> None:
        """The command is asked to stop: nobody is to be sent here any more."""
        self._stopping = True
        self._want(self._values[1])

    async def settle(self, seconds: float) -> float:
        """Wait, no longer than that, until it is as it should be. Seconds that it took."""
        began = platform.clock()
        if self._work:
            await asyncio.wait([self._work], timeout=seconds)
        return platform.clock() - began

    def _want(self, value: str) -> None:
        if value == self._wanted and (self._work or self._written == value):
            return
        self._wanted = value
        if self._work:
            self._work.cancel()
        self._work = asyncio.get_running_loop().create_task(self._keep_at_it(value))

    async def _keep_at_it(self, value: str) -> None:
        self._written = None  # nobody knows what a try that is given up has done
        pause = 0.5
        if value == self._values[0]:
            await asyncio.sleep(_MOMENT)
        while not await self._write(value):
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE, 2 * pause)
        self._written, self._work = value, None

    async def _write(self, value: str) -> bool:
        """Nothing is ever raised: no label is worth a term."""
        metadata: dict[str, Any] = {"labels": {self._key: value or None}}
        if self._pod.uid:
            metadata["uid"] = self._pod.uid  # another Pod of this name is none of ours
        api = Api(self._credentials, guest=True)
        where = (urllib.parse.quote(each, safe="") for each in self._pod[:2])
        try:
            await api.call("PATCH", "/api/v1/namespaces/{}/pods/{}".format(*where), {"metadata": metadata}, TIMEOUT)
        except ForbiddenError as error:
            self._warn(f"grant patch on pods, so that the label {self._key} tells who leads: {error}")
        except LockError as error:
            self._warn(f"the Pod's label {self._key} is not written: {error}")
        except Exception as error:  # noqa: BLE001
            self._warn(f"the Pod's label {self._key} is not written: {type(error).__name__}: {error}")
        else:
            self._log.debug(f"the Pod's label {self._key} is {value or 'removed'}")
            self._warned = False
            return True
        finally:
            api.close()
        return False

    def _warn(self, message: str) -> None:
        (self._log.debug if self._warned else self._log.warning)(message)
        self._warned = True
