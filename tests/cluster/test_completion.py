"""The names of a cluster that a Tab offers, from the real API server."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support import faults
from tests.support.api import lease
from tests.support.httpproxy import HttpProxy

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.controlplane import ControlPlane
    from tests.support.plane import Plane


def ask(what: str, config: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """What is offered after the options, as fish is told it: namespaces for -n, leases for NAME."""
    words = ["kleader", "status", f"--kubeconfig={config}", *options, *(["-n"] if what == "namespaces" else [])]
    env = {"_KLEADER_COMPLETE": "fish_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": ""}
    argv = [sys.executable, "-m", "kleader"]
    return subprocess.run(argv, env=os.environ | env, capture_output=True, text=True, check=False)


def offered(what: str, config: Path, *options: str) -> list[str]:
    return [line.removeprefix("plain,") for line in ask(what, config, *options).stdout.splitlines() if line]


def test_namespaces_and_the_leases_of_one_are_offered(plane: Plane, namespace: str) -> None:
    for name in ("one", "two"):
        plane.api.create(lease(namespace, name, "somebody"))
    config = plane.kubeconfig()
    assert {"default", namespace} <= set(offered("namespaces", config))
    assert offered("leases", config, "-n", namespace) == ["one", "two"]
    assert offered("leases", plane.kubeconfig(namespace=namespace)) == ["one", "two"]


def test_a_long_list_is_read_page_by_page(own_plane: ControlPlane, namespace: str) -> None:
    user = own_plane.new_bare_user()
    own_plane.grant(
        user, namespace, [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list"]}]
    )
    names = [f"a-{number:03}" for number in range(501)]
    for name in names:
        own_plane.api.create(lease(namespace, name, "somebody"))
    assert offered("leases", own_plane.kubeconfig(user, namespace)) == names
    assert sum(request["verb"] == "list" for request in own_plane.audit_requests(user)) == 2


def test_without_list_permission_completion_offers_and_prints_nothing(own_plane: ControlPlane, namespace: str) -> None:
    done = ask("leases", own_plane.kubeconfig(own_plane.new_bare_user(), namespace))
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_completion_prints_no_error_whatever_the_response(own_plane: ControlPlane, namespace: str) -> None:
    odd = {"items": [7, {}, {"metadata": 7}, {"metadata": {"name": 7}}, {"metadata": {"name": "x"}}], "metadata": {}}
    with HttpProxy(own_plane) as proxy:
        config = own_plane.kubeconfig(own_plane.new_user(), namespace, server=proxy.url)
        for action in (
            faults.raw(b"\x00"),
            faults.answer(200, b"[]"),
            faults.answer(200, {**odd, "metadata": 7}),
            faults.answer(500, b"no"),
        ):
            rule = proxy.on(action, times=None)
            done = ask("leases", config)
            assert (done.stdout.strip(), done.stderr) == ("", "")
            rule.remove()
        proxy.on(faults.answer(200, odd), times=None)
        assert offered("leases", config) == ["x"]
