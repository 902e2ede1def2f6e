"""The ConfigMap that a Pod owns, request by request, at the real API server, with exactly its permissions."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kleader.election.events import Kind, Observed
from kleader.election.record import Record
from kleader.kube.client import ApiClient
from kleader.kube.credentials import Credentials
from kleader.kube.errors import WatchError
from kleader.locks import base, factory
from kleader.locks.leader_for_life import PodContext
from kleader.locks.rbac import lock_permissions, role_rules
from tests.cluster.contract import INCARNATION, Client, Handle, Watch, first, reader_of, refused
from tests.support import faults
from tests.support.api import path, path_of
from tests.support.httpproxy import HttpProxy
from tests.support.objects import config_map, owned_by, pod_status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kleader.locks.base import Lock
    from tests.support.api import Object
    from tests.support.controlplane import ControlPlane

LOCK = "leader-for-life"
ME = Record("me")
PATH = "/configmaps(/|$)"


@pytest.fixture(autouse=True)
def uncollected(own_plane: ControlPlane) -> None:
    """Nobody but candidates deletes anything."""
    if own_plane.manager.running:
        own_plane.manager.pause()


class Pods(Client):
    """kleader's locks, each in a Pod."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        super().__init__()
        self.plane, self.namespace = plane, namespace
        self.path = path("v1", "ConfigMap", namespace, "x")
        self.pods: dict[str, Object] = {}
        self.sockets: list[socket.socket] = []
        self.user = plane.new_bare_user()
        plane.grant(self.user, namespace, role_rules(lock_permissions(LOCK, "x")))

    def pod(self, name: str, node: str = "") -> Object:
        if name not in self.pods:
            self.pods[name] = self.plane.new_pod(self.namespace, name, node)
        return self.pods[name]

    def remove(self, name: str) -> None:
        self.plane.api.delete(f"{path_of(self.pods.pop(name))}?gracePeriodSeconds=0")

    def state(self, name: str, *status: Any, **more: Any) -> None:  # noqa: ANN401
        self.plane.api.merge(f"{path_of(self.pods[name])}/status", pod_status(*status, **more))

    def plant(self, *owners: Object, incarnation: str | None = "theirs", **fields: Any) -> Object:  # noqa: ANN401
        """The ConfigMap as a process of the first of these Pods has created it."""
        body = config_map(self.namespace, "x", owners=owners, **fields)
        if incarnation is not None:
            body["metadata"]["annotations"] = {INCARNATION: incarnation}
        return self.plane.api.create(body)

    def found(self) -> Object | None:
        return self.plane.api.find(self.path)

    def candidate(
        self,
        pod: str,
        *,
        uid: str = "",
        incarnation: str = "",
        leading: bool = False,
        left: Callable[[set[str], str], bool] = lambda _spared, _doomed: False,
        sock: socket.socket | None = None,
        server: str | None = None,
        labels: dict[str, str] | None = None,
        user: str | None = None,
    ) -> Handle:
        config = self.plane.kubeconfig(user or self.user, self.namespace, server=server)
        warnings: list[str] = []
        if sock is None:
            sock = socket.socket(socket.AF_UNIX)
            self.sockets.append(sock)
        context = PodContext(pod, uid, sock, left, incarnation, leading)

        async def make() -> Lock:
            api = ApiClient(Credentials({"kubeconfig": str(config)}, reader_of(config)))
            self._apis.append(api)
            place = base.Place(api, self.namespace, "x", labels or {}, warnings.append)
            return factory.make_lock(LOCK, place, 15, context=context)

        return Handle(self, self.run(make()), warnings)


@pytest.fixture
def pods(own_plane: ControlPlane, namespace: str) -> Iterator[Pods]:
    with Pods(own_plane, namespace) as running:
        yield running
    for sock in running.sockets:
        sock.close()


@pytest.fixture
def proxy(own_plane: ControlPlane) -> Iterator[HttpProxy]:
    with HttpProxy(own_plane) as between:
        yield between


