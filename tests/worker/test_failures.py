"""Bad rows, unknown tasks, lost leases and stores that fail: each hurts as little as it can."""

import logging
import threading
import time
from random import Random
from typing import Any

import pytest

from tests.postgres_server import delete_rows
from tests.waiting import eventually
from tests.worker.job_helpers import output_of
from tickwork import Interrupted, JobFailed, Tickwork, current_job
from tickwork.errors import StoreUnreachable
from tickwork.services.reaper import Reaper


def change(app: Tickwork, sqlite: str, postgres: str) -> None:
    with app.connection() as tx:
        tx.execute(sqlite if app.url.startswith("sqlite") else postgres.replace("tickwork.", f"{app.settings.schema}."))


# -- rows


@pytest.mark.parametrize("args", ["not JSON", "[1, 2]", '{"n": "seven"}', '{"n": 1e999}', "", '{"n": 1, "n": 2'])
def test_a_corrupt_payload_fails_its_own_job_and_no_other(app: Tickwork, args: str) -> None:
    @app.task
    def work(n: int) -> int:
        return n

    jobs = work.enqueue_many([(n,) for n in range(9)])
    change(
        app,
        f"UPDATE tickwork_jobs SET args = '{args}' WHERE id = '{jobs[4].id}'",
        f"UPDATE tickwork.jobs SET args = '{args}' WHERE id = '{jobs[4].id}'",
    )
    with app.worker():
        for n, job in enumerate(jobs):
            if n != 4:
                assert job.result(timeout=10) == n
        with pytest.raises(JobFailed, match=r"Invalid(Arguments|Payload)"):
            jobs[4].result(timeout=10)
    assert (jobs[4].attempt, jobs[4].view.failures) == (1, 1)


