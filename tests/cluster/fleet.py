"""Candidates for one Lease, and what a test does to them and to it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
import time
from datetime import datetime
from typing import TYPE_CHECKING

import psutil

from tests.support.api import lease_path
from tests.support.processes import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from tests.support.api import Object
    from tests.support.checker import Witness
    from tests.support.plane import Plane
    from tests.support.processes import Process, Processes

SHORT = ("--lease-duration=5s", "--renew-deadline=3s", "--retry-period=1s")
DURATION, DEADLINE, PERIOD = 5.0, 3.0, 1.0  # of SHORT, in seconds
PATIENT = ("--lease-duration=30s", "--renew-deadline=20s", "--retry-period=1s")  # where nothing is to run out
DEFAULTS = ()
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
LOST = 255


def now() -> float:
    """Seconds on the witness's clock."""
    return time.clock_gettime(CLOCK)


def health(well: Path) -> tuple[str, ...]:
    """Options for a candidate that is healthy as long as this file exists: the fixture `well`."""
    return f"--health=test -e {well}", "--health-period=500ms", "--health-failures=2"


class Fleet:
    """Candidates for the Lease `name`; each starts the witness."""

    def __init__(self, plane: Plane, namespace: str, processes: Processes, witness: Witness, name: str = "x") -> None:
        self.plane, self.namespace, self.witness, self.name = plane, namespace, witness, name
        self._processes = processes
        self.path = lease_path(namespace, name)

    def start(
        self,
        identity: str,
        *options: str,
        does: Sequence[str] = (),
        server: str | None = None,
        kubeconfig: Path | str | None = None,
        timings: Sequence[str] = SHORT,
        command: Sequence[str] | None = None,
        prefix: Sequence[str] = (),
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
    ) -> Process:
        """Start a candidate.

        `does`: the witness's options; `server`: a proxy's URL; `kubeconfig`: "" for none; `prefix`: runs kleader;
        `cwd`: the directory of an installed kleader other than this tree's.
        """
        if kubeconfig is None:
            kubeconfig = self.plane.kubeconfig(self.plane.new_user(), self.namespace, server=server)
        argv = [
            *prefix,
            *(sys.executable, "-m", "kleader", "run", *([f"--kubeconfig={kubeconfig}"] if kubeconfig else [])),
            *(f"--name={self.name}", f"--identity={identity}", *timings, *options, "--"),
            *(command or self.witness.command(*does)),
        ]
        return self._processes.start(argv, name=f"{self.name}-{identity}", env=env, cwd=cwd)

    def waiting(self, identity: str, *options: str, behind: str, **more: object) -> Process:
        """Start a candidate and return once it has seen `behind` lead."""
        process = self.start(identity, *options, **more)  # type: ignore[arg-type]
        process.wait_log("leader_observed", rf"is {re.escape(behind)}\b")
        return process

    def registered(self, identity: str, *options: str, behind: str, **more: object) -> Process:
        """Start a candidate and return once it is listed as ready, and so known to `kleader transfer`."""
        process = self.waiting(identity, *options, behind=behind, **more)
        self.wait_registered(identity)
        return process

    def wait_registered(self, *identities: str, state: str = "ready") -> None:
        """Return once all of these candidates are listed in this state."""
        wanted = [f'"identity":"{identity}"' for identity in identities]
        self.plane.api.wait(
            lease_path(self.namespace, f"candidates.{self.name}"),
            lambda seen: seen and all(any(each in text for text in _entries(seen, state)) for each in wanted),
            f"the candidates {', '.join(identities)}",
        )

    # --- the Lease
    def lease(self) -> Object:
        return self.plane.api.get(self.path)

    def spec(self) -> Object:
        spec: Object = self.lease()["spec"]
        return spec

    def edit(self, **spec: object) -> None:
        self.plane.api.merge(self.path, {"spec": spec})

    def wait_spec(self, until: str, **wanted: object) -> Object:
        """Return the spec as soon as it shows `wanted`."""
        found = self.plane.api.wait(
            self.path, lambda seen: seen and all(seen["spec"].get(key) == value for key, value in wanted.items()), until
        )
        assert found is not None
        spec: Object = found["spec"]
        return spec

    def wait_renewals(self, number: int = 1) -> None:
        """Return once the Lease has been renewed so many times from now on."""
        for _ in range(number):
            before = self.spec()["renewTime"]
            self.plane.api.wait(self.path, lambda seen: seen and seen["spec"]["renewTime"] != before, "a renewal")  # noqa: B023

    def wait_led_beyond(self, seconds: float) -> None:
        """Return once renewals come that are later than so many seconds from now."""
        until = time.time() + seconds
        self.plane.api.wait(
            self.path,
            lambda seen: seen and seen["spec"]["holderIdentity"] and instant(seen["spec"]["renewTime"]) > until,
            f"renewed {seconds:g} s later",
            timeout=seconds + PATIENCE,
        )


