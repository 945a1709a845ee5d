"""A child that is killed while it runs for many jobs at once, and a worker that is."""

import os
import signal

import pytest

from tests.process.harness import Workers, consistent, settled
from tests.waiting import eventually
from tickwork import Job

pytestmark = pytest.mark.process


def enqueued(workers: Workers, count: int) -> list[Job]:
    return workers.app.named("work_in_batches").enqueue_many([(n,) for n in range(count)])


def check(workers: Workers, jobs: list[Job], lost: set[str]) -> None:
    """Each job has one result, its own; lost attempts were tried again, and no job is charged."""
    settled(jobs, within_s=60)
    for n, job in enumerate(jobs):
        consistent(job)
        assert job.result()["n"] == n
        assert (job.view.failures, job.view.crashes) == (0, 0)
        assert job.attempt == (2 if job.id in lost else 1)
    ended = [(event.job, event.attempt) for event in workers.witness.events(event="end")]
    assert len(ended) == len(set(ended)) >= len(jobs)


@pytest.mark.timeout(120)
def test_every_job_of_a_call_whose_process_is_killed_is_tried_again(workers: Workers) -> None:
    worker = workers.start(slots=2, processes=1)
    jobs = enqueued(workers, 60)
    first = eventually(lambda: workers.witness.events(event="start"), 20)[0]
    eventually(lambda: len(workers.witness.events(event="start")) >= 40, 20, "two calls run")
    os.kill(first.pid, signal.SIGKILL)
    lost = {event.job for event in workers.witness.events(event="start") if event.pid == first.pid}
    assert len(lost) == 40
    check(workers, jobs, lost)
    assert {job.result()["together"] for job in jobs if job.id in lost} == {1}, "who killed it has to be found out"
    assert worker.is_running()


@pytest.mark.timeout(120)
def test_every_job_of_a_worker_that_is_killed_is_tried_again(workers: Workers) -> None:
    victim = workers.start(slots=2, processes=1, lease_s=2)
    jobs = enqueued(workers, 30)
    eventually(lambda: len(workers.witness.events(event="start")) >= 30, 20, "a full call runs, and one that is not")
    victim.kill_everything()
    workers.start(slots=2, processes=1, lease_s=2)
    check(workers, jobs, {job.id for job in jobs})


@pytest.mark.timeout(120)
def test_a_draining_worker_finishes_its_calls_and_waits_for_no_company(workers: Workers) -> None:
    worker = workers.start(slots=2, processes=1)
    jobs = enqueued(workers, 25)
    eventually(lambda: workers.witness.events(event="start"), 20)
    eventually(lambda: all(job.state != "queued" for job in jobs), 20, "all are claimed")
    worker.signal(signal.SIGTERM)
    assert worker.wait(20) == 0
    check(workers, jobs, set())
