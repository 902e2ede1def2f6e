"""`python -m tests.bench`: kleader beside the floor and the real client-go, on one real API server, in one run."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import kleader
from tests.bench import fleet as fleets
from tests.bench import journal, memory, plot, startup, table, trees
from tests.bench.expiry import Sight
from tests.bench.fleet import Fleet
from tests.bench.floor import Floor
from tests.bench.journal import Journal
from tests.support import clientgo, controlplane
from tests.support.controlplane import ControlPlane
from tests.support.daemon import DaemonError
from tests.support.gobuild import GoError
from tests.support.processes import Processes, adopt_orphans, descendants, keep, sweep

FLOOR, KLEADER, FILE, CLIENT_GO = "floor", "kleader", "kleader, file lock", "client-go"
_BETWEEN = (0.2, 0.8)  # seconds between two trials: what the last one started comes to rest, and no phase is favoured
_METHOD = """\
3 candidates for each lock, default timings (15s, 10s, 2s), the same small command, all sides in turn.
Planned: TERM to the leader; both sides let the command end before they release. From its last act, a look at
the clock before exit, to the next one's first. Floor: PUT, its watch event, PUT, fork, exec, that first act.
Crash: SIGKILL of all processes of the leader at once. The earliest legal instant is its record's duration
after a watch saw that record."""
_WAITING = 5.0  # seconds that a candidate has waited when its memory is read


@dataclass
class Results:
    """What was measured: seconds, but for the memory (MiB)."""

    planned: dict[str, list[float]] = field(default_factory=dict)
    crash: dict[str, list[float]] = field(default_factory=dict)
    memory: list[tuple[str, float]] = field(default_factory=list)
    startup: dict[str, list[float]] = field(default_factory=dict)
    trees: dict[str, list[float]] = field(default_factory=dict)
    overlaps: int = 0
    terms: int = 0


class Bench:
    """One run. Results grow as it goes."""

    def __init__(self, plane: ControlPlane, directory: Path, trials: int) -> None:
        self._plane, self._directory, self._trials = plane, directory, trials
        self._namespace = plane.new_namespace("bench")
        self._processes = Processes(directory)
        self.results = Results()

    def memory(self) -> None:
        """First, while nothing else has been started: the second candidate of a lock, on its own."""
        lock = Fleet(
            "memory", fleets.on_lease(self._plane, self._namespace, "memory"), self._processes, self._directory
        )
        lock.start(1)
        waiting = lock.add()
        time.sleep(_WAITING)
        pids = [waiting.pid, *descendants(waiting.pid)]
        if (whole := memory.alone(pids)) is not None:
            self.results.memory.append(("alone on the machine", whole))
        self.results.memory.append(("PSS now, beside other Pythons", memory.pss(pids)))
        lock.end()

    def startup(self) -> None:
        """Commands in turn, then the first request."""
        trials = max(5, self._trials // 5)
        self.results.startup = startup.of_commands(trials, self._directory)
        self.results.startup[startup.FIRST] = startup.first_request(self._plane, trials)

    def trees(self) -> None:
        """A bare loop and kleader in turn."""
        self.results.trees = trees.killed(max(5, self._trials // 10), self._directory)

    def planned(self) -> None:
        """The sides in turn; client-go, which is slow, every other time."""
        plane, namespace, directory = self._plane, self._namespace, self._directory
        authorization = f"Authorization: Bearer {plane.token(plane.new_user())}\r\n"
        floor = Floor(plane, namespace, authorization, Journal(directory / "floor.journal"))
        sides = {
            KLEADER: self._fleet("planned", fleets.on_lease(plane, namespace, "planned")),
            FILE: self._fleet("file", fleets.on_file(directory, "file")),
            CLIENT_GO: self._fleet("client-go", fleets.of_client_go(plane, namespace, "client-go")),
        }
        taken = self.results.planned
        taken.update({name: [] for name in (FLOOR, *sides)})
        for number in range(self._trials):
            _rest()
            taken[FLOOR].append(floor.trial())
            for name, fleet in sides.items():
                if name != CLIENT_GO or number % 2 == 0:
                    _rest()
                    taken[name].append(fleet.hand_over())
            _progress(f"planned handovers: {number + 1} of {self._trials}")
        floor.close()
        for fleet in sides.values():
            self._count(fleet)

    def crashes(self, number: int) -> None:
        """Many leases at once, killed one after the other so that no two run out together."""
        plane, namespace = self._plane, self._namespace
        makers = {KLEADER: fleets.on_lease, CLIENT_GO: fleets.of_client_go}
        self.results.crash = {name: [] for name in makers}
        started: list[tuple[str, Fleet, Sight]] = []
        for serial in range(number):
            for side, make in makers.items():
                name = f"crash-{side}-{serial}"
                sight = Sight(plane, namespace, name)
                started.append((side, self._fleet(name, make(plane, namespace, name)), sight))
            _progress(f"crashes: {serial + 1} of {number} fleets of each side started")
        holders = {}
        for _, fleet, _ in started:
            _rest()
            holders[fleet.name] = fleet.crash()
        for done, (side, fleet, sight) in enumerate(started):
            later = fleet.journal.wait_runs(2)
            self.results.crash[side].append(later.start - sight.expiry(holders[fleet.name]))
            _progress(f"crashes: {done + 1} of {len(started)} taken over")
        for _, fleet, sight in started:
            sight.end()
            self._count(fleet)

    def _fleet(self, name: str, argv: fleets.Argv) -> Fleet:
        fleet = Fleet(name, argv, self._processes, self._directory)
        fleet.start()
        return fleet

    def _count(self, fleet: Fleet) -> None:
        fleet.end()
        self.results.overlaps += fleet.journal.overlaps()
        self.results.terms += len(fleet.journal.runs)


def _rest() -> None:
    time.sleep(random.uniform(*_BETWEEN))  # noqa: S311 - no secret


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}\r")
        sys.stderr.flush()


def show(results: Results) -> None:
    """The table."""
    planned, crash, begun = results.planned, results.crash, results.startup
    floor, rival = table.median(planned[FLOOR]), table.median(planned[CLIENT_GO])
    print(table.heading("Planned handover", "ms", "x floor"))
    for name, values in planned.items():
        times = f"{table.median(values) / floor:7.1f}" if name != FILE else ""
        print(table.row(name, values, times))
    if crash:
        print(table.heading("Crash, past the earliest legal instant", "ms"))
        for name, values in crash.items():
            print(table.row(name, values))
    print("\nMemory of one waiting candidate, supervisor and elector (MiB)")
    for name, value in results.memory:
        print(f"  {name:<42} {'1':>4} {value:8.1f}")
    print(table.heading("Start-up", "ms", "x " + startup.BASE))
    for name, values in begun.items():
        print(table.row(name, values, f"{table.median(values) / table.median(begun[startup.BASE]):7.1f}"))
    print(table.heading("A tree of 1,000 processes killed and reaped", "ms", "x the loop"))
    for name, values in results.trees.items():
        print(table.row(name, values, f"{table.median(values) / table.median(results.trees[trees.BARE]):7.1f}"))
    ours, memory = table.median(planned[KLEADER]), results.memory[0][1]
    print()
    print(table.aim("planned handover of kleader: x the floor", ours / floor, most=4))
    print(table.aim("and how many times as fast as client-go's", rival / ours, least=15))
    print(table.aim("memory of one waiting candidate, MiB", memory, most=60))
    print(table.aim("a tree of 1,000 processes killed, ms", max(results.trees[trees.KLEADER]) * 1e3, most=250))
    print(
        f"Commands of two leaders at once: {results.overlaps} of {results.terms} terms; load {table.load()} at the end."
    )


def draw(path: Path, results: Results) -> None:
    """Write the picture of what a user waits for."""
    planned = {name: table.median(values) for name, values in results.planned.items() if name != FILE}
    crash = {name: table.median(values) for name, values in results.crash.items()}
    plot.write(path, {plot.PLANNED: planned, plot.CRASH: crash})


def about() -> str:
    """What is compared with what, and where."""
    kubernetes = controlplane.module().required("k8s.io/kubernetes")
    client_go = clientgo.MODULES["current"].required("k8s.io/client-go")
    return (
        f"kleader {kleader.__version__}, client-go {client_go} with ReleaseOnCancel, "
        f"kube-apiserver {kubernetes}, etcd with fsync\n"
        f"{table.machine()}; load {table.load()} at the start\n{_METHOD}"
    )


def main() -> int:
    """Measure, and print one table; a failure to build is one line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--trials", type=int, default=100, metavar="N", help="planned handovers (default: 100)")
    parser.add_argument("--crashes", type=int, default=10, metavar="N", help="of each side (default: 10)")
    parser.add_argument("--plot", type=Path, metavar="PATH", help="write the medians there too, as SVG")
    options = parser.parse_args()
    if not sys.platform.startswith("linux"):
        print("bench: error: it reads CLOCK_BOOTTIME and /proc: run it on Linux", file=sys.stderr)
        return 1
    adopt_orphans()
    try:
        journal.build()
        clientgo.build()
        plane = ControlPlane(fsync=True)
        plane.start()
    except (GoError, DaemonError) as error:
        print(f"bench: error: {error}", file=sys.stderr)
        return 1
    keep(plane.pids)
    try:
        print(about(), flush=True)
        with tempfile.TemporaryDirectory(prefix="kleader-bench-") as directory:
            bench = Bench(plane, Path(directory), options.trials)
            bench.memory()
            bench.startup()
            bench.trees()
            bench.planned()
            if options.crashes:
                bench.crashes(options.crashes)
            show(bench.results)
            if options.plot:
                draw(options.plot, bench.results)
    except KeyboardInterrupt:
        print("bench: stopped", file=sys.stderr)
        return 130
    finally:
        sweep()
        plane.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