def wait_observed(process: Process, leader: str, *, clientgo: bool) -> None:
    """Return once this candidate has logged that another one leads."""
    if clientgo:
        process.wait_err(f"new leader: {leader}$")
    else:
        process.wait_log("leader_observed", rf"is {re.escape(leader)}\b")


def _entries(registry: Object, state: str) -> list[str]:
    notes: dict[str, str] = registry["metadata"].get("annotations", {})
    return [text for text in notes.values() if f'"state":"{state}"' in text]


def version_of(thing: Object) -> int:
    """Its resourceVersion, which grows with each write."""
    return int(thing["metadata"]["resourceVersion"])


def instant(micro_time: str) -> float:
    """Seconds since the epoch of a MicroTime."""
    return datetime.fromisoformat(micro_time.replace("Z", "+00:00")).timestamp()


def answers(requests: Iterable[Object]) -> set[int]:
    """Return the statuses that audited requests were answered with; one may just be under way."""
    return {request["responseStatus"]["code"] for request in requests if "responseStatus" in request}


def elector(process: Process) -> int:
    """Return the pid of a candidate's present elector, as soon as there is one."""
    return elector_of(psutil.Process(process.pid))


def elector_of(supervisor: psutil.Process) -> int:
    """Return the same of a supervisor that the test has not started itself."""
    found: list[int] = []

    def look() -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):
            found.extend(child.pid for child in supervisor.children() if "elect" in _command_line(child))
        return bool(found)

    wait_until(look, f"the elector of {supervisor.pid}")
    return found[0]


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def kill_whole(process: Process) -> None:
    """SIGKILL for the candidate, its elector and its tree, at once."""
    with contextlib.suppress(psutil.NoSuchProcess):
        everybody = psutil.Process(process.pid).children(recursive=True)
        for pid in (process.pid, *(each.pid for each in everybody)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    process.wait()


def epoch() -> float:
    """Seconds since the epoch at which the witness's clock was 0, by the quickest of some looks at both clocks."""

    def look() -> tuple[float, float]:
        before = now()
        wall = time.time()
        after = now()
        return after - before, wall - (before + after) / 2

    return min(look() for _ in range(100))[1]


class History(threading.Thread):
    """Every state of a Lease since now, with the instant (boot clock) at which the test's own watch told it."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(daemon=True)
        self._api, self._path = fleet.plane.api, fleet.path
        self._states: list[tuple[float, Object]] = []
        self._begun = threading.Event()
        self.start()
        assert self._begun.wait(PATIENCE), "the Lease's watch has not begun"

    def run(self) -> None:
        with contextlib.suppress(OSError, AssertionError):
            for kind, seen in self._api.watch(self._path):
                if kind in {"ADDED", "MODIFIED"}:
                    self._states.append((now(), seen))
                self._begun.set()

    @property
    def states(self) -> list[tuple[float, Object]]:
        """All so far: where the watch is behind what the API server shows by now, it is waited for."""
        shown = self._api.find(self._path)
        if shown:
            wait_until(lambda: any(version_of(seen) >= version_of(shown) for _, seen in self._states), "the watch")
        return list(self._states)

    def last_of(self, holder: str, token: str) -> Object:
        """Return the last state under `holder` before the write whose resourceVersion is `token`."""
        wait_until(lambda: any(version_of(seen) >= int(token) for _, seen in self._states), f"version {token}")
        earlier: list[Object] = []
        for _, seen in self._states:
            if seen["metadata"]["resourceVersion"] == token:
                break
            if seen["spec"]["holderIdentity"] == holder:
                earlier.append(seen)
        return earlier[-1]
