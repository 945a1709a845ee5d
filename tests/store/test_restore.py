"""A store that lost its last commits: a restored backup, or a failover that dropped them.

The number of an attempt then repeats. Two workers, or one worker twice, hold attempt 1 of one job, and only the claim
that the store knows may write.
"""

from typing import Any

import pytest

from tests.store.builders import (
    HOUR,
    MINUTE,
    a_job,
    abandoned,
    again,
    asking,
    claim_one,
    insert_one,
    log,
    reap,
    register,
    running,
    state_of,
    succeeded,
)
from tickwork.core.ids import JobId, WorkerId
from tickwork.core.job import Claimed, JobState
from tickwork.errors import LeaseLost
from tickwork.store.attempt_types import Progress
from tickwork.store.base import Store
from tickwork.testing import VirtualClock

_TABLES = ("queue", "running", "finished", "attempts", "logs", "saved")


class Backup:
    """A copy of the tables in which jobs move; `restore` puts it back."""

    def __init__(self, store: Store, kind: str) -> None:
        self._store = store
        self._name = "tickwork_{}" if kind.startswith("sqlite") else "shared.{}"
        self._mark = "?" if kind.startswith("sqlite") else "%s"
        with store.connection() as tx:
            self._rows = {table: self._all_of(tx, table) for table in _TABLES}

    def _all_of(self, tx: Any, table: str) -> list[Any]:
        return list(tx.execute(f"SELECT * FROM {self._name.format(table)}").fetchall())

    def restore(self) -> None:
        with self._store.connection() as tx:
            for table, rows in self._rows.items():
                name = self._name.format(table)
                tx.execute(f"DELETE FROM {name}")
                for row in rows:
                    tx.execute(f"INSERT INTO {name} VALUES ({', '.join([self._mark] * len(row))})", tuple(row))


@pytest.fixture
def lost(store: Store, kind: str) -> tuple[Claimed, Claimed]:
    """Attempt 1 of a job by a claim that the store has lost, and attempt 1 by the claim that holds it."""
    insert_one(store)
    backup = Backup(store, kind)
    first = claim_one(store)
    backup.restore()
    second = claim_one(store)
    assert (first.job_id, first.attempt) == (second.job_id, second.attempt)
    return first, second


def test_a_lost_claim_cannot_end_the_job(store: Store, lost: tuple[Claimed, Claimed]) -> None:
    first, second = lost
    assert store.finish_attempts([succeeded(first, b"1")], [log(first, "late")]) == set()
    assert store.finish_attempts([again(first)]) == set()
    worker = register(store)
    assert (
        store.exchange(
            worker, [succeeded(first, b"1")], [log(first, "late")], queues=["other"], tasks=["t"], limit=1
        ).finished
        == set()
    )
    assert store.reads.logs(first.job_id) == []
    assert store.finish_attempts([succeeded(second, b"2")]) == {second.job_id}
    assert store.reads.get_jobs([second.job_id])[second.job_id].result == b"2"


def test_nor_in_a_transaction_of_its_handler(store: Store, lost: tuple[Claimed, Claimed]) -> None:
    first, second = lost
    with store.connection() as tx:
        assert store.finish_attempts([succeeded(first)], [log(first, "late")], tx) == set()
    with store.connection() as tx:
        assert store.finish_attempts([succeeded(second)], tx=tx) == {second.job_id}
    assert store.reads.logs(first.job_id) == []


def test_nor_write_or_save_or_enqueue_anything(store: Store, lost: tuple[Claimed, Claimed]) -> None:
    first, second = lost
    store.append_logs([log(first, "late"), log(second, "in time", seq=1)])
    store.set_progress([Progress(first.job_id, first.claim, 0.9, None)])
    assert not store.save_state(first.job_id, first.claim, b"1")
    child, other = a_job(), a_job()
    with pytest.raises(LeaseLost, match=f"attempt 1 of job {first.job_id}"):
        store.insert_jobs([child], None, asking(first))
    with pytest.raises(LeaseLost), store.connection() as tx:
        store.insert_jobs([other], tx, asking(first))
    assert store.reads.get_jobs([child.id, other.id]) == {}
    assert [chunk.text for chunk in store.reads.logs(first.job_id)] == ["in time"]
    assert store.reads.get_jobs([first.job_id])[first.job_id].progress is None
    assert store.saved_state(first.job_id) is None


def test_nor_be_reclaimed_in_place_of_the_other(
    store: Store, lost: tuple[Claimed, Claimed], clock: VirtualClock
) -> None:
    first, second = lost
    clock.advance(2 * MINUTE)
    assert store.reclaim_attempts([abandoned(first)]) == set()
    assert reap(store) == {second.job_id}
    assert state_of(store, second.job_id) is JobState.QUEUED


def test_a_request_to_stop_names_the_claim_that_holds_the_job(store: Store, lost: tuple[Claimed, Claimed]) -> None:
    first, second = lost
    store.cancel_jobs([first.job_id])
    worker = WorkerId(str(store.reads.get_jobs([first.job_id])[first.job_id].worker))
    assert store.cancel_requests(worker) == [(first.job_id, second.claim)]
    assert [one.claim for one in store.open_attempts(worker)] == [second.claim]


def test_one_worker_that_claims_a_job_twice_holds_it_by_the_second_claim(
    store: Store, kind: str, clock: VirtualClock
) -> None:
    insert_one(store)
    worker, backup = register(store, lease=HOUR), Backup(store, kind)
    first = claim_one(store, worker)
    backup.restore()
    clock.advance(MINUTE)  # on PostgreSQL claims do not look back for a while
    second = claim_one(store, worker)
    assert first.claim != second.claim
    assert store.finish_attempts([succeeded(first, b"1"), succeeded(second, b"2")]) == {second.job_id}
    assert store.reads.get_jobs([second.job_id])[second.job_id].result == b"2"


def test_an_attempt_that_the_backup_knows_goes_on(store: Store, kind: str) -> None:
    held = running(store)
    backup = Backup(store, kind)
    store.finish_attempts([again(held)])
    claim_one(store)
    backup.restore()
    assert store.finish_attempts([succeeded(held)]) == {held.job_id}


def test_jobs_of_one_claim_share_its_identity_and_no_others_have_it(store: Store) -> None:
    ids: set[JobId] = {insert_one(store) for _ in range(3)}
    worker = register(store)
    together = store.claim_jobs(worker, ["default"], ["t"], 2).jobs
    (alone,) = store.claim_jobs(worker, ["default"], ["t"], 2).jobs
    assert {one.job_id for one in [*together, alone]} == ids
    assert together[0].claim == together[1].claim != alone.claim
