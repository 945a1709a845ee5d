"""Time limits and cancellations that really end the work, whatever it is; what runs beside it is not charged."""

import time

import pytest

from tests.process.harness import Workers, consistent, gone, settled
from tests.worker.fixtures import eventually

pytestmark = pytest.mark.process

# What a handler may be doing, and whether only the end of its process ends it.
ENDLESS = [
    ("spins", False),
    ("sleeps", True),
    ("sleeps_async", False),
    ("blocks_the_loop", True),
    ("never_returns", True),
    ("never_matches", True),
    ("does_not_listen", True),
]


@pytest.mark.parametrize(("task", "dies"), ENDLESS, ids=[task for task, _ in ENDLESS])
def test_whatever_takes_too_long_is_ended(workers: Workers, task: str, dies: bool) -> None:
    worker = workers.start(slots=4, processes=1)
    beside = [workers.job("work", n=n, seconds=3.5) for n in range(3)]
    for job in beside:
        workers.witnessed(job)
    began = time.monotonic()
    stuck = workers.app.named(task).options(timeout="500ms", retries=0).enqueue()
    event = workers.witnessed(stuck)

    assert stuck.wait(timeout=10) == "failed"
    assert time.monotonic() - began < 5
    assert [one.state for one in stuck.attempts()] == ["timed_out"]
    assert "it ran for more than its timeout of 0.5 s" in (stuck.error or "")
    assert stuck.view.failures == 1
    assert gone(event.pid) == dies, "its process was replaced only where nothing else helped"
    settled(beside, within_s=20)
    for job in beside:
        consistent(job)
        assert [one.state for one in job.attempts()] == (["released", "succeeded"] if dies else ["succeeded"])
        assert (job.view.failures, job.view.crashes) == (0, 0)
    assert worker.is_running()
    settled([workers.job("work", n=9), workers.job("work_async", n=10)], within_s=10)


def test_two_that_are_overdue_in_one_process_are_both_charged(workers: Workers) -> None:
    worker = workers.start(slots=3, processes=1)
    beside = workers.job("work", n=1, seconds=4)
    workers.witnessed(beside)
    limited = workers.app.named("sleeps").options(timeout="500ms", retries=0)
    waits = limited.enqueue()
    workers.witnessed(waits)
    # This one lets no thread of the process run any more, so that only the supervisor can see that both are overdue.
    holds = workers.app.named("never_returns").options(timeout="400ms", retries=0).enqueue()
    assert [waits.wait(timeout=15), holds.wait(timeout=15)] == ["failed", "failed"]
    assert [job.attempts()[0].state for job in (waits, holds)] == ["timed_out", "timed_out"]
    settled([beside], within_s=20)
    assert (beside.view.failures, beside.view.crashes) == (0, 0)
    assert worker.is_running()


def test_a_job_that_is_always_too_slow_uses_up_its_retries(workers: Workers) -> None:
    workers.start(slots=2, processes=1)
    job = workers.app.named("sleeps").options(timeout="200ms", retries=2, backoff="10ms").enqueue()
    assert job.wait(timeout=30) == "failed"
    assert [one.state for one in job.attempts()] == ["timed_out"] * 3
    assert (job.view.failures, job.view.crashes) == (3, 0)


def test_a_job_that_holds_the_interpreter_for_many_leases_is_run_once(workers: Workers) -> None:
    """The supervisor renews the lease, and no handler can keep it from that."""
    workers.start(slots=1, processes=1, lease_s=1)
    workers.start(slots=1, processes=1, lease_s=1)
    job = workers.app.named("never_returns").options(timeout="5s", retries=0).enqueue()
    assert job.wait(timeout=20) == "failed"
    assert len(workers.witness.events(job.id, "start")) == 1
    assert [one.state for one in job.attempts()] == ["timed_out"]


@pytest.mark.parametrize("task", ["spins", "sleeps", "sleeps_async"])
def test_a_running_job_is_cancelled(workers: Workers, task: str) -> None:
    worker = workers.start(slots=2, processes=1)
    job = workers.job(task)
    workers.witnessed(job)
    began = time.monotonic()
    assert workers.app.cancel(job) == 1
    assert job.wait(timeout=15) == "cancelled"
    assert time.monotonic() - began < (3 if task == "sleeps_async" else 9)  # a plain one may end by itself for 5 s
    assert [one.state for one in job.attempts()] == ["cancelled"]
    assert worker.is_running()
    settled([workers.job("work", n=1)], within_s=10)


def test_jobs_of_many_kinds_are_cancelled_together_and_their_neighbours_finish(workers: Workers) -> None:
    workers.start(slots=8, processes=2)
    doomed = [
        workers.app.named(task).options(collection="doomed").enqueue() for task in ("spins", "sleeps", "sleeps_async")
    ]
    waiting = [workers.app.named("work").options(collection="doomed", delay="1h").enqueue(n=1)]
    beside = [workers.job("work", n=n, seconds=1) for n in range(3)]
    for job in doomed + beside:
        workers.witnessed(job)
    assert workers.app.cancel(collection="doomed") == 4
    settled(doomed + waiting, within_s=20, state="cancelled")
    settled(beside, within_s=20)
    assert [job.view.failures for job in beside] == [0] * 3


def test_large_payloads_reach_their_handlers_promptly(workers: Workers) -> None:
    workers.start(slots=4, processes=1)
    settled([workers.job("echoes", text="warm")], within_s=10)
    began = time.monotonic()
    jobs = workers.app.named("echoes").enqueue_many([{"text": "x" * 200_000}] * 40)
    settled(jobs, within_s=20)
    assert time.monotonic() - began < 5
    eventually(lambda: jobs[0].result() == 200_000)
