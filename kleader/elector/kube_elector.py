"""The elector of a lock at the Kubernetes API."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING

from kleader.election.acquire import NO_ANSWER
from kleader.election.timing import JITTER
from kleader.elector.k8s_events import EventRecorder
from kleader.elector.loop import Loop
from kleader.elector.pod_label import PodLabel
from kleader.elector.recommendation import Recommendation
from kleader.elector.registration import Registration
from kleader.ipc import messages as m
from kleader.kube.client import ApiClient
from kleader.kube.credentials import Credentials
from kleader.kube.errors import LockError, SetUpError
from kleader.locks.base import Place
from kleader.locks.coordinated_lease import CoordinatedLease
from kleader.locks.factory import make_lock
from kleader.locks.leader_for_life import PodContext
from kleader.locks.lease_candidate import Description, LeaseCandidate, served_version
from kleader.procs.process_tracker import has_survivors

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from kleader.elector.best_effort import Follower
    from kleader.ipc.channel import Channel
    from kleader.ipc.plan import Plan
    from kleader.locks.base import Lock
    from kleader.log import Log


def main(  # noqa: PLR0913, PLR0917 - what it was started with
    plan: Plan,
    channel: Channel,
    log: Log,
    supervisor: tuple[int, int],
    reader_command: Callable[[str], list[str]],
    instance_socket: socket.socket | None,
) -> None:
    """Run until the election is over. It ignores all signals: the channel to the supervisor ends it.

    ``supervisor``: pid and start time. ``reader_command``: of the process that reads kubeconfigs (see Credentials).
    ``instance_socket``: shared with the supervisor, for leader-for-life. The event loop is not closed: that would wait
    for a name resolution, which cannot be interrupted.
    """
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())

    async def find_lock(term: int, assign: m.Assign) -> tuple[Lock, list[Follower]]:
        credentials = Credentials(plan.api, reader_command, partial(log.warning, event="credentials_notice"))
        await credentials.refresh()
        for notice in credentials.notices:
            log.warning(notice, event="credentials_notice")
        namespace = plan.namespace or credentials.namespace
        api = ApiClient(credentials)
        one_try = plan.wait_of(term).one_try
        candidate = await make_candidate(plan, api, namespace, log, one_try=one_try) if plan.coordinated else None
        if candidate and assign.leading:
            candidate.keep_registered()  # in the background: the new elector of a leader must read the lock at once
        context = None
        if instance_socket:
            context = _pod_context(plan, namespace, assign, instance_socket, partial(channel.send, term))
        warn = partial(log.warning, event="lock_warning")
        place = Place(api, namespace, plan.name, plan.labels, warn, plan.force, plan.pod.name)
        lock = make_lock(plan.lock, place, plan.timing.lease_duration, candidate=candidate, context=context)
        if isinstance(lock, CoordinatedLease):
            lock.registers_at_once = one_try
        fresh = not (assign.leading or assign.replaces)
        followers: list[Follower] = [
            Registration(plan, credentials, log, namespace, lambda: lock.server_time, fresh=fresh),
            Recommendation(plan, credentials, log, lock),
            EventRecorder(credentials, log, plan.identity, plan.name, lock),
        ]
        if plan.pod_label:
            pod = plan.pod._replace(namespace=plan.pod.namespace or namespace)
            followers.insert(0, PodLabel(credentials, log, pod, plan.pod_label))
        return lock, followers

    logging.getLogger("asyncio").addHandler(logging.NullHandler())  # it logs tracebacks
    logging.getLogger("asyncio").propagate = False
    sys.unraisablehook = lambda event: log.debug(repr(event.exc_value), event="internal_warning")
    asyncio.new_event_loop().run_until_complete(Loop(plan, channel, log, supervisor, find_lock).run())


async def make_candidate(
    plan: Plan, api: ApiClient, namespace: str, log: Log, *, one_try: bool
) -> LeaseCandidate | None:
    """The LeaseCandidate; None, with a warning, if the cluster has no coordinated election.

    SetUpError: no answer to the one try of --no-wait, or within --wait.
    """
    version = await _served_version(plan, api, log, one_try=one_try)
    if not version:
        log.warning(
            "the cluster has no coordinated election: it serves no leasecandidates (feature gate"
            " CoordinatedLeaderElection); taking part in plain election instead",
            event="coordination_unavailable",
        )
        return None
    description = Description(plan.identity, plan.name, plan.binary_version, plan.emulation_version, plan.strategy)
    tolerance = plan.timing.kill + plan.timing.skew  # the command is dead so long before the lease expires
    client = ApiClient(api.credentials, shared=True)
    warn = partial(log.repeated, event="lease_candidate_failed")
    return LeaseCandidate(client, version, namespace, description, plan.request_timeout, tolerance, warn)


async def _served_version(plan: Plan, api: ApiClient, log: Log, *, one_try: bool) -> str:
    last_error = NO_ANSWER
    try:
        while True:
            try:
                return await served_version(api, plan.request_timeout)
            except LockError as error:
                last_error = str(error)
                if one_try:
                    raise SetUpError(last_error) from None
                log.repeated(last_error, event="elector_set_up_failed", growing=True)
                pause = max(
                    plan.timing.retry_period, min(error.failure.retry_after, plan.timing.lease_duration / (1 + JITTER))
                )
            await asyncio.sleep(pause * (1 + random.random() * JITTER))  # noqa: S311 - spreads candidates
    except asyncio.CancelledError:  # --wait is over
        raise SetUpError(last_error) from None


def _pod_context(
    plan: Plan,
    namespace: str,
    assign: m.Assign,
    instance_socket: socket.socket,
    send: Callable[[m.Body], object],
) -> PodContext:
    """The Pod of this candidate. A process of an earlier term has these variables in its environment."""
    names = {
        "KLEADER_LOCK": plan.lock,
        "KLEADER_NAMESPACE": namespace,
        "KLEADER_NAME": plan.name,
        "POD_NAME": plan.pod.name,
    }

    def has_earlier_processes(excluded_incarnations: set[str], killed_incarnation: str) -> bool:
        return has_survivors(names, m.MARKER, excluded_incarnations, killed_incarnation)

    return PodContext(
        plan.pod.name,
        plan.pod.uid,
        instance_socket,
        has_earlier_processes,
        assign.incarnation,
        assign.leading,
        assign.resume_state,
        lambda state: send(m.ResumeState(state)),
    )
