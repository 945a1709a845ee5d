"""Every option does what it says, as a default on the decorator and on `.options(...)` for one job."""

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.waiting import eventually
from tickwork import Job, JobExpired, JobFailed, Tickwork, current_job
from tickwork.core.job import JobView
from tickwork.errors import InvalidOption, KeyTaken
from tickwork.task import Enqueues

HOUR = timedelta(hours=1)


@pytest.fixture(params=["decorator", "options"])
def with_options(request: pytest.FixtureRequest, app: Tickwork) -> Any:
    """A task with options, said in one of the two places."""

    def make(function: Any = None, **options: Any) -> Enqueues[Any, Any]:
        def work(n: int = 0) -> int:
            return n

        if request.param == "decorator":
            return app.task(name="work", **options)(function or work)
        return app.task(name="work")(function or work).options(**options)

    return make


def stored(job: Job) -> JobView:
    return job.view


def test_what_is_said_of_a_job_is_stored_with_it(with_options: Any) -> None:
    trace, parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "01a1e115-9578-701f-8ba7-acc06b6ea9f3"
    said = {"queue": "mail", "priority": "high", "key": "order:1", "collection": "import", "labels": ["red", "blue"]}
    view = stored(with_options(**said, parent=parent, trace=trace).enqueue())
    assert (view.queue, view.priority, view.key, view.collection) == ("mail", 2, "order:1", "import")
    assert (view.labels, view.parent, view.trace) == (("red", "blue"), parent, trace)


def test_the_rules_of_a_job_are_stored_with_it(with_options: Any) -> None:
    task = with_options(
        retries=7, backoff="2s", timeout="30s", expires="1h", retry_on=OSError, give_up_on=[ValueError], on_lost="fail"
    )
    policy = stored(task.enqueue()).policy
    assert (policy.retry.retries, policy.retry.base) == (7, timedelta(seconds=2))
    assert (policy.timeout, policy.expires, policy.on_lost) == (timedelta(seconds=30), HOUR, "fail")
    assert (policy.retry_on, policy.give_up_on) == (("builtins.OSError",), ("builtins.ValueError",))


def test_options_of_a_job_go_over_those_of_its_task(app: Tickwork) -> None:
    @app.task(queue="mail", priority="low", retries=9)
    def work() -> None: ...

    view = stored(work.options(priority="high", retries=0).enqueue())
    assert (view.queue, view.priority, view.policy.retry.retries) == ("mail", 2, 0)
    assert stored(work.enqueue()).priority == 8  # the task itself did not change


# -- when


def test_a_delayed_job_is_due_that_much_later(with_options: Any, app: Tickwork) -> None:
    before = app.store.now()
    view = stored(with_options(delay="1h").enqueue())
    assert before + HOUR <= view.run_at <= app.store.now() + HOUR


def test_a_job_with_a_time_is_due_then(with_options: Any) -> None:
    at = datetime(2040, 2, 29, 12, 30, 15, 123456, tzinfo=UTC)
    assert stored(with_options(at=at).enqueue()).run_at == at


def test_a_time_in_the_past_is_due_at_once(app: Tickwork) -> None:
    @app.task
    def work() -> str:
        return "ran"

    with app.worker():
        assert work.options(at=datetime(2020, 1, 1, tzinfo=UTC)).enqueue().result(timeout=10) == "ran"


def test_a_delayed_job_starts_at_its_time_and_never_early(app: Tickwork) -> None:
    @app.task
    def started() -> int:
        return time.monotonic_ns()

    with app.worker():
        before = time.monotonic_ns()
        jobs = [started.options(delay=timedelta(milliseconds=ms)).enqueue() for ms in (150, 300, 450)]
        waited = [(job.result(timeout=10) - before) / 1e6 for job in jobs]
    for delay, took in zip((150, 300, 450), waited, strict=True):
        assert delay <= took < delay + 2000
    assert all(job.view.started_at >= job.run_at for job in jobs)


def test_the_most_urgent_job_of_a_queue_starts_first(app: Tickwork) -> None:
    order: list[str] = []

    @app.task
    def note(name: str) -> None:
        order.append(name)

    names = ["low", "normal", "high"]
    jobs = [note.options(priority=name).enqueue(f"{name}{n}") for n in (1, 2) for name in names]
    with app.worker(concurrency=1):
        [job.result(timeout=10) for job in jobs]
    assert order == ["high1", "high2", "normal1", "normal2", "low1", "low2"]


