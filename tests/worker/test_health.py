"""Health checks of a worker report its lease, not its process; and its counters."""

import json
import logging
import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from urllib.parse import urlsplit

import pytest

from tests.waiting import eventually
from tickwork import Tickwork, current_job
from tickwork.clock import SystemClock
from tickwork.core.ids import WorkerId
from tickwork.errors import InvalidInput
from tickwork.observe import metrics_table
from tickwork.observe.counters import Counters, exposition
from tickwork.observe.json_log import JsonLines, wants_json
from tickwork.worker.health import MOST, WorkerHealth, serve_health
from tickwork.worker.lease import Lease

CLOCK = SystemClock()


@pytest.fixture
def lease() -> Lease:
    return Lease(timedelta(seconds=30))


@pytest.fixture
def address(lease: Lease) -> Iterator[str]:
    server = serve_health("0", WorkerHealth(lease, Counters(), CLOCK))
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_worker_is_ready_while_its_lease_is_fresh(address: str, lease: Lease) -> None:
    assert status(f"{address}/healthz") == 200
    assert status(f"{address}/readyz") == 503, "it has not registered yet"
    lease.begin(WorkerId("w"), CLOCK.monotonic())
    assert status(f"{address}/readyz") == 200
    lease.begin(WorkerId("w"), CLOCK.monotonic() - 60)
    assert status(f"{address}/readyz") == 503, "it was not renewed for a minute"
    assert status(f"{address}/else") == 404


def test_a_port_that_is_taken_is_said_in_one_sentence(address: str) -> None:
    with pytest.raises(InvalidInput, match="nothing can listen there"):
        serve_health(address.removeprefix("http://"), WorkerHealth(Lease(timedelta(seconds=30)), Counters(), CLOCK))


def test_idle_connections_of_strangers_take_few_threads_and_keep_no_probe_out(address: str) -> None:
    threads = threading.active_count()
    with ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(connected(address))
        assert status(f"{address}/healthz") == 200
        assert threading.active_count() - threads <= MOST + 5, "a few may be about to end"


def test_clients_that_go_away_leave_no_lines(address: str, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(20):
        client = connected(address)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        client.sendall(b"GET /he")
        time.sleep(0.01)
        client.close()
    time.sleep(0.2)
    assert status(f"{address}/healthz") == 200
    assert capfd.readouterr().err == ""


def connected(address: str) -> socket.socket:
    where = urlsplit(address)
    return socket.create_connection((where.hostname or "", where.port or 0), timeout=5)


def test_buckets_count_everything_that_is_not_larger() -> None:
    tally = Counters()
    for seconds in (0.001, 0.002, 7000.0):
        tally.spread(metrics_table.WAIT, ("mail",), seconds)
    text = exposition(tally).decode()
    assert 'tickwork_job_wait_seconds_bucket{le="0.001",queue="mail"} 1.0' in text
    assert 'tickwork_job_wait_seconds_bucket{le="0.0025",queue="mail"} 2.0' in text
    assert 'tickwork_job_wait_seconds_bucket{le="+Inf",queue="mail"} 3.0' in text
    assert 'tickwork_job_wait_seconds_count{queue="mail"} 3.0' in text


def test_a_json_line_names_the_job_whose_handler_logged_it(app: Tickwork) -> None:
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    keep = Keep()
    keep.setFormatter(JsonLines())

    @app.task
    def say() -> str:
        logging.getLogger("shop").warning("two\nlines \x1b[31m%s", "and red")
        return current_job().id

    logging.getLogger("shop").addHandler(keep)
    try:
        with app.worker():
            job = say.enqueue()
            job.result(10)
    finally:
        logging.getLogger("shop").removeHandler(keep)
    eventually(lambda: lines)
    assert len(lines[0].splitlines()) == 1
    assert "\x1b" not in lines[0]
    line = json.loads(lines[0])
    assert (line["job_id"], line["attempt"], line["task"], line["level"]) == (job.id, 1, "say", "warning")


def test_what_the_worker_says_of_a_job_names_it_as_json_too(app: Tickwork) -> None:
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    keep = Keep()
    keep.setFormatter(JsonLines())

    @app.task(retries=0)
    def fail() -> None:
        raise ValueError("no")

    @app.dag
    def fails() -> None:
        fail()

    ours = logging.getLogger("tickwork.worker")
    ours.addHandler(keep)
    try:
        with app.worker():
            job, run = fail.enqueue(), fails.enqueue()
            eventually(lambda: sum("failed for good" in line for line in lines) >= 2)
    finally:
        ours.removeHandler(keep)
    told = [line for line in map(json.loads, lines) if "failed for good" in line["message"]]
    of_job, of_step = sorted(told, key=lambda line: "step" in line)[:2]
    assert (of_job["job_id"], of_job["attempt"], "run_id" in of_job) == (job.id, 1, False)
    assert (of_step["run_id"], of_step["step"], of_step["attempt"]) == (run.id, "fail", 1)


def test_a_json_line_of_a_step_names_its_run(app: Tickwork) -> None:
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    keep = Keep()
    keep.setFormatter(JsonLines())

    @app.task
    def say() -> list[str | None]:
        logging.getLogger("shop").warning("of a step")
        return [current_job().run_id, current_job().step]

    @app.dag
    def talk() -> None:
        say()

    logging.getLogger("shop").addHandler(keep)
    try:
        with app.worker():
            run = talk.enqueue()
            run.wait(20)
            assert say.enqueue().result(10) == [None, None]
    finally:
        logging.getLogger("shop").removeHandler(keep)
    of_step, of_job = map(json.loads, lines)
    assert (of_step["run_id"], of_step["step"]) == (run.id, "say")
    assert "run_id" not in of_job


def test_an_unknown_format_of_logs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TICKWORK_LOG_FORMAT", "xml")
    with pytest.raises(InvalidInput, match="may be text or json"):
        wants_json()
