"""A token of an OIDC provider that has expired is replaced, by a provider whose certificate is verified."""

from __future__ import annotations

import base64
import json
import ssl
from typing import TYPE_CHECKING

import pytest
import trustme

from kleader.kube import credential_plugins
from kleader.kube.kubeconfig import KubeconfigError
from tests.support.json_server import Asked, json_server

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
