"""The way to the API server: each address of its host, proxies and TLS, all within the request's time."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import ssl
import sys
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest
import trustme

from kleader.election.events import Kind
from kleader.kube.client import ApiClient
from kleader.kube.connection import Connection
from kleader.kube.credentials import Credentials
from kleader.kube.errors import LockError, SetUpError
from tests.support import addresses
from tests.support.addresses import Forward, resolve, serving, silent
from tests.support.api_client import credentials
from tests.support.port import LOOPBACK
from tests.support.processes import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

TLS_IN_TLS = tuple(sys.version_info) >= (3, 11)
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No cluster is configured, and no proxy."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (*PROXIES, *map(str.lower, PROXIES), "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


@asynccontextmanager
async def client_of(access: Credentials) -> AsyncIterator[ApiClient]:
    api = ApiClient(access)
    try:
        yield api
    finally:
        api.close()
        for _ in range(20):
            await asyncio.sleep(0)


def server(url: str) -> Credentials:
    return Credentials({"server": url}, lambda _: [], in_process=True)


async def get(access: Credentials, timeout: float = PATIENCE) -> object:
    async with client_of(access) as api:
        return await api.call("GET", "/x", None, timeout)


def tls_server(ca: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(*names).configure_cert(context)
    return context


def kubeconfig(tmp_path: Path, url: str, ca: trustme.CA | None = None, **cluster: object) -> Path:
    if ca:
        (tmp_path / "ca.crt").write_bytes(ca.cert_pem.bytes())
        cluster["certificate-authority"] = str(tmp_path / "ca.crt")
    whole = {
        "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": url, **cluster}}],
        "users": [{"name": "x", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    }
    (tmp_path / "config").write_text(json.dumps(whole))
    return tmp_path / "config"


# --- several addresses
def test_api_server_is_reached_at_a_later_address_if_the_first_are_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        async with serving(addresses.api) as alive:
            with silent() as first, silent() as second:
                resolve(monkeypatch, api=[first, second, alive])
                assert await get(server("http://api.test:80")) == {"of": "/x"}

    asyncio.run(play())


def test_proxy_is_reached_at_a_later_address_if_the_first_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        async with serving(addresses.api) as api, serving(Forward(api).connect) as alive:
            with silent() as first:
                resolve(monkeypatch, proxy=[first, alive])
                monkeypatch.setenv("HTTP_PROXY", "http://proxy.test:3128")
                assert await get(server("http://api.test:80")) == {"of": "/x"}

    asyncio.run(play())


@pytest.mark.parametrize("proxy", ["", "http://proxy.test:3128", "socks5://proxy.test:1080"])
def test_request_timeout_holds_if_every_address_is_silent(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    async def play() -> None:
        with silent() as first, silent() as second:
            resolve(monkeypatch, api=[first, second], proxy=[first, second])
            monkeypatch.setenv("HTTP_PROXY", proxy)
            with pytest.raises(LockError, match=r"did not answer within 700ms") as caught:
                await get(server("http://api.test:80"), 0.7)
            assert caught.value.failure.kind is Kind.UNREACHABLE

    asyncio.run(play())


def test_error_names_each_reason_once_if_no_address_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here one port that nobody listens at, by two addresses, and an address that is nowhere."""

    async def play() -> None:
        resolve(monkeypatch, api=[(LOOPBACK, 1), (addresses.SILENT, 1), ("255.255.255.255", 1)])
        with pytest.raises(LockError) as caught:
            await get(server("http://api.test:80"))
        reached = str(caught.value).partition("cannot reach the API server http://api.test:80: ")[2].partition(";")[0]
        first, *others = reached.split(", ")
        assert first == "Connection refused"
        assert others in (["Permission denied"], ["Network is unreachable"])

    asyncio.run(play())


def test_cancelled_connection_attempt_leaves_no_open_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """At whatever moment that is. Python complains of a socket that is left."""

    async def play() -> None:
        async with serving(addresses.api) as alive, serving(addresses.api) as other:
            resolve(monkeypatch, api=[alive, other])
            to = await server("http://api.test").refresh()
            for turns in range(30):
                opening = asyncio.ensure_future(Connection.open(to))
                for _ in range(turns):
                    await asyncio.sleep(0)
                opening.cancel()
                with suppress(asyncio.CancelledError):
                    (await opening).close()
            for _ in range(20):
                await asyncio.sleep(0)
        gc.collect()

    asyncio.run(play())


# --- proxies
def test_socks5_proxy_resolves_the_name_of_the_api_server(tmp_path: Path) -> None:
    async def play() -> None:
        ca = trustme.CA()
        async with serving(addresses.api, tls_server(ca, "api.test")) as api:
            forward = Forward(api)
            async with serving(forward.socks) as (host, port):
                config = kubeconfig(
                    tmp_path, "https://api.test:6443", ca, **{"proxy-url": f"socks5://me:s%2Fcret@{host}:{port}"}
                )
                assert await get(credentials(config)) == {"of": "/x"}
            assert forward.asked == [b"me:s/cret 3 api.test:6443"]

    asyncio.run(play())


