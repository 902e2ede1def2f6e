"""One control plane for each session, or worker; a fresh namespace for each test; the real client-go candidate."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.cluster.contract import Client
from tests.cluster.fleet import Fleet
from tests.support import clientgo as clientgo_module
from tests.support.checker import Witness
from tests.support.controlplane import (
    KUBECTL,
    MANAGER,
    NEEDED,
    ControlPlane,
    binaries,
    given_kubeconfig,
    plane_for_tests,
)
from tests.support.gobuild import GoError
from tests.support.plane import NeedsOwnPlane
from tests.support.processes import keep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from tests.support.plane import Plane
    from tests.support.processes import Processes

    SideBySide = Callable[[Callable[[Fleet, str], None], Iterable[str]], None]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Build before the first test: no test's time limit is meant to hold a build."""
    wanted = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if session.config.option.collectonly:
        return
    try:
        if "plain_plane" in wanted or ("plane" in wanted and given_kubeconfig() is None):
            binaries(*NEEDED)
        if "garbage_collector" in wanted and given_kubeconfig() is None:
            binaries(MANAGER)
        if "kubectl" in wanted:
            binaries(KUBECTL)
        if "clientcmd" in wanted:
            clientgo_module.build("kubeconfig")
        if wanted & {"clientgo", "for_life"}:
            clientgo_module.build_all()
    except GoError as error:
        pytest.exit(f"the tests cannot run: {error}", returncode=1)


@pytest.fixture(scope="session")
def plane() -> Iterator[Plane]:
    """The cluster of this session, started by the first test that asks: an own one, or $KLEADER_TEST_KUBECONFIG's.

    An own one elects among LeaseCandidates (KEP-4355).
    """
    cluster = plane_for_tests()
    cluster.start()
    if isinstance(cluster, ControlPlane):
        keep(cluster.pids)
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def plain_plane() -> Iterator[ControlPlane]:
    """A control plane of this session's own, as most clusters are: without coordinated election."""
    cluster = ControlPlane()
    cluster.start()
    keep(cluster.pids)
    yield cluster
    cluster.stop()


@pytest.fixture
def well(tmp_path: Path) -> Path:
    """A candidate with `tests.cluster.fleet.health(well)` is healthy as long as this file exists."""
    found = tmp_path / "well"
    found.touch()
    return found


@pytest.fixture
def garbage_collector(plane: Plane) -> None:
    """In `plane`, what is owned goes once its owners have gone; from the first test that asks, until the end."""
    plane.collect_garbage()
    if isinstance(plane, ControlPlane):
        keep(plane.pids)


@pytest.fixture
def own_plane(plane: Plane) -> Iterator[ControlPlane]:
    """The session's control plane for a test that inspects, stops or pauses it; it runs again afterwards."""
    if not isinstance(plane, ControlPlane):
        pytest.skip(str(NeedsOwnPlane("this test")))
    yield plane
    plane.recover()
    keep(plane.pids)


@pytest.fixture
def namespace(plane: Plane) -> Iterator[str]:
    name = plane.new_namespace()
    yield name
    if not isinstance(plane, ControlPlane):  # an own one is thrown away whole
        plane.api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def client() -> Iterator[Client]:
    """Kleader's roads and locks, called one by one from a test."""
    with Client() as running:
        yield running


@pytest.fixture
def fleet(plane: Plane, namespace: str, processes: Processes, witness: Witness) -> Fleet:
    """Candidates for one Lease."""
    return Fleet(plane, namespace, processes, witness)


@pytest.fixture
def side_by_side(plane: Plane, namespace: str, processes: Processes, tmp_path: Path) -> SideBySide:
    """Run one scenario in several variants at once, each with its own Lease and witness, named after the variant."""

    def run(scenario: Callable[[Fleet, str], None], variants: Iterable[str]) -> None:
        names = list(variants)
        fleets = [Fleet(plane, namespace, processes, Witness(tmp_path / name), name) for name in names]
        with ThreadPoolExecutor(len(names)) as pool:
            for _ in pool.map(scenario, fleets, names):
                pass

    return run


@pytest.fixture
def clientgo() -> Callable[..., list[str]]:
    """Make the argv of a real client-go candidate (see support/clientgo.py)."""
    return clientgo_module.candidate


@pytest.fixture
def for_life() -> Callable[..., list[str]]:
    """Make the argv of a real leader-for-life candidate of operator-lib (see support/clientgo.py)."""
    return clientgo_module.candidate_for_life
