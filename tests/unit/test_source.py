"""One kind of object at the API: read page by page, followed by a watch, polled where that is denied."""

from __future__ import annotations

import asyncio
import urllib.parse
from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader.cli import reach
from kleader.election.events import Kind
from kleader.locks import answers, pages
from kleader.locks.base import LockError, WatchError
from kleader.watching import source as sources
from kleader.watching.source import CONFIG_MAPS, LEASES, News, Source, Where
from tests.support.api import lease
from tests.support.objects import config_map, record

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from kleader.locks.api import Api


class Scripted:
    """An API server that says what the test has written down; it keeps what it was asked for."""

    def __init__(self, *said: Any, watches: list[Any] | None = None) -> None:  # noqa: ANN401 - answers and exceptions
        self.said, self.watches = list(said), list(watches or [])
        self.asked: list[str] = []
        self.accepted: list[str] = []
        self.skew: answers.Skew | None = None

    async def call(self, _method: str, target: str, *_: object, accept: str, most: int) -> dict[str, Any]:
        assert most > 1 << 20
        self.asked.append(urllib.parse.unquote(target))
        self.accepted.append(accept)
        said = self.said.pop(0)
        if isinstance(said, Exception):
            raise said
        return dict(said)

    async def watch(self, target: str, _timeout: float, *, accept: str) -> AsyncGenerator[tuple[str, Any], None]:
        self.asked.append(urllib.parse.unquote(target))
        self.accepted.append(accept)
        for event in self.watches.pop(0):
            if isinstance(event, Exception):
                raise event
            yield event

    @staticmethod
    def unreadable(what: str) -> LockError:
        return LockError(Kind.UNREACHABLE, what)


def of(api: Scripted, where: Where | None = None, shelf: sources.Shelf = LEASES) -> Source:
    return Source(cast("Api", api), shelf, where or Where("ns"), 5)


def page(*names: str, more: str = "") -> dict[str, Any]:
    return {"metadata": {"resourceVersion": "5", "continue": more}, "items": [lease("ns", name, "a") for name in names]}


def names(source: Source) -> list[str]:
    seen, version = asyncio.run(source.look())
    assert version == "5"
    return [each.name for each in seen.values()]


def news(source: Source, number: int) -> list[News]:
    """The first so many."""

    async def take() -> list[News]:
        found: list[News] = []
        async for each in source.follow():
            found.append(each)
            if len(found) == number:
                break
        return found

    return asyncio.run(take())


def test_a_list_is_read_page_by_page() -> None:
    api = Scripted(page("a", more="next"), page("b"))
    assert names(of(api, Where("", "", all_leases=True))) == ["a", "b"]
    assert api.asked == [
        "/apis/coordination.k8s.io/v1/leases?limit=250",
        "/apis/coordination.k8s.io/v1/leases?limit=250&continue=next",
    ]


@pytest.mark.parametrize("tokens", [["next"] * 2, map(str, range(100))], ids=["the same", "others"])
def test_a_list_without_an_end_is_not_followed_for_ever(tokens: Iterable[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_MOST_PAGES", 9)
    api = Scripted(*(page("a", more=token) for token in tokens))
    with pytest.raises(LockError, match="a list of leases that has no end"):
        asyncio.run(of(api).look())
    assert len(api.asked) <= 10


def test_leases_that_elect_nobody_are_left_out_by_the_server() -> None:
    api = Scripted(page())
    names(of(api))
    assert "fieldSelector=metadata.namespace!=kube-node-lease" in api.asked[0]
    assert "labelSelector=!apiserver.kubernetes.io/identity,k8s.io/component!=kube-apiserver" in api.asked[0]


def test_of_config_maps_the_metadata_alone_is_asked_for() -> None:
    api = Scripted({"metadata": {"resourceVersion": "5"}, "items": [config_map("ns", "x", record("a"))]}, watches=[[]])
    source = of(api, shelf=CONFIG_MAPS)
    assert names(source) == ["x"]
    assert api.accepted == ["application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"]


def test_pages_that_have_grown_too_old_are_read_anew_in_one() -> None:
    """As client-go's pager does."""
    expired = LockError(Kind.REFUSED, "The provided continue parameter is too old")
    api = Scripted(page("a", more="next"), expired, page("a", "b"))
    assert names(of(api)) == ["a", "b"]
    assert "limit" not in api.asked[2]
    assert "continue" not in api.asked[2]


def test_one_lock_is_read_and_watched_by_its_name() -> None:
    found = lease("ns", "x", "a")
    found["metadata"]["resourceVersion"] = "5"
    api = Scripted(found, watches=[[("MODIFIED", found)]])
    news(of(api, Where("ns", "x")), 2)
    collection = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
    watch = "?watch=1&allowWatchBookmarks=true&fieldSelector=metadata.name=x&resourceVersion=5"
    assert api.asked == [f"{collection}/x", f"{collection}{watch}"]


@pytest.mark.parametrize(
    "answer",
    [{}, {"items": 7, "metadata": {}}, {"items": [7], "metadata": {}}, {"items": [{}], "metadata": {}},
     {"items": [{"metadata": {}}], "metadata": {}}, {"items": [], "metadata": None}],
    ids=str,
)  # fmt: skip
def test_an_answer_that_is_no_list_is_told_as_that(answer: dict[str, Any]) -> None:
    with pytest.raises(LockError):
        asyncio.run(of(Scripted(answer)).look())


def test_a_watch_that_is_denied_is_told_once_and_polled_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "POLL", 0.0)
    api = Scripted(page("a"), page("b"), page("c"), watches=[[WatchError("forbidden", denied=True, begun=False)]])
    told = news(of(api), 4)
    assert [str(each.trouble or [key[2] for key in each.seen]) for each in told] == [
        "['a']",
        "forbidden; polling instead",
        "['b']",
        "['c']",
    ]
    assert sum("watch=1" in each for each in api.asked) == 1


def test_trouble_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_FIRST_PAUSE", 0.0)
    gone = LockError(Kind.UNREACHABLE, "gone")
    api = Scripted(gone, gone, page("a"), page("b"), watches=[[]])
    told = news(of(api), 4)
    assert [bool(each.trouble) for each in told] == [True, True, False, False]


def test_what_changes_its_kind_or_is_no_lock_any_more_is_gone() -> None:
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
    told = news(of(Scripted(listed, watches=[watch]), shelf=CONFIG_MAPS), 4)
    shown = [{key[0]: bool(seen) for key, seen in each.seen.items()} for each in told]
    assert shown == [
        {"configmap": True},
        {"configmap": False, "leader-for-life": True},
        {"leader-for-life": False},
        {"configmap": True},
    ]


@pytest.mark.parametrize(("skew", "behind"), [((40.0, 0.6), 40.0), ((-40.0, 0.6), -40.0), ((1.5, 0.6), 0.0)])
def test_times_are_the_api_servers_where_this_machines_clock_is_clearly_another(
    skew: tuple[float, float], behind: float
) -> None:
    api = Scripted()
    api.skew = answers.Skew(*skew)
    clock = reach.Clock([of(api)])
    assert clock.behind == behind
    assert reach.Clock([of(Scripted())]).behind == 0
