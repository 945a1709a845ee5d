"""Time limits inside the user's own process: what can be interrupted is, what cannot is given up and replaced."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.waiting import eventually
from tickwork import Interrupted, JobFailed, Tickwork, current_job

LIMIT = {"timeout": "150ms", "retries": 0}


def spins() -> None:
    while True:
        pass


def sleeps() -> None:
    time.sleep(3)


def does_not_listen() -> None:
    until = time.monotonic() + 3
    while time.monotonic() < until:
        try:
            time.sleep(0.01)
        except BaseException:
            continue


async def sleeps_on_the_loop() -> None:
    await asyncio.sleep(1000)


async def blocks_the_loop() -> None:
    time.sleep(3)  # noqa: ASYNC251


async def does_not_listen_on_the_loop() -> None:
    until = time.monotonic() + 3
    while time.monotonic() < until:
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            continue


@pytest.mark.parametrize(
    "handler",
    [spins, sleeps, does_not_listen, sleeps_on_the_loop, blocks_the_loop, does_not_listen_on_the_loop],
    ids=lambda handler: handler.__name__,
)
def test_whatever_takes_too_long_is_timed_out_and_its_slot_is_free_again(
    app: Tickwork, handler: Callable[[], Any]
) -> None:
    @app.task
    def plain() -> str:
        return "plain"

    @app.task
    async def on_the_loop() -> str:
        return "async"

    stuck = app.task(**LIMIT)(handler)
    with app.worker(concurrency=1, grace="0s"):
        began = time.monotonic()
        job = stuck.enqueue()
        with pytest.raises(JobFailed, match=r"it ran for more than its timeout of 0\.15 s"):
            job.result(timeout=10)
        assert time.monotonic() - began >= 0.15
        assert [attempt.state for attempt in job.attempts()] == ["timed_out"]
        assert plain.enqueue().result(timeout=5) == "plain"
        assert on_the_loop.enqueue().result(timeout=5) == "async"


def test_a_timed_out_job_is_charged_and_retried(app: Tickwork) -> None:
    @app.task(timeout="100ms", retries=1, backoff="1ms")
    def slow_at_first() -> int:
        while current_job().attempt == 1:
            pass
        return current_job().attempt

    with app.worker():
        job = slow_at_first.enqueue()
        assert job.result(timeout=10) == 2
    assert job.view.failures == 1


def test_a_handler_may_clean_up_when_its_time_is_up(app: Tickwork) -> None:
    cleaned = threading.Event()

    @app.task(**LIMIT)
    def careful() -> None:
        try:
            while True:
                time.sleep(0.005)
        except Interrupted:
            cleaned.set()
            raise

    with app.worker():
        assert careful.enqueue().wait(timeout=10) == "failed"
    assert cleaned.is_set()


def test_except_exception_does_not_swallow_an_interruption(app: Tickwork) -> None:
    @app.task(**LIMIT)
    def swallows() -> None:
        while True:
            try:
                time.sleep(0.005)
            except Exception:
                continue

    with app.worker():
        job = swallows.enqueue()
        assert job.wait(timeout=10) == "failed"
        assert job.attempts()[0].state == "timed_out"


@pytest.mark.parametrize("pool", ["thread", "async"])
def test_a_handler_that_ends_just_when_its_time_is_up_is_never_lost(app: Tickwork, pool: str) -> None:
    """The interruption and the end race; whichever wins, there is one end, and the thread goes on."""

    def races(n: int) -> int:
        time.sleep(0.02)
        return n

    async def races_async(n: int) -> int:
        await asyncio.sleep(0.02)
        return n

    task = app.task(name="races", timeout="20ms", retries=0)(races if pool == "thread" else races_async)
    with app.worker(concurrency=8):
        jobs = task.enqueue_many([(n,) for n in range(100)])
        states = {job.wait(timeout=20) for job in jobs}
    assert states <= {"succeeded", "failed"}
    assert {attempt.state for job in jobs for attempt in job.attempts()} <= {"succeeded", "timed_out"}


def test_a_very_short_limit_is_still_a_limit(app: Tickwork) -> None:
    @app.task(timeout="0.01ms", retries=0)
    def work() -> None:
        time.sleep(0.2)

    with app.worker(concurrency=4):
        jobs = work.enqueue_many([()] * 20)
        assert {job.wait(timeout=20) for job in jobs} == {"failed"}


def test_waiting_in_the_queue_does_not_count(app: Tickwork) -> None:
    @app.task(timeout="150ms", retries=0)
    def work() -> None:
        time.sleep(0.05)

    with app.worker(concurrency=1):
        jobs = work.enqueue_many([()] * 8)
        assert {job.wait(timeout=20) for job in jobs} == {"succeeded"}


# -- being told to stop


@pytest.mark.parametrize("handler", [spins, sleeps_on_the_loop], ids=lambda handler: handler.__name__)
def test_a_worker_that_leaves_gives_back_what_does_not_end_in_its_grace(
    app: Tickwork, handler: Callable[[], Any]
) -> None:
    @app.task
    def short() -> str:
        time.sleep(0.1)
        return "done"

    long = app.task(handler)
    with app.worker(grace="400ms"):
        jobs = [long.enqueue(), short.enqueue()]
        eventually(lambda: all(job.state == "running" for job in jobs))
        began = time.monotonic()
    assert time.monotonic() - began >= 0.4
    assert jobs[1].result() == "done"
    assert (jobs[0].state, jobs[0].view.failures) == ("queued", 0)
    assert [attempt.state for attempt in jobs[0].attempts()] == ["released"]
    assert app.store.reads.workers() == []


def test_a_spinning_handler_is_cancelled(app: Tickwork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tickwork.worker.run.executor.CANCEL_GRACE_S", 0.1)
    tasks = [app.task(handler) for handler in (spins, sleeps_on_the_loop)]
    with app.worker():
        jobs = [task.enqueue() for task in tasks]
        eventually(lambda: all(job.state == "running" for job in jobs))
        assert app.cancel(state="running") == 2
        assert [job.wait(timeout=10) for job in jobs] == ["cancelled"] * 2
    assert [job.attempts()[0].state for job in jobs] == ["cancelled"] * 2