def test_https_proxy_is_used_with_the_authority_of_the_cluster(tmp_path: Path) -> None:
    """Its certificate is of the system's authorities or of the cluster's. Before Python 3.11 one line tells why not."""

    async def play() -> None:
        ca = trustme.CA()
        async with serving(addresses.api, tls_server(ca, "api.test")) as api:
            forward = Forward(api)
            async with serving(forward.connect, tls_server(ca, LOOPBACK)) as (host, port):
                config = kubeconfig(
                    tmp_path, "https://api.test:6443", ca, **{"proxy-url": f"https://me:s3cret@{host}:{port}"}
                )
                if not TLS_IN_TLS:
                    with pytest.raises(LockError, match=rf"the proxy '{host}:{port}' .* needs Python 3\.11") as caught:
                        await get(credentials(config))
                    assert "s3cret" not in str(caught.value)
                    return
                assert await get(credentials(config)) == {"of": "/x"}
            (head,) = forward.asked
            assert head.startswith(b"CONNECT api.test:6443 HTTP/1.1\r\n")
            assert b"Proxy-Authorization: Basic bWU6czNjcmV0\r\n" in head

    asyncio.run(play())


ANSWERS = {
    "http": (b"HTTP/1.1 407 Who are you?\r\nContent-Length: 0\r\n\r\n", "answered 407"),
    "socks5": (b"\5\0\5\4\0\1", "answered: host unreachable"),
    "socks5h": (b"\5\xff", "wants another user and password"),
    "SOCKS5": (b"\5\2\1\1\5\5\0\1", "wants another user and password"),
}


@pytest.mark.parametrize("scheme", ANSWERS)
def test_error_names_a_refusing_proxy_and_its_reason_but_no_password(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    answer, reason = ANSWERS[scheme]

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        await reader.read()

    async def play() -> None:
        async with serving(refuse) as (host, port):
            monkeypatch.setenv("HTTP_PROXY", f"{scheme}://me:s3cret@{host}:{port}")
            with pytest.raises(LockError) as caught:
                await get(server("http://api.test"))
            assert f"the proxy {host}:{port} {reason}" in str(caught.value)
            assert "s3cret" not in str(caught.value)

    asyncio.run(play())


@pytest.mark.parametrize("answer", [b"", b"\5", b"\5\0", b"HTTP/1.1 200 OK\r\n"])
@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_request_fails_at_once_if_the_proxy_closes_the_connection(
    monkeypatch: pytest.MonkeyPatch, scheme: str, answer: bytes
) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    async def play() -> None:
        async with serving(hang_up) as (host, port):
            monkeypatch.setenv("HTTP_PROXY", f"{scheme}://{host}:{port}")
            with pytest.raises(LockError, match=r"cannot reach the API server http://api\.test through the proxy"):
                await get(server("http://api.test"))

    asyncio.run(play())


# Entries of NO_PROXY → what they exempt, and what they do not; golang.org/x/net/http/httpproxy, useProxy.
NO_PROXY: dict[str, tuple[list[str], list[str]]] = {
    "api.test": (["api.test", "api.test:1", "API.TEST", "a.api.test"], ["xapi.test", "test"]),
    "api.test:6443": (["api.test:6443", "a.api.test:6443"], ["api.test", "api.test:443"]),
    "api.test:443": (["api.test", "api.test:443"], ["api.test:6443"]),
    ".test": (["api.test", "a.b.test:1"], ["test"]),
    "*.test:1": (["api.test:1"], ["test:1", "api.test"]),
    "*est": ([], ["test", "api.test"]),
    " other , api.test:1 ,": (["other", "api.test:1"], ["api.test"]),
    "*": (["api.test:7", "10.0.0.1"], []),
    "10.0.0.1:6443": (["10.0.0.1:6443"], ["10.0.0.1", "10.0.0.2:6443"]),
    "10.0.0.0/8": (["10.1.2.3:6443"], ["11.0.0.1", "api.test"]),
    "[fd00::1]:6443": (["[fd00::1]:6443"], ["[fd00::1]", "[fd00::2]:6443"]),
    "fd00::1": (["[fd00::1]:6443"], ["[fd00::2]"]),
    "": (["localhost:1", "127.0.0.9", "[::1]:6443"], ["api.test"]),
    ":6443": ([], ["api.test:6443"]),
    "10.0.0.0/99": ([], ["10.0.0.0"]),
}


@pytest.mark.parametrize("entries", NO_PROXY)
def test_no_proxy_is_read_as_programs_in_go_read_it(monkeypatch: pytest.MonkeyPatch, entries: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy.test:3128")
    monkeypatch.setenv("NO_PROXY", entries)

    async def proxied(host: str) -> bool:
        return bool((await server(f"https://{host}").refresh()).proxy)

    exempt, proxied_hosts = NO_PROXY[entries]
    assert {host: asyncio.run(proxied(host)) for host in (*exempt, *proxied_hosts)} == {
        **dict.fromkeys(exempt, False),
        **dict.fromkeys(proxied_hosts, True),
    }


def test_error_names_an_invalid_proxy_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    for url in ("ftp://me:s3cret@proxy.test", "http://me:s3/cret@proxy.test", f"socks5://me:s3cret{'x' * 255}@h"):
        monkeypatch.setenv("HTTPS_PROXY", url)
        with pytest.raises(SetUpError, match=r"the proxy '.*' cannot be used: write it as http://HOST:PORT") as caught:
            asyncio.run(server("https://api.test").refresh())
        assert "s3" not in str(caught.value)


# --- TLS
def test_intermediate_certificate_authority_is_trusted(tmp_path: Path) -> None:
    """As client-go trusts it; OpenSSL by itself asks for the root."""

    async def play() -> None:
        intermediate = trustme.CA().create_child_ca()
        async with serving(addresses.api, tls_server(intermediate, LOOPBACK)) as (host, port):
            config = kubeconfig(tmp_path, f"https://{host}:{port}", intermediate)
            assert await get(credentials(config)) == {"of": "/x"}

    asyncio.run(play())


def test_certificate_of_another_authority_is_not_trusted(tmp_path: Path) -> None:
    """Nor one that the trusted intermediate authority's own root has made."""

    async def play() -> None:
        root = trustme.CA()
        async with serving(addresses.api, tls_server(root.create_child_ca(), LOOPBACK)) as (host, port):
            config = kubeconfig(tmp_path, f"https://{host}:{port}", root.create_child_ca())
            with pytest.raises(LockError, match=r"certificate of the API server .* is not accepted"):
                await get(credentials(config))

    asyncio.run(play())


# --- a password in the address
@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:s3cret@127.0.0.1:1/k8s", "the API server https://127.0.0.1:1/k8s"),
        ("me:s3cret@127.0.0.1:1", "the API server https://127.0.0.1:1"),
        ("https://me:s3/cret@127.0.0.1:1", "invalid API server URL '127.0.0.1:1'"),
        ("ftp://me:s3cret@127.0.0.1:1", "invalid API server URL 'ftp://127.0.0.1:1'"),
        ("https://me:s3cret@:1", "invalid API server URL 'https://:1'"),
    ],
)
def test_password_in_the_api_server_url_is_in_no_message(url: str, shown: str) -> None:
    access = server(url)
    with pytest.raises(LockError, match=re.escape(shown)) as caught:
        asyncio.run(get(access))
    assert not [said for said in (str(caught.value), *access.server) if "s3" in said]


