"""A server caches reads of the store for one second."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.replaced import Replaced
from tickwork import Tickwork
from tickwork.core.job import WorkerView
from tickwork.http.worker_and_task_cache import CachedRegistrations, StoreCache
from tickwork.testing import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(datetime(2026, 11, 15, tzinfo=UTC))


def test_why_a_new_job_waits_is_known_from_a_look_of_at_most_a_second_ago(app: Tickwork, clock: VirtualClock) -> None:
    job = app.named("mail").enqueue()
    store_cache = StoreCache(app.store, app.store.reads, clock)
    assert "no worker is running" in store_cache.why(job.view)
    app.pause(task="mail", reason="a test")
    assert "a test" not in store_cache.why(job.view)
    clock.advance(timedelta(seconds=1))
    assert "a test" in store_cache.why(job.view)


def test_what_workers_tell_of_a_task_is_known_a_second_later(app: Tickwork, clock: VirtualClock) -> None:
    cached = CachedRegistrations(app.store.reads, clock)
    assert cached.task_definition("mail") is None

    @app.task(name="mail", queue="slow")
    def mail() -> None: ...

    with app.worker():
        mail.enqueue().wait(10)
    assert cached.task_definition("mail") is None
    clock.advance(timedelta(seconds=1))
    known = cached.task_definition("mail")
    assert known is not None
    assert known.queue == "slow"


def test_workers_are_read_once_a_second_and_seldom_where_that_takes_long(app: Tickwork, clock: VirtualClock) -> None:
    reads: list[float] = []
    takes = timedelta(0)

    def workers() -> list[WorkerView]:
        reads.append(clock.monotonic())
        clock.advance(takes)
        return app.store.reads.workers()

    cached = CachedRegistrations(Replaced(app.store.reads, workers=workers), clock)
    for _ in range(4):
        cached.workers()
        clock.advance(timedelta(seconds=0.5))
    assert len(reads) == 2
    cached.forget_workers()
    cached.workers()
    assert len(reads) == 3, "what was asked of a worker is seen at once"
    clock.advance(timedelta(seconds=1))
    takes = timedelta(seconds=0.3)
    for _ in range(7):
        cached.workers()
        clock.advance(timedelta(seconds=0.5))
    assert len(reads) == 5, "a read of 0.3 s is good for 3 s"
