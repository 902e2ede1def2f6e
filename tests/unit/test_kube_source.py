"""One kind of object at the API: read page by page, followed by a watch, polled where that is denied."""

from __future__ import annotations

import asyncio
import urllib.parse
from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader.backoff import Backoff
from kleader.cli import locate
from kleader.election.events import Kind
from kleader.kube import pagination, responses
from kleader.kube.errors import LockError, WatchError
from kleader.observe import kube_source as sources
from kleader.observe.kube_source import CONFIG_MAPS, LEASES, KubeSource, Scope
from tests.support.api import lease
from tests.support.objects import config_map, record

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from kleader.kube.client import ApiClient
    from kleader.observe.snapshot import SourceUpdate


class Scripted:
    """An API server with these responses and watches, which records the requests."""

    def __init__(self, *outcomes: Any, watches: list[Any] | None = None) -> None:  # noqa: ANN401 - answers and exceptions
        self.outcomes, self.watches = list(outcomes), list(watches or [])
        self.requested: list[str] = []
        self.accepted: list[str] = []
        self.skew: responses.ClockSkew | None = None

    async def call(self, _method: str, target: str, *_: object, accept: str, max_bytes: int) -> dict[str, Any]:
        assert max_bytes > 1 << 20
        self.requested.append(urllib.parse.unquote(target))
        self.accepted.append(accept)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return dict(outcome)

    async def watch(self, target: str, _timeout: float, *, accept: str) -> AsyncGenerator[tuple[str, Any], None]:
        self.requested.append(urllib.parse.unquote(target))
        self.accepted.append(accept)
        for event in self.watches.pop(0):
            if isinstance(event, Exception):
                raise event
            yield event

    @staticmethod
    def unreadable(what: str) -> LockError:
        return LockError(Kind.UNREACHABLE, what)


def of(api: Scripted, where: Scope | None = None, shelf: sources.ResourceKind = LEASES) -> KubeSource:
    return KubeSource(cast("ApiClient", api), shelf, where or Scope("ns"), 5)


def page(*names: str, more: str = "") -> dict[str, Any]:
    return {"metadata": {"resourceVersion": "5", "continue": more}, "items": [lease("ns", name, "a") for name in names]}


def names(source: KubeSource) -> list[str]:
    locks, version = asyncio.run(source._read_all())
    assert version == "5"
    return [each.name for each in locks.values()]


def first_updates(source: KubeSource, number: int) -> list[SourceUpdate]:
    """The first updates of a source."""

    async def take() -> list[SourceUpdate]:
        found: list[SourceUpdate] = []
        async for each in source.follow():
            found.append(each)
            if len(found) == number:
                break
        return found

    return asyncio.run(take())


def test_a_list_is_read_page_by_page() -> None:
    api = Scripted(page("a", more="next"), page("b"))
    assert names(of(api, Scope("", "", all_leases=True))) == ["a", "b"]
    assert api.requested == [
        "/apis/coordination.k8s.io/v1/leases?limit=250",
        "/apis/coordination.k8s.io/v1/leases?limit=250&continue=next",
    ]


