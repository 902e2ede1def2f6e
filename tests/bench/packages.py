"""`python -m tests.bench.packages`: each form in which kleader is shipped, beside the installed one, in one run.

What it takes on disk, the time of `kleader run --lock file -- true`, and the memory of a candidate that waits for a
Lease of a real API server. `make dist image` has to be done.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil

from tests.bench import memory, table
from tests.support.controlplane import ControlPlane
from tests.support.processes import Process, Processes, adopt_orphans, descendants, keep, sweep
from tools import install

DIST = install.SOURCE / "dist"
ARCHIVE = DIST / f"kleader-{install.version()}-linux-{platform.machine()}.tar.gz"
IMAGE = Path(str(ARCHIVE).replace(".tar.gz", ".oci.tar"))
WHEEL = DIST / f"kleader-{install.version()}-py3-none-any.whl"
_WAITING = 5.0  # seconds that a candidate has waited when its memory is read


class Form(NamedTuple):
    """A kleader that can be started."""

    name: str
    packed: int  # bytes; 0: it is not shipped as a file
    place: Path  # what it takes on disk
    program: Path


class Measured(NamedTuple):
    """Seconds, and MiB."""

    startup: list[float]
    uss: list[float]
    alone: list[float]


def forms(scratch: Path, others: list[Path]) -> list[Form]:
    """The installed kleader first."""
    tree = install.install(scratch / "prefix")
    subprocess.run([sys.executable, "-m", "venv", scratch / "venv"], check=True)
    subprocess.run([str(scratch / "venv" / "bin" / "python"), "-m", "pip", "-q", "install", WHEEL], check=True)
    with tarfile.open(ARCHIVE) as tar:
        tar.extractall(scratch / "standalone")  # noqa: S202 - our own
    (standalone,) = (scratch / "standalone").iterdir()
    (packages,) = (scratch / "venv" / "lib").glob("python*/site-packages")
    return [
        Form("make install", 0, tree, scratch / "prefix" / "bin" / "kleader"),
        *(Form(str(other), 0, other.resolve().parents[1], other) for other in others),
        Form("wheel, and what it depends on", WHEEL.stat().st_size, packages, scratch / "venv" / "bin" / "kleader"),
        Form("standalone archive", ARCHIVE.stat().st_size, standalone, standalone / "bin" / "kleader"),
    ]


def size(place: Path) -> int:
    """Bytes of all files below."""
    return sum(file.lstat().st_size for file in place.rglob("*") if not file.is_dir())


def start_up(form: Form, directory: Path) -> float:
    """Seconds from fork to exit."""
    argv = [str(form.program), "run", f"--lock=file:{directory}/startup.lock", "--name=startup", "--", "true"]
    began = time.perf_counter()
    subprocess.run(argv, check=True, capture_output=True)
    return time.perf_counter() - began


def waiting(form: Form, processes: Processes, plane: ControlPlane, namespace: str, number: int) -> tuple[float, float]:
    """MiB that the supervisor and the elector of a candidate have for themselves, and all that they map."""
    config = plane.kubeconfig(plane.new_user(), namespace)

    def start(identity: str) -> Process:
        options = [f"--kubeconfig={config}", f"--name=memory-{number}", f"--identity={identity}"]
        process = processes.start([form.program, "run", *options, "--", "sleep", "1000"], name=f"{identity}-{number}")
        process.wait_err("new leader: |became leader|the leader is ", timeout=60)
        return process

    leader, candidate = start("a"), start("b")
    time.sleep(_WAITING)
    pids = [candidate.pid, *descendants(candidate.pid)]
    uss = sum(psutil.Process(pid).memory_full_info().uss for pid in pids) / (1 << 20)
    everything = memory.alone(pids) or 0.0
    for process in (candidate, leader):
        process.popen.terminate()
        process.wait()
    return uss, everything


def measure(found: list[Form], plane: ControlPlane, directory: Path, trials: int) -> dict[Form, Measured]:
    """All forms in turn; the first round of start-ups is thrown away."""
    results = {form: Measured([], [], []) for form in found}
    for _ in range(trials + 1):
        for form, result in results.items():
            result.startup.append(start_up(form, directory))
    processes, namespace = Processes(directory), plane.new_namespace("packages")
    for trial in range(max(3, trials // 10)):
        for number, (form, result) in enumerate(results.items()):
            uss, everything = waiting(form, processes, plane, namespace, trial * len(results) + number)
            result.uss.append(uss)
            result.alone.append(everything)
    for result in results.values():
        del result.startup[0]
    return results


def show(results: dict[Form, Measured]) -> None:
    """One table."""
    first = next(iter(results.values()))
    print(f"\n{'':<32} {'packed':>7} {'on disk':>8}  {'start-up':>14}  {'own':>12}  {'mapped':>12}")
    print(f"{'':<32} {'MB':>7} {'MB':>8}  {'ms':>8} ratio" + 2 * f"  {'MiB':>6} ratio")
    for form, result in results.items():
        packed = f"{form.packed / 1e6:7.1f}" if form.packed else f"{'':7}"
        cells = [
            f"{median(values) * scale:{width}.1f} {median(values) / (median(beside) or 1):5.2f}"
            for values, beside, scale, width in zip(result, first, (1e3, 1, 1), (8, 6, 6), strict=True)
        ]
        print(f"{form.name[-32:]:<32} {packed} {size(form.place) / 1e6:8.1f}  {'  '.join(cells)}")
    print(f"{'image':<32} {IMAGE.stat().st_size / 1e6:7.1f}")
    print(f"\nMedians of {len(first.startup)} start-ups and {len(first.uss)} candidates, all forms in turn.")
    print("own: USS of supervisor and elector; mapped: with the files that other processes may share.")


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.packages", description=__doc__)
    parser.add_argument("--trials", type=int, default=50, metavar="N", help="start-ups (default: 50)")
    parser.add_argument("--beside", type=Path, action="append", default=[], metavar="KLEADER", help="one more kleader")
    options = parser.parse_args()
    adopt_orphans()
    with ControlPlane() as plane, tempfile.TemporaryDirectory(prefix="kleader-bench-") as directory:
        keep(plane.pids)
        try:
            found = forms(Path(directory), options.beside)
            print(f"{table.machine()}; load {table.load()} at the start")
            show(measure(found, plane, Path(directory), options.trials))
            print(f"load {table.load()} at the end")
        finally:
            sweep()
    return 0


if __name__ == "__main__":
    sys.exit(main())
