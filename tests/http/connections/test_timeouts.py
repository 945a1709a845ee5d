"""Clients that are slow on purpose, send without end or connect too often: their connections are given up."""

import asyncio
import importlib.util
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from types import ModuleType
from typing import Any

import pytest
import uvicorn

from tests.waiting import eventually
from tickwork.http.connections import timeouts
from tickwork.http.connections.acceptor import BoundedServer
from tickwork.http.connections.connection_limits import ConnectionLimits, Connections
from tickwork.http.connections.timeouts import PIPELINE_LIMIT

PATIENCE_S = 0.3
CAP = 3
LARGE = 32 * 1024 * 1024
OK = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def serve(scope: Any, receive: Any, send: Any) -> None:
    """Answers at once, whatever else is sent; at /large and /chunked with much; at /wait when the client is gone."""
    if scope["path"] == "/wait":
        while (await receive())["type"] != "http.disconnect":
            pass
        return
    body = b"x" * LARGE if scope["path"] in ("/large", "/chunked") else b"ok"
    length = str(len(body)).encode()
    headers = [] if scope["path"] == "/chunked" else [(b"content-length", length)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def without_httptools(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module as it is where httptools is not installed."""
    monkeypatch.setitem(sys.modules, "uvicorn.protocols.http.httptools_impl", None)
    spec = importlib.util.spec_from_file_location("connection_by_h11", timeouts.__file__)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture(params=["as installed", "h11"])
def address(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    module = timeouts if request.param == "as installed" else without_httptools(monkeypatch)
    monkeypatch.setattr(module, "HEAD_WAIT_S", PATIENCE_S)
    monkeypatch.setattr(module, "TAKE_WAIT_S", PATIENCE_S)
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        module.in_pieces(serve),
        http=module.BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        timeout_graceful_shutdown=1,  # with h11, an end is not heard of while requests wait that were sent ahead
    )
    server = BoundedServer(config, Connections(ConnectionLimits(CAP, CAP)))
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
    """Return the bytes that arrive until the server closes the connection."""
    data = bytearray()
    try:
        while more := client.recv(65536):
            data += more
    except ConnectionResetError:
        pass
    return bytes(data)


def answers(client: socket.socket, count: int = 1) -> None:
    """Wait for that many complete responses."""
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


def test_a_client_that_does_not_take_its_answer_is_given_up(client: socket.socket) -> None:
    client.sendall(OK.replace(b"/", b"/large", 1))
    assert len(client.recv(10)) == 10
    time.sleep(PATIENCE_S * 4)
    assert len(rest_of(client)) < LARGE


@pytest.mark.parametrize("path", [b"/large", b"/chunked"])
def test_an_answer_in_pieces_arrives_whole(client: socket.socket, path: bytes) -> None:
    client.sendall(OK.replace(b"/", path, 1).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert rest_of(client).count(b"x") == LARGE


@pytest.mark.parametrize("times", [1, 200])
def test_many_headers_are_refused(client: socket.socket, times: int) -> None:
    with suppress(OSError):  # it is refused before all of them were read
        client.sendall(OK[:-2] + b"a:b\r\n" * (12_000 // times))
        client.sendall(b"\r\n")
    assert rest_of(client).startswith(b"HTTP/1.1 200") is (times != 1)


def test_requests_that_are_sent_ahead_are_bounded(address: tuple[str, int]) -> None:
    with socket.create_connection(address, timeout=20) as client:
        client.sendall(OK * PIPELINE_LIMIT)
        answers(client, PIPELINE_LIMIT)
        client.sendall(OK.replace(b"/", b"/wait", 1))
        client.settimeout(1)
        with suppress(OSError):  # the connection is closed, or what was sent is not read
            for _ in range(2000):
                client.sendall(OK * 1000)
            pytest.fail("54 MB of requests were read")


def connect(address: tuple[str, int], count: int, stack: ExitStack) -> list[socket.socket]:
    return [stack.enter_context(socket.create_connection(address, timeout=20)) for _ in range(count)]


def test_at_the_cap_the_connection_that_waited_longest_is_closed_for_a_new_one(address: tuple[str, int]) -> None:
    with ExitStack() as stack:
        clients = connect(address, CAP, stack)
        for client in (clients[1], clients[2], clients[0]):
            client.sendall(OK)
            answers(client)
        (late,) = connect(address, 1, stack)
        late.sendall(OK)
        answers(late)
        assert rest_of(clients[1]) == b""
        for client in (clients[0], clients[2]):
            client.sendall(OK)
            answers(client)


def test_what_the_server_works_on_is_not_closed_for_a_new_connection(address: tuple[str, int]) -> None:
    with ExitStack() as stack:
        clients = connect(address, CAP, stack)
        for client in clients:
            client.sendall(OK.replace(b"/", b"/wait", 1))
        time.sleep(PATIENCE_S * 2)
        (late,) = connect(address, 1, stack)
        assert rest_of(late).startswith(b"HTTP/1.1 503 ")
        clients[0].close()

        def answered() -> bool:
            with socket.create_connection(address, timeout=20) as client:
                client.sendall(OK)
                return client.recv(12) == b"HTTP/1.1 200"

        eventually(answered)
