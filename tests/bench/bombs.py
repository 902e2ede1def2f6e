"""`python -m tests.bench.bombs`: fork bombs of 1,000 processes against the next leader, on a real API server.

Candidate A leads, its command is a bomb (tests/support/bomb.py) in a pids cgroup of its own, and A's connection to the
API server goes silent. Candidate B waits beside it. B's command lists the processes in the bomb's cgroup, first thing:
three times, for a chain's processes are short-lived (zombies are in no list). All timings are the defaults. Needs root,
and the pids controller of cgroup v1 or v2.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from tests.support.bomb import OWN_USER
from tests.support.controlplane import ControlPlane
from tests.support.port import LOOPBACK
from tests.support.processes import Processes, adopt_orphans, any_child, sweep, wait_until
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from tests.support.processes import Process

KINDS = ("group", "setsid", "chain", "chain-setsid")
PLACES = {"a process": [], "PID 1": ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]}
LIMIT = 1000
USER = OWN_USER + 1 + os.getpid() % 1000  # a test of a bomb, and another run, may go on beside it
_GROWING = 1.0  # seconds until the loss: A may not renew beside a whole bomb for long
_BOMB = Path(__file__).parents[1] / "support/bomb.py"
_HIERARCHIES = ("/sys/fs/cgroup/pids", "/sys/fs/cgroup")


@dataclass
class Trial:
    """What one bomb came to: how many were listed when B's command began, and seconds from their end until then."""

    grew_to: int
    alive: int
    margin: float


class Bombs:
    """Trials on one API server."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self._plane, self._directory = plane, directory
        self._namespace = plane.new_namespace("bombs")
        self._processes = Processes(directory)
        hierarchy = next(Path(each) for each in _HIERARCHIES if Path(each, "cgroup.procs").exists())
        self._cgroup = hierarchy / f"kleader-bombs-{os.getpid()}"
        self._cgroup.mkdir()
        self._serial = 0

    def close(self) -> None:
        """Leave nothing behind."""
        self._processes.end()
        sweep()
        wait_until(self._empty, "an empty cgroup")
        self._cgroup.rmdir()

    def trial(self, kind: str, before: list[str]) -> Trial:
        """One bomb, from its start until B's command has counted."""
        self._serial += 1
        name = f"bomb-{self._serial}"
        program, count, go = (self._directory / f"{name}{end}" for end in ("", ".count", ".go"))
        procs = self._cgroup / "cgroup.procs"
        wait = f"while ! [ -e {go} ]; do sleep 0.1; done; echo 0 >{procs}"
        bomb = f"{wait}; exec {sys.executable} -I -S {_BOMB} {kind} {LIMIT} {program} {USER}"
        bomb = f"trap '' TERM; ({bomb}) & while :; do sleep 1; done"  # else a chain's first link were the command
        with Proxy(LOOPBACK, self._plane.port) as proxy:
            a = self._candidate(name, "a", before, ["sh", "-c", bomb], proxy.url)
            a.wait_log("command_started")
            look = f"cat {procs} {procs} {procs} >{count}; date +%s.%N >>{count}"
            b = self._candidate(name, "b", [], ["sh", "-c", look], None)
            b.wait_log("leader_observed", r"is a\b")
            go.touch()  # not before: B would take minutes to start beside it
            wait_until(program.exists, "the bomb's program")
            time.sleep(_GROWING)
            proxy.switch("silent")
            grew_to, last = 0, time.time()
            while not (count.exists() and "." in count.read_text()):
                if size := self._size():
                    grew_to, last = max(grew_to, size), time.time()
                time.sleep(0.01)
        *alive, at = count.read_text().split()
        self._kill_all()
        b.signal(signal.SIGTERM)
        b.wait(120)
        a.wait(120)
        while any_child() and os.waitpid(-1, os.WNOHANG)[0]:  # what A left is a zombie here, and counts for its user
            pass
        return Trial(grew_to, len(alive), float(at) - last)

    def _candidate(
        self, name: str, identity: str, before: list[str], command: list[str], server: str | None
    ) -> Process:
        config = self._plane.kubeconfig(self._plane.new_user(), self._namespace, server=server)
        kleader = [sys.executable, "-m", "kleader", "run", f"--kubeconfig={config}", f"--name={name}"]
        argv = [*before, *kleader, f"--identity={identity}", "--", *command]
        return self._processes.start(argv, name=f"{name}-{identity}")

    def _size(self) -> int:
        return len((self._cgroup / "cgroup.procs").read_text().split())

    def _empty(self) -> bool:
        self._kill_all()
        return not self._size()

    def _kill_all(self) -> None:
        """One call for all of the bomb's user: a loop would not keep up."""
        if self._size():
            if os.fork() == 0:
                os.setuid(USER)
                os.kill(-1, signal.SIGKILL)
                os._exit(0)
            os.wait()


def main() -> int:
    """Print a line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20, help="of each kind and place")
    parser.add_argument("--kind", choices=KINDS, action="append", help="one kind; may be repeated (all of them)")
    parser.add_argument("--place", choices=list(PLACES), action="append", help="where kleader runs (both)")
    given = parser.parse_args()
    if os.geteuid():
        sys.exit("error: needs root: the bomb gets a user and a cgroup of its own")
    adopt_orphans()
    # Else it would sleep through all of a trial, as any of 1,000 that want the processor.
    os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    lost = 0
    with tempfile.TemporaryDirectory(prefix="kleader-bombs-") as directory, ControlPlane() as plane:
        Path(directory).chmod(0o755)  # its user must reach the program
        bombs = Bombs(plane, Path(directory))
        try:
            for place in given.place or PLACES:
                for kind in given.kind or KINDS:
                    trials = [bombs.trial(kind, PLACES[place]) for _ in range(given.trials)]
                    survived, margins = sum(each.alive > 0 for each in trials), [each.margin for each in trials]
                    dead = f"dead before B's command: {len(trials) - survived} of {len(trials)}"
                    gone = f"gone {min(margins):.2f} s before it at least, {median(margins):.2f} s in the middle"
                    size = f"{min(each.grew_to for each in trials)} processes at least, most at a time"
                    print(f"{kind:13} kleader as {place:10} {dead}; {gone}; {size}", flush=True)
                    lost += survived
        finally:
            bombs.close()
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
