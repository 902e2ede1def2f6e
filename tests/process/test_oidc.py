"""A token of an OIDC provider that has expired is replaced, by a provider whose certificate is verified."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import trustme

from kleader.kube import credential_plugins
from kleader.kube.kubeconfig import KubeconfigError
from tests.support.json_server import Asked, json_server
from tools.slim import UNUSED, UNUSED_OF_KUBERNETES

if TYPE_CHECKING:
    from collections.abc import Iterator


def token(expires: int) -> str:
    parts = ({"alg": "none"}, {"exp": expires})
    return ".".join(base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts) + ".x"


OLD, NEW = token(0), token(4_102_444_800)


def answer(asked: Asked, port: int) -> object:
    """Names its address for tokens, and gives a token there."""
    if asked.method == "GET":
        return {"token_endpoint": f"https://localhost:{port}/token"}
    return {"id_token": NEW, "access_token": "a", "refresh_token": "r2", "token_type": "Bearer"}


@pytest.fixture
def provider() -> Iterator[tuple[dict[str, str], list[Asked]]]:
    """The user's configuration, with the provider's authority, and the requests that the provider got."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with json_server(answer, context) as (port, seen):
        yield (
            {
                "idp-issuer-url": f"https://localhost:{port}",
                "client-id": "c",
                "client-secret": "s",
                "id-token": OLD,
                "refresh-token": "r",
                "idp-certificate-authority-data": base64.b64encode(authority.cert_pem.bytes()).decode(),
            },
            seen,
        )


@pytest.mark.slow
def test_expired_oidc_token_is_refreshed(
    provider: tuple[dict[str, str], list[Asked]],
) -> None:
    config, asked = provider
    assert credential_plugins.ask_oidc(config) == {"authorization": f"Bearer {NEW}"}
    assert [each.path for each in asked if each.method == "POST"] == ["/token"]


@pytest.mark.slow
def test_refresh_token_is_not_sent_to_an_untrusted_provider(
    provider: tuple[dict[str, str], list[Asked]],
) -> None:
    config, asked = provider
    del config["idp-certificate-authority-data"]
    with pytest.raises(KubeconfigError, match=r"its OIDC provider gave no token: .*CERTIFICATE_VERIFY_FAILED"):
        credential_plugins.ask_oidc(config)
    assert asked == []


# What an installation leaves out cannot be imported; of the models' package nothing but itself can.
WITHOUT = """
import sys
token, *left_out = sys.argv[1:]
class LeftOut:
    def find_spec(self, name, path=None, target=None):
        if name in left_out or name.startswith("kubernetes.client.models."):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, LeftOut())
from kleader.kube.credential_plugins import ask_oidc
print(ask_oidc({"id-token": token})["authorization"])
"""


@pytest.mark.slow
def test_an_oidc_token_needs_only_installed_packages() -> None:
    of_kubernetes = ["kubernetes." + each.replace("/", ".") for each in UNUSED_OF_KUBERNETES]
    left_out = [each.replace("-", "_") for each in UNUSED] + of_kubernetes
    left_out.remove("kubernetes.client.models")
    argv = [sys.executable, "-c", WITHOUT, NEW, *left_out]
    answer = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert answer.stdout.strip() == f"Bearer {NEW}", answer.stderr
