"""SIGTERM drains: what ends within the grace ends, the rest is given back uncharged, and nothing is lost on the way."""

import signal
import time

import pytest

from tests.process.harness import Workers, consistent, gone, settled
from tests.waiting import eventually

pytestmark = pytest.mark.process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_short_jobs_finish_and_long_ones_are_given_back(workers: Workers, number: signal.Signals) -> None:
    worker = workers.start(slots=4, processes=2, grace="2s")
    short = [workers.job("work", n=1, seconds=0.7), workers.job("work_async", n=2, seconds=0.7)]
    long = [workers.job("work", n=3, seconds=60), workers.job("sleeps_async")]
    waiting = workers.job("work", n=4)
    for job in short + long:
        workers.witnessed(job)
    children = worker.children()
    began = time.monotonic()
    worker.signal(number)
    eventually(lambda: any(one.state == "draining" for one in workers.app.store.reads.workers()), 5)
    assert worker.wait(15) == 0
    assert 1.9 < time.monotonic() - began < 6
    assert all(gone(child) for child in children)
    for job in short:
        consistent(job)
        assert job.attempt == 1
    for job in long:
        assert (job.state, job.view.failures, job.view.crashes) == ("queued", 0, 0)
        assert [one.state for one in job.attempts()] == ["released"]
    assert (waiting.state, waiting.attempts()) == ("queued", [])
    assert workers.app.store.reads.workers() == []


def test_an_idle_worker_leaves_at_once(workers: Workers) -> None:
    worker = workers.start(grace="60s")
    began = time.monotonic()
    worker.signal(signal.SIGTERM)
    assert worker.wait(10) == 0
    assert time.monotonic() - began < 4


def test_a_worker_that_is_still_starting_leaves_in_good_order(workers: Workers) -> None:
    worker = workers.start(wait=False)
    eventually(worker.children, 10)
    worker.signal(signal.SIGTERM)
    assert worker.wait(10) == 0
    assert "Traceback" not in worker.said()


@pytest.mark.parametrize("stuck", ["work", "sleeps", "never_returns"])
def test_a_second_signal_stops_now(workers: Workers, stuck: str) -> None:
    worker = workers.start(grace="60s")
    job = workers.job(stuck, n=1, seconds=60) if stuck == "work" else workers.job(stuck)
    event = workers.witnessed(job)
    worker.signal(signal.SIGTERM)
    eventually(lambda: any(one.state == "draining" for one in workers.app.store.reads.workers()), 5)
    began = time.monotonic()
    worker.signal(signal.SIGTERM)
    assert worker.wait(10) == 0
    assert time.monotonic() - began < 4
    assert gone(event.pid)
    assert (job.state, job.view.failures) == ("queued", 0)
    assert [one.state for one in job.attempts()] == ["released"]


def test_a_rolling_restart_burns_no_attempt(workers: Workers) -> None:
    """Twenty times a new worker comes and an old one goes, while jobs that fit into the grace keep coming."""
    jobs = []
    old = workers.start(grace="10s")
    for n in range(20):
        jobs += [workers.job("work", n=10 * n + m, seconds=0.1) for m in range(10)]
        new = workers.start(grace="10s", wait=n % 2 == 0)  # sometimes there is no worker for a moment
        old.signal(signal.SIGTERM)
        assert old.wait(20) == 0
        old = new
    settled(jobs, within_s=30)
    assert len(workers.witness.events(event="start")) == len(jobs) == 200
    for job in jobs:
        consistent(job)
        assert job.attempt == 1


def test_what_was_given_back_is_taken_by_a_waiting_worker_at_once(workers: Workers) -> None:
    leaving = workers.start(grace="0s", slots=1, processes=1)
    job = workers.job("lingers")
    workers.witnessed(job)
    workers.start(slots=1, processes=1)
    began = time.monotonic()
    leaving.signal(signal.SIGTERM)
    eventually(lambda: len(workers.witness.events(job.id, "start")) == 2, 10)
    assert time.monotonic() - began < 3
    settled([job], within_s=10)
    assert [one.state for one in job.attempts()] == ["released", "succeeded"]


def test_what_a_handler_started_does_not_outlive_a_drained_worker(workers: Workers) -> None:
    worker = workers.start(grace="500ms")
    job = workers.job("with_grandchild")
    program = int(workers.witnessed(job, "started").event.partition(":")[2])
    worker.signal(signal.SIGTERM)
    assert worker.wait(10) == 0
    eventually(lambda: gone(program), 3)


def test_a_handler_can_terminate_what_it_started(workers: Workers) -> None:
    workers.start()
    assert workers.job("ends_its_program").result(timeout=20) == -signal.SIGTERM