def shown(seen: Observed | None) -> tuple[str, bool, bool, str]:
    """Whose it is."""
    assert seen
    return seen.record.holder, seen.owned_by_me, seen.owner_gone, seen.fault


def later(watch: Watch) -> Observed | None:
    """The next state after a Pod's deletion, which begins with a mark on the Pod."""
    watch.next()
    return watch.next()


def moved(watch: Watch) -> bool:
    with pytest.raises(WatchError) as error:
        watch.next()
    return error.value.ended.moved


# --- created, taken over, given up


def test_missing_lock_is_created_as_operator_lib_creates_it(pods: Pods) -> None:
    """Beside the owner there is the incarnation, and nothing else."""
    pod = pods.pod("a")
    lock = pods.candidate("a")
    assert refused(lock.get).kind is Kind.MISSING
    written = lock.write(None, ME)
    thing = pods.found()
    assert thing
    assert (written.incarnation, written.version) == ("term", thing["metadata"]["resourceVersion"])
    assert shown(written) == ("a", True, False, "")
    assert thing["metadata"]["ownerReferences"] == [owned_by(pod)]
    assert thing["metadata"]["annotations"] == {INCARNATION: "term"}
    assert thing.keys() == {"apiVersion", "kind", "metadata"}
    assert lock.get().same_record(written)
    (reference,) = lock.lock.references(written)
    assert (reference["kind"], reference["uid"]) == ("ConfigMap", thing["metadata"]["uid"])


def test_lock_of_an_earlier_process_of_the_pod_is_kept_with_a_new_incarnation(pods: Pods) -> None:
    old = pods.plant(pods.pod("a"), data={"kept": "1"}, labels={})
    lock = pods.candidate("a", labels={"l": "1"})
    seen = lock.get()
    assert (*shown(seen), seen.incarnation) == ("a", True, False, "", "theirs")
    lock.write(seen, ME)
    new = pods.found()
    assert new
    assert (new["metadata"]["uid"], new["data"]) == (old["metadata"]["uid"], {"kept": "1"})
    assert new["metadata"]["annotations"] == {INCARNATION: "term"}
    assert new["metadata"]["labels"] == {"l": "1"}


def test_a_release_is_annotated_before_the_deletion(pods: Pods, proxy: HttpProxy) -> None:
    pods.pod("a")
    lock = pods.candidate("a", server=proxy.url)
    refused(lock.get)
    held = lock.write(None, ME)
    seen: list[Object | None] = []
    proxy.on(first(lambda: seen.append(pods.found())), method="DELETE")
    freed = lock.write(held, Record(), "")
    assert shown(freed) == ("", False, False, "")
    assert seen[0]
    assert seen[0]["metadata"]["annotations"] == {INCARNATION: ""}
    assert seen[0]["metadata"]["ownerReferences"] == [owned_by(pods.pods["a"])]
    assert pods.found() is None


def test_released_lock_is_free_and_created_by_the_next_leader(pods: Pods) -> None:
    """Never written over: a deletion of it may be under way, which names its uid."""
    for name in ("a", "b"):
        old = pods.plant(pods.pod("a"), incarnation="")
        lock = pods.candidate(name)
        pods.pod(name)
        seen = lock.get()
        assert shown(seen) == ("", False, False, "")
        lock.write(seen, ME)
        new = pods.found()
        assert new
        assert new["metadata"]["uid"] != old["metadata"]["uid"]
        assert new["metadata"]["ownerReferences"] == [owned_by(pods.pods[name])]
        pods.plane.api.delete(pods.path)


def test_missing_permission_to_delete_a_released_lock_is_reported(pods: Pods) -> None:
    """Another kleader follows all the same."""
    user = pods.plane.new_bare_user()
    pods.plane.grant(
        user, pods.namespace, role_rules(each for each in lock_permissions(LOCK, "x") if each.verb != "delete")
    )
    pods.pod("a")
    lock = pods.candidate("a", user=user)
    refused(lock.get)
    lock.write(lock.write(None, ME), Record(), "")
    (warning,) = lock.warnings
    assert "its ConfigMap remains, and keeps operator-lib waiting" in warning
    pods.pod("b")
    assert shown(pods.candidate("b").get())[0] == ""