def test_a_worker_serves_the_queues_that_it_is_told(app: Tickwork) -> None:
    @app.task
    def where() -> str:
        return current_job().queue

    mail, other = where.options(queue="mail").enqueue(), where.options(queue="other").enqueue()
    with app.worker(queues=["mail:3", "bulk"]):
        assert mail.result(timeout=10) == "mail"
        assert other.state == "queued"


# -- keys


def test_there_is_one_live_job_for_a_key(with_options: Any, app: Tickwork) -> None:
    task = with_options(key="order:1", delay="1h")
    first, second = task.enqueue(1), task.enqueue(2)
    assert first.id == second.id
    found = app.job(key="order:1")
    assert found is not None
    assert found.id == first.id
    assert len(app.jobs()) == 1


def test_a_key_is_free_again_when_its_job_has_ended(app: Tickwork) -> None:
    @app.task
    def work(n: int) -> int:
        return n

    with app.worker():
        first = work.options(key="k").enqueue(1)
        first.result(timeout=10)
        second = work.options(key="k").enqueue(2)
        assert second.result(timeout=10) == 2
    assert first.id != second.id
    last = app.job(key="k")
    assert last is not None
    assert last.id == second.id


def test_a_key_may_stay_taken_for_a_while_after_the_end(with_options: Any, app: Tickwork) -> None:
    task = with_options()
    long, short = task.options(key="long", key_for="1h"), task.options(key="short", key_for="700ms")
    with app.worker():
        first, other = long.enqueue(1), short.enqueue(1)
        began = time.monotonic()
        assert [first.result(timeout=10), other.result(timeout=10)] == [1, 1]
        later = eventually(lambda: (job := short.enqueue(3)).id != other.id and job)
        assert time.monotonic() - began > 0.6
        assert later.result(timeout=10) == 3
        assert long.enqueue(2).id == first.id


def test_replace_changes_the_waiting_job(app: Tickwork) -> None:
    @app.task
    def work(n: int) -> int:
        return n

    debounced = work.options(key="k", if_exists="replace", delay="1h")
    first = debounced.enqueue(1)
    second = debounced.options(delay="0s", priority="high", labels=["new"], retries=1).enqueue(2)
    assert second.id == first.id
    view = stored(first)
    assert (view.priority, view.labels, view.policy.retry.retries) == (2, ("new",), 1)
    with app.worker():
        assert first.result(timeout=10) == 2


def test_replace_leaves_a_running_job_as_it_is(app: Tickwork) -> None:
    running, go_on = threading.Event(), threading.Event()

    @app.task
    def work(n: int) -> int:
        running.set()
        go_on.wait(10)
        return n

    with app.worker():
        task = work.options(key="k", if_exists="replace")
        first = task.enqueue(1)
        assert running.wait(10)
        assert task.enqueue(2).id == first.id
        go_on.set()
        assert first.result(timeout=10) == 1
    assert len(app.jobs()) == 1


def test_a_caller_knows_whether_the_job_is_new(app: Tickwork) -> None:
    @app.task
    def work(n: int) -> None: ...

    task = work.options(key="k", delay="1h")
    first, second = task.enqueue(1), task.enqueue(2)
    assert (first.is_new, second.is_new, second.id) == (True, False, first.id)
    assert not task.options(if_exists="replace").enqueue(3).is_new
    assert [job.is_new for job in work.enqueue_many([(1,), (2,)])] == [True, True]
    assert asyncio.run(task.enqueue_async(4)).is_new is False
    found = app.job(first.id)
    assert found is not None
    assert not found.is_new


def test_a_key_that_another_task_holds_is_an_error(app: Tickwork) -> None:
    @app.task
    def work() -> None: ...

    @app.task
    def other() -> None: ...

    holder = work.options(key="k", delay="1h").enqueue()
    with pytest.raises(KeyTaken, match=f"job {holder.id} of '{work.name}' \\(queued\\)"):
        other.options(key="k").enqueue()
    with pytest.raises(KeyTaken), app.connection() as tx:
        other.options(key="k", tx=tx).enqueue()
    with pytest.raises(KeyTaken):
        asyncio.run(other.options(key="k").enqueue_async())
    assert len(app.jobs()) == 1


