"""Faults of supervisor, elector and command, at the real API server: no overlap, and the documented outcome."""

from __future__ import annotations

import os
import signal
from concurrent.futures import Future
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.cluster.fleet import DEADLINE, DURATION, LOST, PATIENT, Fleet, History, elector, elector_of, now
from tests.process.conftest import IN_NAMESPACE
from tests.support import faults
from tests.support.api import lease, path
from tests.support.httpproxy import HttpProxy
from tests.support.processes import alive, wait_gone, wait_until
from tests.support.proxy import Proxy
from tests.support.upgrade import Installed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.conftest import SideBySide
    from tests.conftest import Trials
    from tests.support.controlplane import ControlPlane
    from tests.support.plane import Plane

ROOMY = ("--lease-duration=10s", "--renew-deadline=8s", "--retry-period=1s")  # a new elector takes its time to start
SHORTER = ("--lease-duration=3s", "--renew-deadline=2s", "--retry-period=1s")
DEAF = ("--ignore-term", "--descendant")


def test_a_replaced_elector_does_not_disturb_the_command(side_by_side: SideBySide, trials: Trials) -> None:
    """Same command, same term: no transition, the same token and incarnation, and leadership lasts beyond the lease."""

    def scenario(fleet: Fleet, fault: str) -> None:
        leader = fleet.start("a", timings=ROOMY)
        term = fleet.witness.wait_start()
        fleet.waiting("b", behind="a", timings=ROOMY)
        before, first = fleet.lease(), elector(leader)
        os.kill(first, signal.SIGKILL if fault == "killed" else signal.SIGSTOP)
        leader.wait_log("elector_replaced", r"\d+; the command goes on")
        wait_gone(first)
        fleet.wait_led_beyond(10)
        after = fleet.lease()
        assert alive(term.pid)
        for field in ("holderIdentity", "acquireTime", "leaseTransitions"):
            assert after["spec"][field] == before["spec"][field]
        assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
        leader.signal(signal.SIGTERM)
        assert leader.wait() == 0
        fleet.witness.wait_start(2)
        fleet.witness.check(terms=2)

    side_by_side(scenario, ("killed", "stopped"))
    trials.count(2, "electors killed or stopped while leading")


def test_an_elector_that_dies_repeatedly_does_not_lose_the_lock(fleet: Fleet, trials: Trials) -> None:
    leader = fleet.start("a", timings=ROOMY)
    term = fleet.witness.wait_start()
    fleet.waiting("b", behind="a", timings=ROOMY)
    for number in range(1, 6):
        os.kill(elector(leader), signal.SIGKILL)
        leader.wait_log("elector_replaced", count=number)
        fleet.wait_renewals()
    assert alive(term.pid)
    fleet.witness.check(terms=1)
    trials.count(5, "electors killed or stopped while leading")


def test_a_killed_or_stopped_supervisor_is_dead_with_its_tree_before_the_lock_expires(
    side_by_side: SideBySide, trials: Trials
) -> None:
    """Killed: the elector sweeps. Stopped: elector and kernel kill it. Both stopped: the kernel alone does.

    With the elector stopped too, only the command itself is promised to die; it wakes up in another's term, alone.
    """

    def scenario(fleet: Fleet, fault: str) -> None:
        everybody = fault == "both-stopped"
        leader = fleet.start("a", does=["--ignore-term"] if everybody else DEAF)
        lives = [fleet.witness.wait_start().pid]
        if not everybody:
            lives.append(fleet.witness.wait_descendant().pid)
        fleet.waiting("b", behind="a", timings=PATIENT)
        history = History(fleet)
        second, began = elector(leader), now()
        leader.signal(signal.SIGKILL if fault == "killed" else signal.SIGSTOP)
        if everybody:
            os.kill(second, signal.SIGSTOP)
        assert leader.wait() == -signal.SIGKILL
        wait_gone(*lives)
        later = fleet.witness.wait_start(2)
        assert later.born / 1e9 > began + DURATION - DEADLINE  # the last renewal was at most that old
        if everybody:
            os.kill(second, signal.SIGCONT)
        wait_gone(second)
        fleet.witness.wait_beats()
        fleet.witness.check(terms=2)
        wait_until(lambda: history.states[-1][1]["spec"]["holderIdentity"] == "b", "the second leader's sign of life")
        holders = dict.fromkeys(seen["spec"]["holderIdentity"] for _, seen in history.states)
        assert list(holders) == ["a", "b"], "nobody released it"

    side_by_side(scenario, ("killed", "stopped", "both-stopped"))
    trials.count(3, "supervisors killed or stopped")


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_processes_of_a_killed_or_stopped_pid_1_are_dead_before_the_next_leader(
    fleet: Fleet, trials: Trials, fault: signal.Signals
) -> None:
    """Killed: the kernel ends all of its namespace. Stopped: the elector kills, and no timer of the kernel's helps."""
    leader = fleet.start("a", does=DEAF, prefix=IN_NAMESPACE)
    lives = [fleet.witness.wait_start().pid, fleet.witness.wait_descendant().pid]
    supervisor = wait_for_supervisor(leader.pid)
    fleet.waiting("b", behind="a", timings=PATIENT)
    os.kill(supervisor, fault)
    fleet.witness.wait_start(2)
    wait_gone(*lives)
    fleet.witness.wait_beats()
    if fault == signal.SIGSTOP:
        os.kill(supervisor, signal.SIGCONT)
        assert leader.wait() == LOST
    fleet.witness.check(terms=2)
    trials.count(1, "supervisors killed or stopped")


