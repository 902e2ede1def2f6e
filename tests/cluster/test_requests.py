"""What kleader asks of the API server, counted in its audit log, and how it takes what the server answers."""

from __future__ import annotations

import re
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.cluster.fleet import DURATION, PATIENT, PERIOD, SHORT, Fleet, answers, kill_whole
from tests.support import faults
from tests.support.httpproxy import HttpProxy
from tests.support.port import LOOPBACK
from tests.support.processes import alive, wait_until
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.support.api import Object
    from tests.support.controlplane import ControlPlane
    from tests.support.plane import Plane
    from tests.support.processes import Processes

MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
WATCH = r"[?&]watch=1"
ROOMY = ("--lease-duration=10s", "--renew-deadline=8s", "--retry-period=1s")


def of_lock(requests: list[Object]) -> list[Object]:
    """Those that are not for the list of candidates (test_candidates.py)."""
    return [each for each in requests if each["objectRef"].get("name") != "candidates.x"]


def test_a_waiting_candidate_only_watches_and_a_leader_writes_once_a_period(
    own_plane: ControlPlane, fleet: Fleet
) -> None:
    users = [own_plane.new_user() for _ in range(3)]
    first, *others = (own_plane.kubeconfig(user, fleet.namespace) for user in users)
    fleet.start("a", kubeconfig=first, timings=PATIENT)
    fleet.witness.wait_start()
    wait_until(
        lambda: any(each["objectRef"]["resource"] == "events" for each in own_plane.audit_requests(users[0])),
        "its Event",
    )
    for number, config in enumerate(others):
        fleet.waiting(f"b{number}", behind="a", kubeconfig=config, timings=PATIENT)
    fleet.wait_renewals(1)
    began = time.monotonic()
    before = [of_lock(own_plane.audit_requests(user)) for user in users]
    fleet.wait_led_beyond(1.5 * DURATION)
    after = [of_lock(own_plane.audit_requests(user)) for user in users]
    lasted = time.monotonic() - began
    for number in (1, 2):
        assert [request["verb"] for request in before[number]] == ["get", "watch"]
        assert len(after[number]) == 2
    renewals = after[0][len(before[0]) :]
    assert {request["verb"] for request in renewals} == {"update"}
    assert answers(renewals) == {200}
    assert DURATION / PERIOD <= len(renewals) <= lasted / PERIOD + 1


def test_the_written_fields_equal_those_of_client_go(
    plane: Plane, fleet: Fleet, processes: Processes, clientgo: Callable[..., list[str]]
) -> None:
    """When created, when released, and when taken a second time."""
    ours = fleet
    theirs = Fleet(plane, fleet.namespace, processes, fleet.witness, "theirs")
    for turn in range(2):
        candidate = ours.start("same", command=["sleep", "600"])
        ours.wait_spec("led", holderIdentity="same")
        config = plane.kubeconfig(plane.new_user(), fleet.namespace)
        argv = clientgo(
            config, fleet.namespace, "theirs", "same", ["sleep", "600"], lease_duration="5s", renew_deadline="3s"
        )
        rival = processes.start(argv)
        theirs.wait_spec("led", holderIdentity="same")
        for state in ("held", "released"):
            mine, his = ours.spec(), theirs.spec()
            assert mine.keys() == his.keys()
            for field in ("acquireTime", "renewTime"):
                assert MICRO_TIME.fullmatch(mine.pop(field))
                assert MICRO_TIME.fullmatch(his.pop(field))
            assert mine == his
            assert mine["leaseTransitions"] == turn
            if state == "held":
                candidate.signal(signal.SIGTERM)
                candidate.wait()
                rival.signal(signal.SIGTERM)
                rival.wait()


def test_expired_watch_is_started_again(own_plane: ControlPlane, fleet: Fleet) -> None:
    """A 410 as the status, and as an event."""
    gone = {"kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Expired", "message": "too old"}
    leader = fleet.start("a", timings=PATIENT)
    fleet.witness.wait_start()
    with HttpProxy(own_plane) as proxy:
        status = proxy.on(faults.answer(410, gone), path=WATCH)
        event = proxy.on(faults.answer(200, {"type": "ERROR", "object": gone}), path=WATCH)
        fleet.start("b", server=proxy.url, timings=PATIENT)
        status.wait()
        event.wait()
        proxy.wait_request("GET", WATCH, count=3)
        leader.signal(signal.SIGTERM)
        fleet.witness.wait_start(2)
    fleet.witness.check(terms=2)


