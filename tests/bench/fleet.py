"""Three candidates for one lock, on either side of the comparison, and what is done to their leader."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.journal import Journal
from tests.support import clientgo
from tests.support.processes import descendants

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.plane import Plane
    from tests.support.processes import Process, Processes

    Argv = Callable[[str, list[str]], list[str]]  # of the candidate with this identity, running this command

SIZE = 3


def kleader() -> list[str]:
    """The command that a user calls."""
    installed = Path(sys.executable).with_name("kleader")
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "kleader"]


def on_file(directory: Path, name: str) -> Argv:
    """For kleader on the file lock."""
    lock = f"file:{directory / name}.lock"
    return lambda identity, command: [
        *kleader(),
        "run",
        "--lock",
        lock,
        "--name",
        name,
        "--identity",
        identity,
        "--",
        *command,
    ]


def on_lease(plane: Plane, namespace: str, name: str) -> Argv:
    """For kleader on a Lease, default timings."""
    config = str(plane.kubeconfig(plane.new_user(), namespace))
    where = ["--kubeconfig", config, "--name", name]
    return lambda identity, command: [*kleader(), "run", *where, "--identity", identity, "--", *command]


def of_client_go(plane: Plane, namespace: str, name: str) -> Argv:
    """For client-go on a Lease, default timings, ReleaseOnCancel; like kleader it stops the command, then releases."""
    config = plane.kubeconfig(plane.new_user(), namespace)
    return lambda identity, command: clientgo.candidate(config, namespace, name, identity, command, stop_first=True)


class Fleet:
    """Candidates of one kind, three at first."""

    def __init__(self, name: str, argv: Argv, processes: Processes, directory: Path) -> None:
        self.name = name
        self.journal = Journal(directory / f"{name}.journal")
        self._argv, self._processes = argv, processes
        self._serial = itertools.count()
        self._candidates: dict[str, Process] = {}

    def start(self, size: int = SIZE) -> None:
        """Return once all know the leader, and its command runs."""
        while len(self._candidates) < size:
            self.add()
            self.journal.wait_runs(1)

    def hand_over(self) -> float:
        """Stop the leader politely; seconds from its command's last act to the next one's first."""
        count = len(self.journal.look())
        earlier = self.journal.runs[-1]
        leader = self._candidates.pop(earlier.identity)
        leader.signal(signal.SIGTERM)
        later = self.journal.wait_runs(count + 1)
        leader.wait()
        self.add()
        self.journal.look()
        return later.start - earlier.end

    def crash(self) -> str:
        """SIGKILL the leader, all of its processes as if at once; nobody takes its place. Returns who it was."""
        identity = self.journal.look()[-1].identity
        leader = self._candidates.pop(identity)
        pids = [leader.pid, *descendants(leader.pid)]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                os.kill(pid, number)
        leader.popen.wait()
        return identity

    def end(self) -> None:
        """Stop all, the leader last so that nobody takes over."""
        leader = self.journal.look()[-1].identity
        for identity in sorted(self._candidates, key=lambda identity: identity == leader):
            self._candidates[identity].signal(signal.SIGTERM)
            self._candidates[identity].wait()
        self._candidates.clear()

    def add(self) -> Process:
        """Return one more candidate, once it knows the leader."""
        identity = f"{self.name}-{next(self._serial)}"
        process = self._processes.start(self._argv(identity, self.journal.argv()), name=identity)
        self._candidates[identity] = process
        process.wait_err("new leader: |became leader|the leader is ", timeout=60)
        return process
