"""Work with on_lost="fail" in real workers: a neighbour's kill and the end of a drain do not make it begin twice."""

import signal

import pytest

from tests.process.harness import Workers
from tickwork import Job

pytestmark = pytest.mark.process


def once(workers: Workers, n: int) -> Job:
    return workers.app.named("work").options(on_lost="fail", retries=3).enqueue(n=n, seconds=30)


def test_a_neighbour_that_times_out_in_a_blocking_call_does_not_make_it_begin_again(workers: Workers) -> None:
    workers.start(slots=4, processes=1)
    jobs = [once(workers, n) for n in range(3)]
    for job in jobs:
        workers.witnessed(job)
    neighbour = workers.app.named("sleeps").options(timeout="1s", retries=0).enqueue()
    assert [job.wait(timeout=60) for job in jobs] == ["failed"] * 3
    assert [attempt.state for attempt in neighbour.attempts()] == ["timed_out"]
    for job in jobs:
        assert [one.state for one in job.attempts()] == ["lost"]
        assert len(workers.witness.events(job.id, "start")) == 1
        assert "on_lost='fail'" in str(job.error)


def test_the_end_of_a_drain_does_not_make_it_begin_again(workers: Workers) -> None:
    worker = workers.start(slots=1, processes=1, grace="1s")
    begun = once(workers, 1)
    workers.witnessed(begun)
    waiting = once(workers, 2)
    worker.signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    assert (begun.state, waiting.state) == ("failed", "queued")
    assert [one.state for one in begun.attempts()] == ["lost"]
