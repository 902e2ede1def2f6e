"""How ``resign`` and ``transfer`` write their request on a lock, and observe what the leader does."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
from typing import TYPE_CHECKING, NoReturn

from kleader import system
from kleader.cli import api_access, formatters
from kleader.cli.console import fail, warn
from kleader.cli.followed_lock import FollowedLock, TimeIsUpError
from kleader.cli.waiting import registered
from kleader.election.duration import text
from kleader.election.record import UNKNOWN, display_name
from kleader.election.request import Request
from kleader.exits import NOT_DONE
from kleader.kube.client import FIELD_MANAGER
from kleader.kube.errors import ForbiddenError, LockError
from kleader.kube.metadata import string_map
from kleader.locks import candidate_registry as registry
from kleader.locks import file_lock
from kleader.locks.rbac import request_permissions
from kleader.log import printable
from kleader.observe.file_source import FileSource
from kleader.observe.snapshot import LockState

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from kleader.cli.locate import Query
    from kleader.locks.candidate_registry import Registered
    from kleader.observe.snapshot import LockSnapshot, LockStatus
    from kleader.observe.tracker import Change

    Observation = tuple[LockStatus | None, list[Change]]
    Statuses = AsyncGenerator[Observation, None]

_FORCE = "--to IDENTITY --force hands the lock over without this check"
_MAX_NAMES = 10  # of a message
_MAX_HOLDER = 256  # characters of a message
_NEXT_SECONDS = 3.0  # for which a released lock is observed for its next leader: a waiting kleader needs much less


def holder_of(status: LockStatus | None) -> str:
    """The holder's name for people."""
    name = printable(display_name(status.snapshot.record.holder)[:_MAX_HOLDER]) if status else ""
    return name or "the holder"


def followed(query: Query, timeout: float, *, transfers: bool = False) -> FollowedLock:
    """The lock, for a command that reads and writes its object."""
    permissions = request_permissions(query.kind, query.name, transfers=transfers)
    other = {each: "" if each.name == query.name else f" {each.name}" for each in permissions}
    return FollowedLock(query, timeout, ", ".join(f"{each.verb} {each.resource}{name}" for each, name in other.items()))


async def resign(query: Query, timeout: float, form: str) -> None:
    """Return when that leader leads no more, and print who leads next; exit with 1 if it still leads."""
    lock = followed(query, timeout)
    asked: LockStatus | None = None
    statuses = lock.statuses()
    try:
        async for status, changes in statuses:
            if asked is None:
                asked = _leader(lock, status)
                if asked.state is LockState.FREE:
                    formatters.print_result(asked, [], form)
                    return
                if await _write_request(lock, asked.snapshot):
                    warn(f"asked {holder_of(asked)} to resign")
            elif status is None or status.snapshot.term != asked.snapshot.term:
                if status and status.state is LockState.MALFORMED:
                    fail(status.snapshot.fault, NOT_DONE)
                await _print_next(lock, statuses, (status, changes), form)
                return
            elif status.state is LockState.EXPIRED:
                _fail_expired(status)
    except TimeIsUpError as error:
        lock.fail_late(str(error), f"{holder_of(asked)} has not resigned", NOT_DONE)


async def _print_next(lock: FollowedLock, statuses: Statuses, first: Observation, form: str) -> None:
    """Print how the term ended, and who leads next if that is observed within ``_NEXT_SECONDS``."""
    status, changes = first
    if not form:
        formatters.print_result(status, changes, form)
    lock.end = system.clock() + _NEXT_SECONDS
    is_free = not _is_held(status)
    while not _is_held(status):
        try:
            status, found = await anext(statuses)
        except TimeIsUpError:
            break
        changes = found or changes
    if form or (is_free and _is_held(status)):
        formatters.print_result(status, changes, form)
    elif is_free:
        warn("no candidate has taken the lock yet")


def _is_held(status: LockStatus | None) -> bool:
    return status is not None and bool(status.snapshot.record.holder)


