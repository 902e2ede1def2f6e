"""Where an API server is reached: address, TLS and proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kleader.kube.errors import SetUpError
from kleader.kube.proxy import Proxy, proxy_for
from kleader.kube.tls import server_context
from kleader.kube.urls import parse_url

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping


class Endpoint(NamedTuple):
    """An API server."""

    host: str
    port: int
    authority: str  # of the Host header
    prefix: str  # of every path
    tls: ssl.SSLContext | None
    server_name: str  # that the certificate must show
    proxy: Proxy | None


def endpoint_of(access: Mapping[str, Any]) -> Endpoint:
    """The API server of an access (kleader.kube.kubeconfig) without userinfo. SetUpError: it cannot be used."""
    parsed = parse_url(access["server"])
    if not parsed or parsed[0].scheme not in {"http", "https"}:
        raise SetUpError(f"invalid API server URL {access['server']!r}: write it as https://HOST:PORT")
    url, host, port = parsed
    return Endpoint(
        host,
        port,
        url.netloc,
        url.path.rstrip("/"),
        server_context(access) if url.scheme == "https" else None,
        access.get("server_name") or host,
        proxy_for(access, url.scheme, host, port),
    )
