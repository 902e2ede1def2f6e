"""Any object from the API is read without an exception, and no living owner is taken for dead."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing, suppress
from math import inf
from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader.cli import formatters
from kleader.election.events import Kind
from kleader.kube import responses
from kleader.kube.errors import LockError, WatchError
from kleader.locks.base import Place
from kleader.locks.leader_for_life import LeaderForLifeLock, PodContext
from kleader.locks.lease_candidate import Description, LeaseCandidate
from kleader.observe.assemble import assemble
from kleader.observe.kube_source import CONFIG_MAPS, ENDPOINTS, LEASES, KubeSource, ResourceKind, Scope
from kleader.observe.snapshot import status_from_read, status_from_watch
from tests.fuzz.foreign import CORPUS, foreign
from tests.fuzz.test_records import SERVER, first_write, follow_through, run
from tests.simulation.pod_server import Socket
from tests.support.election import candidate

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncGenerator

    from kleader.kube.client import ApiClient
    from kleader.observe.snapshot import LockKey, LockSnapshot

Object = dict[str, Any]
WALL = 1_795_288_884_000_000
OWNED, RUNNING, CANDIDATE = (
    json.loads((CORPUS / each).read_text())
    for each in ("configmap/operator-lib.json", "pod/running.json", "candidate/client-go-0.36.json")
)
ME = {"kind": "Pod", "metadata": {"name": "me-0", "uid": "mine", "resourceVersion": "7"}}


class FakeApi:
    """An API server that has these objects, by the end of their path, and shows one of them to each watch."""

    skew = None

    def __init__(self, found: dict[str, Object], shown: Object) -> None:
        self._found, self._shown = found, shown

    def unreadable(self, what: str) -> LockError:
        return responses.unreadable(what, SERVER)

    async def call(self, method: str, target: str, *_: object, **__: object) -> Object:
        name = target.partition("?")[0].rpartition("/")[2]
        if name not in self._found:
            raise LockError(Kind.MISSING, "there is none")
        return self._found[name]

    async def watch_object(self, *_: object) -> AsyncGenerator[Object | None, None]:
        yield self._shown
        await asyncio.sleep(0)
        yield None
        await asyncio.sleep(0)
        raise WatchError("the watch ended")

    async def watch(self, *_: object, **__: object) -> AsyncGenerator[tuple[str, Object], None]:
        yield "MODIFIED", self._shown
        yield "DELETED", self._shown


# --- leader-for-life


def owned(config_map: Object, pod: Object, shown: Object) -> LeaderForLifeLock:
    api = FakeApi({"for-life": config_map, "owner-0": pod, "me-0": ME}, shown)
    home = PodContext("me-0", "", cast("socket.socket", Socket({})), lambda _spared, _doomed: False)
    return LeaderForLifeLock(Place(cast("ApiClient", api), "fuzz", "for-life"), home)


async def looked_on(lock: LeaderForLifeLock) -> None:
    """From what was there at first, whatever is shown later."""
    with suppress(LockError, WatchError):
        async with aclosing(lock.watch(await lock.get(1.0), 1.0)) as states:
            async for _ in states:
                pass


@foreign("owner", "configmap")
def test_a_lock_whose_owner_cannot_be_read_is_held(data: bytes) -> None:
    found = responses.json_object(data)
    if found is None:
        return
    run(looked_on(owned(OWNED, RUNNING, found)))
    run(looked_on(owned(found, RUNNING, OWNED)))
    try:
        seen = run(owned(found, RUNNING, found).get(1.0))
    except LockError as error:
        assert error.failure.kind is Kind.UNREACHABLE
        return
    follow_through(seen, non_expiring=True)
    annotations = found["metadata"].get("annotations")
    if isinstance(annotations, dict) and annotations.get("kleader/incarnation") == "":
        return
    owners = found["metadata"].get("ownerReferences")
    one = owners[0] if isinstance(owners, list) and len(owners) == 1 else None
    named = isinstance(one, dict) and all(isinstance(one.get(key), str) and one[key] for key in ("name", "uid"))
    if not named or one == OWNED["metadata"]["ownerReferences"][0]:
        assert first_write(seen, candidate(non_expiring=True)) == inf


@foreign("pod")
def test_an_owner_is_dead_only_where_its_pod_proves_it(data: bytes) -> None:
    pod = responses.json_object(data)
    if pod is None:
        return
    run(looked_on(owned(OWNED, RUNNING, pod)))
    try:
        seen = run(owned(OWNED, pod, pod).get(1.0))
    except LockError as error:
        assert error.failure.kind is Kind.UNREACHABLE
        return
    follow_through(seen, non_expiring=True)
    if not proven_dead(pod):
        assert not seen.owner_gone
        assert first_write(seen, candidate(non_expiring=True)) == inf


def proven_dead(pod: Object) -> bool:
    """Another uid; or its phase is final, and each container is known to have terminated."""
    if pod["metadata"].get("uid") != RUNNING["metadata"]["uid"]:
        return True
    status, spec = pod.get("status"), pod.get("spec")
    if not isinstance(status, dict) or not isinstance(spec, dict) or status.get("phase") not in ("Failed", "Succeeded"):
        return False
    try:
        ended = {each["name"] for each in status["containerStatuses"] if each["state"]["terminated"]}
        others = [*(status.get("initContainerStatuses") or []), *status["containerStatuses"]]
        gone = all(each["state"]["terminated"] for each in others)
        return gone and bool(spec["containers"]) and ended >= {each["name"] for each in spec["containers"]}
    except (TypeError, KeyError):
        return False


# --- LeaseCandidates


@foreign("candidate")
def test_a_lease_candidate_is_kept_whatever_its_contents(data: bytes) -> None:
    found = responses.json_object(data)
    if found is not None:
        for answered in (found, CANDIDATE):
            run(kept(FakeApi({"named-1": answered}, found)))


async def kept(api: FakeApi) -> None:
    about = Description("named-1", "named", "1.36.0", "1.36.0")
    lock = LeaseCandidate(cast("ApiClient", api), "v1beta1", "fuzz", about, 1.0, 2.0, lambda _: None)
    broken: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: broken.append(context))
    with suppress(LockError):
        await lock.ensure_registered(1.0)
    lock.keep_registered()
    for _ in range(30):
        await asyncio.sleep(0)
    with suppress(LockError):
        await lock.unregister(1.0)
    assert not broken


# --- status, wait, check


@pytest.mark.parametrize("shelf", [LEASES, CONFIG_MAPS, ENDPOINTS], ids=lambda shelf: shelf.kind)
@foreign("lease", "configmap", "endpoints", "candidate", "pod")
def test_any_object_can_be_shown(data: bytes, shelf: ResourceKind) -> None:
    found = responses.json_object(data)
    if found is None:
        return
    for whole in ({"items": [found], "metadata": {}}, found):
        run(
            shown(
                KubeSource(
                    cast("ApiClient", FakeApi({shelf.plural: whole, "x": found}, found)), shelf, Scope("fuzz"), 1.0
                )
            )
        )
    run(shown(KubeSource(cast("ApiClient", FakeApi({"x": found}, found)), shelf, Scope("fuzz", "x"), 1.0)))


async def shown(source: KubeSource) -> None:
    """In each form, and as a watcher sees it."""
    seen: dict[LockKey, LockSnapshot] = {}
    with suppress(LockError):
        seen = await source.poll()
    with suppress(LockError, WatchError):
        async with aclosing(source._watch("7")) as changes:
            async for change in changes:
                seen |= {key: each for key, each in change.snapshots.items() if each}
    locks = assemble(seen.values(), "", by_name=False)
    looks = [status_from_read(each, WALL) for each in locks] + [status_from_watch(each, 3.0, WALL) for each in locks]
    formatters.print_table(looks, wide=True, with_namespace=True)
    for form in ("json", "yaml"):
        formatters.print_locks(looks, form, with_namespace=True)
