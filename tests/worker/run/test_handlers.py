"""The context of a handler, its reports, and the exceptions that it may raise."""

import threading
import time
from datetime import timedelta

import msgspec
import pytest

from tests.waiting import eventually
from tests.worker.job_helpers import supersede
from tickwork import (
    Cancel,
    Fatal,
    InvalidInput,
    JobCancelled,
    JobFailed,
    LeaseLost,
    Retry,
    Snooze,
    Tickwork,
    current_job,
)
from tickwork.core.job import Policy
from tickwork.errors import NoCurrentJob, StoreUnreachable

# -- what it knows


def test_a_handler_knows_its_job(app: Tickwork) -> None:
    @app.task(queue="mail", retries=1, backoff="1ms")
    def told() -> list[object]:
        job = current_job()
        if job.attempt == 1:
            raise ConnectionError
        return [job.id, job.attempt, job.task, job.queue, job.token, job.cancelled]

    with app.worker(queues="mail"):
        job = told.enqueue()
        assert job.result(timeout=10) == [job.id, 2, "told", "mail", f"{job.id}:2", False]


def test_a_handler_knows_when_it_was_due_and_how_late_it_is(app: Tickwork) -> None:
    @app.task
    def told() -> list[float]:
        job = current_job()
        return [job.scheduled_for.timestamp(), job.late_by.total_seconds()]

    with app.worker():
        job = told.options(delay="100ms").enqueue()
        scheduled_for, late_by = job.result(timeout=10)
        assert scheduled_for == pytest.approx(job.run_at.timestamp(), abs=1e-5)
        assert 0 <= late_by < 3
    waited = told.enqueue()
    eventually(lambda: app.store.now() - waited.run_at > timedelta(milliseconds=300))
    with app.worker():
        assert 0.3 <= waited.result(timeout=10)[1] < 5


def test_outside_of_a_handler_there_is_no_current_job(app: Tickwork) -> None:
    with pytest.raises(NoCurrentJob, match="works inside a handler"):
        current_job()


def test_jobs_at_the_same_time_know_their_own(app: Tickwork) -> None:
    everybody = threading.Barrier(8)

    @app.task
    def plain(n: int) -> str:
        everybody.wait(10)
        return current_job().id

    @app.task
    async def on_the_loop(n: int) -> str:
        return current_job().id

    with app.worker(concurrency=8):
        jobs = plain.enqueue_many([(n,) for n in range(8)]) + on_the_loop.enqueue_many([(n,) for n in range(20)])
        assert [job.result(timeout=10) for job in jobs] == [job.id for job in jobs]


# -- what it may say


def test_progress_is_seen_while_it_runs(app: Tickwork) -> None:
    go_on = threading.Event()

    @app.task
    def work() -> None:
        current_job().progress(0.4, "two of five\0 \ud800")
        go_on.wait(20)
        with pytest.raises(InvalidInput, match="progress goes from 0 to 1"):
            current_job().progress(1.5)
        with pytest.raises(InvalidInput):
            current_job().progress(float("nan"))
        current_job().progress(1)

    with app.worker():
        job = work.enqueue()
        eventually(lambda: job.progress == 0.4)
        assert job.view.progress_note == "two of five\\0 \\ud800"
        go_on.set()
        job.result(timeout=10)


@pytest.mark.parametrize("transactional", [False, True])
def test_progress_stays_when_the_job_has_ended(app: Tickwork, transactional: bool) -> None:
    def work(how: str) -> None:
        current_job().progress(0.2, "one of five")
        current_job().progress(0.4, "two of five")
        if how == "fail":
            raise ValueError("row 3")

    if transactional:
        task = app.task(name="work", transactional=True, retries=0)(lambda tx, how: work(how))
    else:
        task = app.task(name="work", retries=0)(work)
    with app.worker():
        succeeded, failed = task.enqueue("succeed"), task.enqueue("fail")
        for job in (succeeded, failed):
            job.wait(timeout=10)
            assert (job.progress, job.view.progress_note) == (0.4, "two of five")
            assert [one.progress for one in job.attempts()] == [0.4]


def test_a_retry_resumes_from_what_was_saved(app: Tickwork) -> None:
    @app.task(retries=3, backoff="1ms")
    def work() -> list[object]:
        job = current_job()
        seen = job.saved or {"rows": []}
        seen["rows"].append(job.attempt)
        job.save(seen)
        assert job.saved == seen
        if job.attempt < 3:
            raise ConnectionError
        return seen["rows"]

    with app.worker():
        assert work.enqueue().result(timeout=10) == [1, 2, 3]


