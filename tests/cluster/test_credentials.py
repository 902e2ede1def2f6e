"""Credentials for the API server: tokens, certificates and plugins, and their renewal while kleader runs."""

from __future__ import annotations

import json
import select
import signal
import socket
import socketserver
import stat
import threading
from typing import TYPE_CHECKING

import pytest

from tests.cluster.fleet import DURATION, LOST, PATIENT, Fleet, answers
from tests.support import faults
from tests.support.httpproxy import HttpProxy
from tests.support.port import LOOPBACK
from tests.support.processes import wait_gone, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.api import Object
    from tests.support.controlplane import ControlPlane
    from tests.support.httpproxy import Request

UNAUTHORIZED = {"kind": "Status", "apiVersion": "v1", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"}
GROUP = "candidates"  # that may do what a candidate does


def rewritten(kubeconfig: Path, user: Object | None = None, cluster: Object | None = None) -> Path:
    """Replace the user's entry, and add to the cluster's; the file is replaced as a whole."""
    config = json.loads(kubeconfig.read_text())
    if user is not None:
        config["users"][0]["user"] = user
    config["clusters"][0]["cluster"] |= cluster or {}
    new = kubeconfig.with_suffix(".new")
    new.write_text(json.dumps(config))
    new.replace(kubeconfig)
    return kubeconfig


def leads_as(plane: ControlPlane, fleet: Fleet, user: str) -> None:
    """Return once `user` has renewed the Lease, still in the first term."""
    wait_until(lambda: any(each["verb"] == "update" for each in plane.audit_requests(user)), f"a renewal by {user}")
    fleet.witness.check(terms=1)


@pytest.mark.parametrize("how", ["tokenFile", "kubeconfig"])
def test_a_replaced_token_that_is_refused_later_ends_no_term(
    own_plane: ControlPlane, fleet: Fleet, tmp_path: Path, how: str
) -> None:
    """A token file is read for each request; a kubeconfig after the first refusal."""
    old, new = own_plane.new_user(), own_plane.new_user()
    file = tmp_path / "token"
    file.write_text(own_plane.token(old) + "\n")

    def is_old(request: Request) -> bool:
        return request.headers["authorization"] == f"Bearer {own_plane.token(old)}"

    with HttpProxy(own_plane) as proxy:
        credentials = {"tokenFile": file} if how == "tokenFile" else {"token": own_plane.token(old)}
        config = own_plane.kubeconfig(old, fleet.namespace, server=proxy.url, **credentials)
        fleet.start("a", kubeconfig=config, timings=PATIENT)
        fleet.witness.wait_start()
        fleet.waiting("b", behind="a")
        if how == "tokenFile":
            file.with_suffix(".new").write_text(own_plane.token(new))
            file.with_suffix(".new").replace(file)
            wait_until(
                lambda: not is_old(proxy.requests[-1]), "a request with the new one: none of before is under way"
            )
        else:
            rewritten(config, {"token": own_plane.token(new)})
        refused = proxy.on(faults.answer(401, UNAUTHORIZED), where=is_old, times=None)
        leads_as(own_plane, fleet, new)
        fleet.wait_led_beyond(DURATION)
        assert refused.hits == (0 if how == "tokenFile" else 1)
    fleet.witness.check(terms=1)


def test_a_waiting_candidate_takes_the_lock_with_the_token_of_that_moment(
    own_plane: ControlPlane, fleet: Fleet, tmp_path: Path
) -> None:
    old, new = own_plane.new_user(), own_plane.new_user()
    file = tmp_path / "token"
    file.write_text(own_plane.token(old))
    leader = fleet.start("a", timings=PATIENT)
    fleet.witness.wait_start()
    config = own_plane.kubeconfig(old, fleet.namespace, tokenFile=file)
    fleet.waiting("b", behind="a", kubeconfig=config, timings=PATIENT)
    file.write_text(own_plane.token(new))
    leader.signal(signal.SIGTERM)
    fleet.witness.wait_start(2)
    assert "update" in {request["verb"] for request in own_plane.audit_requests(new)}
    assert "update" not in {request["verb"] for request in own_plane.audit_requests(old)}


def plugin(directory: Path, status: str) -> tuple[Path, Path]:
    """Write an exec plugin that gives `status`, shell expanded; return it and where it notes its calls."""
    script, calls = directory / "plugin", directory / "calls"
    script.write_text(
        f"""#!/bin/sh
echo call >> {calls}
now=$(date -u +%s)
cat <<END
{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {status}}}
END
""",
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script, calls


def exec_user(script: Path) -> Object:
    entry = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script), "interactiveMode": "Never"}
    return {"exec": {**entry, "provideClusterInfo": False}}