@pytest.mark.parametrize("tokens", [["next"] * 2, map(str, range(100))], ids=["the same", "others"])
def test_a_list_without_an_end_is_an_error(tokens: Iterable[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagination, "_MAX_PAGES", 9)
    api = Scripted(*(page("a", more=token) for token in tokens))
    with pytest.raises(LockError, match="a list of leases that has no end"):
        asyncio.run(of(api).poll())
    assert len(api.requested) <= 10


def test_heartbeat_leases_are_excluded_by_the_api_server() -> None:
    api = Scripted(page())
    names(of(api))
    assert "fieldSelector=metadata.namespace!=kube-node-lease" in api.requested[0]
    assert "labelSelector=!apiserver.kubernetes.io/identity,k8s.io/component!=kube-apiserver" in api.requested[0]


def test_only_the_metadata_of_config_maps_is_requested() -> None:
    api = Scripted({"metadata": {"resourceVersion": "5"}, "items": [config_map("ns", "x", record("a"))]}, watches=[[]])
    source = of(api, shelf=CONFIG_MAPS)
    assert names(source) == ["x"]
    assert api.accepted == ["application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"]


def test_a_list_whose_pages_have_expired_is_read_again_in_one_request() -> None:
    """As client-go's pager does."""
    expired = LockError(Kind.REFUSED, "The provided continue parameter is too old")
    api = Scripted(page("a", more="next"), expired, page("a", "b"))
    assert names(of(api)) == ["a", "b"]
    assert "limit" not in api.requested[2]
    assert "continue" not in api.requested[2]


def test_one_lock_is_read_and_watched_by_its_name() -> None:
    found = lease("ns", "x", "a")
    found["metadata"]["resourceVersion"] = "5"
    api = Scripted(found, watches=[[("MODIFIED", found)]])
    first_updates(of(api, Scope("ns", "x")), 2)
    collection = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
    watch = "?watch=1&allowWatchBookmarks=true&fieldSelector=metadata.name=x&resourceVersion=5"
    assert api.requested == [f"{collection}/x", f"{collection}{watch}"]


@pytest.mark.parametrize(
    "answer",
    [{}, {"items": 7, "metadata": {}}, {"items": [7], "metadata": {}}, {"items": [{}], "metadata": {}},
     {"items": [{"metadata": {}}], "metadata": {}}, {"items": [], "metadata": None}],
    ids=str,
)  # fmt: skip
def test_a_response_that_is_not_a_list_is_an_error(answer: dict[str, Any]) -> None:
    with pytest.raises(LockError):
        asyncio.run(of(Scripted(answer)).poll())


def test_a_denied_watch_is_reported_once_and_replaced_by_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "POLL_SECONDS", 0.0)
    api = Scripted(page("a"), page("b"), page("c"), watches=[[WatchError("forbidden", denied=True, begun=False)]])
    updates = first_updates(of(api), 4)
    assert [str(each.error or [key[2] for key in each.snapshots]) for each in updates] == [
        "['a']",
        "forbidden; polling instead",
        "['b']",
        "['c']",
    ]
    assert sum("watch=1" in each for each in api.requested) == 1


def test_an_error_is_reported_and_the_list_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_WATCH_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(Backoff, "pause", lambda _self: 0.0)
    gone = LockError(Kind.UNREACHABLE, "gone")
    api = Scripted(gone, gone, page("a"), page("b"), watches=[[]])
    updates = first_updates(of(api), 4)
    assert [bool(each.error) for each in updates] == [True, True, False, False]


def test_a_lock_is_gone_when_its_object_keeps_another_kind_of_lock_or_none() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "u"}}
    states = [config_map("ns", "x", record("a")), config_map("ns", "x", owners=[pod]), config_map("ns", "x")]
    listed = {"metadata": {"resourceVersion": "5"}, "items": states[:1]}
    watch = [
        ("MODIFIED", states[1]),
        ("MODIFIED", states[2]),
        ("BOOKMARK", {}),
        ("DELETED", states[2]),
        ("ADDED", states[0]),
    ]
    updates = first_updates(of(Scripted(listed, watches=[watch]), shelf=CONFIG_MAPS), 4)
    shown = [{key[0]: bool(snapshot) for key, snapshot in each.snapshots.items()} for each in updates]
    assert shown == [
        {"configmap": True},
        {"configmap": False, "leader-for-life": True},
        {"leader-for-life": False},
        {"configmap": True},
    ]


@pytest.mark.parametrize(("skew", "behind"), [((40.0, 0.6), 40.0), ((-40.0, 0.6), -40.0), ((1.5, 0.6), 0.0)])
def test_times_follow_the_api_servers_clock_where_this_machines_clock_clearly_differs(
    skew: tuple[float, float], behind: float
) -> None:
    api = Scripted()
    api.skew = responses.ClockSkew(*skew)
    clock = locate.Clock([of(api)])
    assert clock.behind == behind
    assert locate.Clock([of(Scripted())]).behind == 0
