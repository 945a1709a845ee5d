"""Ends of attempts open and close breakers, and ends of transactional tasks open limits."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest

from tests.store.builders import a_job, jobs
from tests.waiting import eventually
from tests.worker.quiet import QuietPools, a_worker
from tickwork import Tickwork, breaker, concurrency
from tickwork.clock import SystemClock
from tickwork.core.ids import ClaimId
from tickwork.core.job import Policy
from tickwork.core.limits.job_limits import JobLimits, LimitUse
from tickwork.core.limits.task_limits import breaker_name
from tickwork.core.outcome import JobCounts, Succeeded, decide
from tickwork.core.retry import RetryPolicy
from tickwork.store.attempt_types import Finish
from tickwork.store.sqlite import SqliteStore
from tickwork.testing import VirtualClock
from tickwork.worker.worker import Worker

NAME = breaker_name("t")
MINUTE = timedelta(minutes=1)


class Scene:
    """A worker with two slots, whose task opens its breaker at three failures, for a minute."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = SqliteStore(":memory:", clock=self.clock)
        self.store.limits.declare_limits({NAME: breaker(failures=3, window="1m", pause="1m")})
        self.worker, self.pools = self.start()

    def start(self) -> tuple[Worker, QuietPools]:
        return a_worker(self.store, self.clock, slots=2)

    def insert(self, count: int) -> None:
        job_limits = JobLimits(uses=(LimitUse(NAME, "", 1),))
        policy = Policy(RetryPolicy(retries=0))
        self.store.insert_jobs(jobs(count, job_limits=job_limits, policy=policy))

    def tick(self, after: timedelta = timedelta(0)) -> list[str]:
        """Advance the clock, tick, and return the running jobs."""
        self.clock.advance(after)
        self.worker.tick(self.clock.monotonic())
        self.worker.tick(self.clock.monotonic())
        return list(self.pools.given)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def open_it(scene: Scene, kind: str = "failed") -> None:
    for _ in range(2):
        scene.tick()
        scene.pools.end(list(scene.pools.given), kind)
    scene.tick()


@pytest.mark.parametrize("kind", ["failed", "timed_out"])
def test_a_breaker_opens_when_attempts_fail_and_closes_when_its_probe_succeeds(scene: Scene, kind: str) -> None:
    scene.insert(20)
    open_it(scene, kind)
    assert scene.tick() == []
    assert scene.tick(MINUTE / 2) == []
    (probe,) = scene.tick(MINUTE)
    assert scene.tick(timedelta(seconds=5)) == [probe], "only the probe"
    scene.pools.end([probe])
    scene.tick()
    assert len(scene.tick()) == 2, "it is closed"


def test_a_probe_that_fails_begins_another_pause(scene: Scene) -> None:
    scene.insert(20)
    open_it(scene)
    (probe,) = scene.tick(2 * MINUTE)
    scene.pools.end([probe], "failed")
    assert scene.tick() == []
    assert scene.tick(MINUTE / 2) == []
    assert len(scene.tick(MINUTE)) == 1


def test_what_was_given_back_and_what_succeeded_says_nothing(scene: Scene) -> None:
    scene.insert(20)
    for kind in ("released", "succeeded") * 5:
        scene.tick()
        scene.pools.end(list(scene.pools.given), kind)
    assert len(scene.tick()) == 2


def test_an_app_that_fails_is_paused(app: Tickwork) -> None:
    calls: list[int] = []

    @app.task(retries=0, breaker=breaker(failures=5, window="1m", pause="1h"))
    def call(n: int) -> None:
        calls.append(n)
        raise ValueError("down")

    with app.worker(concurrency=1):
        asked = [call.enqueue(n) for n in range(20)]
        eventually(lambda: len(calls) >= 5)
        held = eventually(lambda: [job for job in asked if app.store.limits.hold(job.view.id) is not None])
    assert 5 <= len(calls) <= 7
    assert "5 failures in 1m" in str(held[0].why())


def test_an_end_that_a_handler_stored_itself_lets_the_next_one_in(app: Tickwork) -> None:
    store, clock = app.store, SystemClock()
    worker, pools = a_worker(store, clock)
    store.limits.declare_limits({"one": concurrency(1)})
    job_limits = JobLimits(uses=(LimitUse("one", "", 1),))
    first, second = store.insert_jobs([a_job(job_limits=job_limits), a_job(job_limits=job_limits)])
    worker.tick(clock.monotonic())
    assert list(pools.given) == [first]
    assert store.limits.hold(second) is not None
    stored = decide(JobCounts(), Succeeded(b"null"), Random(0))
    with store.connection() as tx:
        assert store.finish_attempts([Finish(first, 1, ClaimId(pools.given[first].claim), stored)], (), tx) == {first}
    pools.end([first], settled=True)
    for _ in range(2):
        worker.tick(clock.monotonic())
    assert list(pools.given) == [second]
