"""Enqueueing inside the caller's own transaction, and handlers whose writes commit with their job's end."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from tests.waiting import eventually
from tests.worker.job_helpers import output_of, supersede
from tickwork import Job, JobFailed, Tickwork, current_job
from tickwork.errors import InvalidInput, LeaseLost, MixedDrivers


@pytest.fixture
def shop(app: Tickwork) -> Iterator[Tickwork]:
    """An app with a table of its own in the same database."""
    with app.connection() as tx:
        tx.execute("DROP TABLE IF EXISTS orders")
        tx.execute("CREATE TABLE orders (name TEXT PRIMARY KEY, n INTEGER)")
        tx.execute("INSERT INTO orders VALUES ('ada', 0)")
    yield app
    with app.connection() as tx:
        tx.execute("DROP TABLE orders")


def count(app: Tickwork, name: str = "ada") -> int | None:
    with app.connection() as tx:
        rows = tx.execute(f"SELECT n FROM orders WHERE name = '{name}'").fetchall()
    return rows[0][0] if rows else None


def add(tx: Any, n: int = 1, name: str = "ada") -> None:
    tx.execute(f"UPDATE orders SET n = n + {n} WHERE name = '{name}'")


# -- enqueueing in a transaction


def test_a_job_commits_with_the_callers_data(shop: Tickwork) -> None:
    with shop.connection() as tx:
        add(tx)
        job = shop.named("work").options(tx=tx).enqueue()
        assert shop.job(job.id) is None, "nobody sees it before the commit"
    assert (job.state, count(shop)) == ("queued", 1)


def test_a_job_rolls_back_with_the_callers_data(shop: Tickwork) -> None:
    jobs: list[Job] = []

    def change_of_mind() -> None:
        with shop.connection() as tx:
            add(tx)
            jobs.append(shop.named("work").options(tx=tx, key="k").enqueue())
            jobs.extend(shop.named("work").options(tx=tx).enqueue_many([{"n": n} for n in range(3)]))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        change_of_mind()
    assert [shop.job(job.id) for job in jobs] == [None] * 4
    assert (shop.job(key="k"), count(shop)) == (None, 0)


def test_a_thousand_rollbacks_leave_nothing_and_a_thousand_commits_lose_nothing(shop: Tickwork) -> None:
    class Undo(Exception): ...

    for n in range(200):
        for fails in (True, False):
            try:
                with shop.connection() as tx:
                    add(tx)
                    shop.named("work").options(tx=tx).enqueue(n=n)
                    if fails:
                        raise Undo
            except Undo:
                pass
    assert len(shop.jobs(limit=1000)) == count(shop) == 200


def test_a_worker_starts_a_committed_job_without_waiting_for_a_poll(shop: Tickwork) -> None:
    @shop.task
    def work() -> str:
        return "done"

    with shop.worker():
        eventually(shop.store.reads.workers)
        with shop.connection() as tx:
            job = work.options(tx=tx).enqueue()
        assert job.result(timeout=2) == "done"  # a poll may be 5 s away


def test_app_connection_gives_rows(shop: Tickwork) -> None:
    mark = "?" if shop.url.startswith("sqlite") else "%s"
    with shop.connection() as tx:
        tx.execute(f"INSERT INTO orders VALUES ({mark}, {mark})", ("eve", 3))
        rows = tx.execute(f"SELECT name, n FROM orders WHERE n >= {mark} ORDER BY name", (0,)).fetchall()
    assert [tuple(row) for row in rows] == [("ada", 0), ("eve", 3)]


# -- connections of other libraries


@pytest.fixture
def postgres_app(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Tickwork]:
    monkeypatch.setenv("TICKWORK_SCHEMA", f"other_{threading.get_native_id()}_{id(request)}")
    app = Tickwork(postgres_database, upgrade=True)
    yield app
    app.close()


def test_tx_takes_a_psycopg_connection(postgres_app: Tickwork) -> None:
    with psycopg.connect(postgres_app.url) as connection:
        kept = postgres_app.named("work").options(tx=connection).enqueue()
        connection.commit()
        lost = postgres_app.named("work").options(tx=connection).enqueue()
        connection.rollback()
    assert kept.state == "queued"
    assert postgres_app.job(lost.id) is None


def test_tx_takes_an_async_psycopg_connection(postgres_app: Tickwork) -> None:
    async def main() -> tuple[str, str]:
        async with await psycopg.AsyncConnection.connect(postgres_app.url) as connection:
            kept = await postgres_app.named("work").options(tx=connection).enqueue_async()
            await connection.commit()
            lost = await postgres_app.named("work").options(tx=connection).enqueue_many_async([{}, {}])
            await connection.rollback()
        return kept.id, lost[1].id

    kept, lost = asyncio.run(main())
    assert postgres_app.job(kept) is not None
    assert postgres_app.job(lost) is None


def check_enqueue_with(engine: sqlalchemy.Engine, app: Tickwork) -> None:
    """Check that jobs commit and roll back with a connection and a session of SQLAlchemy."""
    with engine.begin() as connection:
        kept = app.named("work").options(tx=connection).enqueue()
    with Session(engine) as session:
        also_kept = app.named("work").options(tx=session).enqueue()
        session.commit()
        lost = app.named("work").options(tx=session).enqueue()
        session.rollback()
    engine.dispose()
    assert kept.state == also_kept.state == "queued"
    assert app.job(lost.id) is None


def test_tx_takes_a_sqlalchemy_connection_or_session(postgres_app: Tickwork) -> None:
    engine = sqlalchemy.create_engine(postgres_app.url.replace("postgresql://", "postgresql+psycopg://"))
    check_enqueue_with(engine, postgres_app)


def test_an_asynchronous_tx_needs_the_asynchronous_enqueue(postgres_app: Tickwork) -> None:
    async def main() -> None:
        async with await psycopg.AsyncConnection.connect(postgres_app.url) as connection:
            with pytest.raises(InvalidInput, match="enqueue_async"):
                postgres_app.named("work").options(tx=connection).enqueue()

    asyncio.run(main())
    assert postgres_app.jobs() == []


def test_with_its_driver_tx_takes_a_sqlite3_connection(tmp_path: Path) -> None:
    app = Tickwork(f"sqlite:///{tmp_path}/tickwork.db", driver="sqlite3")
    app.jobs()
    connection = sqlite3.connect(tmp_path / "tickwork.db", isolation_level=None)
    for end in ("COMMIT", "ROLLBACK"):
        connection.execute("BEGIN IMMEDIATE")
        app.named("work").options(tx=connection, labels=[end]).enqueue()
        connection.execute(end)
    connection.close()
    assert [job.view.labels for job in app.jobs()] == [("COMMIT",)]
    app.close()


def test_with_its_driver_tx_takes_a_sqlalchemy_session(tmp_path: Path) -> None:
    app = Tickwork(f"sqlite:///{tmp_path}/tickwork.db", driver="sqlite3")
    app.jobs()
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/tickwork.db")
    check_enqueue_with(engine, app)
    app.close()


def test_a_tx_of_another_sqlite_library_is_refused(tmp_path: Path) -> None:
    app = Tickwork(f"sqlite:///{tmp_path}/tickwork.db")
    connection = sqlite3.connect(":memory:")
    with pytest.raises(MixedDrivers, match=r"Nothing was stored\. Use Tickwork\(url, driver='sqlite3'\)"):
        app.named("work").options(tx=connection).enqueue()
    assert app.jobs() == []
    app.close()


# -- transactional handlers


def test_the_writes_of_a_handler_commit_with_its_jobs_end(shop: Tickwork) -> None:
    @shop.task(transactional=True)
    def work(tx: Any, n: int) -> int:
        add(tx, n)
        print("written")
        return tx.execute("SELECT n FROM orders WHERE name = 'ada'").fetchall()[0][0]

    with shop.worker():
        job = work.enqueue(5)
        assert job.result(timeout=10) == 5
    assert (count(shop), job.attempt, job.attempts()[0].state) == (5, 1, "succeeded")
    assert output_of(job) == "written\n"


def test_a_transactional_handler_may_run_in_a_test_like_any_function(shop: Tickwork) -> None:
    @shop.task(transactional=True)
    def work(tx: Any, n: int) -> None:
        add(tx, n)

    with shop.connection() as tx:
        work(tx, 2)
    assert count(shop) == 2


def test_the_writes_of_a_failed_attempt_are_rolled_back(shop: Tickwork) -> None:
    @shop.task(transactional=True, retries=2, backoff="1ms")
    def work(tx: Any) -> None:
        add(tx)
        if current_job().attempt < 3:
            raise ConnectionError("after the write")

    with shop.worker():
        job = work.enqueue()
        job.result(timeout=10)
    assert (count(shop), job.attempt) == (1, 3)
    assert [attempt.state for attempt in job.attempts()] == ["failed", "failed", "succeeded"]


def test_the_writes_of_a_job_that_fails_for_good_are_rolled_back(shop: Tickwork) -> None:
    @shop.task(transactional=True, retries=0)
    def work(tx: Any) -> None:
        add(tx)
        raise ValueError("no")

    with shop.worker(), pytest.raises(JobFailed, match="ValueError: no"):
        work.enqueue().result(timeout=10)
    assert count(shop) == 0


def test_a_result_that_cannot_be_stored_rolls_back_too(shop: Tickwork) -> None:
    @shop.task(transactional=True)
    def work(tx: Any) -> Any:
        add(tx)
        return object()

    with shop.worker(), pytest.raises(JobFailed, match="has no JSON"):
        work.enqueue().result(timeout=10)
    assert count(shop) == 0


def test_a_handler_that_writes_nothing_ends_all_the_same(shop: Tickwork) -> None:
    @shop.task(transactional=True)
    def work(tx: Any) -> str:
        return "nothing"

    with shop.worker():
        assert work.enqueue().result(timeout=10) == "nothing"


def test_jobs_enqueued_with_the_handlers_tx_commit_with_it(shop: Tickwork) -> None:
    @shop.task(transactional=True, retries=1, backoff="1ms")
    def work(tx: Any) -> None:
        shop.named("child").options(tx=tx, key=f"child:{current_job().attempt}").enqueue()
        add(tx)
        if current_job().attempt == 1:
            raise ConnectionError

    with shop.worker():
        job = work.enqueue()
        job.result(timeout=10)
    assert [child.key for child in shop.jobs(parent=job)] == ["child:2"]
    assert count(shop) == 1


def test_on_sqlite_a_handler_may_not_keep_its_transaction_open_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction stops every other writer of the file."""
    monkeypatch.setattr("tickwork.worker.run.executor.TRANSACTION_LIMIT", timedelta(milliseconds=200))
    app = Tickwork(f"sqlite:///{tmp_path}/tickwork.db")
    with app.connection() as tx:
        tx.execute("CREATE TABLE orders (name TEXT PRIMARY KEY, n INTEGER)")
        tx.execute("INSERT INTO orders VALUES ('ada', 0)")

    @app.task(transactional=True, retries=0)
    def dawdles(tx: Any) -> None:
        add(tx)
        while True:
            time.sleep(0.005)

    @app.task(transactional=True, retries=0)
    def thinks_first(tx: Any) -> None:
        time.sleep(0.4)  # nothing is open yet
        add(tx)

    with app.worker():
        jobs = dawdles.enqueue(), thinks_first.enqueue()
        with pytest.raises(JobFailed, match=r"its transaction was open for more than 0\.2 s"):
            jobs[0].result(timeout=10)
        jobs[1].result(timeout=10)
    assert [job.attempts()[0].state for job in jobs] == ["timed_out", "succeeded"]
    assert count(app) == 1
    app.close()


