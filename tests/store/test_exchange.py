"""exchange: endings and a claim in one transaction, with what each of them promises by itself."""

from tests.store.builders import (
    HOUR,
    MINUTE,
    abandoned,
    again,
    claim_one,
    insert_one,
    jobs,
    log,
    reap,
    register,
    running,
    state_of,
    states_of,
    succeeded,
)
from tickwork.core.ids import JobId, WorkerId
from tickwork.core.job import JobState
from tickwork.store.attempt_types import Exchange, Finish, NewLog
from tickwork.store.base import Store
from tickwork.testing import VirtualClock


def exchange(
    store: Store, worker: WorkerId, endings: list[Finish], limit: int = 10, logs: tuple[NewLog, ...] = ()
) -> Exchange:
    return store.exchange(worker, endings, logs, queues=["default"], tasks=["t"], limit=limit)


def taken(done: Exchange) -> list[JobId]:
    assert done.claims is not None
    return [job.job_id for job in done.claims.jobs]


def test_what_ended_is_stored_and_what_is_due_is_claimed(store: Store) -> None:
    worker = register(store)
    first = running(store, worker)
    waiting = store.insert_jobs(jobs(3))
    done = exchange(store, worker, [succeeded(first, b"7")], limit=2, logs=(log(first, "its last words"),))
    assert done.finished == {first.job_id}
    assert taken(done) == waiting[:2]
    assert store.reads.get_jobs([first.job_id])[first.job_id].result == b"7"
    assert [chunk.text for chunk in store.reads.logs(first.job_id)] == ["its last words"]
    assert states_of(store, waiting) == [JobState.RUNNING, JobState.RUNNING, JobState.QUEUED]


def test_without_endings_it_is_a_claim(store: Store) -> None:
    job_id = insert_one(store)
    done = exchange(store, register(store), [])
    assert (done.finished, taken(done)) == (set(), [job_id])


def test_a_job_that_is_to_be_tried_again_at_once_can_be_claimed_with_it(store: Store, clock: VirtualClock) -> None:
    worker = register(store)
    first = running(store, worker)
    clock.advance(MINUTE / 2)
    done = exchange(store, worker, [again(first)])
    assert taken(done) == [first.job_id]
    assert done.claims is not None
    assert done.claims.jobs[0].attempt == 2


def test_a_stale_ending_is_left_out_of_the_answer_and_keeps_nothing_back(store: Store, clock: VirtualClock) -> None:
    lost = running(store, register(store, lease=MINUTE))
    clock.advance(HOUR)
    assert reap(store) == {lost.job_id}
    second = claim_one(store)
    waiting = insert_one(store)
    done = exchange(store, register(store), [succeeded(lost, b'"stale"')])
    assert (done.finished, taken(done)) == (set(), [waiting])
    assert state_of(store, lost.job_id) is JobState.RUNNING
    assert store.finish_attempts([succeeded(second)]) == {second.job_id}


def test_a_worker_without_a_lease_claims_nothing_and_its_endings_count(store: Store, clock: VirtualClock) -> None:
    """A late result is kept if the attempt was not reclaimed; jobs claimed now could be reclaimed at once."""
    worker = register(store, lease=MINUTE)
    first = running(store, worker)
    waiting = insert_one(store)
    clock.advance(MINUTE)
    done = exchange(store, worker, [succeeded(first)])
    assert done == Exchange({first.job_id}, None)
    assert states_of(store, [first.job_id, waiting]) == [JobState.SUCCEEDED, JobState.QUEUED]


def test_the_reaper_and_an_exchange_do_not_both_end_an_attempt(store: Store, clock: VirtualClock) -> None:
    worker = register(store, lease=MINUTE)
    first = running(store, worker)
    clock.advance(HOUR)
    (lost,) = store.expired_attempts(10)
    assert exchange(store, worker, [succeeded(first)]).finished == {first.job_id}
    assert store.reclaim_attempts([abandoned(lost)]) == set()
    assert state_of(store, first.job_id) is JobState.SUCCEEDED
