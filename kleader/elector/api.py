"""The elector of a lock that is kept at the Kubernetes API."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import sys
from typing import TYPE_CHECKING

from kleader.election.acquire import SILENT
from kleader.election.timing import JITTER
from kleader.elector import successor
from kleader.elector.label import Label, Pod
from kleader.elector.loop import Loop
from kleader.elector.orphans import left
from kleader.elector.recorder import Recorder
from kleader.elector.roll import Roll
from kleader.link import messages as m
from kleader.locks.api import Api
from kleader.locks.base import LockError, SetUpError
from kleader.locks.candidate import Description, LeaseCandidate, served
from kleader.locks.credentials import Credentials
from kleader.locks.kinds import make
from kleader.locks.owned import Home

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from kleader.link.channel import Channel
    from kleader.link.plan import Plan
    from kleader.locks.base import Lock
    from kleader.log import Log


def main(  # noqa: PLR0913, PLR0917 - what it was started with
    plan: Plan,
    channel: Channel,
    log: Log,
    supervisor: tuple[int, int],
    run_helper: Callable[[str], list[str]],
    claim: socket.socket | None,
) -> None:
    """Run until the election is over; ends only by the link, whatever signals arrive.

    ``claim`` is the supervisor's too, for a lock that one process of a Pod contends for at a time.

    The loop is left as it is: closing it would wait for a name resolution that cannot be interrupted.
    """
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())

    async def find_lock(assign: m.Assign) -> tuple[Lock, Recorder]:
        credentials = Credentials(plan.api, run_helper)
        await credentials.refresh()
        namespace = plan.namespace or credentials.namespace
        api = Api(credentials)
        candidate = await find_candidate(plan, api, namespace, log) if plan.coordinated else None
        if candidate and assign.leading:
            candidate.keep()  # whatever becomes of it, whose the lock is must be seen at once
        lock = make(
            plan.lock,
            api,
            namespace,
            plan.name,
            plan.labels,
            plan.lease_duration,
            warn=log.warning,
            force=plan.force,
            held=successor.heard(plan, assign),
            candidate=candidate,
            home=_home(plan, namespace, assign, claim, channel) if claim else None,
        )
        label = None
        if plan.pod_label:
            pod = Pod(plan.labelled[0] or namespace, *plan.labelled[1:])
            label = Label(credentials, log, pod, plan.pod_label)
        roll = Roll(credentials, log, candidate, plan.request_timeout) if candidate else None
        return lock, Recorder(credentials, log, plan.identity, plan.name, label, roll)

    logging.getLogger("asyncio").addHandler(logging.NullHandler())  # its own remarks end in tracebacks
    logging.getLogger("asyncio").propagate = False
    sys.unraisablehook = lambda event: log.debug(repr(event.exc_value))
    asyncio.new_event_loop().run_until_complete(Loop(plan, channel, log, supervisor, find_lock).run())


async def find_candidate(plan: Plan, api: Api, namespace: str, log: Log) -> LeaseCandidate | None:
    """The LeaseCandidate to be, where the cluster has such; None: there is only plain election, which is told.

    SetUpError: there was no answer to the one try of --no-wait, or before the end of --wait.
    """
    version = await _served(plan, api, log)
    if not version:
        log.warning(
            "the cluster has no coordinated election: it serves no leasecandidates (feature gate"
            " CoordinatedLeaderElection); taking part in plain election instead"
        )
        return None
    about = Description(plan.identity, plan.name, plan.binary_version, plan.emulation_version)
    tolerance = plan.kill + plan.skew  # the command is dead so long before the lease runs out
    road = Api(api.credentials, guest=True)
    return LeaseCandidate(road, version, namespace, about, plan.request_timeout, tolerance, log.repeated)


async def _served(plan: Plan, api: Api, log: Log) -> str:
    trouble = SILENT
    try:
        while True:
            try:
                return await served(api, plan.request_timeout)
            except LockError as error:
                trouble = str(error)
                if plan.wait == 0:
                    raise SetUpError(trouble) from None
                log.repeated(trouble)
                pause = max(plan.retry_period, error.failure.retry_after)
            await asyncio.sleep(pause * (1 + random.random() * JITTER))  # noqa: S311 - spreads rivals
    except asyncio.CancelledError:  # --wait is over
        raise SetUpError(trouble) from None


def _home(plan: Plan, namespace: str, assign: m.Assign, claim: socket.socket, channel: Channel) -> Home:
    """Where this candidate lives; what its own environment names, the command of an earlier term has in its."""
    ours = {"KLEADER_LOCK": plan.lock, "KLEADER_NAMESPACE": namespace, "KLEADER_NAME": plan.name, "POD_NAME": plan.pod}

    def any_left(spared: set[str], doomed: str) -> bool:
        return left(ours, m.MARKER, spared, doomed)

    def remember(what: str) -> None:
        channel.send(m.Remember(assign.term, what))

    return Home(plan.pod, plan.pod_uid, claim, any_left, assign.incarnation, assign.leading, assign.memory, remember)