def test_a_default_that_is_about_keys_asks_for_one_when_a_job_is_enqueued(app: Tickwork) -> None:
    @app.task(key_for="1h")
    def work() -> None: ...

    with pytest.raises(InvalidOption, match="give key= as well"):
        work.enqueue()
    assert app.jobs() == []
    assert work.options(key="k").enqueue().key == "k"


# -- failing


def test_a_job_is_retried_so_often_and_no_more(with_options: Any, app: Tickwork) -> None:
    def fails() -> None:
        raise ConnectionError("no")

    task = with_options(fails, retries=2, backoff="10ms")
    with app.worker():
        job = task.enqueue()
        with pytest.raises(JobFailed, match="ConnectionError: no"):
            job.result(timeout=10)
    assert [attempt.state for attempt in job.attempts()] == ["failed"] * 3
    assert job.view.failures == 3


def test_backoff_is_the_first_wait_and_doubles(app: Tickwork) -> None:
    @app.task(retries=2, backoff="200ms")
    def fails() -> None:
        raise ConnectionError

    with app.worker():
        job = fails.enqueue()
        job.wait(timeout=10)
    first, second, third = job.attempts()
    waits = [(b.started_at - a.ended_at).total_seconds() for a, b in ((first, second), (second, third)) if a.ended_at]
    assert 0.1 <= waits[0] < 3
    assert 0.2 <= waits[1] < 3


class Refused(Exception): ...


class Declined(Refused): ...


def test_only_the_given_exceptions_are_retried(with_options: Any, app: Tickwork) -> None:
    def fails(kind: str) -> None:
        raise {"declined": Declined, "value": ValueError}[kind]

    task = with_options(fails, retry_on=Refused, retries=1, backoff="10ms")
    with app.worker():
        retried, given_up = task.enqueue("declined"), task.enqueue("value")
        assert retried.wait(timeout=10) == given_up.wait(timeout=10) == "failed"
    assert (retried.attempt, given_up.attempt) == (2, 1)


def test_the_given_exceptions_are_not_retried(with_options: Any, app: Tickwork) -> None:
    def fails(kind: str) -> None:
        raise {"declined": Declined, "value": ValueError}[kind]

    task = with_options(fails, give_up_on=[Refused], retries=1, backoff="10ms")
    with app.worker():
        given_up, retried = task.enqueue("declined"), task.enqueue("value")
        assert retried.wait(timeout=10) == given_up.wait(timeout=10) == "failed"
    assert (retried.attempt, given_up.attempt) == (2, 1)


def test_an_attempt_that_takes_too_long_is_ended(with_options: Any, app: Tickwork) -> None:
    def slow() -> None:
        while True:
            time.sleep(0.01)

    task = with_options(slow, timeout="100ms", retries=0)
    with app.worker():
        job = task.enqueue()
        with pytest.raises(JobFailed, match=r"it ran for more than its timeout of 0\.1 s"):
            job.result(timeout=10)
    (attempt,) = job.attempts()
    assert attempt.state == "timed_out"
    assert job.view.failures == 1


@pytest.mark.parametrize("expires", ["100ms", datetime(2020, 1, 1, tzinfo=UTC)])
def test_a_job_that_is_not_started_by_its_deadline_expires(
    with_options: Any, app: Tickwork, expires: str | datetime
) -> None:
    job = with_options(expires=expires).enqueue()
    eventually(lambda: job.view.expires_at <= app.store.now())
    with app.worker(), pytest.raises(JobExpired, match="it was not started before its deadline"):
        job.result(timeout=10)
    assert (job.state, job.attempts()) == ("expired", [])


def test_a_deadline_counts_from_when_the_job_is_due(app: Tickwork) -> None:
    @app.task(delay="1h", expires="1m")
    def work() -> None: ...

    view = stored(work.enqueue())
    assert view.expires_at == view.run_at + timedelta(minutes=1)


# -- children


def test_a_job_enqueued_by_a_handler_is_its_child(app: Tickwork) -> None:
    @app.task
    def child() -> None: ...

    @app.task
    def parent() -> str:
        return child.enqueue().id

    with app.worker():
        job = parent.enqueue()
        child_id = job.result(timeout=10)
    assert [found.id for found in app.jobs(parent=job)] == [child_id]
    assert [found.id for found in app.jobs(parent=job.id)] == [child_id]


def test_a_parent_may_be_given_as_a_job(app: Tickwork) -> None:
    @app.task
    def work() -> None: ...

    parent = work.enqueue()
    assert stored(work.options(parent=parent).enqueue()).parent == parent.id