def test_an_instance_of_a_mapped_step_knows_its_place(app: Tickwork) -> None:
    @app.task
    def place(name: str) -> list[object]:
        job = current_job()
        return [name, job.map_index, job.map_count]

    @app.dag
    def mapped() -> tuple[object, object]:
        return place.map(["a", "b", "c"]), place("alone")

    with app.worker():
        assert mapped.enqueue().result(timeout=20) == [
            [["a", 0, 3], ["b", 1, 3], ["c", 2, 3]],
            ["alone", None, None],
        ]
        assert place.enqueue("plain").result(timeout=10) == ["plain", None, None]


def test_an_async_handler_saves_too(app: Tickwork) -> None:
    @app.task(retries=1, backoff="1ms")
    async def work() -> object:
        job = current_job()
        if job.saved is None:
            job.save({"cursor": 7})
            raise ConnectionError
        return job.saved

    with app.worker():
        assert work.enqueue().result(timeout=10) == {"cursor": 7}


def test_a_state_that_cannot_be_stored_is_refused_to_the_handler(app: Tickwork) -> None:
    @app.task(retries=0)
    def work() -> None:
        current_job().save({"x": float("nan")})

    with app.worker(), pytest.raises(JobFailed, match=r"the state saved by job .* NaN"):
        work.enqueue().result(timeout=10)


def test_a_superseded_attempt_cannot_save(app: Tickwork) -> None:
    running, go_on = threading.Event(), threading.Event()
    raised: list[Exception] = []

    @app.task
    def work() -> object:
        job = current_job()
        if job.attempt > 1:
            return job.saved
        job.save("before")
        running.set()
        go_on.wait(20)
        try:
            job.save("after")
        except LeaseLost as error:
            raised.append(error)
        job.progress(0.9)
        print("too late")
        return None

    with app.worker():
        job = work.enqueue()
        assert running.wait(10)
        app.pause(task="work")  # or this worker would claim the job again and stop its first attempt
        supersede(app, job)
        go_on.set()
        eventually(lambda: len(raised) == 1)
        app.resume(task="work")
        assert job.result(timeout=10) == "before"
    assert job.logs() == []


