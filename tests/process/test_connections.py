"""Workers hold few connections, and work continues when the server has none left."""

import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.postgres_server import PostgresServer
from tests.process.harness import Workers, create_counter, settled, workers_on
from tests.waiting import eventually

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

FEW = 14


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer(settings={"max_connections": FEW, "superuser_reserved_connections": 0}) as server:
        yield server


@pytest.fixture
def workers(server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    monkeypatch.setenv("TICKWORK_POOL_IDLE", "1s")
    url = server.create_database("few")
    create_counter(url)
    with workers_on(url, tmp_path) as workers:
        yield workers


def test_an_idle_worker_holds_two_connections_and_its_children_none(workers: Workers) -> None:
    worker = workers.start(slots=8, processes=2)
    settled([workers.job("counts", n=n) for n in range(12)], within_s=40)
    workers.app.close()
    with psycopg.connect(workers.url, autocommit=True) as looking:

        def held() -> int:
            return len(looking.execute("SELECT 1 FROM pg_stat_activity WHERE application_name = 'tickwork'").fetchall())

        eventually(lambda: held() == 2, 30, "it gives back what it does not use")
        seen = []
        until = time.monotonic() + 3
        while time.monotonic() < until:
            seen.append(held())
            time.sleep(0.05)
    assert worker.is_running()
    assert sorted(seen)[len(seen) // 2] == 2
    assert max(seen) <= 3


def test_a_full_server_delays_work_and_fails_none_of_it(workers: Workers) -> None:
    worker = workers.start(slots=24, processes=4)
    jobs = [workers.job("counts", n=n) for n in range(150)]
    settled(jobs, within_s=80)
    assert {len(job.attempts()) for job in jobs} == {1}, "no attempt failed for want of a connection"
    said = worker.said()
    assert "has no connection left" in said
    assert said.count("has no connection left") < 20, "once a minute in each process"
    with workers.app.connection() as tx:
        assert tx.execute("SELECT n FROM counter").fetchone() == (150,)