def test_exec_plugin_is_asked_for_a_new_token_before_the_old_one_expires(
    own_plane: ControlPlane, fleet: Fleet, tmp_path: Path
) -> None:
    """Beside the renewals: none of them waits for the plugin, and none is refused."""
    user = own_plane.new_user()
    expiry = "$(date -u -d @$((now + 15)) +%Y-%m-%dT%H:%M:%SZ)"
    script, calls = plugin(tmp_path, f'{{"token": "{own_plane.token(user)}", "expirationTimestamp": "{expiry}"}}')
    config = rewritten(own_plane.kubeconfig(user, fleet.namespace), exec_user(script))
    leader = fleet.start("a", kubeconfig=config, timings=PATIENT)
    fleet.witness.wait_start()
    wait_until(lambda: calls.read_text().count("call") >= 2, "the plugin is asked again")
    fleet.wait_renewals()
    fleet.witness.check(terms=1)
    assert not leader.logged(level="WARNING")
    assert answers(own_plane.audit_requests(user)) <= {200, 201, 404}


def test_a_certificate_of_an_exec_plugin_or_a_kubeconfig_is_used(
    own_plane: ControlPlane, fleet: Fleet, tmp_path: Path
) -> None:
    crt, key = own_plane.certificate("by-plugin", GROUP)
    pair = {"clientCertificateData": crt.read_text(), "clientKeyData": key.read_text()}
    script, _ = plugin(tmp_path, json.dumps(pair).replace("\\", "\\\\"))
    config = rewritten(own_plane.kubeconfig("by-plugin", fleet.namespace), exec_user(script))
    leader = fleet.start("a", kubeconfig=config, timings=PATIENT)
    fleet.witness.wait_start()
    crt, key = own_plane.certificate("by-file", GROUP)
    config = own_plane.kubeconfig("by-file", fleet.namespace, client_certificate=crt, client_key=key)
    fleet.waiting("b", behind="a", kubeconfig=config, timings=PATIENT)
    leader.signal(signal.SIGTERM)
    fleet.witness.wait_start(2)
    fleet.wait_renewals()
    fleet.witness.check(terms=2)
    for user in ("by-plugin", "by-file"):
        assert "update" in {request["verb"] for request in own_plane.audit_requests(user)}


def test_impersonation_by_option_and_by_kubeconfig(own_plane: ControlPlane, fleet: Fleet) -> None:
    """The user alone by --as; user and groups by the kubeconfig."""
    other = own_plane.new_user()
    admin = {"token": own_plane.token("admin")}
    own_plane.grant(
        other,
        fleet.namespace,
        [
            {
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "verbs": ["get", "watch", "create", "update"],
            }
        ],
    )
    config = own_plane.kubeconfig("admin", fleet.namespace)
    leader = fleet.start("a", f"--as={other}", kubeconfig=config, timings=PATIENT)
    fleet.witness.wait_start()
    config = rewritten(
        own_plane.kubeconfig("admin", fleet.namespace), {**admin, "as": "nobody-else", "as-groups": [GROUP, "g"]}
    )
    fleet.waiting("b", behind="a", kubeconfig=config, timings=PATIENT)
    leader.signal(signal.SIGTERM)
    fleet.witness.wait_start(2)
    seen = [each["impersonatedUser"] for each in own_plane.audit_requests("admin") if "impersonatedUser" in each]
    assert {"username": other, "groups": ["system:authenticated"]} in seen
    assert any(each["username"] == "nobody-else" and {GROUP, "g"} <= set(each["groups"]) for each in seen)


def test_service_account_of_a_pod_suffices_and_its_rotated_token_is_used(
    own_plane: ControlPlane, fleet: Fleet, tmp_path: Path
) -> None:
    """No kubeconfig, no option: address from the environment, the rest from the mounted files."""
    old, new = own_plane.new_user(), own_plane.new_user()
    account = tmp_path / "account"
    account.mkdir()
    (account / "ca.crt").write_text(own_plane.ca_file.read_text())
    (account / "namespace").write_text(fleet.namespace)
    (account / "token").write_text(own_plane.token(old))
    place = "/run/secrets/kubernetes.io/serviceaccount"
    mount = f'mount -t tmpfs tmpfs /run && mkdir -p {place} && mount --bind "$0" {place} && exec "$@"'
    fleet.start(
        "a",
        kubeconfig="",
        timings=PATIENT,
        prefix=["unshare", "--mount", "sh", "-c", mount, str(account)],
        env={
            "KUBERNETES_SERVICE_HOST": LOOPBACK,
            "KUBERNETES_SERVICE_PORT": str(own_plane.port),
            "KUBECONFIG": None,
            "POD_NAMESPACE": None,
        },
    )
    fleet.witness.wait_start()
    assert fleet.spec()["holderIdentity"] == "a"
    (account / "token").write_text(own_plane.token(new))
    leads_as(own_plane, fleet, new)
    fleet.wait_led_beyond(0)
    fleet.witness.check(terms=1)