def test_user_agent_has_the_form_of_client_go_s() -> None:
    (agent,) = [value for name, value in server("https://api.test").headers() if name == "User-Agent"]
    assert re.fullmatch(r"kleader/[0-9][0-9.]* \((linux|darwin)/[a-z0-9]+\) leader-election", agent)


# --- what the API server warns of
WARNINGS = [
    ['299 - "v1 Endpoints is deprecated in v1.33+"'],
    [r'299 - "v1 Endpoints is deprecated in v1.33+" "Tue, 10 Nov 2026 10:00:00 GMT", 299 - "a \"b\""', '299 x "two"'],
    ['199 - "not for people"', '299 - ""', "299 nothing", '299 - "no end', "299 - unquoted"],
    [f'299 - "{"x" * 400}"', '299 - "\N{LATIN SMALL LETTER E WITH ACUTE}"'],
    [f'299 - "number {number}"' for number in range(30)],
]


def test_api_server_warnings_are_logged_once_each_and_at_most_twenty() -> None:
    """Also of a watch; of Warning headers code 299 alone is for people."""
    said: list[str] = []
    left = iter(WARNINGS)

    async def warn(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            head = "".join(f"Warning: {each}\r\n" for each in next(left, WARNINGS[0]))
            writer.write(f"HTTP/1.1 200 OK\r\n{head}Content-Length: 2\r\n\r\n{{}}".encode())
            await writer.drain()

    async def play() -> None:
        async with serving(warn) as (host, port):
            access = Credentials({"server": f"http://{host}:{port}"}, lambda _: [], said.append, in_process=True)
            async with client_of(access) as api:
                async with aclosing(api.watch("/x?watch=1", PATIENCE)) as events:
                    assert [event async for event in events] == [("BOOKMARK", {})]
                assert said == ["the API server warns: v1 Endpoints is deprecated in v1.33+"]
                for _ in range(6):
                    await api.call("GET", "/x", None, PATIENCE)

    asyncio.run(play())
    assert said[1:5] == [f"the API server warns: {text}" for text in ('a "b"', "two", "x" * 300, "é")]
    assert [text.rpartition(" ")[2] for text in said[5:]] == [str(number) for number in range(15)]
