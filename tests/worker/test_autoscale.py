"""A worker whose children become more while jobs wait, and fewer when it is calm."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any, cast

import pytest

from tests.replaced import Replaced
from tests.store.builders import HOUR, a_job, jobs, register
from tests.worker.quiet import QuietPools, a_worker
from tickwork.core.limits.job_limits import JobLimits
from tickwork.core.placement import read_needs, read_offer
from tickwork.core.workers.autoscale import AutoscaleRange
from tickwork.store.reads.verbs import ReadVerbs
from tickwork.store.sqlite import SqliteStore
from tickwork.testing import VirtualClock
from tickwork.worker.autoscale import Autoscaler
from tickwork.worker.worker import Worker

SECOND = timedelta(seconds=1)
EACH = 2  # slots of a child


class Crew:
    """Children that load at once, unless they are slow to, and what was asked of them."""

    def __init__(self, low: int) -> None:
        self.count = low
        self.loading = 0
        self.is_slow = False
        self.sizes: list[int] = []

    def resize(self, count: int) -> None:
        self.sizes.append(count)
        self.loading = count - self.count if self.is_slow else 0
        self.count = count

    def loaded(self) -> int:
        return self.count - self.loading


class CountingStore(SqliteStore):
    """Counts how often it was asked what waits."""

    asked = 0

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(":memory:", clock=clock)
        backlog = self.reads.backlog

        def counted(*args: Any) -> Any:
            self.asked += 1
            return backlog(*args)

        self.reads = cast("ReadVerbs", Replaced(self.reads, backlog=counted))


class Scene:
    """A worker with one to four children of two slots each, and time."""

    def __init__(self, **options: object) -> None:
        self.clock = VirtualClock()
        self.store = CountingStore(self.clock)
        self.crew = Crew(1)
        rule = AutoscaleRange(low=1, high=4)
        self.autoscaler = Autoscaler(rule, self.crew, 4 * EACH, self.store, queues=["default"], tasks=["t"])
        self.worker, self.pools = self._worker(**options)

    def _worker(self, **options: object) -> tuple[Worker, QuietPools]:
        return a_worker(self.store, self.clock, slots=4 * EACH, autoscaler=self.autoscaler, **options)

    def pass_time(self, seconds: float, step: float = 0.5) -> None:
        for _ in range(int(seconds / step)):
            self.clock.advance(timedelta(seconds=step))
            self.worker.tick(self.clock.monotonic())

    def work_off(self) -> None:
        """End all running jobs until no job waits."""
        while self.pools.given:
            self.pools.end(list(self.pools.given))
            self.worker.tick(self.clock.monotonic())


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_it_grows_one_by_one_while_jobs_wait_of_which_it_does_not_know_how_long_they_take(scene: Scene) -> None:
    scene.store.insert_jobs(jobs(20))
    scene.worker.tick(scene.clock.monotonic())
    assert len(scene.pools.given) == EACH
    scene.pass_time(6)
    assert scene.crew.sizes == [2, 3, 4]
    assert len(scene.pools.given) == 4 * EACH


def test_it_grows_to_what_is_wanted_at_once_where_it_knows(scene: Scene) -> None:
    scene.store.insert_jobs(jobs(2))
    scene.worker.tick(scene.clock.monotonic())
    scene.pools.end(list(scene.pools.given), took=10.0)
    scene.store.insert_jobs(jobs(8))
    scene.pass_time(1.5)
    assert scene.crew.sizes == [4]


def test_it_shrinks_after_a_minute_of_calm_and_not_before(scene: Scene) -> None:
    scene.store.insert_jobs(jobs(20))
    scene.pass_time(6)
    scene.work_off()
    scene.pass_time(55)
    assert scene.crew.sizes == [2, 3, 4]
    scene.pass_time(10)
    assert scene.crew.sizes == [2, 3, 4, 1]
    scene.store.insert_jobs(jobs(20))
    scene.worker.tick(scene.clock.monotonic())
    assert len(scene.pools.given) == EACH


def test_a_constant_load_changes_nothing(scene: Scene) -> None:
    scene.store.insert_jobs(jobs(1))
    scene.pass_time(300)
    assert scene.crew.sizes == []


def test_the_store_is_asked_only_while_all_slots_are_taken(scene: Scene) -> None:
    scene.store.insert_jobs([*jobs(1), *jobs(10, delay=HOUR)])
    scene.pass_time(60)
    assert scene.store.asked == 0
    scene.store.insert_jobs(jobs(1))
    scene.pass_time(60, step=0.1)
    assert 50 <= scene.store.asked <= 61
    assert scene.crew.sizes == [], "nothing waits"
    scene.store.insert_jobs(jobs(30))
    scene.pass_time(10)
    asked = scene.store.asked
    scene.pass_time(60)
    assert (scene.crew.count, scene.store.asked) == (4, asked), "there cannot be more of them"


def test_what_waits_for_something_else_than_a_slot_does_not_make_it_grow() -> None:
    scene = Scene(offer=read_offer([], "gpu=1"))
    gpu = JobLimits(needs=read_needs({"gpu": 1}).text)
    mine = JobLimits(needs=read_needs({f"worker:{register(scene.store)}": True}).text)
    scene.store.insert_jobs([*jobs(10, job_limits=gpu), *jobs(3, job_limits=mine), a_job()])
    scene.pass_time(60)
    assert len(scene.pools.given) == EACH
    assert scene.crew.sizes == []


def test_while_children_load_no_more_are_wanted(scene: Scene) -> None:
    scene.crew.is_slow = True
    scene.store.insert_jobs(jobs(20))
    scene.pass_time(30)
    assert scene.crew.sizes == [2]
    assert len(scene.pools.given) == EACH, "and nothing is claimed for them"
    scene.crew.loading = 0
    scene.pass_time(2)
    assert scene.crew.sizes == [2, 3]


def test_it_says_so(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tickwork.worker")
    scene.store.insert_jobs(jobs(5))
    scene.pass_time(2)
    scene.work_off()
    scene.pass_time(70)
    assert caplog.messages == [
        "Growing from 1 to 2 processes: 3 jobs wait, the first for 1.5 s.",
        "Shrinking from 2 to 1 processes: fewer have been enough for a while.",
    ]