def test_a_supervisor_stopped_past_its_term_starts_no_command(
    own_plane: ControlPlane, fleet: Fleet, trials: Trials
) -> None:
    """The acquiring write's answer comes while it is stopped; it goes on long after another leads."""
    with HttpProxy(own_plane) as proxy:
        started: Future[int] = Future()
        asleep = faults.call(lambda _: os.kill(started.result(30), signal.SIGSTOP))
        proxy.on(asleep, method="PUT")
        sleeper = fleet.start("a", server=proxy.url)
        started.set_result(sleeper.pid)
        process = psutil.Process(sleeper.pid)
        proxy.wait_request("PUT", count=2)  # the elector leads, and renews
        pid = elector(sleeper)
        os.kill(pid, signal.SIGSTOP)  # it would kill the sleeper before it wakes up
        other = fleet.start("b")
        fleet.witness.wait_start()
        assert process.status() == psutil.STATUS_STOPPED
        sleeper.signal(signal.SIGCONT)
        sleeper.wait_log("lost", "the lease is about to expire")
        assert sleeper.wait() == LOST
        fleet.witness.wait_beats()
        assert other.running
    fleet.witness.check(terms=1)
    trials.count(1, "supervisors stopped before the start")


LONG_GRACE = ("--lease-duration=8s", "--renew-deadline=3s", "--retry-period=1s")  # time between stop_at and kill_at


@pytest.mark.parametrize("as_init", [False, True], ids=["continued after stop_at", "as PID 1, after kill_at"])
def test_a_command_stopped_at_its_exec_barrier_is_not_executed_past_stop_at(
    fleet: Fleet,
    as_init: bool,  # noqa: FBT001
    tmp_path: Path,
    trials: Trials,
) -> None:
    """Stopped between the look at the clock and the exec, everybody: the forked child looks once more, last thing.

    As PID 1 the kernel does not kill the supervisor, so the child goes on when another leads already.
    """
    prefix = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"] if as_init else []
    started = fleet.start("a", prefix=prefix, timings=LONG_GRACE, cwd=stopping_itself_before_exec(tmp_path / "lib"))
    supervisor = psutil.Process(wait_for_supervisor(started.pid) if as_init else started.pid)
    wait_until(lambda: stopped_children(supervisor), "the child at its barrier")
    (child,) = stopped_children(supervisor)
    supervisor.suspend()
    os.kill(elector_of(supervisor), signal.SIGSTOP)
    renewed = now()  # or earlier
    if as_init:
        fleet.start("b")
        fleet.witness.wait_start()
    else:
        wait_until(lambda: now() > renewed + DEADLINE, "the renew deadline has passed")
    os.kill(child, signal.SIGCONT)
    wait_gone(child)
    if as_init:
        fleet.witness.wait_beats()
    supervisor.resume()
    assert started.wait() == LOST
    assert started.logged("lost")
    fleet.witness.check(terms=int(as_init))
    trials.count(1, "supervisors stopped before the start")


def stopping_itself_before_exec(place: Path) -> Path:
    """A kleader whose forked child stops itself before it restores the signals, and looks at the clock."""
    module = Installed(place).place / "kleader" / "supervisor" / "child.py"
    before, restores, after = module.read_text().partition("signals.restore()")
    assert restores
    module.write_text(f"{before}os.kill(os.getpid(), {signal.SIGSTOP:d}); {restores}{after}")
    return place


def stopped_children(of: psutil.Process) -> list[int]:
    return [child.pid for child in of.children() if child.status() == psutil.STATUS_STOPPED]


def wait_for_supervisor(unshare: int) -> int:
    """Return the process that unshare forked."""
    wait_until(lambda: psutil.Process(unshare).children(), "the process in its own namespace")
    return psutil.Process(unshare).children()[0].pid


@pytest.mark.parametrize("timings", [SHORTER, ROOMY], ids=["as long as its own", "longer"])
def test_a_candidates_replacement_elector_waits_for_the_holder_of_a_deleted_lease(
    plane: Plane, fleet: Fleet, trials: Trials, timings: tuple[str, ...]
) -> None:
    """Its predecessor has seen the lock held: gone is not free. The old leader lives on behind a dead network."""
    with Proxy("127.0.0.1", plane.port) as proxy:  # type: ignore[attr-defined]
        old = fleet.start("a", server=proxy.url, does=DEAF, timings=timings)
        fleet.witness.wait_start()
        waiting = fleet.waiting("b", behind="a", timings=SHORTER)
        proxy.switch("silent")
        waiting.signal(signal.SIGSTOP)  # it would replace the elector before the deletion
        os.kill(elector(waiting), signal.SIGKILL)
        plane.api.delete(fleet.path)
        waiting.signal(signal.SIGCONT)
        fleet.witness.wait_start(2)
        assert old.wait() == LOST
    fleet.witness.check(terms=2)
    trials.count(1, "electors killed while waiting")


