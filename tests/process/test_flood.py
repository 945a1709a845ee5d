"""A real server under thousands of connections without credentials: it answers, stays small, and logs little."""

import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.process.harness import PATH, die_with_the_tests
from tests.process.server_process import Server, serving
from tests.waiting import eventually
from tickwork import Tickwork

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

FLOOD_S = 40.0
IDLE, SLOW, HOSTILE = 2000, 300, 100
GROWTH = 100 * 1024 * 1024  # bytes
LINES_PER_MINUTE = 100
STRANGERS = 1500
MEGABYTE = 1024 * 1024
ANSWER_S = 1.0


@contextmanager
def open_files(limit: int) -> Iterator[None]:
    """Let processes that are started meanwhile open that many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit > hard:
        pytest.skip(f"the hard limit of open files is {hard}, and {limit} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def flooding(server: Server) -> Iterator[None]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.process.flooder", str(port(server)), str(IDLE), str(SLOW), str(HOSTILE)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": PATH},
        preexec_fn=die_with_the_tests,  # noqa: PLW1509  # nothing has started a thread
    ) as flooder:
        try:
            assert flooder.stdout is not None
            assert flooder.stdout.readline() == b"flooding\n"
            yield
            assert flooder.poll() is None
        finally:
            flooder.send_signal(signal.SIGKILL)


def port(server: Server) -> int:
    return urlsplit(server.address).port or 0


def answer_s(server: Server) -> float:
    """Return the time to connect and to get the response of the health check."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port(server), timeout=10)
    try:
        connection.request("GET", "/healthz")
        assert json.loads(connection.getresponse().read())["status"] == "ok"
    finally:
        connection.close()
    return time.monotonic() - began


def line_count(server: Server) -> int:
    return server.program.said.count("\n")


@pytest.fixture
def server(app: Tickwork, tmp_path: Path) -> Iterator[Server]:
    with open_files(4096), serving(app, tmp_path) as server:
        yield server
        assert server.program.end() == 0


def starved_s(server: Server) -> float:
    """Return the time that the event loop of a server has waited for a CPU that other programs used."""
    return int(Path(f"/proc/{server.program.process.pid}/schedstat").read_text().split()[1]) / 1e9


def test_a_flood_without_credentials_does_not_keep_others_out(server: Server) -> None:
    server.call("GET", "/jobs")
    lines, memory = line_count(server), server.memory
    times, own, largest, most_connected = list[float](), list[float](), memory, 0
    with flooding(server):
        ends = time.monotonic() + FLOOD_S
        while time.monotonic() < ends:
            starved = starved_s(server)
            times.append(answer_s(server))
            own.append(times[-1] - (starved_s(server) - starved))
            largest = max(largest, server.memory)
            most_connected = max(most_connected, server.connection_count)
            time.sleep(0.25)
        assert server.call("GET", "/jobs")[0] == 200
    slowest = max(own)
    grown, logged = largest - memory, line_count(server) - lines
    said = f"slowest {slowest:.2f} s, {max(times):.2f} s with waits for a processor, +{grown >> 20} MB, {logged} lines"
    print(f"{said}, {most_connected} connected, {server.processor_s:.1f} s computed")
    assert slowest < ANSWER_S, said
    assert grown < GROWTH, said
    assert logged * 60 / FLOOD_S < LINES_PER_MINUTE, said
    assert most_connected > 500, "the flood arrived"


def post(path: bytes, size: int, *headers: bytes) -> bytes:
    """A request whose body comes, but for its last byte."""
    lines = (b"POST %s HTTP/1.1" % path, b"Host: x", b"Content-Type: application/json", *headers)
    return b"\r\n".join((*lines, b"Content-Length: %d" % (size + 1), b"", b" " * size))


@pytest.mark.parametrize(
    "request_data",
    [
        b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 4,
        b"GET /api/v1/docs HTTP/1.1\r\nHost: x\r\n\r\n" * 4,
        post(b"/api/v1/jobs/batch", MEGABYTE),
        post(b"/api/v1/session", MEGABYTE),
        post(b"/hooks/unknown", MEGABYTE - 1, b"X-Hub-Signature-256: sha256=" + b"0" * 64),
    ],
    ids=["document", "page of the document", "batch", "login", "hook"],
)
def test_what_strangers_send_or_do_not_take_takes_little_memory(server: Server, request_data: bytes) -> None:
    server.call("GET", "/jobs")
    memory = largest = server.memory
    unsent: dict[socket.socket, int] = {}
    with ExitStack() as stack:
        stack.enter_context(open_files(4096))
        for n in range(STRANGERS):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(20)
            client.bind((f"127.0.0.{1 + n % 3}", 0))
            client.connect(("127.0.0.1", port(server)))
            client.setblocking(False)
            unsent[client] = 0
        ends = time.monotonic() + 6
        while time.monotonic() < ends:
            for client, sent in unsent.items():
                with suppress(OSError):
                    unsent[client] += client.send(request_data[sent : sent + 256 * 1024])
            largest = max(largest, server.memory)
        assert server.connection_count > STRANGERS / 2
        large = {"task": "mail", "args": {"text": "x" * 100_000}}
        assert server.call("POST", "/jobs", large)[0] == 201, "there is room for those who are known"
    assert largest - memory < GROWTH, f"+{(largest - memory) >> 20} MB"


def test_more_idle_connections_than_open_files_do_not_keep_others_out(app: Tickwork, tmp_path: Path) -> None:
    with ExitStack() as stack:
        with open_files(256):
            server = stack.enter_context(serving(app, tmp_path))
        server.call("GET", "/jobs")
        lines = line_count(server)
        for _ in range(300):
            stack.enter_context(server.connect())
        assert max(answer_s(server) for _ in range(10)) < ANSWER_S
        assert server.connection_count <= 128
        assert line_count(server) - lines < 20


def test_a_server_that_runs_out_of_open_files_goes_on_and_logs_little(app: Tickwork, tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(serving(app, tmp_path))
        server.call("GET", "/jobs")
        pid = server.program.process.pid
        used = len(os.listdir(f"/proc/{pid}/fd"))
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 40, hard))  # less than it was told at its start
        lines = line_count(server)
        for _ in range(100):
            stack.enter_context(server.connect())
        eventually(lambda: "No connection can be accepted" in server.program.said, 20)
        assert max(answer_s(server) for _ in range(10)) < ANSWER_S
        busy = server.processor_s
        ends = time.monotonic() + 3
        while time.monotonic() < ends:
            with suppress(OSError):
                stack.enter_context(socket.create_connection(("127.0.0.1", port(server)), timeout=5))
            time.sleep(0.05)
        assert server.processor_s - busy < 2, "it does not spin"
        assert line_count(server) - lines < 30
