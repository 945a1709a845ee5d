"""Reading jobs and acting on them: paging, waiting, cancelling, retrying, redriving, discarding; and the twins."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise

import pytest

from tests.waiting import eventually
from tickwork import JobCancelled, JobFailed, Tickwork, TickworkError, WaitTimeout
from tickwork.core.job import JobState
from tickwork.errors import InvalidOption, JobEnded


@contextmanager
def held_up(app: Tickwork, name: str = "work") -> Iterator[threading.Event]:
    """A worker with a task of this name that waits for the event, and a way to know that it runs."""
    go_on = threading.Event()

    @app.task(name=name)
    def work() -> str:
        go_on.wait(20)
        return "went on"

    with app.worker():
        try:
            yield go_on
        finally:
            go_on.set()


@pytest.fixture
def failing(app: Tickwork) -> Iterator[Tickwork]:
    """An app with a task that fails until its argument says otherwise, and a worker."""

    @app.task(retries=0)
    def fragile(how: str = "fail") -> str:
        if how == "fail" and not getattr(app, "healthy", False):
            raise ValueError("broken")
        return "mended"

    with app.worker():
        yield app


# -- reading


def test_a_job_is_found_by_its_id(app: Tickwork) -> None:
    job = app.enqueue("work", n=1)
    found = app.job(job.id)
    assert found is not None
    assert (found.id, found.task) == (job.id, "work")
    again = app.job(found)
    assert again is not None
    assert again.id == job.id


def test_jobs_are_listed_the_newest_first(app: Tickwork) -> None:
    jobs = [app.enqueue("work", n=n) for n in range(5)]
    assert [job.id for job in app.jobs()] == [job.id for job in reversed(jobs)]


def test_pages_follow_each_other_without_gaps_or_repeats(app: Tickwork) -> None:
    jobs = app.named("work").enqueue_many([{"n": n} for n in range(25)])
    seen: list[str] = []
    cursor = None
    for length in (10, 10, 5):
        page = app.jobs(limit=10, cursor=cursor)
        assert len(page) == length
        app.enqueue("work")  # a newer one does not disturb
        seen += [job.id for job in page]
        cursor = page.next_cursor
    assert cursor is None
    assert seen == [job.id for job in reversed(jobs)]


def test_more_than_a_hundred_jobs_are_iterated_over(app: Tickwork) -> None:
    app.named("work").enqueue_many([{"n": n} for n in range(101)])
    assert len(list(app.jobs())) == 101


def test_without_a_limit_all_jobs_are_iterated_over(app: Tickwork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tickwork.api.job_calls.PAGE", 10)
    jobs = app.named("work").enqueue_many([{"n": n} for n in range(25)])
    ids = [job.id for job in reversed(jobs)]
    assert [job.id for job in app.jobs()] == ids
    found = app.jobs(task="work")
    assert (found[0].id, found[12].id, found[-1].id, len(found), bool(found)) == (ids[0], ids[12], ids[-1], 25, True)
    assert [job.id for job in found[8:12]] == ids[8:12]
    assert (bool(app.jobs(task="other")), app.jobs(task="other")) == (False, [])

    async def iterated() -> list[str]:
        return [job.id async for job in app.jobs()]

    assert asyncio.run(iterated()) == ids
    assert [job.id for job in asyncio.run(app.jobs_async())] == ids
    page = asyncio.run(app.jobs_async(limit=5))
    assert (len(page), page.next_cursor) == (5, ids[4])


def test_what_is_read_of_a_job_has_asyncio_twins(app: Tickwork) -> None:
    job = app.enqueue("work")

    async def read() -> tuple[object, ...]:
        return await job.state_async(), await job.attempt_async(), await job.progress_async(), await job.error_async()

    assert asyncio.run(read()) == ("queued", 0, None, None)


def test_each_job_of_many_may_have_options_of_its_own(app: Tickwork) -> None:
    work = app.named("work").options(queue="mail")
    rows = [{"n": 1}, {"n": 2}, {"n": 3}]
    jobs = work.enqueue_many(
        rows, [{"key": "a", "delay": "1h"}, {}, {"key": "b", "priority": "high", "queue": "other"}]
    )
    assert [(job.key, job.seen.queue, job.seen.priority, job.is_new) for job in jobs] == [
        ("a", "mail", 5, True),
        (None, "mail", 5, True),
        ("b", "other", 2, True),
    ]
    again = asyncio.run(work.enqueue_many_async([{"n": 4}, {"n": 5}], [{"key": "a"}, {"key": "c"}]))
    assert [(job.is_new, job.id == jobs[0].id) for job in again] == [(False, True), (True, False)]
    for options, told in (([{}], "3 rows and 1 options"), ([{}, {}, {"tx": 1}], "tx is for all jobs")):
        with pytest.raises(InvalidOption, match=told):
            work.enqueue_many(rows, options)
    with pytest.raises(InvalidOption, match="retries"):
        work.enqueue_many(rows, [{}, {}, {"retrys": 1}])
    assert len(app.jobs()) == 4


def test_jobs_are_chosen_by_what_was_said_of_them(app: Tickwork) -> None:
    work, other = app.named("work"), app.named("other")
    parent = work.options(queue="mail", key="k", collection="c", labels=["red", "blue"]).enqueue()
    child = other.options(parent=parent, labels=["blue"]).enqueue()

    def chosen(**which: object) -> set[str]:
        return {job.id for job in app.jobs(**which)}

    assert chosen(task="work") == chosen(queue="mail") == chosen(key="k") == chosen(collection="c") == {parent.id}
    assert chosen(label="red") == {parent.id}
    assert chosen(label="blue") == chosen(state="queued") == {parent.id, child.id}
    assert chosen(parent=parent) == chosen(task="other", label="blue") == {child.id}
    assert chosen(ids=[parent.id, child]) == {parent.id, child.id}
    assert chosen(id=child) == {child.id}
    assert chosen(task="other", queue="mail") == chosen(state="failed") == chosen(label="re") == set()


def test_jobs_are_chosen_by_where_they_stand(failing: Tickwork) -> None:
    ok, bad = failing.enqueue("fragile", "work"), failing.enqueue("fragile")
    late = failing.named("fragile").options(delay="1h").enqueue()
    gone = failing.named("fragile").options(delay="1h").enqueue()
    gone.cancel()
    assert (ok.wait(10), bad.wait(10)) == ("succeeded", "failed")
    for job, state in ((ok, "succeeded"), (bad, "failed"), (late, "queued"), (gone, "cancelled")):
        assert [found.id for found in failing.jobs(state=state)] == [job.id]


# -- waiting


def test_a_result_is_waited_for(app: Tickwork) -> None:
    with held_up(app) as go_on:
        job = app.enqueue("work")
        threading.Timer(0.05, go_on.set).start()
        assert job.result(timeout="10s") == "went on"
        assert job.wait() == job.state == "succeeded"


def test_a_wait_ends_in_time_and_the_job_goes_on(app: Tickwork) -> None:
    job = app.enqueue("nobody_runs_this")
    for timeout in (0, 0.05, "50ms", timedelta(milliseconds=50)):
        with pytest.raises(
            WaitTimeout, match=f"job {job.id} had not ended after .* s .*no worker is running.*It goes on"
        ):
            job.result(timeout=timeout)
    with pytest.raises(TimeoutError):
        job.wait(timeout=0.01)
    assert job.state == "queued"


def test_a_failed_job_raises_what_happened_to_it(failing: Tickwork) -> None:
    job = failing.enqueue("fragile")
    with pytest.raises(JobFailed, match=r"it ended as failed .* after 1 attempt\(s\): ValueError: broken") as error:
        job.result(timeout=10)
    assert error.value.job_id == job.id
    assert isinstance(error.value, JobEnded)
    assert isinstance(error.value, TickworkError)
    assert error.value.error is not None
    assert error.value.error.startswith("Traceback (most recent call last):")
    assert 'raise ValueError("broken")' in error.value.error
    assert "executor.py" not in error.value.error
    assert job.error == error.value.error
    assert job.attempts()[0].error == error.value.error


def test_the_twins_do_the_same(failing: Tickwork) -> None:
    app = failing

    async def main() -> None:
        job = await app.enqueue_async("fragile", "work")
        assert await job.result_async(timeout=10) == "mended"
        assert await job.wait_async() == "succeeded"
        assert [attempt.state for attempt in await job.attempts_async()] == ["succeeded"]
        assert await job.logs_async() == []
        assert "it ended as succeeded" in await job.why_async()
        assert await job.cancel_async() is False
        assert await job.retry_async() is False
        found = await app.job_async(job.id)
        assert found is not None
        assert found.id == job.id
        assert [one.id for one in await app.jobs_async(state="succeeded")] == [job.id]

        bad = await app.enqueue_async("fragile")
        with pytest.raises(JobFailed):
            await bad.result_async(timeout=10)
        assert await app.redrive_async(rate="1/h") == 1
        assert await bad.wait_async(timeout=10) == "failed"
        assert await app.discard_async(task="fragile") == 1
        late = await app.named("fragile").options(delay="1h").enqueue_async()
        assert await app.cancel_async(late) == 1
        with pytest.raises(JobCancelled):
            await late.result_async(timeout=10)
        with pytest.raises(WaitTimeout):
            await (await app.enqueue_async("nobody_runs_this")).wait_async(timeout=0.01)

    asyncio.run(main())


def test_many_waits_need_no_threads(app: Tickwork) -> None:
    with held_up(app) as go_on:
        job = app.enqueue("work")

        async def main() -> list[str]:
            waits = [asyncio.create_task(job.wait_async(timeout=20)) for _ in range(100)]
            await asyncio.sleep(0)  # all of them begin to wait
            before = threading.active_count()
            go_on.set()
            states = await asyncio.gather(*waits)
            assert before < 60
            return states

        assert asyncio.run(main()) == ["succeeded"] * 100


# -- cancelling


def test_a_job_that_was_not_started_is_cancelled_at_once(app: Tickwork) -> None:
    job = app.enqueue("work")
    assert job.cancel() is True
    assert (job.state, job.attempt, job.attempts()) == ("cancelled", 0, [])
    with pytest.raises(JobCancelled, match="cancelled before it was started"):
        job.result()
    assert job.cancel() is False


def test_a_cancelled_job_never_starts(app: Tickwork) -> None:
    started: list[int] = []

    @app.task
    def work(n: int) -> None:
        started.append(n)

    with app.worker():
        jobs = [work.options(delay=timedelta(milliseconds=ms)).enqueue(ms) for ms in (150, 200, 300, 600)]
        assert [job.cancel() for job in jobs] == [True] * 4
        work.options(delay="700ms").enqueue(700).result(timeout=10)
    assert started == [700]
    assert [job.state for job in jobs] == ["cancelled"] * 4


def test_jobs_are_cancelled_by_what_was_said_of_them(app: Tickwork) -> None:
    jobs = [app.named("work").options(key=f"order:{n}", collection="orders").enqueue() for n in range(3)]
    other = app.enqueue("work")
    assert app.cancel(key="order:1") == 1
    assert app.cancel(collection="orders") == 2
    assert app.cancel(collection="orders") == 0
    assert [job.state for job in jobs] == ["cancelled"] * 3
    assert app.cancel(other) == 1
    assert app.cancel(other.id) == 0


def test_more_jobs_than_one_page_are_cancelled(app: Tickwork) -> None:
    app.named("work").enqueue_many([{"n": n} for n in range(2500)])
    assert app.cancel(task="work") == 2500
    assert app.jobs(state="queued") == []


def test_an_ended_job_is_not_cancelled(failing: Tickwork) -> None:
    job = failing.enqueue("fragile", "work")
    job.result(timeout=10)
    assert job.cancel() is False
    assert failing.cancel(job) == 0
    assert job.result() == "mended"


# -- trying again


def test_a_failed_job_is_retried_with_a_fresh_count(failing: Tickwork) -> None:
    job = failing.enqueue("fragile")
    job.wait(10)
    failing.healthy = True  # type: ignore[attr-defined]
    assert job.retry() is True
    assert job.result(timeout=10) == "mended"
    assert (job.attempt, job.view.failures) == (2, 0)
    assert [attempt.state for attempt in job.attempts()] == ["failed", "succeeded"]
    assert job.retry() is False


def test_a_cancelled_job_can_be_retried(app: Tickwork) -> None:
    job = app.named("work").options(delay="1h").enqueue()
    job.cancel()
    assert job.retry() is True
    assert job.state == "queued"
    assert job.run_at <= app.store.now()


def test_a_delayed_job_is_retried_now(app: Tickwork) -> None:
    job = app.named("work").options(delay="1h").enqueue()
    assert job.retry() is True
    assert job.run_at <= app.store.now()
    assert job.retry() is False, "it is due already"


def test_a_running_job_is_not_retried(app: Tickwork) -> None:
    with held_up(app):
        job = app.enqueue("work")
        eventually(lambda: job.state == "running")
        assert job.retry() is False


def test_a_job_whose_key_was_taken_by_another_is_not_retried(app: Tickwork) -> None:
    task = app.named("work").options(key="k")
    job = task.enqueue()
    job.cancel()
    other = task.enqueue()
    assert job.retry() is False
    other.cancel()
    assert job.retry() is True
    found = app.job(key="k")
    assert found is not None
    assert found.id == job.id


def test_dead_letters_are_redriven(failing: Tickwork) -> None:
    jobs = [failing.enqueue("fragile") for _ in range(3)]
    assert [job.wait(10) for job in jobs] == ["failed"] * 3
    failing.healthy = True  # type: ignore[attr-defined]
    assert failing.redrive(jobs[0]) == 1
    assert failing.redrive(task="fragile") == 2
    assert failing.redrive() == 0
    assert [job.result(timeout=10) for job in jobs] == ["mended"] * 3  # the same objects see it


def test_a_rate_spreads_what_is_redriven(app: Tickwork) -> None:
    @app.task(retries=0)
    def broken() -> None:
        raise ValueError

    with app.worker():
        jobs = broken.enqueue_many([()] * 5)
        [job.wait(10) for job in jobs]
    before = app.store.now()
    assert app.redrive(rate="2/s") == 5
    due = sorted((job.run_at - before).total_seconds() for job in jobs)
    assert [round(b - a, 3) for a, b in pairwise(due)] == [0.5] * 4
    assert due[0] < 0.3


def test_only_dead_letters_are_redriven(failing: Tickwork) -> None:
    ok, gone = failing.enqueue("fragile", "work"), failing.named("fragile").options(delay="1h").enqueue()
    ok.result(timeout=10)
    gone.cancel()
    assert failing.redrive() == 0
    assert failing.redrive(gone) == 0
    assert (ok.state, gone.state) == ("succeeded", "cancelled")


def test_a_discarded_job_is_no_dead_letter_any_more(failing: Tickwork) -> None:
    job, other = failing.enqueue("fragile"), failing.enqueue("fragile")
    assert job.wait(10) == other.wait(10) == "failed"
    assert failing.discard(job) == 1
    assert failing.discard(job) == 0
    assert failing.discard(ids=[job]) == 0
    assert (job.state, job.view.discarded) == ("failed", True)
    assert failing.redrive() == 1
    assert job.view.state is JobState.FAILED


def test_a_job_in_hand_sees_that_another_caller_retried_it(failing: Tickwork) -> None:
    job = failing.enqueue("fragile")
    assert job.wait(10) == "failed"
    failing.healthy = True  # type: ignore[attr-defined]
    failing.redrive(task="fragile")
    assert job.result(timeout=10) == "mended"


# -- attempts


def test_each_try_is_kept(app: Tickwork) -> None:
    @app.task(retries=2, backoff="1ms")
    def third_time_lucky() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError(f"try {len(tries)}")
        return 7

    tries: list[int] = []
    with app.worker():
        job = third_time_lucky.enqueue()
        assert job.result(timeout=10) == 7
    attempts = job.attempts()
    assert [(one.number, one.state) for one in attempts] == [(1, "failed"), (2, "failed"), (3, "succeeded")]
    assert ["ConnectionError: try 1" in (one.error or "") for one in attempts] == [True, False, False]
    for one in attempts:
        assert one.worker == job.view.worker
        assert one.ended_at is not None
        assert job.view.created_at <= one.started_at <= one.ended_at


def test_a_running_attempt_is_one_of_them(app: Tickwork) -> None:
    with held_up(app):
        job = app.enqueue("work")
        eventually(lambda: job.state == "running")
        (attempt,) = job.attempts()
        assert (attempt.number, attempt.state, attempt.ended_at, attempt.error) == (1, "running", None, None)
