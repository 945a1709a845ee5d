"""The offer of a worker, how it is reported, and the jobs that fit it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.store.builders import SECOND, a_job, insert_one, jobs
from tests.waiting import eventually
from tests.worker.quiet import a_worker
from tickwork import Tickwork, concurrency, current_job
from tickwork.core.job import NewJob
from tickwork.core.limits.job_limits import JobLimits, LimitUse
from tickwork.core.placement import own_label, read_needs, read_offer
from tickwork.errors import InvalidOption
from tickwork.store.sqlite import SqliteStore
from tickwork.testing import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def store(clock: VirtualClock) -> SqliteStore:
    return SqliteStore(":memory:", clock=clock)


def needing(**needs: Any) -> NewJob:
    return a_job(job_limits=JobLimits(needs=read_needs(needs).text))


def test_a_worker_takes_as_many_as_its_resources_hold_and_the_next_when_one_ends(
    store: SqliteStore, clock: VirtualClock
) -> None:
    worker, pools = a_worker(store, clock, offer=read_offer(["gpu"], "mem=8GB"))
    first, second, third = store.insert_jobs([needing(mem="4GB", gpu=True) for _ in range(3)])
    worker.tick(clock.monotonic())
    assert list(pools.given) == [first, second]
    pools.end([first])
    worker.tick(clock.monotonic())
    assert list(pools.given) == [second, third]


def test_a_worker_without_it_leaves_a_job_to_others(store: SqliteStore, clock: VirtualClock) -> None:
    plain, plain_pools = a_worker(store, clock)
    equipped, pools = a_worker(store, clock, offer=read_offer(["region:eu"]))
    job_id = insert_one(store, needing(**{"region:eu": True}))
    plain.tick(clock.monotonic())
    assert not plain_pools.given
    equipped.tick(clock.monotonic())
    assert list(pools.given) == [job_id]


def test_each_worker_has_a_label_of_its_own_that_only_jobs_for_it_need(store: SqliteStore, clock: VirtualClock) -> None:
    workers = [a_worker(store, clock) for _ in range(3)]
    for worker, _ in workers:
        worker.tick(clock.monotonic())
        clock.advance(SECOND)
    names = [view.id for view in store.reads.workers()]
    assert [view.offer.labels for view in store.reads.workers()] == [{own_label(name)} for name in names]
    ids = [insert_one(store, needing(**{own_label(name): True})) for name in reversed(names)]
    for worker, _ in workers:
        worker.tick(clock.monotonic())
    assert [list(pools.given) for _, pools in workers] == [[job_id] for job_id in reversed(ids)]


def test_limited_jobs_are_not_taken_ahead(store: SqliteStore, clock: VirtualClock) -> None:
    """Short jobs make a worker hold more than its slots, of plain ones alone."""
    store.limits.declare_limits({"many": concurrency(4)})  # where it stays half empty, it may be
    worker, pools = a_worker(store, clock, slots=2)
    for _ in range(100):  # short ones, after which it takes ahead
        insert_one(store, a_job())
        worker.tick(clock.monotonic())
        pools.end(list(pools.given), took=0.001)
    limited = store.insert_jobs(jobs(4, job_limits=JobLimits(uses=(LimitUse("many", "", 1),)), priority=0))
    worker.tick(clock.monotonic())
    assert list(pools.given) == limited[:2]
    store.insert_jobs(jobs(50))
    worker.tick(clock.monotonic())
    assert len(pools.given) > 2
    assert set(limited) & set(pools.given) == set(limited[:2])


def test_an_app_places_jobs_by_what_they_need(app: Tickwork) -> None:
    @app.task(needs={"gpu": True})
    def train() -> int:
        return current_job().attempt

    with app.worker(concurrency=2):
        job = train.enqueue()
        eventually(lambda: [view for view in app.store.reads.workers() if view.state == "running"])
        assert job.state == "queued"
        with app.worker(concurrency=2, labels="gpu", resources={"mem": "2GB"}):
            assert job.result(timeout=10) == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"labels": ["worker:abc"]}, "a label: 'worker:abc' would name one worker"),
        ({"labels": ["a b"]}, "a label: 'a b' is no name"),
        ({"resources": "mem=lots"}, "mem: 'lots' is not an amount"),
    ],
)
def test_what_a_worker_cannot_have_is_refused(app: Tickwork, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption, match=message), app.worker(**given):
        pass
