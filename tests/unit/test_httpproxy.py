"""The proxy that sees requests does to each what its rules say, and nothing to the others."""

from __future__ import annotations

import asyncio
import http.client
import http.server
import json
import socket
import ssl
import threading
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest
import trustme

from tests.support import faults
from tests.support.httpproxy import HttpProxy
from tests.support.port import LOOPBACK
from tests.support.processes import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow


class Upstream:
    """An HTTPS server that counts PUTs; GET /watch answers two lines, the second once `tick` is set."""

    def __init__(self, directory: Path) -> None:
        self.ca = trustme.CA()
        self.ca_file = directory / "ca.crt"
        self.ca.cert_pem.write_to_path(self.ca_file)
        self.puts: list[bytes] = []
        self.tick = threading.Event()
        self.gone = threading.Event()
        upstream = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self) -> None:
                upstream.puts.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.answer({"put": len(upstream.puts)})

            def do_GET(self) -> None:
                if self.path != "/watch":
                    self.answer({"path": self.path, "token": self.headers["Authorization"]})
                    return
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                try:
                    while True:
                        self.wfile.write(b"3\r\nhi\n\r\n")
                        upstream.tick.wait(20)
                except OSError:
                    upstream.gone.set()

            def answer(self, value: object) -> None:
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self.port: int = self.server.server_address[1]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(LOOPBACK).configure_cert(context)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self.tick.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[Upstream]:
    server = Upstream(tmp_path)
    yield server
    server.close()


@pytest.fixture
def seeing(upstream: Upstream) -> Iterator[HttpProxy]:
    with HttpProxy(upstream) as started:
        yield started


@pytest.fixture
def client(seeing: HttpProxy, upstream: Upstream) -> Iterator[http.client.HTTPSConnection]:
    context = ssl.create_default_context(cafile=str(upstream.ca_file))
    connection = http.client.HTTPSConnection(LOOPBACK, seeing.port, timeout=PATIENCE, context=context)
    yield connection
    connection.close()


def put(client: http.client.HTTPSConnection, body: bytes = b"{}") -> http.client.HTTPResponse:
    client.request("PUT", "/leases/x", body, {"Content-Type": "application/json"})
    return client.getresponse()


def test_requests_pass_with_their_headers_on_one_connection(
    seeing: HttpProxy, client: http.client.HTTPSConnection
) -> None:
    for number in range(3):
        client.request("GET", f"/leases/{number}?q=1", headers={"Authorization": "Bearer t"})
        assert json.loads(client.getresponse().read()) == {"path": f"/leases/{number}?q=1", "token": "Bearer t"}
    request = seeing.wait_request("GET", r"/leases/1\?")
    assert request.headers["authorization"] == "Bearer t"
    assert len(seeing.requests) == 3


def test_the_answer_of_the_second_put_is_lost_after_it_happened(
    seeing: HttpProxy, client: http.client.HTTPSConnection, upstream: Upstream
) -> None:
    rule = seeing.on(faults.lose("reset"), method="PUT", path="/leases/x", skip=1)
    assert json.loads(put(client).read()) == {"put": 1}
    with pytest.raises(ConnectionResetError):
        put(client, b'{"second": true}')
    assert rule.hits == 1
    assert rule.wait().json() == {"second": True}
    assert upstream.puts == [b"{}", b'{"second": true}']
    client.close()
    assert json.loads(put(client).read()) == {"put": 3}


def test_a_lost_answer_may_leave_the_connection_silent(
    seeing: HttpProxy, client: http.client.HTTPSConnection, upstream: Upstream
) -> None:
    seeing.on(faults.lose(), method="PUT")
    client.connect()
    client.sock.settimeout(0.2)
    with pytest.raises(TimeoutError):
        put(client)
    wait_until(lambda: upstream.puts == [b"{}"], "the server has it")


def test_only_an_answered_request_has_certainly_happened(
    seeing: HttpProxy, client: http.client.HTTPSConnection, upstream: Upstream
) -> None:
    kept, lost = seeing.on(faults.hold(), method="PUT"), seeing.on(faults.lose("reset"), method="PUT")
    client.request("PUT", "/leases/x", b"{}")
    kept.wait()
    assert (upstream.puts, kept.answered) == ([], 0)
    kept.release()
    client.getresponse().read()
    client.request("PUT", "/leases/x", b'{"second": true}')
    assert lost.wait_answered().json() == {"second": True}
    assert upstream.puts == [b"{}", b'{"second": true}']


def test_an_answer_is_given_in_the_server_s_place(
    seeing: HttpProxy, client: http.client.HTTPSConnection, upstream: Upstream
) -> None:
    seeing.on(faults.answer(429, {"kind": "Status"}, {"Retry-After": "3"}), method="PUT")
    seeing.on(faults.answer(302, headers={"Location": "https://elsewhere/"}), method="PUT")
    seeing.on(faults.answer(200, b"<html>", {"Content-Type": "text/html"}), method="PUT")
    seeing.on(faults.answer(200, b"x" * 10_000_000), method="PUT")
    limited = put(client)
    assert (limited.status, limited.headers["Retry-After"], json.loads(limited.read())) == (
        429,
        "3",
        {"kind": "Status"},
    )
    moved = put(client)
    assert (moved.status, moved.headers["Location"], moved.read()) == (302, "https://elsewhere/", b"")
    page = put(client)
    assert (page.headers["Content-Type"], page.read()) == ("text/html", b"<html>")
    assert len(put(client).read()) == 10_000_000
    assert upstream.puts == []
    assert json.loads(put(client).read()) == {"put": 1}


