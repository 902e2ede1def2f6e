"""``--pod-label``: a label on this candidate's Pod shows its role, so that a Service can select the leader's Pod.

It routes, and never excludes: a candidate that is cut off from the API server cannot remove its label.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from typing import TYPE_CHECKING, Any

from kleader.backoff import Backoff
from kleader.election.state import Phase
from kleader.elector.best_effort import BestEffortCall, StateWriter
from kleader.kube.timeout import wait_at_most

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kleader.election.state import State
    from kleader.ipc.plan import Pod
    from kleader.kube.credentials import Credentials
    from kleader.log import Log

_HANDOVER_SECONDS = 0.06  # in which this machine and the API server have a handover to do first
_MAX_RELEASE_SECONDS = 0.5  # that a release waits for the label
_UNCERTAIN_SECONDS = 60.0  # for which an API server may still carry out a request that was not answered


class PodLabel(StateWriter):
    """Writes the label until it is as it should be.

    ``label``: its key, the leader's value, and the value of the other candidates, "" for no label.
    """

    def __init__(self, credentials: Credentials, log: Log, pod: Pod, label: Sequence[str]) -> None:
        super().__init__(None)  # an earlier process may have written it
        self._log, self._pod = log, pod
        self._key, self._leader_value, self._standby_value = label
        self._call = BestEffortCall(
            credentials,
            log,
            event="pod_label_failed",
            failure=f"the Pod's label {self._key} is not written",
            grant=f"grant patch on pods, so that the label {self._key} shows which candidate leads",
            is_important=True,
        )
        self._runs = False

    def follow(self, state: State) -> None:
        """Note the election's state, after each step."""
        self.command(runs=self._runs and state.phase is Phase.LEADING)

    def command(self, *, runs: bool) -> None:
        """Note that the command was started, or is asked to stop: from then on clients belong on another Pod."""
        self._runs = runs
        self._want(self._leader_value if runs else self._standby_value)

    async def settle(self, seconds: float) -> None:
        """Wait until the label is as it should be, for a moment."""
        await self._finish(min(seconds, _MAX_RELEASE_SECONDS))

    async def end(self, seconds: float, *, unhealthy: bool) -> None:  # noqa: ARG002
        """Wait until the label is as it should be."""
        await self._finish(seconds)

    async def _keep(self) -> None:
        backoff = Backoff(0.5, 30.0)
        while self._written != self._wanted:
            self._changed.clear()
            value = self._wanted
            if value == self._leader_value:
                await wait_at_most(self._changed, _HANDOVER_SECONDS)
                if value != self._wanted:  # the term is over
                    continue
            if await self._write(value):
                self._written = value
                backoff.reset()
            else:
                self._written = None
                if value == self._leader_value:
                    asyncio.get_running_loop().call_later(_UNCERTAIN_SECONDS, self._write_again)
                await wait_at_most(self._changed, backoff.pause())

    def _write_again(self) -> None:
        """The leader's value, written without an answer, may have been stored after the standby's value."""
        if self._written == self._standby_value:
            self._written = None
        self.command(runs=self._runs)

    async def _write(self, value: str) -> bool:
        metadata: dict[str, Any] = {"labels": {self._key: value or None}}
        if self._pod.uid:
            metadata["uid"] = self._pod.uid  # refused for another Pod of this name
        namespace, name = (urllib.parse.quote(part, safe="") for part in self._pod[:2])
        target = f"/api/v1/namespaces/{namespace}/pods/{name}"
        is_written = await self._call.run("PATCH", target, {"metadata": metadata})
        if is_written:
            self._log.debug(f"the Pod's label {self._key} is {value or 'removed'}", event="pod_label_written")
        return is_written
