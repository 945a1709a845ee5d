"""A database that accepts everything and answers nothing: handlers stop before their lease ends, and all recovers."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.postgres_server import PostgresServer
from tests.process.harness import WorkerProcess, Workers, settled
from tests.silent_proxy import Mode, SilentProxy
from tests.waiting import eventually
from tickwork import Job, Tickwork, current_job

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

LEASE_S = 4.0


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer(fsync=True) as server:
        yield server


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[SilentProxy]:
    with SilentProxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def workers(server: PostgresServer, tmp_path: Path) -> Iterator[Workers]:
    url = server.create_database("silent")
    Tickwork(url, upgrade=True).store.now()
    workers = Workers(url, tmp_path)
    yield workers
    workers.close()
    for worker in workers.started:
        print(f"--- worker {worker.pid}: {worker.said()[-3000:]}")


def start_behind(proxy: SilentProxy, workers: Workers) -> WorkerProcess:
    """Start a worker that reaches the database through the proxy."""
    direct, workers.url = workers.url, proxy.url(workers.url)
    worker = workers.start(slots=4, processes=2, lease_s=LEASE_S)
    workers.url = direct
    return worker


def side_by_side(workers: Workers, jobs: list[Job]) -> list[str]:
    """The jobs of which one attempt ran when the next had begun."""
    found = []
    for job in jobs:
        events = workers.witness.events(job.id)
        for number in range(1, job.attempt):
            last = max((one.at_ns for one in events if one.attempt == number), default=0)
            began = min((one.at_ns for one in events if one.attempt == number + 1), default=last)
            if began < last:
                found.append(f"{job.id}: attempt {number} ran for {(last - began) / 1e9:.1f} s beside the next")
    return found


@pytest.mark.parametrize("mode", ["silent", "stuck"])
def test_no_job_runs_twice_at_once_when_the_way_to_the_database_falls_silent(
    workers: Workers, proxy: SilentProxy, mode: Mode
) -> None:
    cut_off = start_behind(proxy, workers)
    jobs = [workers.job("beats", seconds=2 * LEASE_S, stubborn=stubborn) for stubborn in (False, False, True)]
    for job in jobs:
        workers.witnessed(job)
    proxy.mode = mode
    workers.start(lease_s=LEASE_S)
    eventually(lambda: all(job.attempt == 2 for job in jobs), 40, "the other worker takes them over")
    proxy.mode = "open"
    settled(jobs, within_s=60)
    assert side_by_side(workers, jobs) == []
    assert [job.attempt for job in jobs] == [2] * 3
    assert cut_off.is_running()
    # It works again, under a new worker id.
    eventually(lambda: is_up(workers, cut_off), 40, "the worker that was cut off registers again")
    settled([workers.job("work", n=n, seconds=0.3) for n in range(12)], within_s=40)


def is_up(workers: Workers, worker: WorkerProcess) -> bool:
    return worker.pid in {one.pid for one in workers.app.store.reads.workers() if one.state == "running"}


def test_a_server_that_is_stopped_for_longer_than_a_lease_and_goes_on(server: PostgresServer, workers: Workers) -> None:
    started = [workers.start(slots=3, processes=1, lease_s=LEASE_S) for _ in range(2)]
    jobs = [workers.job("beats", seconds=2 * LEASE_S, stubborn=n == 0) for n in range(4)]
    for job in jobs:
        workers.witnessed(job)
    with stopped(server):
        began = time.monotonic_ns()
        eventually(lambda: time.monotonic_ns() - began > 2.5 * LEASE_S * 1e9, 60)
        beats = [one for one in workers.witness.events(event="beat") if one.at_ns > began + LEASE_S * 1e9]
        assert beats == [], "all of them stopped before their lease ended"
    settled(jobs, within_s=60)
    assert side_by_side(workers, jobs) == []
    settled([workers.job("work", n=n) for n in range(12)], within_s=40)
    assert all(worker.is_running() for worker in started)


@contextmanager
def stopped(server: PostgresServer) -> Iterator[None]:
    """Stop every process of the test's own server, and let them go on after the block."""
    pids = server.pids()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_a_worker_inside_a_process_stops_its_threads_in_time(
    server: PostgresServer, workers: Workers, proxy: SilentProxy
) -> None:
    """`app.worker()`: the other worker begins after the handler of the first one has stopped."""
    seen: list[tuple[float, str, int]] = []

    def app_at(url: str, name: str) -> Tickwork:
        app = Tickwork(url)

        @app.task(name="watched", retries=0)
        def watched() -> str:
            until = time.monotonic() + 2 * LEASE_S
            while time.monotonic() < until:
                seen.append((time.monotonic(), name, current_job().attempt))
                threading.Event().wait(0.05)
            return name

        return app

    first, second = app_at(proxy.url(workers.url), "first"), app_at(workers.url, "second")
    with running(first):
        job = workers.job("watched")
        eventually(lambda: seen, 20)
        proxy.mode = "silent"
        with running(second):
            settled([job], within_s=60)
        proxy.mode = "open"
    assert job.result() == "second"
    assert max(at for at, name, _ in seen if name == "first") < min(at for at, name, _ in seen if name == "second")


def running(app: Tickwork) -> AbstractContextManager[None]:
    return app.worker(concurrency=2, lease=f"{LEASE_S:g}s", grace="1s")
