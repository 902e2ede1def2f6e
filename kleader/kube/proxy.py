"""The proxy to an API server: which one, and how it opens a connection.

Proxies are HTTP's CONNECT (RFC 9110), with or without TLS, and SOCKS version 5 (RFC 1928, RFC 1929).
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
import sys
import urllib.parse
from typing import TYPE_CHECKING, Any, NamedTuple

import h11

from kleader.kube.dial import dial
from kleader.kube.errors import SetUpError
from kleader.kube.tls import verifying
from kleader.kube.urls import host_port, parse_url

if TYPE_CHECKING:
    from collections.abc import Mapping

_TLS_IN_TLS = tuple(sys.version_info) >= (3, 11)  # asyncio's
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_MAX_SECRET_BYTES = 255  # of a user or a password (RFC 1929)
_SOCKS, _NO_PASSWORD, _PASSWORD = 5, 0, 2
_SOCKS_ERRORS = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
}
_SOCKS_ADDRESS_BYTES = {1: 4, 4: 16}  # by type: IPv4, IPv6
_WRONG_PASSWORD = "wants another user and password"  # noqa: S105 - a sentence


class Proxy(NamedTuple):
    """A proxy; user and password are empty for none."""

    scheme: str  # http, https, socks5 or socks5h
    host: str
    port: int
    tls: ssl.SSLContext | None
    user: bytes
    password: bytes

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return host_port(self.host, self.port)

    def refused(self, reason: str) -> ConnectionError:
        """The error for a proxy that opens no connection."""
        return ConnectionError(f"the proxy {self.address} {reason}")


# --- which proxy


def proxy_for(access: Mapping[str, Any], scheme: str, host: str, port: int) -> Proxy | None:
    """The proxy to an API server: the cluster's proxy-url, else HTTPS_PROXY and NO_PROXY as Go reads them.

    SetUpError: the proxy cannot be used. urllib.request would cost a waiting candidate 3 MB.
    """
    text = access.get("proxy")
    if not text and not _is_exempt(host, port):
        text = os.environ.get(f"{scheme}_proxy".upper()) or os.environ.get(f"{scheme}_proxy")
    if not text:
        return None
    unusable = f"the proxy {text.rpartition('@')[2]!r} cannot be used:"
    invalid = SetUpError(f"{unusable} write it as http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT")
    parsed = parse_url(text if "//" in text else f"http://{text}")
    if not parsed:
        raise invalid
    parts, proxy_host, proxy_port = parsed
    user, password = (urllib.parse.unquote_to_bytes(part or "") for part in (parts.username, parts.password))
    if max(len(user), len(password)) > _MAX_SECRET_BYTES:
        raise invalid
    tls = None
    if parts.scheme == "https":
        if not _TLS_IN_TLS:
            raise SetUpError(f"{unusable} TLS to a proxy needs Python 3.11; write it as http://HOST:PORT")
        tls = verifying(access, ssl.create_default_context())
        if access.get("ca"):
            tls.load_verify_locations(cadata=access["ca"])  # client-go uses the cluster's authority for a proxy too
    return Proxy(parts.scheme, proxy_host, proxy_port, tls, user, password)


def _is_exempt(host: str, port: int) -> bool:
    """Whether NO_PROXY exempts HOST:PORT, as golang.org/x/net/http/httpproxy reads it; loopback is always exempt."""
    host = host.lower()
    address = _address(host)
    if host == "localhost" or (address and address.is_loopback):
        return True
    entries = (os.environ.get("NO_PROXY") or os.environ.get("no_proxy", "")).lower().split(",")
    return any(_exempts(entry.strip(), host, port, address) for entry in entries)


def _exempts(entry: str, host: str, port: int, address: _Address | None) -> bool:
    """Whether this entry does: ``*``, a network, or an address, a NAME or a .DOMAIN, each with or without a port.

    A NAME also exempts its subdomains; a .DOMAIN or *.DOMAIN exempts only subdomains.
    """
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, colon, number = entry.rpartition(":")
    if not colon or (":" in name and not name.endswith("]")):  # the colons of an IPv6 address
        name, number = entry, ""
    name = name.strip("[]").removeprefix("*" if name.startswith("*.") else "")
    if not name or number not in {"", str(port)}:
        return False
    if exempt := _address(name):
        return address == exempt
    return entry == "*" or host == name or host.endswith(name if name[0] == "." else f".{name}")


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


# --- how it opens a connection


async def open_tunnel(proxy: Proxy, host: str, port: int) -> asyncio.Transport:
    """A transport that the proxy has connected to host and port. OSError or h11's errors; the caller bounds the time.

    The peer must not speak first, as no server of HTTP or TLS does.
    """
    reader = asyncio.StreamReader()
    transport, _ = await dial(
        lambda: asyncio.StreamReaderProtocol(reader), proxy.host, proxy.port, proxy.tls, proxy.host
    )
    handshake = _socks if proxy.scheme.startswith("socks") else _connect
    try:
        await handshake(proxy, reader, transport, host, port)
    except BaseException as error:
        transport.abort()
        if isinstance(error, asyncio.IncompleteReadError):
            raise ConnectionError("the proxy closed the connection") from None
        raise
    return transport


async def _connect(
    proxy: Proxy, reader: asyncio.StreamReader, transport: asyncio.Transport, host: str, port: int
) -> None:
    target = host_port(host, port)
    headers = [("Host", target)]
    if proxy.user:
        import base64  # noqa: PLC0415

        pair = base64.b64encode(proxy.user + b":" + proxy.password).decode()
        headers.append(("Proxy-Authorization", f"Basic {pair}"))
    http = h11.Connection(h11.CLIENT)
    request = http.send(h11.Request(method="CONNECT", target=target, headers=headers)) or b""
    transport.write(request + (http.send(h11.EndOfMessage()) or b""))
    while not isinstance(event := http.next_event(), h11.Response):
        if event is h11.NEED_DATA:
            http.receive_data(await reader.readexactly(1))  # no byte of what follows the answer
    if not 200 <= event.status_code < 300:  # noqa: PLR2004
        raise proxy.refused(f"answered {event.status_code}")


async def _socks(
    proxy: Proxy, reader: asyncio.StreamReader, transport: asyncio.Transport, host: str, port: int
) -> None:
    methods = bytes([_NO_PASSWORD, _PASSWORD] if proxy.user else [_NO_PASSWORD])
    transport.write(bytes([_SOCKS, len(methods)]) + methods)
    version, method = await reader.readexactly(2)
    if version != _SOCKS or method not in methods:
        raise proxy.refused("does not speak SOCKS 5" if version != _SOCKS else _WRONG_PASSWORD)
    if method == _PASSWORD:
        transport.write(b"\1" + b"".join(bytes([len(part)]) + part for part in (proxy.user, proxy.password)))
        if (await reader.readexactly(2))[1]:
            raise proxy.refused(_WRONG_PASSWORD)
    transport.write(bytes([_SOCKS, 1, 0]) + _socks_address(host) + port.to_bytes(2, "big"))
    _, status, _, kind = await reader.readexactly(4)
    if status:
        raise proxy.refused(f"answered: {_SOCKS_ERRORS.get(status, status)}")
    await reader.readexactly((_SOCKS_ADDRESS_BYTES.get(kind) or (await reader.readexactly(1))[0]) + 2)


def _socks_address(host: str) -> bytes:
    """The host, by type; the proxy resolves a name."""
    for kind, family in ((1, socket.AF_INET), (4, socket.AF_INET6)):
        try:
            return bytes([kind]) + socket.inet_pton(family, host)
        except OSError:
            continue
    name = host.encode("idna")
    return bytes([3, len(name)]) + name
