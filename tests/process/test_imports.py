"""The ``kubernetes`` package, which takes longer to import than all else, is imported for an OIDC provider alone."""

from __future__ import annotations

import os
import ssl
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from tests.process.conftest import IN_POD, KLEADER
from tests.process.test_bad_input import SURROUNDINGS, write
from tests.process.test_kubeconfig import HELD, NOT_ACQUIRED
from tests.process.test_oidc import OLD
from tests.support.json_server import Asked, json_server
from tests.support.kubeconfig import config

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.processes import Process, Processes

pytestmark = [pytest.mark.slow, pytest.mark.source]

COMMANDS = {"status": ["status", "t"], "run": ["run", "--name=t", "--no-wait", "--", "true"]}
ACCOUNT = "/run/secrets/kubernetes.io/serviceaccount"
MOUNT = f'mount -t tmpfs tmpfs /run && mkdir -p {ACCOUNT} && mount --bind "$0" {ACCOUNT} && exec "$@"'
IN_MOUNTS = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c", MOUNT]


class Cluster:
    """An API server whose lock another candidate holds, and each process of kleader that imports ``kubernetes``."""

    def __init__(self, processes: Processes, place: Path, port: int, authority: trustme.CA, seen: list[Asked]) -> None:
        self._processes, self._place, self._port, self._authority = processes, place, port, authority
        self.requests = seen
        self._imported = place / "imported"
        found = place / "first" / "kubernetes"
        found.mkdir(parents=True)
        source = f"import sys\nopen({str(self._imported)!r}, 'a').write(' '.join(sys.argv) + '\\n')\nraise ImportError"
        (found / "__init__.py").write_text(source)

    def imports(self) -> str:
        return self._imported.read_text() if self._imported.exists() else ""

    def ask(self, words: list[str], user: dict[str, Any] | None) -> Process:
        """A whole kleader, as this ``user`` of a kubeconfig, or in a Pod. It finds that ``kubernetes`` first."""
        authority = self._authority.cert_pem.bytes()
        before, env = [], {**SURROUNDINGS, "PYTHONPATH": str(self._place / "first")}
        if user is None:
            account = self._place / "account"
            account.mkdir()
            for name, text in {"ca.crt": authority.decode(), "namespace": "default", "token": "t"}.items():
                (account / name).write_text(text)
            before = [*IN_MOUNTS, str(account)]
            env |= {IN_POD: "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self._port)}
        else:
            data = b64encode(authority).decode()
            entry = {"server": f"https://127.0.0.1:{self._port}", "certificate-authority-data": data}
            env["KUBECONFIG"] = str(write(self._place / "config", config(entry, user)))
        return self._processes.start([*before, *KLEADER, *words], env=env)

    def certificate(self) -> dict[str, str]:
        """A user that has one."""
        made = self._authority.issue_cert("a-user.example")
        chain = b"".join(each.bytes() for each in made.cert_chain_pems)
        return {
            "client-certificate-data": b64encode(chain).decode(),
            "client-key-data": b64encode(made.private_key_pem.bytes()).decode(),
        }


@pytest.fixture
def cluster(processes: Processes, tmp_path: Path) -> Iterator[Cluster]:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with json_server(lambda _asked, _port: HELD, context) as (port, seen):
        yield Cluster(processes, tmp_path, port, authority, seen)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("access", ["a token", "a certificate", "a Pod"])
def test_a_whole_status_and_a_run_up_to_its_first_answers_import_no_kubernetes(
    cluster: Cluster, command: str, access: str
) -> None:
    """Neither the process of the command line, nor the supervisor, the elector or what they start."""
    user = {"a token": {"token": "t"}, "a certificate": cluster.certificate(), "a Pod": None}[access]
    asked = cluster.ask(COMMANDS[command], user)
    assert asked.wait() == (NOT_ACQUIRED if command == "run" else 0), asked.err
    assert any(
        each.path.startswith("/apis/coordination.k8s.io/v1/namespaces/default/leases") for each in cluster.requests
    )
    assert cluster.imports() == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_an_oidc_provider_is_asked_by_the_kubernetes_package(cluster: Cluster, command: str) -> None:
    """Which shows that the test above would see an import."""
    provider = {"idp-issuer-url": "https://127.0.0.1:1", "client-id": "c", "id-token": OLD, "refresh-token": "r"}
    asked = cluster.ask(COMMANDS[command], {"auth-provider": {"name": "oidc", "config": provider}})
    assert asked.wait() != 0
    assert cluster.imports()
