"""The TCP proxy does to a connection what its mode says, and nothing else."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.port import LOOPBACK, Port
from tests.support.processes import wait_until
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.proxy import Mode

pytestmark = pytest.mark.slow


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


def test_silence_holds_connections_open_and_loses_no_bytes(proxy: Proxy, echo: Echo) -> None:
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
def test_a_reset_ends_open_connections(proxy: Proxy, mode: Mode) -> None:
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
        wait_until(lambda: echo.got == b"seenlost", "the server has it")
        assert is_silent(one)
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