def test_a_job_of_an_unknown_task_stays_queued_and_is_told_of_once(
    app: Tickwork, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.worker.claimer.UNKNOWN_LOOK_S", 0.0)

    @app.task
    def send_email() -> str:
        return "sent"

    jobs = [app.enqueue("send_emial") for _ in range(3)]
    with app.worker():
        for _ in range(5):
            assert send_email.enqueue().result(timeout=10) == "sent"
    assert [job.state for job in jobs] == ["queued"] * 3
    assert [job.attempts() for job in jobs] == [[]] * 3
    told = [record.getMessage() for record in caplog.records if "send_emial" in record.getMessage()]
    assert len(told) == 1
    assert "UnknownTask: this worker has no task named 'send_emial' (did you mean 'send_email'?)" in told[0]


def test_a_known_job_is_not_held_up_by_many_unknown_ones(app: Tickwork) -> None:
    @app.task
    def known() -> str:
        return "known"

    app.named("unknown").options(priority="high").enqueue_many([{}] * 2000)
    with app.worker():
        assert known.enqueue().result(timeout=10) == "known"


# -- leases


def expire_leases(app: Tickwork) -> None:
    change(
        app,
        "UPDATE tickwork_workers SET lease_until = 0",
        "UPDATE tickwork.workers SET lease_until = now() - interval '1 hour'",
    )


def test_a_worker_that_lost_its_lease_drops_its_jobs_and_goes_on_under_a_new_name(app: Tickwork) -> None:
    stopped, attempts = threading.Event(), []

    @app.task
    def work() -> int:
        attempts.append(current_job().attempt)
        try:
            while current_job().attempt == 1:
                time.sleep(0.005)
        except Interrupted:
            stopped.set()
            raise
        return current_job().attempt

    with app.worker():
        job = work.enqueue()
        eventually(lambda: attempts == [1])
        (first,) = app.store.reads.workers()
        reaper = Reaper(app.store, Random(1))
        while not reaper.reclaimed:  # its heartbeat may come in between, and wins then
            expire_leases(app)
            reaper.tick(0.0)
        assert job.result(timeout=15) == 2
        assert stopped.wait(5), "the handler of the lost attempt was stopped"
        eventually(
            lambda: [one.id for one in app.store.reads.workers() if one.state == "running"] not in ([], [first.id])
        )
    assert [attempt.state for attempt in job.attempts()] == ["lost", "succeeded"]
    assert job.view.failures == 0


def test_a_long_job_keeps_its_lease(app: Tickwork) -> None:
    @app.task
    def long() -> int:
        time.sleep(1.5)
        return current_job().attempt

    with app.worker(lease="300ms"):
        job = long.enqueue()
        assert job.result(timeout=10) == 1
    assert len(job.attempts()) == 1


def test_a_worker_that_cannot_renew_stops_its_handlers_before_the_lease_is_over(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped, running = threading.Event(), threading.Event()
    stopped_at: list[float] = []

    @app.task
    def work() -> None:
        running.set()
        try:
            while True:
                time.sleep(0.005)
        finally:
            stopped_at.append(time.monotonic())
            stopped.set()

    def down(*_: Any, **__: Any) -> Any:
        raise StoreUnreachable("it does not answer.")

    with app.worker(lease="2500ms", grace="0s"):
        work.enqueue()
        assert running.wait(10)
        for verb in ("renew_lease", "finish_attempts", "exchange", "cancel_requests"):
            monkeypatch.setattr(app.store, verb, down)
        cut_off = time.monotonic()
        assert stopped.wait(10)
        assert stopped_at[0] - cut_off < 2.5
        monkeypatch.undo()


def test_handlers_that_hold_all_connections_cost_no_lease(postgres_database: str) -> None:
    delete_rows(postgres_database)
    app = Tickwork(postgres_database)

    @app.task
    def hoards() -> int:
        with app.connection() as tx:
            tx.execute("SELECT 1")
            time.sleep(1.5)
        return current_job().attempt

    with app.worker(concurrency=20, lease="500ms"):
        jobs = hoards.enqueue_many([()] * 20)
        assert [job.result(timeout=20) for job in jobs] == [1] * 20
    app.close()


# -- a store that fails for a while


def test_endings_and_output_outlive_an_outage(app: Tickwork, monkeypatch: pytest.MonkeyPatch) -> None:
    down, running = threading.Event(), threading.Event()

    @app.task(retries=0)
    def work(n: int) -> int:
        running.set()
        down.wait(10)
        print(f"job {n}")
        current_job().progress(0.5)
        return n

    originals = {verb: getattr(app.store, verb) for verb in ("exchange", "append_logs", "set_progress")}
    refused: list[str] = []

    def failing(verb: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if down.is_set() and len(refused) < 3:
                refused.append(verb)
                raise StoreUnreachable("it does not answer.")
            return originals[verb](*args, **kwargs)

        return call

    for verb in originals:
        monkeypatch.setattr(app.store, verb, failing(verb))
    with app.worker(concurrency=4):
        jobs = work.enqueue_many([(n,) for n in range(12)])
        assert running.wait(10)
        down.set()
        assert [job.result(timeout=20) for job in jobs] == list(range(12))
    assert len(refused) == 3
    assert [output_of(job) for job in jobs] == [f"job {n}\n" for n in range(12)]
    assert [job.attempt for job in jobs] == [1] * 12


def test_a_worker_waits_for_a_store_that_does_not_answer_yet(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    register, tries = app.store.register_worker, []

    def slow_to_answer(*args: Any) -> None:
        tries.append(args)
        if len(tries) < 4:
            raise StoreUnreachable("it does not answer.")
        register(*args)

    monkeypatch.setattr(app.store, "register_worker", slow_to_answer)

    @app.task
    def work() -> str:
        return "done"

    with caplog.at_level(logging.WARNING), app.worker():
        assert work.enqueue().result(timeout=20) == "done"
    said = [record.getMessage() for record in caplog.records if "it does not answer" in record.getMessage()]
    assert len(said) == 1, "once, not at every try"
    assert any("works again, after 3 failed tries" in record.getMessage() for record in caplog.records)


def test_a_fault_of_ours_in_a_tick_does_not_end_the_worker(app: Tickwork, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange, tries = app.store.exchange, []

    def broken_once(*args: Any, **kwargs: Any) -> Any:
        tries.append(args)
        if len(tries) == 1:
            raise ZeroDivisionError("a bug")
        return exchange(*args, **kwargs)

    monkeypatch.setattr(app.store, "exchange", broken_once)

    @app.task
    def work() -> str:
        return "done"

    with app.worker():
        assert work.enqueue().result(timeout=20) == "done"
