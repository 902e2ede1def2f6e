"""Whom a leader that ends asks for a sign of life, with which pingTime, and when; the rest is in tests/cluster."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kleader import platform
from kleader.election.events import Kind
from kleader.election.record import micro_time
from kleader.election.state import Candidate, Phase, State
from kleader.election.timing import Timing
from kleader.elector import errand
from kleader.elector.recorder import Recorder
from kleader.elector.roll import Present, Roll, ping_time, present
from kleader.locks.answers import ForbiddenError, Skew
from kleader.locks.base import LockError
from tests.support.heard import Heard

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from kleader.locks.candidate import LeaseCandidate
    from kleader.locks.credentials import Credentials

S = 1_000_000  # microseconds in a second
NOW = 1_795_000_000 * S  # this machine's time, which may be anything
ME = Candidate("me", Timing(15, 10, 2, 3, 0.5, 1.5), 5)
LEADING = State(ME, "first", phase=Phase.LEADING, t0=100.0)
RELEASING = replace(LEADING, phase=Phase.RELEASING, led=True)


def candidate(name: str, renewed: int = NOW - 60 * S, pinged: int = 0, lease: str = "x") -> dict[str, Any]:
    times = {"renewTime": micro_time(renewed)} | ({"pingTime": micro_time(pinged)} if pinged else {})
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": f"7{len(name)}"}
    return {"metadata": metadata, "spec": {"leaseName": lease, **times}}


class Server:
    """Stands for all the Apis that a roll opens: pages of a list, and what becomes of each PATCH."""

    def __init__(self, *pages: list[Any]) -> None:
        self.pages = pages or ([],)
        self.asked: list[tuple[str, str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.fails: dict[str, LockError] = {}  # by what the target ends in
        self.skew: Skew | None = Skew(0.0, 0.5)
        self.silent = False

    async def call(
        self, method: str, target: str, body: dict[str, Any] | None, _timeout: float, **_: object
    ) -> dict[str, Any]:
        """As the road to an API server has it."""
        self.asked.append((method, target))
        if self.silent:
            await asyncio.Event().wait()
        for end, error in self.fails.items():
            if target.endswith(end):
                raise error
        if body:
            self.bodies.append(body)
            return body
        number = int(target.rpartition("continue=")[2]) if "continue=" in target else 0
        more = {"continue": str(number + 1)} if number + 1 < len(self.pages) else {}
        return {"items": self.pages[number], "metadata": more}

    def unreadable(self, what: str) -> LockError:
        return LockError(Kind.UNREACHABLE, what)

    def close(self) -> None: ...

    @property
    def pinged(self) -> list[str]:
        return [target.rpartition("/")[2] for method, target in self.asked if method == "PATCH"]


class Own:
    """One's LeaseCandidate."""

    identity, lease, collection = "me", "x", "/candidates"


class Called:
    """A roll, at a clock that stands still."""

    def __init__(self, server: Server, log: Heard) -> None:
        self.server, self.log = server, log
        self.roll = Roll(cast("Credentials", None), log, cast("LeaseCandidate", Own()), 5)

    async def called(self) -> None:
        while self.roll.under_way:
            await asyncio.wait(self.roll.under_way)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()
    monkeypatch.setattr(errand, "Api", lambda _credentials, *, guest: made if guest else None)
    monkeypatch.setattr(time, "time_ns", lambda: NOW * 1000)
    monkeypatch.setattr(platform, "clock", lambda: 101.0)
    return made


@pytest.fixture
def called(server: Server) -> Called:
    return Called(server, Heard())


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


# --- with which pingTime


def ping(renewed: int, pinged: int = 0, skew: Skew = Skew(0.0, 0.5)) -> int | None:  # noqa: B008 - a value
    return ping_time(Present("other", "u", "7", renewed, pinged), NOW, skew)


def test_it_is_the_api_servers_time_at_the_earliest_that_it_can_be() -> None:
    """By its Date, which says whole seconds; so nobody waits longer for an answer than for the control plane's ping."""
    assert ping(NOW - 60 * S) == NOW - S // 2


