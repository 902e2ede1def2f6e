"""The incidents of kleader-operations(7): each log on the page is what kleader prints, at a real API server."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

from tests.cluster.asking import asker
from tests.cluster.fleet import DEFAULTS, LOST, Fleet
from tests.support.documented import ROOT
from tests.support.port import LOOPBACK
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.cluster.conftest import SideBySide
    from tests.support.controlplane import ControlPlane
    from tests.support.processes import Process, Processes

    Incident = Callable[[Fleet, ControlPlane, Processes, Path], list[Process]]


PAGE = (ROOT / "man/kleader-operations.7").read_text("utf-8")


def standby(fleet: Fleet, leader: str = "beat-1") -> Process:
    return fleet.registered("beat-2", behind=leader, timings=DEFAULTS)


def led_by(fleet: Fleet, process: Process) -> None:
    """Return once this candidate has started the second command, and its elector's line is written too."""
    fleet.witness.wait_start(2)
    process.wait_log("command_started")
    process.wait_log("acquired")


def the_leader_is_killed(fleet: Fleet, *_: object) -> list[Process]:
    """SIGKILL for the supervisor, as from the kernel when memory is short."""
    leader = fleet.start("beat-1", timings=DEFAULTS)
    leader.wait_log("command_started")
    second = standby(fleet)
    leader.kill()
    led_by(fleet, second)
    return [leader, second]


def the_network_is_cut(fleet: Fleet, plane: ControlPlane, *_: object) -> list[Process]:
    """Under a command that ignores SIGTERM."""
    with Proxy(LOOPBACK, plane.port) as proxy:
        leader = fleet.start("beat-1", server=proxy.url, timings=DEFAULTS, does=("--ignore-term",))
        leader.wait_log("command_started")
        second = standby(fleet)
        proxy.switch("refuse")
        assert leader.wait() == LOST
        led_by(fleet, second)
    return [leader, second]


def the_node_is_drained(fleet: Fleet, *_: object) -> list[Process]:
    """An eviction, to the Pod's processes: SIGTERM for kleader."""
    leader = fleet.start("beat-1", timings=DEFAULTS)
    leader.wait_log("command_started")
    second = standby(fleet)
    leader.signal(signal.SIGTERM)
    leader.wait()
    led_by(fleet, second)
    return [leader, second]


def the_credentials_are_refused(fleet: Fleet, plane: ControlPlane, _: Processes, directory: Path) -> list[Process]:
    token = directory / "token"
    token.write_text(plane.token("admin"))
    config = plane.kubeconfig("admin", fleet.namespace, tokenFile=token)
    leader = fleet.start("beat-1", kubeconfig=config, timings=DEFAULTS)
    leader.wait_log("command_started")
    second = standby(fleet)
    token.write_text("revoked")
    assert leader.wait() == LOST
    led_by(fleet, second)
    return [leader, second]


def the_lock_is_transferred(fleet: Fleet, plane: ControlPlane, processes: Processes, _: Path) -> list[Process]:
    leader = fleet.start("beat-1", timings=DEFAULTS)
    leader.wait_log("command_started")
    second = standby(fleet)
    transfer = asker(plane, fleet.namespace, processes)("transfer", name=fleet.name)
    assert transfer.wait() == 0
    leader.wait()
    led_by(fleet, second)
    return [leader, transfer, second]


INCIDENTS: dict[str, Incident] = {
    "The leader is killed": the_leader_is_killed,
    "The network is cut": the_network_is_cut,
    "The node is drained": the_node_is_drained,
    "The credentials are refused": the_credentials_are_refused,
    "The lock is transferred": the_lock_is_transferred,
}


# What differs between two runs, and how the page shortens it.
VARYING = (
    (r"(pid|token) \d+", r"\1 N"),
    (r"(after|for) \d[\dhm.]*s", r"\1 T"),
    (r"\d[\dhm.]*s (after|later)", r"T \1"),
    (r"by \w+@[\w.-]+", "by USER@HOST"),
    (r"https://[\w.]+:\d+", "URL"),
    (r"kubeconfig \S+ \(context \w+\)", "kubeconfig"),
)
# What a leader adds on a machine that is too busy for it, for a request or for a watch.
BUSY = re.compile("elector|did not answer within|cannot reach|so that a rolling update")


def alike(line: str) -> str:
    for pattern, shown in VARYING:
        line = re.sub(pattern, shown, line)
    return line


def of_page(title: str) -> list[str]:
    """The lines of the log on the page, each in one piece and without its time."""
    section = PAGE.partition(f".Ss {title}\n")[2].partition(".Bd -literal\n")[2].partition(".Ed\n")[0]
    return [alike(re.sub(r"^[\d:]{8} ", "", line)) for line in re.sub(r"\n +", " ", section).splitlines()]


def of_processes(processes: Sequence[Process], lock: str) -> list[list[str]]:
    """The lines of each process."""
    found = []
    for process in processes:
        lines = [re.sub(rf"^\S+Z kleader {lock} ", "", line) for line in process.err.splitlines()]
        found.append(list(map(alike, lines)))
    return found


def test_each_incident_of_the_manual_page_is_what_kleader_logs(
    own_plane: ControlPlane, side_by_side: SideBySide, processes: Processes, tmp_path: Path
) -> None:
    """The page has every line of every process; the lines of one process are in its order."""

    def scenario(fleet: Fleet, name: str) -> None:
        title = f"The {name.replace('-', ' ')}"
        candidates = INCIDENTS[title](fleet, own_plane, processes, tmp_path)
        shown = of_page(title)
        printed = of_processes(candidates, f"{fleet.namespace}/{fleet.name}")
        for lines in printed:
            known = [line for line in lines if line in shown or not BUSY.search(line)]
            assert sorted(set(known)) == sorted(line for line in shown if line in lines), "every line is on the page"
            assert list(dict.fromkeys(known)) == [line for line in shown if line in known], "their order is the page's"
        assert set(shown) <= {line for lines in printed for line in lines}, "the page has no other line"

    titles = re.findall(r"^\.Ss (The .*)", PAGE.partition(".Sh INCIDENTS\n")[2].partition(".Sh ")[0], re.MULTILINE)
    assert titles == list(INCIDENTS)
    side_by_side(scenario, [title.removeprefix("The ").replace(" ", "-") for title in titles])
