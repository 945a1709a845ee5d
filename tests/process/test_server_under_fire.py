"""A real server among hostile clients, and killed at bad moments: it stays small, ends in time, and loses nothing."""

import json
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.http.work import claimed, fail
from tests.process.server_process import Server, serving
from tests.waiting import eventually
from tickwork import Tickwork

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

GROWTH = 50 * 1024 * 1024  # bytes


@pytest.fixture
def server(app: Tickwork, tmp_path: Path) -> Iterator[Server]:
    with serving(app, tmp_path) as server:
        yield server
        if server.program.process.poll() is None:
            assert server.program.end() == 0
        assert "Traceback" not in server.program.said


def answered(client: socket.socket) -> bytes:
    """The first line of an answer."""
    data = b""
    with suppress(ConnectionResetError):
        while b"\r\n" not in data and (more := client.recv(65536)):
            data += more
    return data.partition(b"\r\n")[0]


def test_bodies_without_end_are_refused_and_take_no_memory(server: Server) -> None:
    server.call("GET", "/jobs")
    before = server.memory
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    for path in ("/jobs", "/jobs/batch", "/dags", "/jobs/x/complete"):
        with server.connect() as client:
            server.send(client, "POST", path, b"", "Transfer-Encoding: chunked")
            with suppress(BrokenPipeError, ConnectionResetError):
                for _ in range(10_000):  # 10 GB, if the server took them
                    client.sendall(chunk)
                pytest.fail("the server took all of it")
            assert answered(client) in (b"HTTP/1.1 413 Request Entity Too Large", b"")
    assert server.call("POST", "/jobs", b" " * 2_000_000)[0] == 413
    assert server.call("POST", "/jobs", b"\x1f\x8b", **{"Content-Encoding": "gzip"})[0] == 415
    assert server.memory - before < GROWTH


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/jobs", b'{"task": "a", "args": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}"),
        ("/jobs", b"[" * 1_000_000),
        ("/jobs", b'{"task": "a", "args": {"a": ' + b"9" * 5000 + b"}}"),
        ("/jobs", b'{"task": "a", "args": {"a": 1e99999}}'),
        ("/jobs", b'{"task": "a", "args": {"a": "\\ud800"}}'),
        ("/jobs", b'{"task": "a", "args": {"a": "\xff"}}'),
        ("/jobs", b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94."),
        ("/dags", json.dumps({"text": "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n"}).encode()),
        ("/dags", json.dumps({"text": "{a: " * 100_000}).encode()),
        ("/dags", json.dumps({"text": "a: !!python/object/apply:os.system [id]"}).encode()),
        ("/dags", json.dumps({"text": "x:\n" + "- a\n" * 3_000_000}).encode()),
    ],
)
def test_bombs_are_refused_and_take_no_memory(server: Server, path: str, body: bytes) -> None:
    server.call("GET", "/jobs")
    before = server.memory
    status, _ = server.call("POST", path, body)
    assert 400 <= status < 500
    assert server.call("GET", "/jobs")[0] == 200
    # Reading keeps 250,000 places of a text at most; the text itself is there several times.
    assert server.memory - before < GROWTH + 8 * len(body)


def test_a_server_that_is_told_to_stop_ends_all_that_waits(app: Tickwork, server: Server) -> None:
    later = app.named("later").options(delay="1h").enqueue()
    server.call("GET", "/jobs")
    threads = server.threads
    with ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(140)]
        asks = json.dumps({"queues": ["default"], "worker": "w", "wait": 60}).encode()
        for client in clients[:100]:
            server.send(client, "POST", "/leases", asks)
        for client in clients[100:120]:
            server.send(client, "GET", f"/jobs/{later.id}/logs?follow=true")
        for client in clients[120:]:
            server.send(client, "GET", f"/jobs/{later.id}/result?wait=60")
        for client in clients[100:120]:
            assert b"200" in answered(client)
        assert server.threads - threads <= 45, "waiting takes no threads; those of calls are forty at most"
        began = time.monotonic()
        assert server.program.end(within_s=30) == 0
        assert time.monotonic() - began < 12, "the drain is 5 s, and nothing here needs it"
        assert {answered(client) for client in clients[:100]} == {b"HTTP/1.1 200 OK"}
        assert {answered(client) for client in clients[120:]} == {b"HTTP/1.1 202 Accepted"}
    assert later.state == "queued"


