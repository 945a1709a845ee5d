"""Clients that are slow on purpose, or send without end: a connection of theirs is given up, and nobody else waits."""

import asyncio
import importlib.util
import socket
import sys
import threading
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import pytest
import uvicorn

from tests.worker.fixtures import eventually
from tickwork.http import connection

PATIENCE_S = 0.3
OK = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers at once, whatever else is sent."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def without_httptools(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module as it is where httptools is not installed."""
    monkeypatch.setitem(sys.modules, "uvicorn.protocols.http.httptools_impl", None)
    spec = importlib.util.spec_from_file_location("connection_by_h11", connection.__file__)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture(params=["as installed", "h11"])
def address(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    module = connection if request.param == "as installed" else without_httptools(monkeypatch)
    monkeypatch.setattr(module, "HEAD_WAIT_S", PATIENCE_S)
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(echo, http=module.BoundedProtocol, ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
    thread.start()
    eventually(lambda: server.started)
    yield listening.getsockname()
    server.should_exit = True
    thread.join(10)
    assert not thread.is_alive()


@pytest.fixture
def client(address: tuple[str, int]) -> Iterator[socket.socket]:
    with socket.create_connection(address, timeout=20) as client:
        yield client


def rest_of(client: socket.socket) -> bytes:
    """What comes until the server closes the connection."""
    data = b""
    try:
        while more := client.recv(65536):
            data += more
    except ConnectionResetError:
        pass
    return data


def answers(client: socket.socket, count: int = 1) -> None:
    """Wait for so many answers, whole."""
    data = b""
    while data.count(b"\r\n\r\nok") < count:
        more = client.recv(65536)
        assert more, f"closed after {data!r}"
        data += more
    assert data.count(b"HTTP/1.1 200") == count


@pytest.mark.parametrize("sent", [b"", b"GET", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_a_head_that_does_not_arrive_is_given_up(client: socket.socket, sent: bytes) -> None:
    client.sendall(sent)
    assert rest_of(client) == b""


def sent_until_closed(client: socket.socket, pieces: Iterable[bytes], pause_s: float = 0.0) -> int:
    """Send piece after piece; return how many the server took before it closed the connection, or all."""
    count = 0
    client.settimeout(pause_s or 20)
    for piece in pieces:
        try:
            client.sendall(piece)
            if pause_s and not client.recv(1):
                return count
        except TimeoutError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            return count
        count += 1
    return count


def test_one_byte_now_and_then_keeps_no_connection(client: socket.socket) -> None:
    client.sendall(OK)
    answers(client)
    assert 1 <= sent_until_closed(client, [b"G"] + [b"E"] * 1000, pause_s=0.05) < 1000  # far longer than it waits


def test_a_head_that_is_too_large_is_refused_while_it_comes(client: socket.socket) -> None:
    client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
    assert sent_until_closed(client, (b"X-%d: %s\r\n" % (n, b"y" * 1000) for n in range(20_000))) < 20_000


def test_what_comes_after_an_answer_that_did_not_wait_for_it_is_not_read_without_end(client: socket.socket) -> None:
    client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert sent_until_closed(client, [b"8000\r\n" + b"x" * 0x8000 + b"\r\n"] * 2000) < 2000


def test_requests_on_one_connection_are_answered_one_after_another(client: socket.socket) -> None:
    for _ in range(3):
        client.sendall(OK[:10])
        client.sendall(OK[10:])
        answers(client)
    large = b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: %s\r\n\r\n" % (b"y" * 30_000)
    for _ in range(4):  # each is well below the limit, all of them are not
        client.sendall(large)
        answers(client)
    client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello" + OK)
    answers(client, 2)