def test_candidate_that_loses_the_race_to_create_the_lock_writes_nothing(pods: Pods, proxy: HttpProxy) -> None:
    pods.pod("a")
    lock = pods.candidate("a", server=proxy.url)
    refused(lock.get)
    proxy.on(first(lambda: pods.plant(pods.pod("b"))), method="POST")
    assert refused(lock.write, None, ME).kind is Kind.CONFLICT
    assert shown(lock.get()) == ("b", False, False, "")


def test_candidate_whose_pod_is_gone_at_the_write_does_not_acquire(pods: Pods, proxy: HttpProxy) -> None:
    """The garbage collector would delete it, and another candidate would take its owner for dead."""
    pods.pod("a")
    lock = pods.candidate("a", server=proxy.url)
    refused(lock.get)
    proxy.on(first(lambda: pods.remove("a")), method="POST")
    assert refused(lock.write, None, ME).kind is Kind.PERMANENT


# --- whose owner is dead


@pytest.mark.parametrize("again", [False, True], ids=["gone", "another of its name"])
def test_a_pod_that_is_gone_is_dead_by_its_uid(pods: Pods, again: bool) -> None:  # noqa: FBT001
    pods.plant(pods.pod("b"))
    pods.remove("b")
    if again:
        pods.pod("b")
    pods.pod("a")
    lock = pods.candidate("a")
    seen = lock.get()
    assert shown(seen) == ("b", False, True, "")
    lock.write(seen, ME)
    assert shown(lock.get()) == ("a", True, False, "")


def test_lock_of_a_pod_with_another_uid_is_another_holders(pods: Pods) -> None:
    pods.plant(pods.pod("a"))
    pods.remove("a")
    pods.pod("a")
    assert shown(pods.candidate("a").get()) == ("a", False, True, "")


# --- nothing is deleted on a guess


def test_a_label_does_not_protect_a_dead_owners_lock(pods: Pods, proxy: HttpProxy) -> None:
    pods.plant(pods.pod("b"))
    pods.remove("b")
    pods.pod("a")
    lock = pods.candidate("a", server=proxy.url)
    seen = lock.get()
    rule = proxy.on(
        first(lambda: pods.plane.api.merge(pods.path, {"metadata": {"labels": {"somebody": "s"}}})), method="DELETE"
    )
    assert shown(lock.write(seen, ME)) == ("a", True, False, "")
    assert rule.hits == 1


