"""python -m tests.prove: faults befall real candidates, and the simulator plays on what is left of the machine.

The faults come first, for two fifths of the time, three minutes at least, and for longer where one of them has come too
seldom to tell of; then the simulator has the machine.

Exit status 1: a promise was broken, or a fault could not be brought about. The seed says which faults come in which
order and whom they hit; when exactly, and what comes of it, is the machine's.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime as dt
import os
import platform
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from tests.prove import by_hand, on_end, on_machine, on_network, on_plane, on_processes, on_request, rivals, together
from tests.prove.driver import Chaos, Group
from tests.prove.fleet import STYLES
from tests.prove.kinds import GROUPS
from tests.prove.table import LEGEND, Table
from tests.support.controlplane import NEEDED, ControlPlane, binaries
from tests.support.daemon import DaemonError
from tests.support.gobuild import GoError
from tests.support.processes import adopt_orphans, sweep

if TYPE_CHECKING:
    from collections.abc import Callable

LONG, LEAST = 30, 5  # who goes on for so many minutes has so many trials of each class
SHARE, SHORT = 0.4, 3  # of the time is the faults', and so many minutes at least
ROOMS = (on_processes, on_network, on_machine, on_request, on_end, by_hand, rivals, together)
HERE = Path(__file__).resolve().parents[2]


def main() -> int:
    """Run as told; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.prove", description=__doc__)
    parser.add_argument("--minutes", type=float, metavar="M", default=30, help="for how long (default: 30)")
    parser.add_argument("--seed", type=int, metavar="S", help="what the choice of faults follows from; default: fresh")
    parser.add_argument("--groups", type=int, metavar="G", default=len(GROUPS), help="control planes with their fleets")
    parser.add_argument("--fleets", type=int, metavar="K", help="at most so many on each control plane")
    parser.add_argument("--kind", help="fleets of this kind alone")
    parser.add_argument("--fault", metavar="REGEX", help="faults whose names this finds alone")
    parser.add_argument("--kleader", type=Path, metavar="DIR", default=HERE, help="the directory of the package to try")
    parser.add_argument("--first", action="store_true", help="end with the first overlap")
    parser.add_argument("--trials", type=int, metavar="N", default=0, help="end after so many, as --minutes allows")
    parser.add_argument("--no-simulation", action="store_true", help="chaos alone")
    args = parser.parse_args()
    if sys.platform != "linux":
        parser.error("the faults are Linux's")
    if args.seed is None:
        args.seed = secrets.randbits(32)
    return reaped(lambda: prove(args))


def reaped(work: Callable[[], int]) -> int:
    """Do this in a process of its own, and reap whatever becomes an orphan meanwhile; nothing is left at the end."""
    adopt_orphans()
    worker = os.fork()
    if worker == 0:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
        status = 1
        try:
            status = work()
        except KeyboardInterrupt:
            status = 130
        except (DaemonError, GoError) as error:
            print(f"error: {error}")
        except Exception:  # noqa: BLE001 - nobody else would tell: this process ends here
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker has it too
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(worker, number))
    while True:
        pid, status = os.wait()
        if pid == worker:
            sweep()
            return os.waitstatus_to_exitcode(status)


def prove(args: argparse.Namespace) -> int:
    """Chaos and simulation; prints the table."""
    say(f"seed {args.seed}")
    begun = time.monotonic()
    chaotic = args.minutes if args.no_simulation else min(args.minutes, max(SHORT, SHARE * args.minutes))
    whole = args.minutes >= LONG and not (args.kind or args.fault or args.fleets or args.first)
    own = [fault for room in ROOMS for fault in room.FAULTS]
    faults = [fault for fault in own if not args.fault or re.search(args.fault, fault.name)]
    shared = [fault for fault in on_plane.FAULTS if not args.fault or re.search(args.fault, fault.name)]
    lacking = [(each.name, each.missing()) for each in faults] + [(each.name, each.missing()) for each in shared]
    missing = {name: why for name, why in lacking if why}
    table = Table([name for name, _ in lacking], missing)
    directory = Path(tempfile.mkdtemp(prefix="kleader-prove-"))
    styles = tuple(style for style in STYLES if style.possible)
    chaos = Chaos(
        args.seed,
        directory,
        args.kleader.resolve(),
        [fault for fault in faults if fault.name not in missing],
        [fault for fault in shared if fault.name not in missing],
        styles,
        own_mounts(),
        args.first,
        args.trials,
        begun + 60 * chaotic,
        begun + 60 * args.minutes,
        LEAST if whole else 0,
        table,
        say,
    )
    simulator = None if args.no_simulation else simulate(args.minutes, args.seed, directory)
    failed = run(chaos, args)
    print(table.text())
    print(LEGEND)
    took = time.monotonic() - begun
    today = dt.datetime.now(dt.timezone.utc).date().isoformat()
    machine = f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(table.summary())
    print(f"seed {args.seed}; {took / 60:.1f} minutes; {machine}; {today}", flush=True)
    problems = table.problems(LEAST if whole else 0) + failed
    if simulator and not simulated(simulator, directory):
        problems.append("the simulator has found a schedule that breaks a promise")
    for problem in problems:
        print(f"error: {problem}", flush=True)
    if not problems:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        print(f"logs: {directory}", flush=True)
    return 1 if problems else 0


def run(chaos: Chaos, args: argparse.Namespace) -> list[str]:
    """One thread for each control plane; returns what went wrong with them."""
    planes, groups, failed = [], [], []
    try:
        for number, kinds in enumerate(GROUPS[: args.groups]):
            chosen = [kind for kind in kinds if args.kind in {None, kind.name}][: args.fleets]
            if not chosen:
                continue
            plane = None
            if any(kind.api for kind in chosen):
                binaries(*NEEDED)
                if any(kind.rivals for kind in chosen):
                    rivals.build()
                plane = ControlPlane(coordinated=True)
                plane.start()
                planes.append(plane)
            groups.append(Group(chaos, number, plane, chosen))

        def go(group: Group) -> None:
            try:
                group.run()
            except Exception as error:  # noqa: BLE001 - told at the end
                failed.append(f"{type(error).__name__}: {error}")

        threads = [threading.Thread(target=go, args=[group]) for group in groups]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for plane in planes:
            plane.stop()
    return failed


def own_mounts() -> bool:
    """Whether what is mounted from now on is seen by this process and its descendants alone, and goes with them."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_mounts, private = 0x20000, 0x44000  # CLONE_NEWNS; MS_REC | MS_PRIVATE
    return not libc.unshare(new_mounts) and not libc.mount(b"none", b"/", None, private, None)


def simulate(minutes: float, seed: int, directory: Path) -> subprocess.Popen[bytes]:
    """Let the simulator play on what is left of the machine."""
    argv = ["nice", "-n", "19", sys.executable, "-m", "tests.simulation", f"--minutes={minutes}", f"--seed={seed}"]
    with (directory / "simulation").open("wb") as out:
        return subprocess.Popen(argv, stdout=out, stderr=out)


def simulated(simulator: subprocess.Popen[bytes], directory: Path) -> bool:
    """Print what it has found; whether all went well."""
    status = simulator.wait()
    print((directory / "simulation").read_text())
    return status == 0


_speaking = threading.Lock()


def say(text: str) -> None:
    """One message at a time."""
    with _speaking:
        print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