def test_clients_that_hang_up_leave_nothing_behind(app: Tickwork, server: Server) -> None:
    later = app.named("later").options(delay="1h").enqueue()
    asks = json.dumps({"queues": ["default"], "worker": "w", "wait": 60}).encode()
    for _ in range(30):
        with server.connect() as one, server.connect() as other:
            server.send(one, "POST", "/leases", asks)
            server.send(other, "GET", f"/jobs/{later.id}/logs?follow=true")
            assert b"200" in answered(other)
    job = app.named("now").enqueue()
    status, found = server.call("POST", "/leases", {"queues": ["default"], "worker": "w", "wait": 20})
    assert (status, [one["id"] for one in found["jobs"]]) == (200, [job.id])
    assert job.view.attempt <= 31, "what was offered to somebody who is gone was given back"
    eventually(lambda: server.connection_count <= 1, 20)


def test_the_job_of_a_server_that_was_killed_before_it_answered_comes_back(app: Tickwork, tmp_path: Path) -> None:
    job = app.named("mail").options(delay="1s").enqueue()
    asks = json.dumps({"queues": ["default"], "worker": "w", "wait": 60, "lease": "2s"}).encode()
    with serving(app, tmp_path) as first, first.connect() as client:
        first.send(client, "POST", "/leases", asks)
        eventually(lambda: job.state == "running", 20)
        first.program.end(signal.SIGKILL)
    with serving(app, tmp_path) as second:

        def leased() -> list[Any]:
            jobs: list[Any] = second.call("POST", "/leases", {"queues": ["default"], "worker": "w", "wait": 5})[1][
                "jobs"
            ]
            return jobs

        (found,) = eventually(leased, 60)
        assert found["id"] == job.id
        for attempt in range(1, found["attempt"]):
            status, problem = second.call("POST", f"/jobs/{job.id}/complete", {"attempt": attempt, "result": "late"})
            assert (status, problem["code"]) == (409, "lease-lost")
        answers = Counter[int]()
        ends = [
            threading.Thread(target=lambda n=number: answers.update([_end(second, job.id, found["attempt"], n)]))  # type: ignore[misc]
            for number in range(8)
        ]
        for thread in ends:
            thread.start()
        for thread in ends:
            thread.join(30)
        assert answers == {200: 1, 409: 7}, "one of eight different results is taken"


def _end(server: Server, job_id: str, attempt: int, result: int) -> int:
    return server.call("POST", f"/jobs/{job_id}/complete", {"attempt": attempt, "result": result})[0]


def test_what_one_server_began_to_change_another_carries_on_once_for_each_job(app: Tickwork, tmp_path: Path) -> None:
    total = 3000
    app.named("mail").options(retries=0).enqueue_many([{} for _ in range(total)])
    while jobs := claimed(app, limit=1000):
        for job in jobs:
            fail(app, job)
    with serving(app, tmp_path) as first:
        status, operation = first.call("POST", "/dead/redrive", {"filter": {"task": "mail"}})
        assert status == 202
        eventually(
            lambda: (app.store.operations.get_operation(operation["id"]) or pytest.fail("it is gone")).looked > 0, 30
        )
        first.program.end(signal.SIGKILL)
    with serving(app, tmp_path) as second, serving(app, tmp_path) as third:
        ended = eventually(lambda: _ended(second, operation["id"]), 60)
        assert (ended["state"], ended["changed"]) == ("succeeded", total)
        assert third.call("GET", f"/operations/{operation['id']}")[1] == ended
    assert {one.queue.due for one in app.queue_loads()} == {total}


def _ended(server: Server, id: str) -> Any:
    found = server.call("GET", f"/operations/{id}")[1]
    return found if found["ended_at"] else None


def test_a_request_whose_answer_was_lost_is_carried_out_once_by_two_servers(app: Tickwork, tmp_path: Path) -> None:
    body = {"jobs": [{"task": "mail", "args": {"n": number}} for number in range(500)]}
    key = {"Idempotency-Key": "order 7"}
    with serving(app, tmp_path) as first, serving(app, tmp_path) as second:
        found: list[tuple[int, Any]] = []
        sent = [
            threading.Thread(target=lambda one=one: found.append(one.call("POST", "/jobs/batch", body, **key)))  # type: ignore[misc]
            for one in (first, second) * 4
        ]
        for thread in sent:
            thread.start()
        for thread in sent:
            thread.join(60)
        assert {status for status, _ in found} <= {201, 409}
        first.program.end(signal.SIGKILL)
        status, again = eventually(lambda: _taken(second, body, key), 90)
        assert status == 201
        assert all(answer == again for status, answer in found if status == 201)
    assert sum(one.queue.due for one in app.queue_loads()) == 500


def _taken(server: Server, body: Any, key: dict[str, str]) -> tuple[int, Any] | None:
    status, answer = server.call("POST", "/jobs/batch", body, **key)
    return None if status == 409 else (status, answer)