def test_throttled_leader_renews_within_its_retry_period(own_plane: ControlPlane, fleet: Fleet) -> None:
    with HttpProxy(own_plane) as proxy:
        fleet.start("a", server=proxy.url, timings=ROOMY)
        term = fleet.witness.wait_start()
        for _ in range(3):
            proxy.on(faults.answer(429, {}, {"Retry-After": "30"}), method="PUT").wait()
            fleet.wait_renewals()
        fleet.wait_led_beyond(0)
        assert alive(term.pid)
        of_lock = [request for request in proxy.requests if "candidates.x" not in request.path]
        assert not [request for request in of_lock if request.method == "GET"][1:]
        fleet.witness.check(terms=1)


@pytest.mark.parametrize(("status", "seconds", "timings"), [
    (429, 2, PATIENT), (503, 2, PATIENT), (429, 3600, SHORT),
], ids=["429", "503", "429 for an hour"])  # fmt: skip
def test_throttled_candidate_obeys_retry_after(
    own_plane: ControlPlane, fleet: Fleet, status: int, seconds: int, timings: Sequence[str]
) -> None:
    """Within its lease duration, for any Retry-After."""
    with HttpProxy(own_plane) as proxy:
        proxy.on(faults.answer(status, {}, {"Retry-After": str(seconds)}))
        fleet.start("a", server=proxy.url, timings=timings)
        fleet.witness.wait_start()
        first, second = proxy.requests[:2]
        assert second.at - first.at >= 2


def test_candidate_with_a_throttled_watch_sends_no_requests_meanwhile(own_plane: ControlPlane, fleet: Fleet) -> None:
    """Neither does it poll; it says so once, and watches again afterwards."""
    leader = fleet.start("a", timings=PATIENT)
    fleet.witness.wait_start()
    with HttpProxy(own_plane) as proxy:
        throttled = proxy.on(faults.answer(429, {}, {"Retry-After": "4"}), path=WATCH, times=2)
        candidate = fleet.waiting("b", behind="a", server=proxy.url, timings=PATIENT)
        proxy.wait_request("GET", WATCH, count=3)
        read, *rest = [request for request in proxy.requests if "candidates.x" not in request.path]
        assert [request.path.partition("?")[0].endswith("/x") for request in (read, *rest)] == [True, False] * 3
        for refused, following in zip(throttled.requests, rest[1::2], strict=True):
            assert following.at - refused.at >= 4
        leader.signal(signal.SIGTERM)
        fleet.witness.wait_start(2)
        assert candidate.err.count("the watch was refused") == 1
        kill_whole(candidate)
    fleet.witness.check(terms=2)


def test_a_server_that_closes_after_each_response_ends_no_term(own_plane: ControlPlane, fleet: Fleet) -> None:
    with HttpProxy(own_plane) as proxy:
        closing = proxy.on(faults.closing(), path="/leases/", times=None)
        fleet.start("a", server=proxy.url, timings=PATIENT)
        fleet.witness.wait_start()
        closing.wait(5)
        methods = [request.method for request in closing.requests]
        assert methods[0] == "GET"
        assert set(methods[1:]) == {"PUT"}
        fleet.witness.check(terms=1)


def test_a_connection_for_the_takeover_is_opened_before_it_is_needed(own_plane: ControlPlane, fleet: Fleet) -> None:
    """The server has closed the one for calls; beside the watch's there is another, on which nothing was asked yet."""
    leader = fleet.start("a", timings=PATIENT)
    fleet.witness.wait_start()
    with HttpProxy(own_plane) as http, Proxy(LOOPBACK, http.port) as proxy:
        http.on(faults.closing(), method="GET")
        taker = fleet.start("b", server=proxy.url, timings=PATIENT)
        http.wait_request("GET", WATCH)
        proxy.wait_connections(3)
        assert len(http.requests) == 2
        leader.signal(signal.SIGTERM)
        fleet.witness.wait_start(2)
        kill_whole(taker)
    fleet.witness.check(terms=2)
