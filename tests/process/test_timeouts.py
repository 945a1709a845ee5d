"""Time limits and cancellations that really end the work, whatever it is; what runs beside it is not charged."""

import signal
import time
from itertools import chain

import pytest

from tests.process.harness import Workers, consistent, gone, settled
from tests.waiting import eventually
from tickwork import Job

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


@pytest.mark.timeout(120)
def test_whatever_takes_too_long_is_ended(workers: Workers) -> None:
    """Each in a worker of its own, all at the same time."""
    started = {task: workers.start("-q", task, slots=4, processes=1, wait=False) for task, _ in ENDLESS}
    for worker in started.values():
        workers.wait_for(worker)
    beside = {task: [queued(workers, task, "work", n=n, seconds=8) for n in range(3)] for task in started}
    for job in chain(*beside.values()):
        workers.witnessed(job)
    stuck = {task: queued(workers, task, task, timeout="2s") for task in started}
    events = {task: workers.witnessed(job) for task, job in stuck.items()}

    for task, dies in ENDLESS:
        job = stuck[task]
        assert job.wait(timeout=10) == "failed"
        (attempt,) = job.attempts()
        assert (attempt.state, job.view.failures) == ("timed_out", 1)
        assert "it ran for more than its timeout of 2 s" in (job.error or "")
        assert attempt.ended_at is not None
        assert (attempt.ended_at - attempt.started_at).total_seconds() < 6
        assert gone(events[task].pid) == dies, f"{task}: its process was replaced only where nothing else helped"
        settled(beside[task], within_s=30)
        for other in beside[task]:
            consistent(other)
            assert [one.state for one in other.attempts()] == (["released", "succeeded"] if dies else ["succeeded"])
            assert (other.view.failures, other.view.crashes) == (0, 0)
        assert started[task].is_running()
        settled([queued(workers, task, "work", n=9), queued(workers, task, "work_async", n=10)], within_s=10)


def queued(workers: Workers, queue: str, task: str, timeout: str | None = None, **arguments: float) -> Job:
    return workers.app.named(task).options(queue=queue, timeout=timeout, retries=0).enqueue(**arguments)


def test_two_that_are_overdue_in_one_process_are_both_charged(workers: Workers) -> None:
    worker = workers.start(slots=3, processes=1)
    beside = workers.job("work", n=1, seconds=10)
    # The second one lets no thread of the process run any more, so that only the supervisor can end both.
    doomed = [workers.app.named(task).options(timeout="3s").enqueue() for task in ("sleeps", "never_returns")]
    for job in (beside, *doomed):
        workers.witnessed(job)
    worker.signal(signal.SIGSTOP)
    began = time.monotonic()
    eventually(lambda: time.monotonic() - began > 4.5, 8, "both are overdue when the supervisor looks again")
    worker.signal(signal.SIGCONT)
    assert [job.wait(timeout=15) for job in doomed] == ["failed", "failed"]
    assert [one.state for job in doomed for one in job.attempts()] == ["timed_out", "timed_out"]
    settled([beside], within_s=30)
    assert [one.state for one in beside.attempts()] == ["released", "succeeded"]
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


def test_running_jobs_of_any_kind_are_cancelled_and_their_neighbours_finish(workers: Workers) -> None:
    worker = workers.start(slots=8, processes=2)
    doomed = [
        workers.app.named(task).options(collection="doomed").enqueue() for task in ("spins", "sleeps", "sleeps_async")
    ]
    waiting = [workers.app.named("work").options(collection="doomed", delay="1h").enqueue(n=1)]
    beside = [workers.job("work", n=n, seconds=1) for n in range(3)]
    for job in doomed + beside:
        workers.witnessed(job)
    began = time.monotonic()
    assert workers.app.cancel(collection="doomed") == 4
    settled([doomed[-1], *waiting], within_s=4, state="cancelled")
    settled(doomed, within_s=20, state="cancelled")
    assert time.monotonic() - began < 9, "a plain handler may end by itself for 5 s"
    assert [one.state for job in doomed for one in job.attempts()] == ["cancelled"] * 3
    settled(beside, within_s=20)
    assert [job.view.failures for job in beside] == [0] * 3
    assert worker.is_running()


def test_large_payloads_reach_their_handlers_promptly(workers: Workers) -> None:
    workers.start(slots=4, processes=1)
    settled([workers.job("echoes", text="warm")], within_s=10)
    began = time.monotonic()
    jobs = workers.app.named("echoes").enqueue_many([{"text": "x" * 200_000}] * 100)
    settled(jobs, within_s=30)
    assert time.monotonic() - began < 5, "what does not fit into a socket at once goes on as soon as it does"
    eventually(lambda: jobs[0].result() == 200_000)
