"""Handlers that take the arguments of many jobs in one call: how batches form, and an outcome for each job."""

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from tests.waiting import eventually
from tests.worker.job_helpers import output_of
from tickwork import (
    Cancel,
    Fatal,
    Job,
    JobCancelled,
    JobFailed,
    Retry,
    Snooze,
    Tickwork,
    batch,
    current_batch,
    current_job,
)
from tickwork.core.ids import ClaimId, JobId
from tickwork.core.job import Claimed, Policy
from tickwork.core.workers.batch import Batch
from tickwork.errors import InvalidArguments, InvalidOption, NoCurrentJob
from tickwork.worker import held_jobs as module
from tickwork.worker.claimer import Claimer
from tickwork.worker.held_jobs import HeldJobs


class Doc(msgspec.Struct):
    id: int
    text: str = ""


def results(jobs: list[Job], timeout: float = 20) -> list[Any]:
    return [job.result(timeout=timeout) for job in jobs]


def rows(count: int) -> list[tuple[int]]:
    return [(n,) for n in range(count)]


# -- how they form


def test_full_batches_start_at_once_and_the_rest_when_it_has_waited(app: Tickwork) -> None:
    calls: list[tuple[int, float]] = []

    @app.task(batch=batch(max=10, wait="700ms"))
    def double(numbers: list[int]) -> list[int]:
        calls.append((len(numbers), time.monotonic()))
        return [2 * number for number in numbers]

    with app.worker(concurrency=2):
        jobs = double.enqueue_many(rows(25))
        began = time.monotonic()
        assert results(jobs) == [2 * n for n in range(25)]
    assert [size for size, _ in calls] == [10, 10, 5]
    assert calls[2][1] - began > 0.4, "it waited for others"
    assert double([1, 2]) == [2, 4], "called directly it is just that function"


def test_what_has_waited_in_the_queue_does_not_wait_again(app: Tickwork) -> None:
    @app.task(batch=batch(max=10, wait="2s"))
    def count(numbers: list[int]) -> list[int]:
        return [len(numbers)] * len(numbers)

    jobs = count.enqueue_many(rows(3))
    eventually(lambda: app.store.now() - jobs[0].run_at > timedelta(seconds=2.1))
    with app.worker():
        began = time.monotonic()
        assert results(jobs) == [3, 3, 3]
        assert time.monotonic() - began < 1.8


def test_one_slot_fills_a_batch_that_is_larger_than_any_claim(app: Tickwork) -> None:
    @app.task(batch=batch(max=1500, wait="5s"))
    def count(numbers: list[int]) -> list[int]:
        return [len(numbers)] * len(numbers)

    jobs = count.enqueue_many(rows(3000))
    with app.worker(concurrency=1):
        assert set(results(jobs[:1] + jobs[-1:], 30)) == {1500}


def test_each_task_has_batches_of_its_own(app: Tickwork) -> None:
    @app.task(batch=batch(max=5, wait="100ms"))
    def texts(items: list[str]) -> list[str]:
        return [f"{item} of {len(items)}" for item in items]

    @app.task(batch=batch(max=3, wait="100ms"))
    async def docs(items: list[Doc]) -> list[int]:
        await asyncio.sleep(0)
        return [doc.id for doc in items]

    with app.worker():
        some, others = texts.enqueue_many([("a",), ("b",)]), docs.enqueue_many([(Doc(n),) for n in range(7)])
        assert results(some) == ["a of 2", "b of 2"]
        assert results(others) == list(range(7))


def test_what_waits_for_company_takes_no_slot_and_a_worker_that_leaves_does_not_wait(app: Tickwork) -> None:
    @app.task(batch=batch(max=10, wait="1h"))
    def count(numbers: list[int]) -> list[int]:
        return [len(numbers)] * len(numbers)

    @app.task
    def plain() -> int:
        return 1

    with app.worker(concurrency=1):
        waiting = count.enqueue_many(rows(4))
        eventually(lambda: all(job.state == "running" for job in waiting))
        assert plain.enqueue().result(timeout=10) == 1
        assert [job.state for job in waiting] == ["running"] * 4
    assert results(waiting) == [4] * 4


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_batches_and_other_jobs_do_not_starve_each_other(app: Tickwork, slots: int) -> None:
    order: list[str] = []

    @app.task(batch=batch(max=5, wait="10ms"))
    def many(numbers: list[int]) -> None:
        order.append("many")

    @app.task
    def single(number: int) -> None:
        order.append("single")

    jobs = single.enqueue_many(rows(2000)) + many.enqueue_many(rows(100))
    with app.worker(concurrency=slots):
        results(jobs, 60)
    assert order.index("many") < 1000, "others were not done before the first batch"
    assert order.index("single") < 20
    assert 20 <= order.count("many") < 25, "batches were not full"


