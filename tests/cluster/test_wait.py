"""--wait, --no-wait and --wait live, behind holders that live and that are dead; statuses 124 and 125."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.cluster.fleet import DURATION, Fleet, kill_whole, now
from tests.support.port import LOOPBACK
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from tests.support.plane import Plane

NOT_ACQUIRED, FAILED = 124, 125
HELD = (
    r"held by a, last renewed \S+ ago by its own clock, watched unchanged for \S+;"
    r" a --wait of more than 5s acquires it from a dead holder"
)


def test_end_of_wait_behind_a_living_leader_is_124_and_names_the_leader(fleet: Fleet) -> None:
    fleet.start("a")
    fleet.witness.wait_start()
    tries = {options: fleet.start("b", options) for options in ("--no-wait", "--wait=0", "--wait=4s", "--wait=7s")}
    live = fleet.start("b", "--wait=live", "-v")
    for options, process in tries.items():
        assert process.wait() == NOT_ACQUIRED, options
        assert re.search(HELD, process.err), process.err
    assert live.wait() == NOT_ACQUIRED
    assert "held by a, which is alive: it has just renewed the lock" in live.err
    assert 'FLAG: --lease-duration="5s"' in live.err
    warned = "--wait 4s is not longer than the lease duration 5s"
    assert [options for options, process in tries.items() if warned in process.err] == ["--wait=4s"]
    fleet.witness.check(terms=1)


def test_lock_of_a_dead_leader_needs_a_wait_longer_than_its_lease(fleet: Fleet) -> None:
    leader = fleet.start("a", "--no-release")
    fleet.witness.wait_start()
    fleet.wait_renewals()
    kill_whole(leader)
    died = now()
    hasty = [fleet.start("b", option) for option in ("--no-wait", "--wait=4s")]
    patient = fleet.start("c", "--wait=30s")
    assert [process.wait() for process in hasty] == [NOT_ACQUIRED] * 2
    term = fleet.witness.wait_start(2)
    assert term.identity == "c"
    assert term.born / 1e9 > died + DURATION - 0.5  # it had to watch the record unchanged for its whole duration
    assert patient.running
    fleet.witness.check(terms=2)


def test_wait_live_takes_a_dead_leaders_lock_at_its_expiry(fleet: Fleet) -> None:
    first = fleet.start("a", "--wait=live")
    fleet.witness.wait_start()
    kill_whole(first)
    fleet.start("b", "--wait=live")
    assert fleet.witness.wait_start(2).identity == "b"
    fleet.witness.check(terms=2)


def test_free_lock_is_acquired_with_any_wait(fleet: Fleet) -> None:
    for number, option in enumerate(("--no-wait", "--wait=0", "--wait=1s", "--wait=live")):
        process = fleet.start(f"a{number}", option, command=["sh", "-c", 'exit "$KLEADER_TRANSITIONS"'])
        assert process.wait() == number


def test_a_wait_shorter_than_a_request_tries_once(fleet: Fleet) -> None:
    first = fleet.start("a", "--wait=1ms")
    fleet.witness.wait_start()
    second = fleet.start("b", "--wait=100ms")
    assert second.wait() == NOT_ACQUIRED
    assert "held by a" in second.err
    assert first.running


def test_a_wait_without_a_response_ends_with_125(plane: Plane, fleet: Fleet) -> None:
    """Waiting did not tell that the lock is held: it is kleader that failed, with a reason."""
    with Proxy(LOOPBACK, plane.port) as proxy:  # type: ignore[attr-defined]
        proxy.switch("refuse")
        options = ("--wait=100ms", "--wait=2s", "--no-wait", "--wait=live")
        refused = [fleet.start("a", option, server=proxy.url) for option in options]
        assert [process.wait() for process in refused] == [FAILED] * len(options)
        proxy.switch("silent")
        silent = [fleet.start("a", option, server=proxy.url) for option in options]
        assert [process.wait() for process in silent] == [FAILED] * len(options)
    for process in refused:
        told = "cannot reach the API server .*: .*refused|no credentials .* were found in the time given by --wait"
        assert re.search(told, process.err, re.IGNORECASE), process.err
    for process in silent:
        assert re.search("did not answer|has not answered", process.err), process.err
    fleet.witness.check(terms=0)