def test_a_candidates_replacement_elector_waits_for_the_holder_of_a_half_deleted_multilock(
    plane: Plane, fleet: Fleet, trials: Trials
) -> None:
    """A candidate that uses that object alone may run behind a dead network, though the other has no holder."""
    with Proxy("127.0.0.1", plane.port) as proxy:  # type: ignore[attr-defined]
        far, near = (plane.kubeconfig(namespace=fleet.namespace, server=server) for server in (proxy.url, None))
        old = fleet.start("a", "--lock=configmap", kubeconfig=far, does=DEAF, timings=SHORTER)
        fleet.witness.wait_start()
        waiting = fleet.waiting("b", "--lock=configmapsleases", kubeconfig=near, behind="a", timings=SHORTER)
        proxy.switch("silent")
        plane.api.create(lease(fleet.namespace, fleet.name, "", duration=1, leaseTransitions=1))
        plane.api.delete(path("v1", "ConfigMap", fleet.namespace, fleet.name))
        os.kill(elector(waiting), signal.SIGKILL)
        fleet.witness.wait_start(2)
        assert old.wait() == LOST
    fleet.witness.check(terms=2)
    trials.count(1, "electors killed while waiting")


# --- the end of a command
def test_a_second_sigterm_kills_the_command_before_the_release(fleet: Fleet, trials: Trials) -> None:
    leader = fleet.start("a", "--stop-timeout=600s", does=DEAF, timings=PATIENT)
    term, descendant = fleet.witness.wait_start(), fleet.witness.wait_descendant()
    fleet.waiting("b", behind="a", timings=PATIENT)
    leader.signal(signal.SIGTERM)
    leader.wait_log("command_stopping", "SIGTERM")
    fleet.wait_led_beyond(0)  # it renews while the command winds down
    assert alive(term.pid)
    leader.signal(signal.SIGTERM)
    assert leader.wait() == 128 + signal.SIGKILL
    assert not alive(term.pid)
    assert not alive(descendant.pid)
    assert leader.logged("released")
    fleet.witness.wait_start(2)
    fleet.witness.check(terms=2)
    trials.count(1, "second TERMs")


def test_a_command_that_ignores_sigterm_is_killed_before_the_release(
    own_plane: ControlPlane, fleet: Fleet, trials: Trials
) -> None:
    """At the instant of the release nothing of it is alive, setsid and double fork or not."""
    with HttpProxy(own_plane) as proxy:
        leader = fleet.start("a", "--stop-timeout=1s", server=proxy.url, does=DEAF, timings=PATIENT)
        lives = [fleet.witness.wait_start().pid, fleet.witness.wait_descendant().pid]
        fleet.waiting("b", behind="a", timings=PATIENT)
        seen: list[bool] = []
        proxy.on(
            faults.call(lambda _: seen.append(any(map(alive, lives)))),
            method="PUT",
            where=lambda request: not request.json()["spec"]["holderIdentity"],
        )
        leader.signal(signal.SIGTERM)
        assert leader.wait() == 128 + signal.SIGKILL
        fleet.witness.wait_start(2)
    assert seen == [False]
    fleet.witness.check(terms=2)
    trials.count(1, "TERM-ignoring trees stopped")


def test_processes_that_a_command_leaves_are_dead_before_the_release(
    own_plane: ControlPlane, fleet: Fleet, tmp_path: Path, trials: Trials
) -> None:
    done = tmp_path / "done"
    with HttpProxy(own_plane) as proxy:
        does = ["--descendant", f"--exit-when={done}", "--status=7"]
        leader = fleet.start("a", server=proxy.url, does=does, timings=PATIENT)
        lives = [fleet.witness.wait_start().pid, fleet.witness.wait_descendant().pid]
        fleet.waiting("b", behind="a", timings=PATIENT)
        seen: list[bool] = []
        proxy.on(
            faults.call(lambda _: seen.append(any(map(alive, lives)))),
            method="PUT",
            where=lambda request: not request.json()["spec"]["holderIdentity"],
        )
        done.touch()
        assert leader.wait() == 7
        fleet.witness.wait_start(2)
    assert seen == [False]
    fleet.witness.check(terms=2)
    trials.count(1, "TERM-ignoring trees stopped")


def test_a_leader_with_no_release_lets_the_lock_expire(fleet: Fleet, trials: Trials) -> None:
    leader = fleet.start("a", "--no-release", does=["--status=3"])
    fleet.witness.wait_start()
    fleet.waiting("b", behind="a")
    leader.signal(signal.SIGTERM)
    assert leader.wait() == 3
    assert fleet.spec()["holderIdentity"] == "a"
    assert fleet.spec()["leaseDurationSeconds"] == DURATION
    fleet.witness.wait_start(2)
    assert fleet.witness.gaps()[0] / 1e9 > DURATION - DEADLINE
    fleet.witness.check(terms=2)
    trials.count(1, "ends without release")