async def transfer(query: Query, to: str, timeout: float, form: str, *, force: bool) -> None:
    """Return when ``to`` leads, and print that; exit with 1 if it does not, or if another candidate does.

    ``to``: "" for the best standby. ``force``: any candidate, also one that is not registered.
    """
    lock, reason = followed(query, timeout, transfers=True), "no leader was asked"
    asked: LockStatus | None = None
    untaken = ""  # the candidate that the lock is handed over to
    try:
        async for status, changes in lock.statuses():
            if asked is None:
                asked = _leader(lock, status)
                to = await _ask_to_hand_over(lock, asked, to, force=force)
                reason = f"{holder_of(asked)} has not handed the lock over"
            elif status and status.snapshot.term == asked.snapshot.term:
                if status.state is LockState.EXPIRED:
                    _fail_expired(status)
            elif status is None or status.state in {LockState.FREE, LockState.MALFORMED}:
                reason = f"{holder_of(asked)} ended its term without a handover, and {to} does not lead"
            elif status.snapshot.handed_over and status.snapshot.record.holder == to:
                reason, untaken = f"{to} has not taken the lock", to
                for change in changes if not form else []:
                    warn(change.sentence)
            elif status.snapshot.record.holder == to:
                formatters.print_result(status, changes, form)
                return
            else:
                await _remove_dead(lock, untaken)
                fail(f"{reason}: {holder_of(status)} leads instead", NOT_DONE)
    except TimeIsUpError as error:
        await _remove_dead(lock, untaken)
        lock.fail_late(str(error), reason, NOT_DONE)


async def _remove_dead(lock: FollowedLock, identity: str) -> None:
    """Take a candidate that did not take the lock off the list, so that no leader is asked to name it again.

    If it is alive, its next renewal of the entry brings it back. Without the permission the entry stays until it is out
    of date. ``identity``: "" if the lock was handed over to none.
    """
    if not identity:
        return
    with contextlib.suppress(LockError):
        await registry.remove(lock.api, lock.namespace, lock.query.name, identity, lock.query.request_timeout)


def _leader(lock: FollowedLock, status: LockStatus | None) -> LockStatus:
    """The status, if the lock is free or its leader takes requests; exits with 1 otherwise."""
    if status is None:
        lock.fail_missing()
    if status.state is LockState.MALFORMED:
        fix = "its holder cannot be asked; kleader resign --force clears it"
        fail(f"{status.snapshot.fault}: {fix}", NOT_DONE)
    if status.snapshot.record.holder == UNKNOWN:
        why = "have different holders: wait until both have the same one"
        fail(f"the two objects of the lock {lock.query.name} {why}", NOT_DONE)
    holder = holder_of(status)
    if status.snapshot.handed_over:
        fail(f"the lock was just handed over to {holder}, which has not taken it yet: try again", NOT_DONE)
    if status.state is not LockState.FREE and not status.snapshot.incarnation:
        _fail_foreign(holder)
    return status


def _fail_foreign(holder: str) -> NoReturn:
    fix = "end its process, or see kleader resign --force"
    fail(f"held by {holder}, which is not run by kleader and ignores requests: {fix}", NOT_DONE)


def _fail_expired(status: LockStatus) -> NoReturn:
    duration = text(status.snapshot.record.duration)
    fail(f"{holder_of(status)} has not renewed the lock for {duration}: any candidate may take it", NOT_DONE)


async def _ask_to_hand_over(lock: FollowedLock, leader: LockStatus, to: str, *, force: bool) -> str:
    """The candidate that is to lead next, as the leader was asked."""
    if leader.state is LockState.FREE:
        fail("the lock is free: no leader can hand it over", NOT_DONE)
    if leader.snapshot.record.holder == to:
        fail(f"{to} leads already", NOT_DONE)
    if leader.snapshot.non_expiring:
        fail("a leader-for-life lock cannot be handed over, because it belongs to a Pod: use kleader resign", NOT_DONE)
    request = await _write_request(lock, leader.snapshot, to, chooses=not force)
    if request:
        warn(f"asked {holder_of(leader)} to hand the lock to {request.to}")
    return request.to if request else to


