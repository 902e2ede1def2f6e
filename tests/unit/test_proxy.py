"""The proxies do to a connection what they say, and nothing else."""

from __future__ import annotations

import contextlib
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
from tests.support.port import LOOPBACK, Port
from tests.support.processes import wait_until
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.proxy import Mode


class Echo:
    """A TCP server that sends back what it gets, and keeps it."""

    def __init__(self) -> None:
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        self.got = b""
        self.ended = threading.Event()  # a client's FIN has arrived
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        for connection in self._connections:
            connection.close()

    def _accept(self) -> None:
        try:
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                threading.Thread(target=self._echo, args=[connection], daemon=True).start()
        except OSError:
            pass

    def _echo(self, connection: socket.socket) -> None:
        try:
            while data := connection.recv(65536):
                self.got += data
                connection.sendall(data)
            self.ended.set()
        except OSError:
            pass
        finally:
            connection.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Proxy(LOOPBACK, echo.port) as started:
        yield started


def connect(port: int, timeout: float = 20) -> socket.socket:
    return socket.create_connection((LOOPBACK, port), timeout=timeout)


def ask(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    got = b""
    while len(got) < len(data):
        part = connection.recv(65536)
        assert part, f"closed after {got!r}"
        got += part
    return got


def is_silent(connection: socket.socket) -> bool:
    connection.settimeout(0.1)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    else:
        return False
    finally:
        connection.settimeout(20)


def test_bytes_pass_both_ways_in_any_number(proxy: Proxy) -> None:
    data = bytes(range(256)) * 20_000
    with connect(proxy.port) as one, connect(proxy.port) as two:
        sender = threading.Thread(target=one.sendall, args=[data])
        sender.start()
        got = b""
        while len(got) < len(data):
            got += one.recv(65536)
        sender.join()
        assert got == data
        assert ask(two, b"two") == b"two"
        proxy.wait_connections(2)


def test_a_fin_passes(proxy: Proxy) -> None:
    with connect(proxy.port) as one:
        assert ask(one, b"x") == b"x"
        one.shutdown(socket.SHUT_WR)
        assert one.recv(1) == b""


def test_silence_holds_old_and_new_connections_open_and_loses_nothing(proxy: Proxy, echo: Echo) -> None:
    with connect(proxy.port) as old:
        assert ask(old, b"before") == b"before"
        proxy.switch("silent")
        with connect(proxy.port) as new:
            old.sendall(b"old")
            new.sendall(b"new")
            assert is_silent(old)
            assert is_silent(new)
            assert echo.got == b"before"
            proxy.switch("pass")
            assert old.recv(3) == b"old"
            assert new.recv(3) == b"new"


def test_silence_holds_a_fin_back(proxy: Proxy, echo: Echo) -> None:
    with connect(proxy.port) as one:
        ask(one, b"x")
        proxy.switch("silent")
        one.shutdown(socket.SHUT_WR)
        assert not echo.ended.wait(0.1)
        proxy.switch("pass")
        assert echo.ended.wait(20)


@pytest.mark.parametrize("mode", ["reset", "refuse"])
def test_what_there_is_gets_an_rst(proxy: Proxy, mode: Mode) -> None:
    with connect(proxy.port) as old:
        ask(old, b"x")
        proxy.switch(mode)
        with pytest.raises(ConnectionResetError):
            old.recv(1)


def test_a_new_connection_is_reset(proxy: Proxy) -> None:
    proxy.switch("reset")
    with pytest.raises(ConnectionResetError), connect(proxy.port) as new:  # at connect, or at the first read
        new.recv(1)
    proxy.switch("pass")
    with connect(proxy.port) as new:
        assert ask(new, b"x") == b"x"


def test_a_new_connection_is_refused(proxy: Proxy) -> None:
    proxy.switch("refuse")
    with pytest.raises(ConnectionRefusedError):
        connect(proxy.port)
    proxy.switch("pass")
    with connect(proxy.port) as new:
        assert ask(new, b"x") == b"x"


def test_connections_can_be_reset_once(proxy: Proxy) -> None:
    with connect(proxy.port) as old:
        ask(old, b"x")
        proxy.reset_connections()
        with pytest.raises(ConnectionResetError):
            old.recv(1)
    with connect(proxy.port) as new:
        assert ask(new, b"x") == b"x"


def test_a_delay_holds_each_way(proxy: Proxy) -> None:
    proxy.switch("delay", 0.05)
    with connect(proxy.port) as one:
        begin = time.monotonic()
        assert ask(one, b"x") == b"x"
        assert time.monotonic() - begin >= 0.1


def test_answers_trickle_a_byte_at_a_time(proxy: Proxy) -> None:
    proxy.switch("trickle", 0.02)
    with connect(proxy.port) as one:
        begin = time.monotonic()
        assert ask(one, b"0123456789") == b"0123456789"
        assert time.monotonic() - begin >= 9 * 0.02
        one.sendall(b"rest")
        proxy.switch("trickle", 3600)
        one.recv(1)
        proxy.switch("pass")
        assert one.recv(3) == b"est"


def test_dropped_answers_were_asked_for_and_are_lost_for_good(proxy: Proxy, echo: Echo) -> None:
    with connect(proxy.port) as one:
        assert ask(one, b"seen") == b"seen"
        proxy.switch("drop-answers")
        one.sendall(b"lost")
        assert is_silent(one)
        assert echo.got == b"seenlost"
        proxy.switch("pass")
        with pytest.raises(ConnectionResetError):
            one.recv(1)


def test_a_server_that_is_gone_resets_the_client(echo: Echo) -> None:
    with (
        contextlib.closing(Port()) as gone,
        Proxy(LOOPBACK, gone.number) as proxy,
        pytest.raises(ConnectionResetError),  # at connect, or at the first read
        connect(proxy.port) as one,
    ):
        one.recv(1)


# --- the proxy that sees requests
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
    connection = http.client.HTTPSConnection(LOOPBACK, seeing.port, timeout=20, context=context)
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
    client.timeout = 0.2
    with pytest.raises(TimeoutError):
        put(client)
    assert upstream.puts == [b"{}"]


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


def test_what_a_call_raises_fails_the_test(upstream: Upstream) -> None:
    def wrong(_: object) -> None:
        raise AssertionError("alive")

    context = ssl.create_default_context(cafile=str(upstream.ca_file))
    seeing = HttpProxy(upstream).start()
    seeing.on(faults.call(wrong))
    client = http.client.HTTPSConnection(LOOPBACK, seeing.port, timeout=20, context=context)
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


def test_an_expired_certificate_is_shown(upstream: Upstream) -> None:
    expired = upstream.ca.issue_cert(LOOPBACK, not_after=datetime(2020, 1, 1, tzinfo=timezone.utc))
    context = ssl.create_default_context(cafile=str(upstream.ca_file))
    with HttpProxy(upstream, certificate=expired) as seeing:
        client = http.client.HTTPSConnection(LOOPBACK, seeing.port, timeout=20, context=context)
        with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
            client.request("GET", "/")
        client.close()