def test_while_slots_are_free_other_jobs_do_not_wait_for_a_look_for_batches(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []  # since the beginning of a tick's claims
    before: list[list[str]] = []  # those before a job was found

    @app.task(batch=batch(max=5))
    def many(numbers: list[int]) -> None: ...

    @app.task
    def single(number: int) -> None: ...

    exchange, claims = app.store.exchange, Claimer.claim

    def noting_looks(*asked: Any, tasks: Any, **how: Any) -> Any:
        answer = exchange(*asked, tasks=tasks, **how)
        if answer.claims is not None and answer.claims.jobs:
            before.append(list(looks))
        looks.extend(tasks)
        return answer

    def noting_claims(claiming: Claimer, now: float) -> int:
        looks.clear()
        return claims(claiming, now)

    monkeypatch.setattr(app.store, "exchange", noting_looks)
    monkeypatch.setattr(Claimer, "claim", noting_claims)
    with app.worker(concurrency=2):
        for number in range(10):
            single.enqueue(number).result(timeout=10)
    assert before == [[]] * 10


def test_looking_for_batches_that_are_not_there_takes_a_small_part_of_the_time(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    @app.task(batch=batch(max=5))
    def many(numbers: list[int]) -> None: ...

    @app.task
    def single(number: int) -> None: ...

    exchange = app.store.exchange

    def over_a_long_queue(*asked: Any, tasks: Any, **how: Any) -> Any:
        answer = exchange(*asked, tasks=tasks, **how)
        if tuple(tasks) == ("many",):
            looks.append(time.monotonic())
            time.sleep(0.05)
        return answer

    monkeypatch.setattr(app.store, "exchange", over_a_long_queue)
    jobs = [single.enqueue(n) for n in range(300)]
    with app.worker(concurrency=1):
        results(jobs)
        in_vain = list(looks)
        assert results(many.enqueue_many(rows(5))) == [None] * 5
    assert in_vain, "it was looked for"
    assert all(later - earlier > 0.3 for earlier, later in pairwise(in_vain))


# -- an outcome for each


def test_an_exception_among_the_results_is_the_end_of_its_job_alone(app: Tickwork) -> None:
    @app.task(batch=batch(max=10, wait="50ms"), retries=1, backoff="1ms")
    def work(names: list[str]) -> list[str | Exception]:
        return [end_of(name, job.attempt) for name, job in zip(names, current_batch(), strict=True)]

    def end_of(name: str, attempt: int) -> str | Exception:
        ends: dict[str, tuple[str | Exception, str | Exception]] = {
            "fails": (ValueError("no good"), ValueError("no good")),
            "fatal": (Fatal("never"), "too late"),
            "snoozes": (Snooze("1ms"), "awake"),
            "again": (Retry(after="1ms"), "at last"),
        }
        return ends[name][attempt - 1] if name in ends else name

    with app.worker():
        jobs = {name: work.enqueue(name) for name in ("good", "fails", "fatal", "snoozes", "again")}
        assert jobs["good"].result(timeout=10) == "good"
        with pytest.raises(JobFailed, match="ValueError: no good"):
            jobs["fails"].result(timeout=10)
        with pytest.raises(JobFailed, match="never"):
            jobs["fatal"].result(timeout=10)
        assert jobs["snoozes"].result(timeout=10) == "awake"
        assert jobs["again"].result(timeout=10) == "at last"
    views = {name: job.view for name, job in jobs.items()}
    assert {name: (view.attempt, view.failures) for name, view in views.items()} == {
        "good": (1, 0),
        "fails": (2, 2),
        "fatal": (1, 1),
        "snoozes": (2, 0),
        "again": (2, 1),
    }


def test_what_a_handler_raises_all_fail_with_and_each_is_retried_by_its_own_policy(app: Tickwork) -> None:
    calls: list[int] = []

    @app.task(batch=batch(max=3, wait="10s"), backoff="1ms")
    def work(numbers: list[int]) -> None:
        calls.append(len(numbers))
        if len(calls) == 1:
            raise ConnectionError("down")

    with app.worker():
        once = work.options(retries=0).enqueue(1)
        twice = work.options(retries=5).enqueue(2)
        picky = work.options(retries=5, retry_on=[TimeoutError]).enqueue(3)
        for job in (once, picky):
            with pytest.raises(JobFailed, match="ConnectionError: down"):
                job.result(timeout=10)
        work.enqueue_many(rows(2))
        assert twice.result(timeout=10) is None
    assert (twice.view.attempt, twice.view.failures) == (2, 1)
    assert calls == [3, 3]


def test_a_job_may_end_as_cancelled_by_its_handler(app: Tickwork) -> None:
    @app.task(batch=batch(max=2, wait="10s"))
    def work(numbers: list[int]) -> list[Any]:
        return [Cancel("not wanted"), 2]

    with app.worker():
        first, second = work.enqueue_many(rows(2))
        assert second.result(timeout=10) == 2
        with pytest.raises(JobCancelled, match="not wanted"):
            first.result(timeout=10)


@pytest.mark.parametrize(
    ("returned", "said"),
    [([1], "called for 2 jobs and returned 1 results"), (7, "returned a int"), ({1: 2, 3: 4}, "returned a dict")],
)
def test_what_is_no_list_of_results_fails_all_for_good(app: Tickwork, returned: Any, said: str) -> None:
    @app.task(batch=batch(max=2, wait="10s"), retries=3)
    def work(numbers):  # type: ignore[no-untyped-def]
        return returned

    with app.worker():
        for job in work.enqueue_many(rows(2)):
            with pytest.raises(JobFailed, match=said):
                job.result(timeout=10)
            assert job.attempt == 1


def test_a_result_that_does_not_fit_fails_its_job_alone(app: Tickwork) -> None:
    @app.task(batch=batch(max=2, wait="10s"))
    def work(numbers: list[int]) -> list[int]:
        return [1, "two"]  # type: ignore[list-item]

    with app.worker():
        first, second = work.enqueue_many(rows(2))
        assert first.result(timeout=10) == 1
        with pytest.raises(JobFailed, match="the result of task 'work': expected int, was given str 'two'"):
            second.result(timeout=10)


def test_an_argument_that_cannot_be_read_any_more_fails_its_job_alone(app: Tickwork, store_url: str) -> None:
    before = Tickwork(store_url)

    @before.task(name="work", batch=batch())
    def work_before(items: list[Any]) -> None: ...

    @app.task(batch=batch(max=3, wait="10s"))
    def work(items: list[int]) -> list[int]:
        assert [job.id for job in current_batch()] == [jobs[1].id, jobs[2].id]
        return [10 * item for item in items]

    jobs = [job for job in map(app.job, work_before.enqueue_many([("one",), (2,), (3,)])) if job is not None]
    before.close()
    with app.worker():
        assert results(jobs[1:]) == [20, 30]
        with pytest.raises(JobFailed, match=r"the stored arguments do not fit .*work\(\)"):
            jobs[0].result(timeout=10)


# -- what a handler knows, and says


def test_a_batch_handler_knows_its_jobs_in_the_order_of_their_arguments(app: Tickwork) -> None:
    go_on = threading.Event()

    @app.task(batch=batch(max=3, wait="10s"), retries=1, backoff="1ms")
    def work(numbers: list[int]) -> list[Any]:
        jobs = current_batch()
        for number, job in zip(numbers, jobs, strict=True):
            job.progress(number / 10)
            seen = job.saved
            job.save(number)
            assert seen == (None if job.attempt == 1 else number)
        if jobs[0].attempt == 1:
            raise ConnectionError
        go_on.wait(20)
        return [job.id for job in jobs]

    with app.worker():
        jobs = work.enqueue_many(rows(3))
        eventually(lambda: [(job.attempt, job.progress) for job in jobs] == [(2, 0.0), (2, 0.1), (2, 0.2)])
        go_on.set()
        assert results(jobs) == [job.id for job in jobs]


def test_there_is_no_one_current_job_in_a_batch_and_no_batch_elsewhere(app: Tickwork) -> None:
    @app.task
    def plain() -> None:
        with pytest.raises(NoCurrentJob, match=r"current_batch\(\) works inside a handler with batch="):
            current_batch()

    @app.task(batch=batch(max=2, wait="10s"))
    def work(numbers: list[int]) -> list[str]:
        with pytest.raises(NoCurrentJob, match=r"runs for 2 jobs in one call; current_batch\(\) lists them"):
            current_job()
        return [plain.enqueue().id for _ in numbers]

    with app.worker():
        jobs = work.enqueue_many(rows(2))
        made = [app.job(id) for id in results(jobs)]
        assert all(job is not None and job.view.parent is None for job in made)
        for job in made:
            assert job is not None
            job.result(timeout=10)
    with pytest.raises(NoCurrentJob):
        current_batch()


def test_what_a_call_writes_is_kept_with_the_first_of_its_jobs(app: Tickwork) -> None:
    @app.task(batch=batch(max=3, wait="10s"))
    def work(numbers: list[int]) -> None:
        print("for all of", numbers)

    with app.worker():
        jobs = work.enqueue_many(rows(3))
        results(jobs)
    assert [output_of(job) for job in jobs] == ["for all of [0, 1, 2]\n", "", ""]


# -- ending from outside


def gated(app: Tickwork, **options: Any) -> tuple[Any, threading.Event, threading.Event]:
    """A batch task whose calls wait until they are released."""
    began, go_on = threading.Event(), threading.Event()

    @app.task(batch=batch(max=3, wait="10s"), **options)
    def work(numbers: list[int]) -> list[int]:
        began.set()
        while not go_on.wait(0.01) and not all(job.cancelled for job in current_batch()):
            pass
        return numbers

    return work, began, go_on


def test_a_cancelled_job_of_a_running_call_ends_with_it_and_the_others_are_not_disturbed(app: Tickwork) -> None:
    work, began, go_on = gated(app)
    with app.worker():
        jobs = work.enqueue_many(rows(3))
        assert began.wait(10)
        jobs[0].cancel()
        eventually(lambda: jobs[0].view.cancel_requested)
        time.sleep(1.2)  # the worker has looked for cancellations
        assert [job.state for job in jobs] == ["running"] * 3
        go_on.set()
        assert results(jobs[1:]) == [1, 2]
        assert jobs[0].wait(timeout=10) == "cancelled"


def test_a_call_is_told_to_stop_when_all_of_its_jobs_are_cancelled(app: Tickwork) -> None:
    work, began, _ = gated(app)
    with app.worker():
        jobs = work.enqueue_many(rows(3))
        assert began.wait(10)
        assert app.cancel(task="work") == 3
        assert [job.wait(timeout=10) for job in jobs] == ["cancelled"] * 3


def test_a_job_that_waits_for_company_is_cancelled_at_once(app: Tickwork) -> None:
    work, began, go_on = gated(app)
    go_on.set()
    with app.worker():
        jobs = work.enqueue_many(rows(2))
        eventually(lambda: all(job.state == "running" for job in jobs))
        jobs[1].cancel()
        assert jobs[1].wait(timeout=10) == "cancelled"
        more = work.enqueue_many(rows(2))
        assert results([jobs[0], *more]) == [0, 0, 1]
    assert began.is_set()


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_the_time_limit_of_a_call_is_the_smallest_of_its_jobs(app: Tickwork, kind: str) -> None:
    if kind == "plain":

        @app.task(batch=batch(max=3, wait="10s"), retries=0)
        def work(numbers: list[int]) -> None:
            while True:
                time.sleep(0.01)

    else:

        @app.task(batch=batch(max=3, wait="10s"), retries=0, name="work")
        async def work_async(numbers: list[int]) -> None:
            await asyncio.sleep(100)

    with app.worker():
        task = app.tasks["work"]
        jobs = [task.options(timeout=timeout).enqueue(1) for timeout in (None, "300ms", "1h")]
        for job in jobs:
            with pytest.raises(JobFailed, match=r"it ran for more than its timeout of 0\.3 s"):
                job.result(timeout=10)
            assert [one.state for one in job.attempts()] == ["timed_out"]


def test_a_call_that_stands_behind_slow_work_is_given_back_whole(app: Tickwork) -> None:
    go_on = threading.Event()

    @app.task(batch=batch(max=10, wait="1s"))
    def many(numbers: list[int]) -> list[int]:
        return [len(numbers)] * len(numbers)

    @app.task
    def slow() -> None:
        go_on.wait(20)

    with app.worker(concurrency=1):
        jobs = many.enqueue_many(rows(4))
        eventually(lambda: all(job.state == "running" for job in jobs))
        blocks = slow.enqueue()
        eventually(lambda: [job.state for job in jobs] == ["queued"] * 4, what="its only thread is taken")
        go_on.set()
        blocks.result(timeout=10)
        assert results(jobs) == [4] * 4
    for job in jobs:
        assert [one.state for one in job.attempts()] == ["released", "succeeded"]
        assert job.view.failures == 0


# -- what is refused


def test_each_job_brings_one_argument_that_is_checked(app: Tickwork) -> None:
    @app.task(batch=batch())
    def work(docs: list[Doc]) -> None: ...

    with pytest.raises(InvalidArguments, match="argument 'docs' of task 'work': expected Doc"):
        work.enqueue([Doc(1)])  # type: ignore[arg-type]
    with pytest.raises(InvalidArguments, match="needs 'docs'"):
        work.enqueue()  # type: ignore[call-arg]
    work.enqueue(docs=Doc(1))  # type: ignore[call-arg]


def two(a: list[int], b: int) -> None: ...
def none() -> None: ...
def with_default(a: list[int] = []) -> None: ...  # noqa: B006
def by_name(*, a: list[int]) -> None: ...
def rest(*a: int) -> None: ...


@pytest.mark.parametrize("function", [two, none, with_default, by_name, rest])
def test_a_batch_handler_takes_one_list(app: Tickwork, function: Callable[..., None]) -> None:
    with pytest.raises(InvalidOption, match="has one parameter, without a default"):
        app.task(batch=batch())(function)


def test_what_cannot_be_is_refused_with_a_reason(app: Tickwork) -> None:
    def work(items: list[int]) -> None: ...
    def one(item: int) -> None: ...

    with pytest.raises(InvalidOption, match="each of them has an outcome of its own"):
        app.task(batch=batch(), transactional=True)(work)
    with pytest.raises(InvalidOption, match="not in the pool 'process'"):
        app.task(batch=batch(), pool="process")(work)
    with pytest.raises(InvalidOption, match="batch must be made with batch"):
        app.task(batch=100)(work)  # type: ignore[call-overload]
    with pytest.raises(InvalidOption, match=r"annotate it as a list, like list\[int\], not as"):
        app.task(batch=batch())(one).enqueue(1)  # type: ignore[arg-type]


# -- what a worker holds


def a_claim(number: int, *, alone: bool = False, args: bytes = b"{}", attempt: int = 1) -> Claimed:
    return Claimed(
        JobId(f"job{number}"), attempt, ClaimId(attempt), "b", "default", 5, args, Policy(), 0, 0, 0, 0, alone
    )


def holdings(size: int = 3, wait_s: float = 1.0) -> HeldJobs:
    return HeldJobs({"b": Batch(size=size, wait=timedelta(seconds=wait_s))})


def test_a_call_counts_as_one_until_the_last_of_its_jobs_was_heard_of() -> None:
    held = holdings()
    held.take([a_claim(n) for n in range(4)], 10.0)
    assert (len(held), held.load, held.batches.room("b", 2)) == (4, 0, 2)
    (call,) = held.batches.start(10.0, hurry=False)
    assert [call.job_id, *(one.job_id for one in call.company)] == ["job0", "job1", "job2"]
    assert (held.load, held.batches.room("b", 2), held.batches.look_at) == (1, 5, pytest.approx(11.0))
    held.forget("job1")
    assert [one.job.job_id for one in held.company("job0")] == ["job0", "job2"]
    held.forget("job2")
    assert held.load == 1
    held.forget("job0")
    assert (len(held), held.load) == (1, 0)
    assert held.batches.start(10.9, hurry=False) == []
    (last,) = held.batches.start(11.0, hurry=False)
    assert (last.job_id, last.company, held.batches.look_at) == ("job3", (), float("inf"))


def test_a_suspect_of_a_crash_runs_by_itself_and_no_more_come_until_it_has() -> None:
    held = holdings()
    held.take([a_claim(0, alone=True), a_claim(1)], 10.0)
    assert held.batches.start(12.0, hurry=False)[0].job_id == "job1"
    assert [one.job.job_id for one in held.start_due(10.0)] == ["job0"]
    assert (held.load, held.batches.room("b", 2)) == (1, 0)
    held.forget("job0")
    assert held.batches.room("b", 2) == 6


def test_a_call_is_no_larger_than_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CALL_BYTES", 1000)
    held = holdings(size=10)
    held.take([a_claim(n, args=b"x" * 400) for n in range(5)], 0.0)
    calls = held.batches.start(0.0, hurry=True)
    assert [1 + len(call.company) for call in calls] == [2, 2, 1]
    assert held.load == 3


def test_a_job_that_is_due_later_is_not_started_with_the_others() -> None:
    held = holdings(size=2, wait_s=0)
    later = msgspec.structs.replace(a_claim(1), run_at_us=200_000)
    held.take([a_claim(0), later], 10.0)
    (call,) = held.batches.start(10.0, hurry=False)
    assert (call.job_id, call.company, held.batches.look_at) == ("job0", (), pytest.approx(10.2))
    assert held.batches.start(10.1, hurry=True) == [], "not even in a hurry"
