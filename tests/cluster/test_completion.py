"""The names that completion scripts ask for, from the real API server."""

from __future__ import annotations

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
    argv = [sys.executable, "-m", "kleader", "completion", what, f"--kubeconfig={config}", *options]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_namespaces_and_the_leases_of_one_are_printed_one_a_line(plane: Plane, namespace: str) -> None:
    for name in ("one", "two"):
        plane.api.create(lease(namespace, name, "somebody"))
    config = plane.kubeconfig()
    assert {"default", namespace} <= set(ask("namespaces", config).stdout.splitlines())
    assert ask("leases", config, "-n", namespace).stdout == "one\ntwo\n"
    assert ask("leases", plane.kubeconfig(namespace=namespace)).stdout == "one\ntwo\n"


def test_a_long_list_comes_whole_page_by_page(own_plane: ControlPlane, namespace: str) -> None:
    user = own_plane.new_bare_user()
    own_plane.grant(
        user, namespace, [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list"]}]
    )
    names = [f"a-{number:03}" for number in range(501)]
    for name in names:
        own_plane.api.create(lease(namespace, name, "somebody"))
    assert ask("leases", own_plane.kubeconfig(user, namespace)).stdout.splitlines() == names
    assert sum(request["verb"] == "list" for request in own_plane.audit_requests(user)) == 2


def test_who_may_not_list_is_told_in_a_line_that_no_script_shows(own_plane: ControlPlane, namespace: str) -> None:
    done = ask("leases", own_plane.kubeconfig(own_plane.new_bare_user(), namespace))
    assert (done.returncode, done.stdout) == (125, "")
    assert len(done.stderr.splitlines()) == 1
    assert "cannot list resource" in done.stderr


def test_whatever_is_answered_is_no_traceback(own_plane: ControlPlane, namespace: str) -> None:
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
            assert (done.returncode, len(done.stderr.splitlines())) == (125, 1)
            rule.remove()
        proxy.on(faults.answer(200, odd), times=None)
        assert ask("leases", config).stdout == "x\n"
