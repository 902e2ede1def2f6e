"""One morning of a cron job on several hosts: all of them run one line, and what has become of the job is counted."""

from __future__ import annotations

import contextlib
import struct
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.cluster.fleet import SHORT, kill_whole
from tests.support import wall_clock
from tests.support.processes import wait_until

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from tests.support.processes import Process, Processes

HOSTS = ("a", "b", "c")
SKEWED = (-3600.0, 0.0, 86400.0)  # seconds that their wall clocks are ahead
MAX_SPREAD = 3.0  # seconds from the first start to the last
PATIENCE = 120.0  # seconds until each host has ended
BUSY = "--busy-exit-code=0"
LINES = {
    "one host": ("--lock=file:{file}", "--no-wait", BUSY),
    "several hosts": (*SHORT, "--wait=live", BUSY),
    "--once-per": (*SHORT, "--once-per=1h", "--wait=1m", BUSY),
}
# Its lock shows an overlap, and is free when every process of the job is dead.
JOB = (
    'exec 9>>"$1.lock"; flock -n 9 || echo "overlap $0" >>"$1";'
    ' echo "start $0" >>"$1"; sleep "$2"; echo "done $0" >>"$1"'
)


@dataclass(frozen=True)
class Outcome:
    """What became of one morning."""

    starts: int
    successes: int
    overlaps: int
    killed: bool  # a leader was, while its job ran or just after it
    in_window: bool  # after its job was done, and before that was recorded
    statuses: tuple[int, ...]

    @property
    def once(self) -> bool:
        """Exactly one success; another one only where a leader was killed between its job and the record."""
        return not self.overlaps and self.successes == 1 + self.in_window


class Morning:
    """Hosts that run one line for one lock."""

    def __init__(self, processes: Processes, directory: Path, kubeconfig: Path | None, name: str) -> None:
        self._processes, self._directory, self._kubeconfig, self._name = processes, directory, kubeconfig, name
        self._journal = directory / f"{name}.journal"
        self._journal.touch()

    def play(self, line: str, seconds: float, draw: random.Random, *, kill: bool = False) -> Outcome:
        """All hosts run the line for a job that takes so long; with ``kill`` the first leader is killed in it."""
        starts = sorted((draw.uniform(0, MAX_SPREAD), host) for host in HOSTS)
        kill_after = draw.uniform(0, seconds + 0.05)
        running: dict[str, Process] = {}
        killed: list[str] = []
        killer = threading.Thread(target=lambda: killed.append(self._kill(running, kill_after)))
        if kill:
            killer.start()
        began = time.monotonic()
        for at, host in starts:
            time.sleep(max(0.0, began + at - time.monotonic()))
            running[host] = self._start(host, line, seconds)
        statuses = [process.wait(PATIENCE) for process in running.values()]
        if kill:
            killer.join()
        journal = self.journal
        done = [host for event, host in journal if event == "done"]
        victim = killed[0] if killed else ""
        events = [event for event, _ in journal]
        return Outcome(
            *(events.count("start"), len(done), events.count("overlap"), bool(victim)),
            in_window=victim in done and len(done) > 1,
            statuses=tuple(statuses),
        )

    @property
    def journal(self) -> list[tuple[str, str]]:
        """Event and host, in their order."""
        lines = [line.split() for line in self._journal.read_text().splitlines()]
        return [(event, host) for event, host in lines]

    def _start(self, host: str, line: str, seconds: float) -> Process:
        wall = self._directory / f"{self._name}.{host}.wall"
        wall.write_bytes(struct.pack("d", SKEWED[HOSTS.index(host)] if self._kubeconfig else 0.0))
        options = [option.format(file=self._directory / f"{self._name}.lockfile") for option in LINES[line]]
        options += [f"--kubeconfig={self._kubeconfig}"] if self._kubeconfig else []
        argv = [sys.executable, wall_clock.__file__, sys.executable, "-m", "kleader", "run", f"--name={self._name}"]
        argv += [f"--identity={host}", *options, "--", "/bin/sh", "-c", JOB, host, str(self._journal), str(seconds)]
        return self._processes.start(argv, name=f"{self._name}-{host}", env={"WALL": str(wall)})

    def _kill(self, running: dict[str, Process], after: float) -> str:
        """The host that was killed so many seconds after its job began, with all of its processes."""
        wait_until(lambda: self.journal, "the job's first start", PATIENCE)
        time.sleep(after)
        host = self.journal[0][1]
        with contextlib.suppress(ProcessLookupError):
            if running[host].running:
                kill_whole(running[host])
                return host
        return ""
