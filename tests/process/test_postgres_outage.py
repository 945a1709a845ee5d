"""PostgreSQL restarted and down under load: nothing is lost, no process exits, and work resumes by itself."""

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres_server import PostgresServer
from tests.process.harness import Workers, create_counter, settled, workers_on
from tests.waiting import eventually
from tickwork import Job, Tickwork
from tickwork.errors import StoreError

pytestmark = pytest.mark.process

TASKS = ("work", "work_async", "counts", "saves")


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer(fsync=True) as server:  # else an immediate stop forgets the last commits
        yield server


@pytest.fixture
def workers(server: PostgresServer, tmp_path: Path) -> Iterator[Workers]:
    url = server.create_database("outage")
    create_counter(url)
    with workers_on(url, tmp_path) as workers:
        yield workers


class Load:
    """Enqueues jobs all the time; what raised is asked for again under the same key, until it is answered."""

    def __init__(self, app: Tickwork) -> None:
        self._app = app
        self._stop = threading.Event()
        self.jobs: list[Job] = []
        self.refused = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            n = len(self.jobs)
            task = TASKS[n % len(TASKS)]
            arguments = {"steps": 5} if task == "saves" else {"n": n}
            try:
                self.jobs.append(self._app.named(task).options(key=f"n:{n}", key_for="1h").enqueue(**arguments))
            except StoreError:
                self.refused += 1

    def stop(self) -> list[Job]:
        self._stop.set()
        self._thread.join(30)
        return self.jobs


def succeeded(workers: Workers) -> int:
    return len(workers.witness.events(event="end"))


def progress(workers: Workers, jobs: int, within_s: float) -> None:
    before = succeeded(workers)
    eventually(lambda: succeeded(workers) >= before + jobs, within_s, "jobs run")


@pytest.mark.timeout(240)
def test_restarts_and_ten_seconds_without_a_database_lose_nothing(server: PostgresServer, workers: Workers) -> None:
    started = [workers.start(slots=6, processes=2) for _ in range(2)]
    children = [worker.children() for worker in started]
    load = Load(workers.app)
    try:
        for mode in ("fast", "immediate", "fast", "immediate"):
            progress(workers, jobs=20, within_s=20)
            server.restart(mode)
        progress(workers, jobs=20, within_s=20)
        server.stop("fast")
        stopped = time.monotonic()
        eventually(lambda: time.monotonic() - stopped > 10, 15)
        assert all(worker.is_running() for worker in started)
        server.start()
        progress(workers, jobs=20, within_s=10)
    finally:
        jobs = load.stop()

    settled(jobs, within_s=60)
    assert load.refused > 0, "the outage was felt"
    assert len({job.id for job in jobs}) == len(jobs) > 100
    assert {job.id for job in jobs} == {job.id for task in TASKS for job in all_jobs(workers.app, task)}
    for n, job in enumerate(jobs):
        attempts = job.attempts()
        assert [one.state for one in attempts].count("succeeded") == 1
        if job.task != "counts":  # those hold a transaction, which a restart breaks
            assert (len(attempts), job.view.failures) == (1, 0), f"job {n} ({job.task}): {attempts}"
    with workers.app.connection() as tx:
        ((count,),) = tx.execute("SELECT n FROM counter").fetchall()
    assert count == sum(job.task == "counts" for job in jobs), "each took effect once"
    assert all(worker.is_running() for worker in started), "no process exits"
    assert [worker.children() for worker in started] == children, "nor any child"


def all_jobs(app: Tickwork, task: str) -> list[Job]:
    found = app.jobs(task=task, limit=1000)
    assert found.next_cursor is None
    return found


@pytest.mark.timeout(120)
def test_an_outage_longer_than_the_lease_stops_the_handlers_and_everything_is_done_again(
    server: PostgresServer, workers: Workers
) -> None:
    worker = workers.start(slots=4, processes=2, lease_s=2)
    jobs = [workers.job("saves", steps=100) for _ in range(3)]  # two seconds and more
    for job in jobs:
        workers.witnessed(job)
    server.stop("fast")
    stopped = time.monotonic()
    eventually(lambda: time.monotonic() - stopped > 4, 10)
    server.start()
    settled(jobs, within_s=40)
    assert [job.result() for job in jobs] == [100] * 3
    assert [job.view.failures for job in jobs] == [0] * 3
    assert worker.is_running()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("comes_back", [True, False])
def test_a_worker_can_be_stopped_while_there_is_no_database(
    server: PostgresServer, workers: Workers, comes_back: bool
) -> None:
    worker = workers.start(grace="500ms")
    job = workers.job("work", n=1, seconds=60)
    workers.witnessed(job)
    server.stop("fast")
    worker.signal(signal.SIGTERM)
    began = time.monotonic()
    eventually(lambda: time.monotonic() - began > 2, 5)
    if comes_back:
        assert worker.is_running(), "it tries for a while to give back what it holds"
        server.start()
    assert worker.wait(20) == 0
    assert time.monotonic() - began < 15
    server.start()
    if comes_back:
        assert [one.state for one in job.attempts()] == ["released"]
    assert ("without having told the store" in worker.said()) != comes_back
