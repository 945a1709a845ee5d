"""Ends that wait for others, so that one exchange with the store takes them all."""

from datetime import timedelta
from typing import Any

import pytest

from tests.worker.mock_pools import TASK, Pools, SlowStore, insert
from tests.worker.quiet import bare_worker
from tickwork.store.sqlite import SqliteStore
from tickwork.testing import VirtualClock
from tickwork.worker.ipc.protocol import AttemptEnd, AttemptsEnded
from tickwork.worker.lease import Lease

EXCHANGE = timedelta(milliseconds=4)
JOB = timedelta(milliseconds=50)
SLOTS = 8


class CountingStore(SlowStore):
    exchanges = 0
    ends = 0

    def exchange(self, worker: Any, finishes: Any, *given: Any, **claim: Any) -> Any:
        self.exchanges += 1
        self.ends += len(finishes)
        return super().exchange(worker, finishes, *given, **claim)


class Busy:
    """A worker of 8 slots with jobs of 50 ms: all slots are taken, and some jobs are prefetched."""

    def __init__(self) -> None:
        self.clock, self.pools = VirtualClock(), Pools()
        self.store = CountingStore(SqliteStore(":memory:", clock=self.clock), self.clock)
        self.store.takes = EXCHANGE
        self.worker = bare_worker(self.store, self.pools, [TASK], Lease(timedelta(minutes=10)), self.clock, slots=SLOTS)
        for number in range(1000):
            insert(self.store, number)
        self.tick()
        while self.prefetched < 2:  # until it has learnt how long jobs and exchanges take
            self.clock.advance(JOB)
            self.end_one()
            self.tick()

    @property
    def prefetched(self) -> int:
        return len(self.pools.given) - SLOTS

    def tick(self) -> float:
        return self.worker.tick(self.clock.monotonic())

    def end_one(self) -> None:
        one = self.pools.given.pop(0)
        took = JOB.total_seconds()
        end = AttemptEnd(one.job_id, one.claim, "succeeded", self.clock.monotonic(), result=b"null", took=took)
        self.pools.news.append((None, AttemptsEnded([end])))


@pytest.fixture
def busy() -> Busy:
    return Busy()


def test_ends_wait_for_others_while_prefetched_jobs_fill_their_slots(busy: Busy) -> None:
    exchanges, ends = busy.store.exchanges, busy.store.ends
    busy.end_one()
    wait_s = busy.tick()
    assert busy.store.exchanges == exchanges
    assert 0 < wait_s <= 2 * EXCHANGE.total_seconds()
    busy.clock.advance(timedelta(seconds=wait_s))
    busy.end_one()
    busy.tick()
    assert (busy.store.exchanges, busy.store.ends) == (exchanges + 1, ends + 2)


def test_no_end_waits_when_no_prefetched_job_is_left(busy: Busy) -> None:
    exchanges, ends = busy.store.exchanges, busy.store.ends
    prefetched = busy.prefetched
    for _ in range(prefetched):
        busy.end_one()
    busy.tick()
    assert (busy.store.exchanges, busy.store.ends) == (exchanges + 1, ends + prefetched)


def test_a_worker_that_drains_stores_ends_at_once(busy: Busy) -> None:
    busy.end_one()
    busy.tick()
    # The number of waiting ends has no public count.
    assert len(busy.worker._finisher) == 1
    busy.worker.drain()
    busy.tick()
    assert len(busy.worker._finisher) == 0


def test_a_worker_that_gathers_ends_rests_although_it_could_claim(busy: Busy) -> None:
    """Seed 57307326: it was to look again at an instant that had passed, and ticked without end until then."""
    busy.worker._claimer._look_again = busy.clock.monotonic()
    busy.end_one()
    assert busy.tick() > EXCHANGE.total_seconds()