def test_garbage_is_sent_as_it_is(seeing: HttpProxy, client: http.client.HTTPSConnection) -> None:
    seeing.on(faults.raw(b"\x00\xffgarbage\r\n"))
    with pytest.raises(http.client.BadStatusLine):
        put(client)


def test_an_answer_is_cut(seeing: HttpProxy, client: http.client.HTTPSConnection, upstream: Upstream) -> None:
    seeing.on(faults.cut(4))
    with pytest.raises(http.client.IncompleteRead) as error:
        put(client).read()
    assert error.value.partial == b'{"pu'
    assert upstream.puts == [b"{}"]


def test_a_request_is_held_until_released(
    seeing: HttpProxy, client: http.client.HTTPSConnection, upstream: Upstream
) -> None:
    rule = seeing.on(faults.hold(), method="PUT")
    client.request("PUT", "/leases/x", b"{}")
    rule.wait()
    assert upstream.puts == []
    rule.release()
    assert json.loads(client.getresponse().read()) == {"put": 1}


def test_an_answer_is_held_until_released(
    seeing: HttpProxy, client: http.client.HTTPSConnection, upstream: Upstream
) -> None:
    rule = seeing.on(faults.hold_answer(), method="PUT")
    client.request("PUT", "/leases/x", b"{}")
    rule.wait()
    wait_until(lambda: upstream.puts, "the server has it")
    rule.release()
    assert json.loads(client.getresponse().read()) == {"put": 1}


def test_slow_waits_before_and_after(seeing: HttpProxy, client: http.client.HTTPSConnection) -> None:
    seeing.on(faults.slow(0.05, 0.05))
    begin = time.monotonic()
    assert json.loads(put(client).read()) == {"put": 1}
    assert time.monotonic() - begin >= 0.1


def test_a_connection_is_said_to_close_and_closed(seeing: HttpProxy, client: http.client.HTTPSConnection) -> None:
    seeing.on(faults.closing())
    answer = put(client)
    assert answer.headers["Connection"] == "close"
    assert answer.read() == b'{"put": 1}'
    assert json.loads(put(client).read()) == {"put": 2}


def test_a_call_sees_the_request_before_the_server_does(
    seeing: HttpProxy, client: http.client.HTTPSConnection, upstream: Upstream
) -> None:
    seen: list[int] = []
    seeing.on(faults.call(lambda _: seen.append(len(upstream.puts))), times=None)
    put(client).read()
    put(client).read()
    assert seen == [0, 1]


def test_an_exception_in_a_call_fails_the_test(upstream: Upstream) -> None:
    def wrong(_: object) -> None:
        raise AssertionError("alive")

    context = ssl.create_default_context(cafile=str(upstream.ca_file))
    seeing = HttpProxy(upstream).start()
    seeing.on(faults.call(wrong))
    client = http.client.HTTPSConnection(LOOPBACK, seeing.port, timeout=PATIENCE, context=context)
    with pytest.raises(ConnectionResetError):
        put(client)
    client.close()
    with pytest.raises(AssertionError, match="alive"):
        seeing.stop()


def test_rules_can_look_into_the_request_and_be_removed(
    seeing: HttpProxy, client: http.client.HTTPSConnection, upstream: Upstream
) -> None:
    rule = seeing.on(faults.answer(500), times=None, where=lambda request: request.json().get("holder") == "")
    assert put(client, b'{"holder": "a"}').read()
    assert put(client, b'{"holder": ""}').status == 500
    client.close()
    rule.remove()
    assert put(client, b'{"holder": ""}').status == 200
    assert len(upstream.puts) == 2


def test_a_stream_passes_as_it_comes_and_its_end_reaches_the_server(
    seeing: HttpProxy, client: http.client.HTTPSConnection, upstream: Upstream
) -> None:
    client.request("GET", "/watch")
    answer = client.getresponse()
    assert answer.readline() == b"hi\n"
    upstream.tick.set()
    assert answer.readline() == b"hi\n"
    answer.close()
    client.close()
    assert upstream.gone.wait(20)


def test_a_connection_that_comes_while_it_stops_is_ended_too(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Else asyncio would complain of its handshake in some later test."""
    seeing = HttpProxy(upstream).start()
    shut = seeing.shut
    with socket.socket() as late:

        async def connect_first() -> None:
            late.connect((LOOPBACK, seeing.port))
            for _ in range(5):  # turns of the loop
                await asyncio.sleep(0)
            await shut()

        monkeypatch.setattr(seeing, "shut", connect_first)
        seeing.stop()
    assert caplog.text == ""


def test_an_expired_certificate_is_shown(upstream: Upstream) -> None:
    expired = upstream.ca.issue_cert(LOOPBACK, not_after=datetime(2020, 1, 1, tzinfo=timezone.utc))
    context = ssl.create_default_context(cafile=str(upstream.ca_file))
    with HttpProxy(upstream, certificate=expired) as seeing:
        client = http.client.HTTPSConnection(LOOPBACK, seeing.port, timeout=PATIENCE, context=context)
        with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
            client.request("GET", "/")
        client.close()