def test_while_the_store_does_not_answer_a_save_waits(app: Tickwork, monkeypatch: pytest.MonkeyPatch) -> None:
    save, tries = app.store.save_state, []

    def slow_to_answer(*args: object) -> bool:
        tries.append(args)
        if len(tries) < 3:
            raise StoreUnreachable("it does not answer.")
        return save(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(app.store, "save_state", slow_to_answer)

    @app.task(retries=0)
    def work() -> object:
        current_job().save("kept")
        return current_job().saved

    @app.task
    def other(n: int) -> int:
        return n

    with app.worker():
        job, others = work.enqueue(), other.enqueue_many([(n,) for n in range(20)])
        assert job.result(timeout=10) == "kept"
        assert [one.result(timeout=10) for one in others] == list(range(20)), "no message was lost"


# -- what it may raise


def test_retry_asks_for_another_try_after_a_while_and_is_charged(app: Tickwork) -> None:
    @app.task(retries=1)
    def work() -> int:
        if current_job().attempt == 1:
            raise Retry("not ready", after="100ms")
        return current_job().attempt

    with app.worker():
        job = work.enqueue()
        assert job.result(timeout=10) == 2
    first, second = job.attempts()
    assert (first.state, job.view.failures) == ("failed", 1)
    assert first.ended_at is not None
    assert timedelta(milliseconds=100) <= second.started_at - first.ended_at < timedelta(seconds=5)
    assert "not ready" in (first.error or "")


def test_retry_without_a_time_takes_the_backoff(app: Tickwork) -> None:
    @app.task(retries=1, backoff="50ms")
    def work() -> None:
        raise Retry

    with app.worker():
        job = work.enqueue()
        assert job.wait(timeout=10) == "failed"
    assert job.attempt == 2


def test_fatal_ends_the_job_at_once(app: Tickwork) -> None:
    @app.task(retries=10)
    def work() -> None:
        raise Fatal("the card is not valid")

    with app.worker(), pytest.raises(JobFailed, match="Fatal: the card is not valid"):
        work.enqueue().result(timeout=10)
    (job,) = app.jobs(state="failed")
    assert (job.attempt, job.view.failures) == (1, 1)


def test_a_job_that_waits_for_a_true_result_runs_again_and_is_not_charged(app: Tickwork) -> None:
    calls: list[int] = []

    @app.task(retries=0)
    def ready() -> bool:
        calls.append(current_job().attempt)
        return len(calls) == 3

    (plain,) = app.new_jobs("ready", [b"{}"], ready.defaults)
    sensor = msgspec.structs.replace(plain, policy=Policy(again_every=timedelta(milliseconds=5)))
    with app.worker():
        (job,) = app.client.enqueue([sensor], None)
        assert job.result(timeout=10) is True
    assert calls == [1, 2, 3]
    assert job.view.failures == 0


def test_snooze_comes_back_later_and_is_not_charged(app: Tickwork) -> None:
    @app.task(retries=0)
    def work() -> int:
        if current_job().attempt < 4:
            raise Snooze("20ms")
        return current_job().attempt

    with app.worker():
        job = work.enqueue()
        assert job.result(timeout=10) == 4
    assert [one.state for one in job.attempts()] == ["released"] * 3 + ["succeeded"]
    assert (job.view.failures, job.view.crashes) == (0, 0)


def test_cancel_ends_the_job_as_cancelled(app: Tickwork) -> None:
    @app.task
    def work(reason: str) -> None:
        raise Cancel(reason) if reason else Cancel

    with app.worker():
        with pytest.raises(JobCancelled, match="nobody wants it"):
            work.enqueue("nobody wants it").result(timeout=10)
        with pytest.raises(JobCancelled, match="the handler cancelled its own job"):
            work.enqueue("").result(timeout=10)
        assert "it ended as cancelled" in app.jobs()[0].why()
        blank = work.enqueue(" ")
        assert blank.wait(timeout=10) == "cancelled"
        assert "it ended as cancelled" in blank.why()


@pytest.mark.parametrize("raises", [Snooze("5 parsecs"), Snooze("-5s"), Retry(after="soon"), Snooze(5)])  # type: ignore[arg-type]
def test_a_wait_that_is_none_fails_the_job_and_says_so(app: Tickwork, raises: Exception) -> None:
    @app.task(retries=5)
    def work() -> None:
        raise raises

    with app.worker(), pytest.raises(JobFailed, match="InvalidOption: after: "):
        work.enqueue().result(timeout=10)


@pytest.mark.parametrize("pool", ["thread", "async"])
def test_system_exit_ends_the_attempt_only(app: Tickwork, pool: str) -> None:
    def leaves() -> None:
        raise SystemExit(3)

    async def leaves_async() -> None:
        raise SystemExit(3)

    task = app.task(name="leaves", retries=0)(leaves if pool == "thread" else leaves_async)

    @app.task
    def stays() -> str:
        return "still here"

    with app.worker(concurrency=1):
        with pytest.raises(JobFailed, match="SystemExit: 3"):
            task.enqueue().result(timeout=10)
        assert stays.enqueue().result(timeout=10) == "still here"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ValueError("a\0b"), r"ValueError: a\\0b"),
        (ValueError("\ud800"), r"ValueError: \\ud800"),
        (Unspeakable(), "Unspeakable: <exception str"),
        (ValueError("x" * 1_000_000), "xxx"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
        (ExceptionGroup("two", [ValueError("one"), TypeError("other")]), "TypeError: other"),
    ],
)
def test_any_exception_is_stored_as_the_error_of_its_attempt(app: Tickwork, error: BaseException, shown: str) -> None:
    @app.task(retries=0)
    def work() -> None:
        raise error

    with app.worker():
        job = work.enqueue()
        assert job.wait(timeout=10) == "failed"
    assert job.error is not None
    assert len(job.error) < 70_000
    with pytest.raises(JobFailed, match=f"(?s){shown}") as raised:
        job.result()
    assert raised.value.error == job.error


# -- being cancelled


def test_a_handler_notices_that_it_was_cancelled(app: Tickwork) -> None:
    running, seen = threading.Event(), threading.Event()

    @app.task
    def work() -> str:
        running.set()
        while not current_job().cancelled:
            time.sleep(0.005)
        seen.set()
        return "came to an end"

    with app.worker():
        job = work.enqueue()
        assert running.wait(10)
        assert job.cancel() is True
        assert job.wait(timeout=5) == "cancelled"
    assert seen.is_set()
    assert [one.state for one in job.attempts()] == ["cancelled"]
    assert job.view.result is None, "whatever it returned, it was cancelled"