async def _write_request(
    lock: FollowedLock, leader: LockSnapshot, to: str | None = None, *, chooses: bool = False
) -> Request | None:
    """Ask the leader to resign, or to hand the lock over ``to`` a candidate; None if its term has ended.

    ``chooses``: hand over to a standby that is registered, which is checked before, again after a conflict.
    """
    part, timeout, holder = lock.objects[0], lock.query.request_timeout, leader.record.holder

    async def attempt() -> Request | None:
        observed = await part.get(timeout)
        if observed.incarnation != leader.incarnation:
            return None
        writer = part.field_manager(observed.base)
        if writer not in {"", FIELD_MANAGER}:  # client-go keeps the annotations of the holder before
            _fail_foreign(printable(f"{holder[:_MAX_HOLDER]}, written by {writer}"))
        if to is not None and string_map(observed.base.get("spec")).get("strategy"):
            why = f"the control plane chooses the leader of the lock {lock.query.name}"
            fail(f"{why}: use kleader resign", NOT_DONE)
        target = await choose_standby(lock, to or "", holder) if chooses else to or ""
        request = Request(holder, leader.incarnation, target)
        await part.leave_request(observed, request, _requester(), timeout)
        return request

    return await lock.retry(attempt)


def _requester() -> str:
    """The user and the host of this process, for the leader's log."""
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = str(os.geteuid())
    return f"{user}@{socket.gethostname()}"


async def choose_standby(lock: FollowedLock, to: str, holder: str) -> str:
    """The identity of a standby that is registered as ready: ``to``, or for "" the best one.

    ``to`` may also be the name of its Pod, or its identity without the random part. Exits with 1 if there is none, or
    if that is not known. LockError.
    """
    query = lock.query
    try:
        known = await registered(lock.api, lock.namespace, query.name, query.kind, query.request_timeout)
    except ForbiddenError as error:
        grant = f"grant get on the Lease {registry.registry_name(query.name)}"
        fail(f"it is not known which candidates wait: {error}; {grant}; {_FORCE}", NOT_DONE)
    standbys = [entry for entry in known if entry.identity != holder]
    ready = list(dict.fromkeys(entry.identity for entry in standbys if entry.is_ready))
    if to in ready or (ready and not to):
        return to or ready[0]
    names = {entry.identity: {entry.pod, entry.identity.rpartition("_")[0]} for entry in standbys if entry.is_ready}
    of_pod = [identity for identity, others in names.items() if to in others]
    if to and not of_pod and to == holder.rpartition("_")[0]:
        fail(printable(f"{holder[:_MAX_HOLDER]} leads already"), NOT_DONE)
    return of_pod[0] if len(of_pod) == 1 else _refuse(standbys, to, ready, several=bool(of_pod))


def _refuse(standbys: Sequence[Registered], to: str, ready: Sequence[str], *, several: bool) -> NoReturn:
    names = ", ".join(ready[:_MAX_NAMES]) + (", ..." if ready[_MAX_NAMES:] else "") or "none"
    what = f"no candidate {to} is registered; ready: {names}"
    if not to:
        what = "no standby is registered as ready"
    elif several:
        what = f"the Pod {to} has several candidates; ready: {names}"
    elif any(entry.identity == to for entry in standbys):
        what = f"the candidate {to} is unhealthy; ready: {names}"
    never = "candidates of client-go and those with --no-register are never registered"
    fail(printable(f"nothing was stopped: {what}; {never}: {_FORCE}"), NOT_DONE)


def refuse_lock_file(query: Query) -> None:
    """Exit with 1 if the lock is a file: it takes no requests, and its leader is on this machine."""
    if query.kind != "file":
        return
    try:
        path = query.path or file_lock.default_path(query.namespace or "default", query.name)
        found = api_access.run(FileSource(path).poll())
        if not any(lock.record.holder for lock in found.values()):
            fail(f"the lock file {path} has no holder", NOT_DONE)
        with open(path, "rb") as opened:
            pid = file_lock.read_record(opened.fileno()).get("pid")
    except (OSError, LockError) as error:
        fail(f"the leader of a lock file takes no requests: {error}", NOT_DONE)
    how = f"kill -TERM {pid}" if isinstance(pid, int) else "TERM"
    fail(f"the leader of a lock file takes no requests: end it on this machine with {how}", NOT_DONE)
