"""What kleader makes of kubeconfigs is what client-go's clientcmd makes of them, or differs by a line that says why."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import subprocess
import urllib.parse
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from kleader.cli.api_access import credentials_of
from kleader.kube import credentials
from kleader.kube.errors import SetUpError
from tests.cluster.kubeconfigs import Pem, rows
from tests.support import clientgo
from tests.support.processes import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cluster.kubeconfigs import Row
    from tests.conftest import Trials

    Entry = dict[str, Any]
    Ask = Callable[[list[Entry], Path], list[Entry]]

ACCOUNT = "/run/secrets/kubernetes.io/serviceaccount"
MOUNT = f'mount -t tmpfs tmpfs /run && mkdir -p {ACCOUNT} && mount --bind "$0" {ACCOUNT} && exec "$@"'
PORTS = {"http": 80, "https": 443, "socks5": 1080}


def written(row: Row, directory: Path) -> dict[str, str]:
    """Write its files; return its environment."""
    files = dict(row.files) | ({} if row.kubeconfig is None else {"config": row.kubeconfig})
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        raw = (
            content
            if isinstance(content, bytes)
            else (content if isinstance(content, str) else json.dumps(content)).encode()
        )
        path.write_bytes(raw)
        path.chmod(0o755)
    return {"HOME": str(directory), "KUBECONFIG": "config"} | row.env


@pytest.fixture
def clientcmd() -> Ask:
    """Answers a list of cases, as in a Pod whose service account has its files in `account`."""
    program = clientgo.build("kubeconfig")

    def ask(cases: list[Entry], account: Path) -> list[Entry]:
        argv = ["unshare", "--mount", "sh", "-c", MOUNT, str(account), str(program)]
        done = subprocess.run(
            argv, input=json.dumps(cases), capture_output=True, text=True, check=True, timeout=PATIENCE
        )
        answers: list[Entry] = json.loads(done.stdout)
        return answers

    return ask


def test_kubeconfigs_are_read_as_clientcmd_reads_them(
    tmp_path: Path,
    clientcmd: Ask,
    monkeypatch: pytest.MonkeyPatch,
    trials: Trials,
) -> None:
    """The server, the credentials, the headers, the namespace; or a refusal by both."""
    authority = trustme.CA()
    issued = authority.issue_cert("client@example.org")
    ca, cert, key = (
        blob.bytes().decode() for blob in (authority.cert_pem, issued.cert_chain_pems[0], issued.private_key_pem)
    )
    account = tmp_path / "account"
    account.mkdir()
    for name, content in (("ca.crt", ca), ("token", "of-the-account"), ("namespace", "account")):
        (account / name).write_text(content)
    monkeypatch.setattr(credentials, "_ACCOUNT", f"{account}/")
    table, cases = list(rows(Pem(ca, cert, key))), []
    for number, row in enumerate(table):
        directory = tmp_path / str(number)
        directory.mkdir()
        cases.append({"environment": written(row, directory), "directory": str(directory), "options": row.options})
    answers = clientcmd(cases, account)
    complaints = []
    for row, case, answer in zip(table, cases, answers, strict=True):
        found, expected = ours(case, monkeypatch), theirs(answer)
        if different(found, expected) != bool(row.differs):
            complaints.append(f"{row.about}:\n  kleader   {found}\n  clientcmd {expected}")
    assert not complaints, "\n".join(complaints)
    trials.count(len(table), "kubeconfigs")


def ours(case: Entry, monkeypatch: pytest.MonkeyPatch) -> Entry | str:
    """Where a request would go and what it would carry; a sentence where none is sent."""
    with monkeypatch.context() as patch:
        for name in ("KUBECONFIG", "POD_NAMESPACE", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
            patch.delenv(name, raising=False)
        for name, value in case["environment"].items():
            patch.setenv(name, value)
        if "KUBERNETES_SERVICE_HOST" not in case["environment"]:  # its files are in Pods alone
            patch.setattr(credentials, "_ACCOUNT", "/nowhere/")
        patch.chdir(case["directory"])
        known = credentials_of(case["options"])
        try:
            to = asyncio.run(known.refresh())
        except SetUpError as error:
            return str(error)
        access, tls = known._access, to.tls is not None
        return {
            "url": ("https" if tls else "http", to.host, to.port, to.prefix),
            "headers": sorted((name.lower(), value) for name, value in known.headers() if name != "User-Agent"),
            "authority": access.get("ca", "").strip() if tls else "",
            "certificate": der(access["cert"]) if access.get("cert") else "",
            "server name": to.server_name if tls else "",
            "insecure": bool(tls and to.tls and to.tls.verify_mode is ssl.CERT_NONE),
            "proxy": to.proxy[:3] if to.proxy else None,
            "namespace": known.namespace,
        }


def different(found: Entry | str, expected: Entry | str) -> bool:
    """Whether it matters; in what words it is refused does not."""
    return found != expected and not (isinstance(found, str) and isinstance(expected, str))


def der(pem: str) -> str:
    return base64.b64encode(ssl.PEM_cert_to_DER_cert(pem)).decode()


def theirs(answer: Entry) -> Entry | str:
    """The same of clientcmd's answer."""
    if answer["error"]:
        return str(answer["error"])
    url, proxy = urllib.parse.urlsplit(answer["url"]), urllib.parse.urlsplit(answer["proxy"])
    tls = url.scheme == "https"
    headers = [(name.lower(), value) for name, values in (answer["headers"] or {}).items() for value in values]
    return {
        "url": (url.scheme, url.hostname, url.port or (443 if tls else 80), url.path.rstrip("/")),
        "headers": sorted(headers),
        "authority": answer["authority"].strip(),
        "certificate": answer["certificate"],
        "server name": (answer["serverName"] or url.hostname) if tls else "",
        "insecure": answer["insecure"],
        "proxy": (proxy.scheme, proxy.hostname, proxy.port or PORTS[proxy.scheme]) if answer["proxy"] else None,
        "namespace": answer["namespace"],
    }