def test_a_superseded_attempt_commits_nothing(shop: Tickwork) -> None:
    running, go_on, both = threading.Event(), threading.Event(), threading.Barrier(2)

    @shop.task(transactional=True)
    def work(tx: Any) -> str:
        me = current_job().attempt
        if me == 1:
            running.set()
            assert go_on.wait(20)
        add(tx, 10**me)
        return f"attempt {me}"

    @shop.task
    def meet() -> None:
        both.wait(20)

    with shop.worker(concurrency=2):
        job = work.enqueue()
        assert running.wait(10)
        supersede(shop, job)
        assert job.result(timeout=10) == "attempt 2"
        go_on.set()
        [one.result(timeout=10) for one in meet.enqueue_many([()] * 2)]  # it takes both slots: attempt 1 is over
    assert (count(shop), job.result()) == (100, "attempt 2")
    assert [attempt.state for attempt in job.attempts()] == ["lost", "succeeded"]


def test_a_superseded_attempt_can_enqueue_nothing(app: Tickwork) -> None:
    running, go_on = threading.Event(), threading.Event()
    refused: list[Exception] = []

    @app.task
    def work() -> None:
        if current_job().attempt > 1:
            return
        running.set()
        assert go_on.wait(20)
        for enqueue in (
            app.named("child").enqueue,
            lambda: app.named("child").enqueue_many([{}]),
            lambda: asyncio.run(app.named("child").enqueue_async()),
        ):
            try:
                enqueue()
            except LeaseLost as error:
                refused.append(error)

    with app.worker():
        job = work.enqueue()
        assert running.wait(10)
        app.pause(task="work")  # or this worker would claim the job again and stop its first attempt
        supersede(app, job)
        go_on.set()
        eventually(lambda: len(refused) == 3)
    assert list(app.jobs(task="child")) == []