@pytest.mark.parametrize("ahead", [-3600, -20, 20, 3600])
def test_the_clock_of_the_leader_does_not_matter(ahead: float) -> None:
    assert ping(NOW - round((ahead + 60) * S), skew=Skew(-ahead, 0.5)) == NOW - round((ahead + 0.5) * S)


def test_who_may_have_given_its_last_sign_of_life_since_then_is_asked_for_any_later_one() -> None:
    """Or the dead one among them would have answered."""
    assert ping(NOW - S // 2) == NOW - S // 2 + 1
    assert ping(NOW + S // 3) == NOW + S // 3 + 1


def test_whose_clock_is_ahead_of_the_api_servers_is_not_asked() -> None:
    """The control plane would wait for it until then and 5 s more."""
    assert ping(NOW + S // 2) is None
    assert ping(NOW + 3600 * S) is None


def test_who_has_not_answered_yet_is_not_asked_again() -> None:
    """It would be waited for once more."""
    assert ping(NOW - 60 * S, NOW - 60 * S + 1) is None
    assert ping(NOW - 60 * S, NOW - 60 * S) == NOW - S // 2


def test_who_has_given_no_sign_of_life_at_all_is_none_to_the_control_plane() -> None:
    assert ping(0) is None


# --- who


@pytest.mark.parametrize(
    "found",
    [None, [], "x", {}, {"metadata": None, "spec": None}, {"metadata": [], "spec": {"leaseName": "x"}}]
    + [{**candidate("other"), "metadata": {"name": "other", "uid": uid, "resourceVersion": "7"}} for uid in (None, 7)]
    + [candidate("other", lease="y")],
)
def test_what_is_no_candidate_for_this_lock_is_left_alone(found: object) -> None:
    assert present(found, "x") is None


@pytest.mark.parametrize("renewed", [None, 7, [], "yesterday", "9999-99-99T00:00:00Z"])
def test_times_that_cannot_be_read_are_none(renewed: object) -> None:
    found = candidate("other")
    found["spec"] |= {"renewTime": renewed, "pingTime": renewed}
    assert present(found, "x") == Present("other", "uid-other", "75", 0, 0)


def test_all_others_of_this_lock_are_asked_the_latest_sign_of_life_first(called: Called) -> None:
    """Page by page; each as it was listed, or not at all."""
    second = NOW - S
    called.server.pages = (
        [candidate("long-ago"), candidate("me", second), candidate("foreign", second, lease="y"), None],
        [candidate("just-now", second), candidate("silent", second, NOW)],
    )

    async def story() -> None:
        called.roll.follow(LEADING)
        called.roll.call()
        await called.called()

    run(story())
    assert called.server.pinged == ["just-now", "long-ago"]
    metadata = {"uid": "uid-just-now", "resourceVersion": "78"}
    assert called.server.bodies[0] == {"metadata": metadata, "spec": {"pingTime": micro_time(NOW - S // 2)}}
    assert called.server.asked[0] == ("GET", "/candidates?limit=500")


@pytest.mark.parametrize("kind", [Kind.CONFLICT, Kind.MISSING])
def test_one_that_has_changed_since_then_is_left_alone_and_the_others_are_asked(called: Called, kind: Kind) -> None:
    called.server.pages = ([candidate("a", NOW - S), candidate("b")],)
    called.server.fails = {"/a": LockError(kind, "changed")}

    async def story() -> None:
        called.roll.follow(LEADING)
        called.roll.call()
        await called.called()

    run(story())
    assert called.server.pinged == ["a", "b"]
    assert [message for level, message in called.log.lines if level != "DEBUG"] == []


def test_where_the_api_servers_time_is_not_known_nobody_is_asked(called: Called) -> None:
    called.server.pages, called.server.skew = ([candidate("a")],), None

    async def story() -> None:
        called.roll.follow(LEADING)
        called.roll.call()
        await called.called()

    run(story())
    assert called.server.pinged == []


# --- when


def test_it_is_called_once_in_a_term_and_again_in_the_next(called: Called) -> None:
    async def story() -> None:
        called.roll.follow(LEADING)
        await called.called()
        assert called.server.asked == []
        called.roll.call()
        called.roll.call()
        called.roll.follow(RELEASING)
        await called.called()
        assert len(called.server.asked) == 1
        called.roll.follow(replace(LEADING, incarnation="second"))
        called.roll.call()
        await called.called()
        assert len(called.server.asked) == 2

    run(story())


def test_a_command_that_ends_by_itself_ends_a_term_in_good_order_too(called: Called) -> None:
    async def story() -> None:
        called.roll.follow(LEADING)
        called.roll.follow(RELEASING)
        await called.called()

    run(story())
    assert len(called.server.asked) == 1


@pytest.mark.parametrize(
    "state",
    [replace(LEADING, phase=Phase.LOST), replace(LEADING, phase=Phase.FOLLOWING), replace(RELEASING, led=False)],
    ids=["lost", "never led", "a claim only"],
)
def test_who_has_no_term_to_end_in_good_order_calls_none(called: Called, state: State) -> None:
    async def story() -> None:
        called.roll.follow(state)
        await called.called()

    run(story())
    assert called.server.asked == []


def test_who_is_past_the_deadline_calls_none(called: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then the term may still be renewed."""

    async def story() -> None:
        called.roll.follow(LEADING)
        monkeypatch.setattr(platform, "clock", lambda: LEADING.stop_at)
        called.roll.call()
        await called.called()
        assert called.server.asked == []
        called.roll.follow(replace(LEADING, t0=101.0))
        called.roll.call()
        await called.called()

    run(story())
    assert len(called.server.asked) == 1


# --- what goes wrong


FORBIDDEN = ForbiddenError("you cannot list them")
WARNED = [
    (
        "WARNING",
        f"grant list and patch on leasecandidates, so that one that crashed delays no handover long: {FORBIDDEN}",
    )
]


def test_without_the_permission_one_warning_says_so_however_often(called: Called) -> None:
    called.server.fails = {"": FORBIDDEN}

    async def story() -> None:
        for incarnation in ("first", "second"):
            called.roll.follow(replace(LEADING, incarnation=incarnation))
            called.roll.call()
            await called.called()

    run(story())
    assert len(called.server.asked) == 2
    assert [line for line in called.log.lines if line[0] != "DEBUG"] == WARNED


@pytest.mark.parametrize("error", [LockError(Kind.UNREACHABLE, "gone"), RuntimeError("a bug")])
def test_what_else_goes_wrong_is_nobodys_business(called: Called, error: LockError) -> None:
    called.server.fails = {"": error}

    async def story() -> None:
        called.roll.follow(LEADING)
        called.roll.call()
        await called.called()

    run(story())
    assert [level for level, _ in called.log.lines] == ["DEBUG"]


def test_one_that_is_not_answered_holds_up_neither_the_release_nor_the_end(called: Called) -> None:
    """The end waits for it no longer than for the last Events."""
    called.server.silent = True

    async def story() -> None:
        recorder = Recorder(cast("Credentials", None), called.log, "me", "x", None, called.roll)
        called.roll.follow(LEADING)
        recorder.command(runs=False)
        await asyncio.sleep(0)
        assert called.server.asked
        assert await recorder.part(9) == 0.0
        await recorder.drain(0.01)
        assert called.roll.under_way
        for task in called.roll.under_way:
            task.cancel()

    run(story())


def test_the_end_waits_a_moment_for_one_that_is_under_way(called: Called) -> None:
    called.server.pages = ([candidate("a")],)

    async def story() -> None:
        recorder = Recorder(cast("Credentials", None), called.log, "me", "x", None, called.roll)
        called.roll.follow(LEADING)
        recorder.command(runs=False)
        await recorder.drain(9)

    run(story())
    assert called.server.pinged == ["a"]


def test_a_command_that_starts_calls_none(called: Called) -> None:
    async def story() -> None:
        recorder = Recorder(cast("Credentials", None), called.log, "me", "x", None, called.roll)
        called.roll.follow(LEADING)
        recorder.command(runs=True)
        await called.called()

    run(story())
    assert called.server.asked == []