# --- an HTTP proxy on the way
class Connect(socketserver.StreamRequestHandler):
    """One CONNECT, then bytes both ways."""

    def handle(self) -> None:
        lines = [self.rfile.readline().strip().decode()]
        while lines[-1]:
            lines.append(self.rfile.readline().strip().decode())
        seen: list[list[str]] = self.server.seen  # type: ignore[attr-defined]
        seen.append(lines)
        host, _, port = lines[0].split()[1].rpartition(":")
        with socket.create_connection((host, int(port))) as upstream:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            ends = {self.connection: upstream, upstream: self.connection}
            while True:
                for source in select.select(list(ends), [], [])[0]:
                    if not (data := source.recv(65536)):
                        return
                    ends[source].sendall(data)


@pytest.fixture
def connect_proxy() -> Iterator[tuple[str, list[list[str]]]]:
    """Return where an HTTP proxy listens, and the heads of the requests that it saw."""
    with socketserver.ThreadingTCPServer((LOOPBACK, 0), Connect) as server:
        server.daemon_threads = True
        server.seen = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"{LOOPBACK}:{server.server_address[1]}", server.seen  # type: ignore[attr-defined]
        server.shutdown()


def test_proxy_url_of_a_kubeconfig_is_used(
    own_plane: ControlPlane, fleet: Fleet, connect_proxy: tuple[str, list[list[str]]]
) -> None:
    where, seen = connect_proxy
    config = own_plane.kubeconfig(own_plane.new_user(), fleet.namespace)
    rewritten(config, cluster={"proxy-url": f"http://me:secret%21@{where}"})
    leader = fleet.start("a", kubeconfig=config, timings=PATIENT)
    fleet.witness.wait_start()
    fleet.waiting("b", behind="a", kubeconfig=config, timings=PATIENT)
    leader.signal(signal.SIGTERM)
    fleet.witness.wait_start(2)
    fleet.wait_renewals()
    fleet.witness.check(terms=2)
    assert {lines[0] for lines in seen} == {f"CONNECT {LOOPBACK}:{own_plane.port} HTTP/1.1"}
    assert all("Basic bWU6c2VjcmV0IQ==" in " ".join(lines) for lines in seen)


def test_a_path_prefix_of_the_server_url_is_kept(own_plane: ControlPlane, fleet: Fleet) -> None:
    """As clusters behind a common address have it: https://host/k8s/clusters/NAME."""
    with HttpProxy(own_plane) as proxy:
        config = own_plane.kubeconfig(own_plane.new_user(), fleet.namespace, server=f"{proxy.url}/k8s/clusters/c-1/")
        fleet.start("a", kubeconfig=config)
        request = proxy.wait_request("GET")
        assert request.target == f"/k8s/clusters/c-1{fleet.path}"
        assert request.headers["host"] == proxy.url.removeprefix("https://")


def test_no_credential_is_ever_logged(own_plane: ControlPlane, fleet: Fleet, tmp_path: Path) -> None:
    """Not even one that no header can carry, be it there from the start or from one renewal to the next."""
    garbage = "s3cret\ntoken"
    config = own_plane.kubeconfig("admin", fleet.namespace, token=garbage)
    candidate = fleet.start("a", "--wait=2s", "-v=9", kubeconfig=config)
    assert candidate.wait() == 125
    file = tmp_path / "token"
    file.write_text(own_plane.token("admin"))
    leader = fleet.start("a", "-v=9", kubeconfig=own_plane.kubeconfig("admin", fleet.namespace, tokenFile=file))
    fleet.witness.wait_start()
    file.write_text(garbage)
    assert leader.wait() == LOST
    assert "has characters that an HTTP header cannot carry" in leader.err
    for process in (candidate, leader):
        assert "s3cret" not in process.err
        assert own_plane.token("admin") not in process.err
        assert "Traceback" not in process.err


def test_a_plugin_that_hangs_outlasts_neither_the_wait_nor_its_candidate(
    own_plane: ControlPlane, fleet: Fleet, tmp_path: Path
) -> None:
    script, calls = plugin(tmp_path, "{}")
    script.write_text(f"#!/bin/sh\necho $$ >> {calls}\nexec sleep 600\n")
    config = rewritten(own_plane.kubeconfig("admin", fleet.namespace), exec_user(script))
    candidate = fleet.start("a", "--wait=6s", kubeconfig=config)  # in which the plugin has begun, on a slow machine too
    assert candidate.wait() == 125
    assert "--wait" in candidate.err.splitlines()[-1]
    wait_gone(*map(int, calls.read_text().split()))
