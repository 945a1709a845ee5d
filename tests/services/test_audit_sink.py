"""Audit rows are copied elsewhere at least once, and in order."""

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.store.conftest import OpensStore
from tickwork.errors import InvalidInput, StoreUnreachable
from tickwork.services import audit_sink
from tickwork.services.audit_sink import INTERVAL_S, TURN, AuditSink, read_sink
from tickwork.store.admin.audit import AuditRow
from tickwork.store.base import Store
from tickwork.testing import VirtualClock


def record(store: Store, *targets: str) -> None:
    store.audit.record_changes(
        [AuditRow("user:ada", "create_job", target, None, b'{"n":1}', "r", "::1") for target in targets]
    )
    store.audit.link_changes(1000)


def targets(data: bytes) -> list[str]:
    return [json.loads(line)["target"] for line in data.splitlines()]


class Memory:
    """A sink that fails when it is told to, after it has taken some."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.fails_after: int | None = None

    def send(self, lines: Sequence[bytes]) -> None:
        self.taken += lines[: self.fails_after]
        if self.fails_after is not None:
            raise OSError("it is full")


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    sink = Memory()
    monkeypatch.setattr(audit_sink, "read_sink", lambda url: sink)
    return sink


class TestOrder:
    def test_rows_come_in_the_order_of_the_chain_and_what_failed_comes_again(
        self, store: Store, memory: Memory
    ) -> None:
        service = AuditSink(store, "file:///x", "a")
        record(store, "1", "2", "3")
        memory.fails_after = 2
        with pytest.raises(StoreUnreachable, match="it is full"):
            service.tick(0.0)
        memory.fails_after = None
        assert service.tick(0.0) == INTERVAL_S
        record(store, "4")
        service.tick(0.0)
        service.tick(0.0)
        assert targets(b"".join(memory.taken)) == ["1", "2", "1", "2", "3", "4"]

    def test_a_row_without_its_link_waits(self, store: Store, memory: Memory) -> None:
        store.audit.record_changes([AuditRow("a", "b", "c")])
        AuditSink(store, "file:///x", "a").tick(0.0)
        assert memory.taken == []

    def test_one_process_sends_and_another_goes_on_when_it_is_gone(
        self, store: Store, open_store: OpensStore, clock: VirtualClock, memory: Memory
    ) -> None:
        first, second = AuditSink(store, "file:///x", "a"), AuditSink(open_store(), "file:///x", "b")
        record(store, "1")
        first.tick(0.0)
        record(store, "2")
        second.tick(0.0)
        assert targets(b"".join(memory.taken)) == ["1"]
        clock.advance(TURN + timedelta(seconds=1))
        second.tick(0.0)
        assert targets(b"".join(memory.taken)) == ["1", "2"]
        assert not store.audit.move_audit_sink("file:///x", "a", 99)

    def test_many_rows_are_sent_in_batches_and_deleted_ones_are_passed(self, store: Store, memory: Memory) -> None:
        record(store, *map(str, range(250)))
        service = AuditSink(store, "file:///x", "a")
        while service.tick(0.0) == 0.0:
            pass
        assert targets(b"".join(memory.taken)) == [str(n) for n in range(250)]

    def test_a_line_says_all_of_a_row(self, store: Store, memory: Memory) -> None:
        record(store, "job:1")
        AuditSink(store, "file:///x", "a").tick(0.0)
        (line,) = [json.loads(one) for one in memory.taken]
        (linked,) = store.audit.linked_changes(0, 10)
        assert (line["number"], line["hash"]) == (1, linked.link.hash)
        assert (line["who"], line["action"], line["before"], line["after"]) == (
            "user:ada",
            "create_job",
            None,
            {"n": 1},
        )


class TestSinks:
    def test_a_file_is_only_its_owners_and_may_be_moved_away(self, tmp_path: Path) -> None:
        path = tmp_path / "audit.jsonl"
        sink = read_sink(f"file://{path}")
        sink.send([b"1\n", b"2\n"])
        assert path.stat().st_mode & 0o777 == 0o600
        path.rename(tmp_path / "old")
        sink.send([b"3\n"])
        assert ((tmp_path / "old").read_bytes(), path.read_bytes()) == (b"1\n2\n", b"3\n")

    def test_a_line_that_was_cut_off_is_ended(self, tmp_path: Path) -> None:
        path = tmp_path / "audit.jsonl"
        path.write_bytes(b'{"num')
        read_sink(f"file://{path}").send([b"1\n"])
        assert path.read_bytes() == b'{"num\n1\n'

    def test_a_file_that_cannot_be_written_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(OSError, match="No such file"):
            read_sink(f"file://{tmp_path}/nothing/audit.jsonl").send([b"1\n"])

    def test_the_syslog_of_this_machine(self, tmp_path: Path) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
            log.bind(str(tmp_path / "log"))
            log.settimeout(10)
            read_sink(f"syslog:{tmp_path}/log").send([b'{"a":1}\n'])
            assert log.recv(1000) == b'<110>1 - - tickwork - audit - {"a":1}'

    def test_syslog_over_tcp(self) -> None:
        received: list[bytes] = []
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(10)

            def serve() -> None:
                connection, _ = server.accept()
                with connection:
                    while data := connection.recv(1000):
                        received.append(data)

            thread = threading.Thread(target=serve)
            thread.start()
            read_sink(f"syslog://127.0.0.1:{server.getsockname()[1]}").send([b"1\n", b"22\n"])
            thread.join(10)
        head = b"<110>1 - - tickwork - audit - "
        assert b"".join(received) == b"%d %s1%d %s22" % (len(head) + 1, head, len(head) + 2, head)

    def test_http_takes_what_it_answers_well(self, collector: "Collector") -> None:
        sink = read_sink(f"http://ada:s%40fe@127.0.0.1:{collector.port}/audit?x=1")
        sink.send([b"1\n", b"2\n"])
        assert collector.requests == [("/audit?x=1", "Basic YWRhOnNAZmU=", "application/x-ndjson", b"1\n2\n")]
        for status in (302, 500):
            collector.status = status
            with pytest.raises(OSError, match=f"it answered {status}"):
                sink.send([b"3\n"])
        assert len(collector.requests) == 3

    @pytest.mark.parametrize("url", ["audit.jsonl", "file://host/x", "ftp://host/x", "https://", "file:x"])
    def test_what_names_no_sink_is_refused(self, url: str) -> None:
        with pytest.raises(InvalidInput, match="audit_sink is"):
            read_sink(url)

    def test_a_password_is_not_in_an_error(self, store: Store) -> None:
        record(store, "1")
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        with pytest.raises(StoreUnreachable) as raised:
            AuditSink(store, f"http://ada:hidden-word@127.0.0.1:{port}/", "a").tick(0.0)
        assert "hidden-word" not in str(raised.value)


class Collector:
    """An HTTP server that keeps what is posted to it."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str | None, str | None, bytes]] = []
        self.status = 204
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                about = (self.path, self.headers["Authorization"], self.headers["Content-Type"])
                collector.requests.append((*about, body))
                self.send_response(collector.status)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join(10)
    made.server.server_close()