CHANGES: dict[str, Callable[[Pods], object]] = {
    "another owner": lambda pods: pods.plane.api.merge(
        pods.path, {"metadata": {"ownerReferences": [owned_by(pods.pod("c"))]}}
    ),
    "another incarnation": lambda pods: pods.plane.api.merge(
        pods.path, {"metadata": {"annotations": {INCARNATION: "c"}}}
    ),
    "another object": lambda pods: (pods.plane.api.delete(pods.path), pods.plant(pods.pod("c"))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_lock_changed_since_it_was_read_is_not_deleted(pods: Pods, proxy: HttpProxy, change: str) -> None:
    pods.plant(pods.pod("b"))
    pods.remove("b")
    pods.pod("a")
    lock = pods.candidate("a", server=proxy.url)
    seen = lock.get()
    proxy.on(first(lambda: CHANGES[change](pods)), method="DELETE")
    assert refused(lock.write, seen, ME).kind is Kind.CONFLICT
    after = pods.found()
    assert after
    assert after["metadata"]["uid"] == seen.base.found["metadata"]["uid"] or change == "another object"


@pytest.mark.parametrize("there", [True, False], ids=["the lock is there", "the lock is gone"])
def test_watch_event_alone_does_not_prove_the_owner_dead(pods: Pods, there: bool) -> None:  # noqa: FBT001
    """It only wakes: the owner's Pod is read before anything is written."""
    before: Object | None = pods.plant(pods.pod("b"))
    pods.pod("a")
    lock = pods.candidate("a")
    seen = lock.get()
    if not there:
        pods.plane.api.delete(pods.path)
        before = None
    told = replace(seen, owner_gone=True, base=seen.base._replace(pod=None, found=seen.base.found if there else None))
    assert refused(lock.write, told, ME).kind is Kind.CONFLICT
    assert pods.found() == before


def test_lock_that_another_candidate_deleted_first_is_created(pods: Pods, proxy: HttpProxy) -> None:
    pods.plant(pods.pod("b"))
    pods.remove("b")
    pods.pod("a")
    lock = pods.candidate("a", server=proxy.url)
    seen = lock.get()
    proxy.on(first(lambda: pods.plane.api.delete(pods.path)), method="DELETE")
    assert shown(lock.write(seen, ME)) == ("a", True, False, "")


def test_lock_that_waits_for_finalizers_is_held(pods: Pods) -> None:
    body = config_map(pods.namespace, "x", owners=[pods.pod("b")])
    body["metadata"]["finalizers"] = ["example.org/stays"]
    pods.plane.api.create(body)
    pods.remove("b")
    pods.pod("a")
    lock = pods.candidate("a")
    assert refused(lock.write, lock.get(), ME).kind is Kind.CONFLICT
    assert "waits for its finalizers" in lock.get().fault
    pods.plane.api.merge(pods.path, {"metadata": {"finalizers": None}})
    assert refused(lock.get).kind is Kind.MISSING


# --- answers that are lost


@pytest.mark.parametrize("then", ["reset", "close"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_write_without_a_response_is_unknown_until_the_next_read(
    pods: Pods, proxy: HttpProxy, method: str, then: str
) -> None:
    pods.pod("a")
    if method != "POST":
        pods.plant(pods.pod("a" if method == "PUT" else "b"))
    if method == "DELETE":
        pods.remove("b")
    lock = pods.candidate("a", server=proxy.url)
    seen = None if method == "POST" else lock.get()
    if seen is None:
        refused(lock.get)
    proxy.on(faults.lose(then), method=method, path=PATH)
    assert refused(lock.write, seen, ME, "t").kind is Kind.UNREACHABLE
    if method == "DELETE":
        assert refused(lock.get).kind is Kind.MISSING
    else:
        now = lock.get()
        assert (*shown(now), now.incarnation) == ("a", True, False, "", "t")


# --- gone is not free


def test_a_deleted_lock_belongs_to_its_owner_until_the_owner_is_dead(pods: Pods) -> None:
    """For a candidate that observed it; another one finds no lock."""
    pods.plant(pods.pod("b"))
    for name in ("a", "c"):
        pods.pod(name)
    lock = pods.candidate("a")
    lock.get()
    pods.plane.api.delete(pods.path)
    assert shown(lock.get()) == ("b", False, False, "")
    assert lock.warnings == ["the lock is gone, but not the Pod b, which had it: waiting for its end"]
    assert refused(pods.candidate("c").get).kind is Kind.MISSING
    pods.remove("b")
    assert refused(lock.get).kind is Kind.MISSING
    pods.pod("b")
    assert refused(lock.get).kind is Kind.MISSING


def test_unreadable_state_in_between_does_not_free_a_vanished_lock(pods: Pods) -> None:
    pods.plant(pods.pod("b"))
    pods.pod("a")
    lock = pods.candidate("a")
    lock.get()
    pods.plane.api.merge(pods.path, {"metadata": {"ownerReferences": None}})
    assert "has no owner" in lock.get().fault
    pods.plane.api.delete(pods.path)
    assert shown(lock.get()) == ("b", False, False, "")


# --- the watch


def test_a_watch_reports_the_release_and_then_the_deletion(pods: Pods) -> None:
    for name in ("a", "b"):
        pods.pod(name)
    leader, lock = pods.candidate("b"), pods.candidate("a")
    refused(leader.get)
    held = leader.write(None, ME)
    with lock.watch(lock.get()) as watch:
        leader.write(held, Record(), "")
        assert shown(watch.next()) == ("", False, False, "")
        assert watch.next() is None


def test_a_watch_reports_the_owners_end_whether_lock_or_pod_is_deleted_first(pods: Pods) -> None:
    pods.pod("a")
    lock = pods.candidate("a")
    for lock_first in (True, False):
        pods.plant(pods.pod("b"))
        with lock.watch(lock.get()) as watch:
            if lock_first:
                pods.plane.api.delete(pods.path)
                assert shown(watch.next()) == ("b", False, False, "")
                pods.remove("b")
                assert shown(later(watch)) == ("b", False, True, "")
            else:
                pods.remove("b")
                assert shown(later(watch)) == ("b", False, True, "")
                pods.plane.api.delete(pods.path)
                assert shown(watch.next()) == ("b", False, True, "")


def test_a_watch_reports_an_eviction(pods: Pods) -> None:
    pods.plant(pods.pod("b"))
    pods.pod("a")
    lock = pods.candidate("a")
    with lock.watch(lock.get()) as watch:
        pods.state("b", "Failed", "Evicted", ended=False)
        assert shown(watch.next()) == ("b", False, False, "")
        pods.state("b", "Failed", "Evicted")
        assert shown(watch.next()) == ("b", False, True, "")


@pytest.mark.parametrize("lead", [False, True], ids=["of another's lock", "of one's own"])
def test_new_owner_ends_the_watch_of_a_candidate_and_is_reported_to_the_leader(pods: Pods, lead: bool) -> None:  # noqa: FBT001
    pods.pod("a")
    lock = pods.candidate("a")
    if lead:
        refused(lock.get)
        seen = lock.write(None, ME)
    else:
        pods.plant(pods.pod("b"))
        seen = lock.get()
    with lock.watch(seen) as watch:
        pods.plane.api.merge(pods.path, {"metadata": {"ownerReferences": [owned_by(pods.pod("c"))]}})
        if lead:
            assert shown(watch.next()) == ("c", False, False, "")
        assert moved(watch)
    assert shown(lock.get()) == ("c", False, False, "")


def test_events_of_a_pod_are_ignored_once_its_lock_is_unreadable(pods: Pods) -> None:
    pods.plant(pods.pod("b"))
    pods.pod("a")
    lock = pods.candidate("a")
    with lock.watch(lock.get()) as watch:
        pods.plane.api.merge(pods.path, {"metadata": {"ownerReferences": None}})
        assert "has no owner" in shown(watch.next())[3]
        pods.remove("b")
        pods.plane.api.merge(pods.path, {"metadata": {"labels": {"somebody": "s"}}})
        assert "has no owner" in shown(watch.next())[3]
        pods.plane.api.merge(pods.path, {"metadata": {"ownerReferences": [owned_by(pods.pod("c"))]}})
        assert moved(watch)


def test_a_watch_of_a_missing_lock_ends_with_the_first_owner(pods: Pods) -> None:
    pods.pod("a")
    lock = pods.candidate("a")
    refused(lock.get)
    with lock.watch(None) as watch:
        pods.plant(pods.pod("b"))
        assert moved(watch)


def test_leader_is_notified_of_the_end_of_its_own_pod(pods: Pods) -> None:
    pods.pod("a")
    lock = pods.candidate("a")
    refused(lock.get)
    with lock.watch(lock.write(None, ME)) as watch:
        pods.remove("a")
        assert shown(later(watch)) == ("a", True, True, "")


def test_leader_loses_the_lock_even_if_the_new_owners_pod_is_unreadable(pods: Pods, proxy: HttpProxy) -> None:
    pods.pod("a")
    lock = pods.candidate("a", server=proxy.url)
    refused(lock.get)
    lock.write(None, ME)
    pods.plane.api.merge(pods.path, {"metadata": {"ownerReferences": [owned_by(pods.pod("c"))]}})
    proxy.on(faults.silence(), path="/pods/c")
    assert shown(lock.get()) == ("c", False, False, "")


# --- one process of a Pod


def test_the_second_candidate_of_a_pod_waits_until_the_firsts_socket_is_closed(pods: Pods) -> None:
    pods.pod("a")
    one, other = pods.candidate("a"), pods.candidate("a")
    refused(one.get)
    seen = other.get()
    assert shown(seen) == ("", False, False, "another kleader of this Pod competes for it, or has not ended yet")
    assert refused(other.write, None, ME).kind is Kind.CONFLICT
    assert refused(one.get).kind is Kind.MISSING
    beside = pods.sockets[0].dup()
    pods.sockets[0].close()
    assert other.get().fault
    with other.watch(seen) as watch:
        beside.close()
        assert moved(watch)
    assert refused(other.get).kind is Kind.MISSING


def test_a_replacement_elector_keeps_the_instance_lock_and_the_term(pods: Pods) -> None:
    pods.pod("a")
    lock = pods.candidate("a")
    refused(lock.get)
    lock.write(None, ME, "term")
    looks: list[set[str]] = []

    def left(spared: set[str], _doomed: str) -> bool:
        looks.append(spared)
        return True

    again = pods.candidate("a", sock=pods.sockets[0], incarnation="term", leading=True, left=left)
    assert shown(again.get()) == ("a", True, False, "")
    assert not looks, "its own command is nothing that was left"


def test_candidate_waits_for_processes_of_an_earlier_term(pods: Pods) -> None:
    """Whether the lock is still there, has been given up, or is gone."""
    pods.pod("a")
    remains = [True]
    doomed: list[str] = []

    def left(_spared: set[str], incarnation: str) -> bool:
        doomed.append(incarnation)
        return remains[0]

    lock = pods.candidate("a", left=left)
    for plant in (lambda: None, lambda: pods.plant(pods.pods["a"]), lambda: pods.plant(pods.pods["a"], incarnation="")):
        remains[0] = True
        thing = plant()
        seen = lock.get()
        assert seen.fault == "processes of an earlier term still run here"
        with lock.watch(seen) as watch:
            remains[0] = False
            assert moved(watch)
        if thing:
            assert lock.get().fault == ""
            pods.plane.api.delete(pods.path)
    assert set(doomed) == {"", "theirs"}


def test_a_process_of_the_pod_other_than_kleader_holds_the_lock(pods: Pods) -> None:
    pods.plant(pods.pod("a"), incarnation=None)
    assert shown(pods.candidate("a").get()) == ("a", True, False, "a process of this Pod that is not kleader has it")


# --- no Pod


def test_a_candidate_needs_its_pod(pods: Pods) -> None:
    failure = refused(pods.candidate("nobody").get)
    assert failure.kind is Kind.PERMANENT
    assert f"there is no Pod {pods.namespace}/nobody: set POD_NAME" in failure.message


def test_a_known_uid_must_be_the_pods(pods: Pods) -> None:
    uid = pods.pod("a")["metadata"]["uid"]
    assert refused(pods.candidate("a", uid=uid).get).kind is Kind.MISSING
    failure = refused(pods.candidate("a", uid="u").get)
    assert failure.kind is Kind.PERMANENT
    assert failure.message.endswith(f"its uid is {uid}, POD_UID says u")


def test_a_replacement_elector_in_a_recreated_pod_does_not_lead(pods: Pods) -> None:
    pods.pod("a")
    refused(pods.candidate("a").get)
    pods.remove("a")
    pods.pod("a")
    failure = refused(pods.candidate("a", sock=pods.sockets[0]).get)
    assert failure.kind is Kind.PERMANENT
    assert "is gone" in failure.message
