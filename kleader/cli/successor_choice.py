"""Which candidate a leader is asked to hand the lock over to: checked before anything is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from kleader.cli.console import fail
from kleader.cli.waiting import server_time
from kleader.exits import NOT_DONE
from kleader.kube.errors import ForbiddenError
from kleader.locks import candidate_registry as registry
from kleader.log import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kleader.cli.followed_lock import FollowedLock
    from kleader.locks.candidate_registry import Registered

_FORCE = "--to IDENTITY --force hands the lock over without this check"
_MAX_NAMES = 10  # of a message


async def choose(lock: FollowedLock, to: str, holder: str) -> str:
    """The identity of a standby that is registered as ready: ``to``, or for "" the best one.

    ``to`` may also be the name of its Pod, or its identity without the random part. Exits with 1 if there is none, or
    if that is not known. LockError.
    """
    known = registry.of_lock(registry.candidates(await _registry(lock), server_time(lock.api)), lock.query.kind)
    standbys = [each for each in known if each.identity != holder]
    ready = list(dict.fromkeys(each.identity for each in standbys if each.is_ready))
    if to in ready or (ready and not to):
        return to or ready[0]
    names = {each.identity: {each.pod, each.identity.rpartition("_")[0]} for each in standbys if each.is_ready}
    of_pod = [identity for identity, others in names.items() if to in others]
    return of_pod[0] if len(of_pod) == 1 else _refuse(standbys, to, ready, several=bool(of_pod))


async def _registry(lock: FollowedLock) -> dict[str, Any]:
    query = lock.query
    try:
        return await registry.read_registry(lock.api, lock.namespace, query.name, query.request_timeout)
    except ForbiddenError as error:
        grant = f"grant get on the Lease {registry.registry_name(query.name)}"
        fail(f"it is not known which candidates wait: {error}; {grant}; {_FORCE}", NOT_DONE)


def _refuse(standbys: Sequence[Registered], to: str, ready: Sequence[str], *, several: bool) -> NoReturn:
    names = ", ".join(ready[:_MAX_NAMES]) + (", ..." if ready[_MAX_NAMES:] else "") or "none"
    what = f"no candidate {to} is registered; ready: {names}"
    if not to:
        what = "no standby is registered as ready"
    elif several:
        what = f"the Pod {to} has several candidates; ready: {names}"
    elif any(each.identity == to for each in standbys):
        what = f"the candidate {to} is unhealthy; ready: {names}"
    never = "candidates of client-go and those with --no-register are never registered"
    fail(printable(f"{what}; {never}: {_FORCE}"), NOT_DONE)