def test_what_a_transactional_handler_enqueues_commits_or_rolls_back_with_it(shop: Tickwork) -> None:
    @shop.task
    def later(n: int) -> None: ...

    @shop.task(transactional=True, retries=1, backoff="1ms")
    def work(tx: Any) -> None:
        add(tx)
        later.enqueue(current_job().attempt)
        if current_job().attempt == 1:
            raise ConnectionError("after the write")

    with shop.worker():
        work.enqueue().result(timeout=10)
        eventually(lambda: [job.state for job in shop.jobs(task=later)] == ["succeeded"])
    assert count(shop) == 1


@pytest.mark.parametrize("statement", ["COMMIT", "rollback;", "begin"])
def test_a_transactional_handler_cannot_end_its_transaction_itself(shop: Tickwork, statement: str) -> None:
    @shop.task(transactional=True)
    def work(tx: Any) -> None:
        add(tx)
        tx.execute(statement)

    with shop.worker():
        job = work.enqueue()
        with pytest.raises(JobFailed, match="its transaction commits when it returns"):
            job.result(timeout=10)
    assert (count(shop), job.attempt) == (0, 1)


def test_a_transactional_handler_has_nothing_to_save(shop: Tickwork) -> None:
    @shop.task(transactional=True)
    def work(tx: Any) -> None:
        add(tx)
        current_job().save(1)

    with shop.worker(), pytest.raises(JobFailed, match="There is nothing to save"):
        work.enqueue().result(timeout=10)


def test_a_second_transaction_beside_an_open_one_of_the_same_thread_is_refused_at_once(tmp_path: Path) -> None:
    app = Tickwork(f"sqlite:///{tmp_path}/tickwork.db")
    with app.connection() as tx:
        with pytest.raises(InvalidInput, match=r"Nothing was written\. Pass it along: tx="):
            app.named("work").enqueue()
        app.named("work").options(tx=tx).enqueue()
    assert len(app.jobs()) == 1
    app.close()
