"""What the log of a new leader tells of the one before."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING, Any

from tests.cluster.fleet import Fleet, kill_whole
from tests.cluster.test_status import Asks

if TYPE_CHECKING:
    from tests.support.processes import Process, Processes


def acquisition(process: Process) -> dict[str, Any]:
    """What it said when it had acquired the lock: just before that it leads, also in a file, as here."""
    lines = [json.loads(line) for line in process.err.splitlines() if line.startswith("{")]
    (line,) = [each for each in lines if "leaderless" in each]
    assert [each["event"] for each in lines if each["role"] == "leader"][:2] == ["acquired", "became_leader"]
    found: dict[str, Any] = line
    return found


def test_new_leader_logs_its_predecessor_and_the_time_without_a_leader(fleet: Fleet, processes: Processes) -> None:
    """After a release since that; after a crash since the last sign of life, which is a lease duration at least.

    `status` does not show the run before a crash as the last one.
    """
    first = fleet.start("first")
    fleet.witness.wait_start(1)
    second = fleet.start("second", "--log-format=json")
    second.wait_err(r'"leader": "first"')
    assert '"leaderless"' not in first.err, "nobody led before"
    first.signal(signal.SIGTERM)
    assert first.wait() == 0
    fleet.witness.wait_start(2)
    second.wait_err('"became_leader"')
    line = acquisition(second)
    (_, _, gap) = fleet.witness.handovers()[0]
    assert (line["predecessor"], line["gave_up"]) == ("first", True)
    assert 0 <= line["leaderless"] <= gap / 1e9
    third = fleet.start("third", "--log-format=json")
    third.wait_err(r'"leader": "second"')
    kill_whole(second)
    fleet.witness.wait_start(3)
    third.wait_err('"became_leader"')
    line = acquisition(third)
    assert (line["predecessor"], line["gave_up"]) == ("second", False)
    assert line["leaderless"] >= fleet.spec()["leaseDurationSeconds"]
    asks = Asks(fleet.plane, fleet.namespace, processes)
    head, row, later, *_ = asks("x").splitlines()
    assert re.fullmatch(r"\d+s, stopped, then 1 unrecorded", row[head.index("LAST RUN") :]), row
    why = "its leader crashed, lost the lock or ran nothing, or is no kleader"
    assert later == f"1 later term ended without a record of its run: {why}"
    third.signal(signal.SIGTERM)
    assert third.wait() == 0
    assert (asks.locks("x")["x"]["unrecordedTerms"], asks.locks("x")["x"]["runs"][0]["identity"]) == (0, "third")
    fleet.witness.check(terms=3)
