"""A worker whose store has lost its last commits: a backup was restored, or a failover lost them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.store.builders import jobs, state_of
from tests.worker.quiet import QuietPools, a_worker
from tickwork.core.ids import WorkerId
from tickwork.core.job import JobState
from tickwork.store.sqlite import SqliteStore
from tickwork.testing import VirtualClock
from tickwork.worker.claimer import OWN_LOOK_LEASES


class StoppingPools(QuietPools):
    """Notes what is stopped; all that it runs is in one child."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped: list[tuple[str, int]] = []

    def interrupt(self, job_id: str, claim: int, reason: str) -> None:
        assert reason == "stop"
        self.stopped.append((job_id, claim))

    def kill_holder(self, job_id: str) -> list[str]:
        beside = [one for one in self.given if one != job_id]
        self.given.clear()
        return beside


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def store(clock: VirtualClock) -> SqliteStore:
    return SqliteStore(":memory:", clock=clock)


def snapshot(store: SqliteStore) -> Callable[[], None]:
    """Copy the tables in which jobs move; return a function that puts the copy back."""
    tables = [f"tickwork_{name}" for name in ("queue", "running", "finished", "attempts")]
    with store.connection() as tx:
        rows = {table: tx.execute(f"SELECT * FROM {table}").fetchall() for table in tables}

    def restore() -> None:
        with store.connection() as tx:
            for table, kept in rows.items():
                tx.execute(f"DELETE FROM {table}")
                for row in kept:
                    tx.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)

    return restore


def test_a_job_that_it_gets_again_runs_once_and_ends_by_the_second_claim(
    store: SqliteStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.worker.quiet.QuietPools", StoppingPools)
    worker, pools = a_worker(store, clock, queues=(("default", 1.0),), slots=3)
    assert isinstance(pools, StoppingPools)
    worker.tick(clock.monotonic())
    (neighbour,) = store.insert_jobs(jobs(1))
    worker.called = True
    worker.tick(clock.monotonic())
    (job_id,) = store.insert_jobs(jobs(1))
    restore = snapshot(store)
    worker.tick(clock.monotonic())
    first = pools.given[job_id]
    restore()
    worker.tick(clock.monotonic())
    second = pools.given[job_id]
    assert pools.stopped == [(job_id, first.claim)]
    assert (first.attempt, second.attempt) == (1, 1)
    assert first.claim != second.claim
    worker.tick(clock.monotonic())
    assert set(pools.given) == {job_id, neighbour}, "what ran beside it is given back, and runs again"
    pools.end([job_id, neighbour])
    worker.tick(clock.monotonic())
    assert state_of(store, job_id) is state_of(store, neighbour) is JobState.SUCCEEDED
    assert [one.state for one in store.reads.attempts(job_id)] == ["succeeded"]


def test_two_jobs_of_one_process_that_it_gets_again_run_once(
    store: SqliteStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 57307098: the process was killed for the first, and the worker failed as it looked for the second there."""
    monkeypatch.setattr("tests.worker.quiet.QuietPools", StoppingPools)
    worker, pools = a_worker(store, clock, queues=(("default", 1.0),), slots=4)
    worker.tick(clock.monotonic())
    ids = store.insert_jobs(jobs(2))
    restore = snapshot(store)
    worker.called = True
    worker.tick(clock.monotonic())
    assert set(pools.given) == set(ids)
    restore()
    worker.tick(clock.monotonic())
    assert set(pools.given) == set(ids)
    pools.end(ids)
    worker.tick(clock.monotonic())
    assert [state_of(store, one) for one in ids] == [JobState.SUCCEEDED] * 2


def test_an_end_that_the_store_has_lost_is_noticed(store: SqliteStore, clock: VirtualClock) -> None:
    """The job stands as running under a worker that lives, so no reaper takes it back."""
    worker, pools = a_worker(store, clock, queues=(("default", 1.0),), slots=1)
    (job_id,) = store.insert_jobs(jobs(1))
    worker.tick(clock.monotonic())
    restore = snapshot(store)
    pools.end([job_id])
    worker.tick(clock.monotonic())
    assert state_of(store, job_id) is JobState.SUCCEEDED
    restore()
    worker.tick(clock.monotonic())
    assert state_of(store, job_id) is JobState.RUNNING
    # The lease of a worker is not public.
    clock.advance(OWN_LOOK_LEASES * worker._lease.duration)
    worker._lease.begin(WorkerId(str(worker._lease.worker)), clock.monotonic())  # its heartbeats went on
    store.renew_lease(WorkerId(str(worker._lease.worker)), worker._lease.duration)
    worker.tick(clock.monotonic())
    pools.end([job_id])
    worker.tick(clock.monotonic())
    assert state_of(store, job_id) is JobState.SUCCEEDED
    assert [one.state for one in store.reads.attempts(job_id)] == ["released", "succeeded"]
