"""Jobs whose workers are lost again and again: counted wherever the job goes, and charged when it ran alone."""

import pytest

from tests.store.builders import (
    HOUR,
    MINUTE,
    again,
    claim_one,
    ending,
    failed,
    insert_one,
    reap,
    register,
    running,
    state_of,
    succeeded,
)
from tickwork import concurrency
from tickwork.core.ids import ClaimId, JobId
from tickwork.core.job import Claimed, JobState, Policy
from tickwork.core.limits.job_limits import JobLimits, LimitUse
from tickwork.core.outcome import Abandoned, Released
from tickwork.store.base import Store
from tickwork.testing import VirtualClock


def lose(store: Store, clock: VirtualClock, count: int, job_id: JobId) -> None:
    """Claim a job with one worker after the other, none of which renews its lease."""
    for _ in range(count):
        assert claim_one(store).job_id == job_id
        clock.advance(2 * MINUTE)
        assert reap(store) == {job_id}


def losses(store: Store, job_id: JobId) -> int:
    return store.reads.get_jobs([job_id])[job_id].losses


@pytest.fixture
def suspect(store: Store, clock: VirtualClock) -> Claimed:
    """A job that must run alone, claimed."""
    job_id = insert_one(store)
    lose(store, clock, 3, job_id)
    return claim_one(store)


def test_losses_are_counted_and_go_with_the_job(store: Store, clock: VirtualClock) -> None:
    job_id = insert_one(store)
    lose(store, clock, 2, job_id)
    assert (losses(store, job_id), store.reads.get_jobs([job_id])[job_id].is_exclusive) == (2, False)
    store.finish_attempts([ending(claim_one(store), Released())])
    assert losses(store, job_id) == 2, "a planned end is not counted, and changes nothing"
    lose(store, clock, 1, job_id)
    claimed = claim_one(store)
    assert (claimed.losses, claimed.is_exclusive) == (3, True)
    assert store.reads.get_jobs([job_id])[job_id].is_exclusive
    store.finish_attempts([succeeded(claimed)])
    assert (losses(store, job_id), state_of(store, job_id)) == (0, JobState.SUCCEEDED)


def test_an_attempt_that_fails_ends_the_row(store: Store, clock: VirtualClock) -> None:
    job_id = insert_one(store)
    lose(store, clock, 2, job_id)
    store.finish_attempts([again(claim_one(store))])
    assert losses(store, job_id) == 0


def test_a_job_that_must_run_alone_is_charged_once_it_has_begun(
    store: Store, suspect: Claimed, clock: VirtualClock
) -> None:
    assert store.begin_alone(suspect.job_id, suspect.claim)
    clock.advance(2 * MINUTE)
    (found,) = store.expired_attempts(10)
    assert (found.losses, found.begun) == (3, True)
    assert store.reclaim_attempts([ending(found, Abandoned(begun=found.begun))]) == {suspect.job_id}
    view = store.reads.get_jobs([suspect.job_id])[suspect.job_id]
    assert (view.state, view.losses, view.is_exclusive) == (JobState.FAILED, 4, False)
    assert view.error is not None
    assert view.error.startswith("its worker died 4 times in a row while running it")


def test_and_not_before(store: Store, suspect: Claimed, clock: VirtualClock) -> None:
    clock.advance(2 * MINUTE)
    (found,) = store.expired_attempts(10)
    assert (found.losses, found.begun) == (3, False)
    store.reclaim_attempts([ending(found, Abandoned(begun=found.begun))])
    assert (state_of(store, suspect.job_id), losses(store, suspect.job_id)) == (JobState.QUEUED, 3)


def test_only_the_claim_that_holds_the_job_begins(store: Store, suspect: Claimed) -> None:
    assert not store.begin_alone(suspect.job_id, ClaimId(suspect.claim ^ 1))
    store.finish_attempts([failed(suspect)])
    assert not store.begin_alone(suspect.job_id, suspect.claim)


def test_an_operator_who_queues_it_again_forgives(store: Store, suspect: Claimed) -> None:
    store.finish_attempts([failed(suspect)])
    assert store.retry_jobs([suspect.job_id]) == [suspect.job_id]
    assert losses(store, suspect.job_id) == 0


def test_the_count_survives_a_wait_at_a_limit(store: Store, clock: VirtualClock) -> None:
    store.limits.declare_limits({"one": concurrency(1)})
    job_limits = JobLimits(uses=(LimitUse("one", "", 1),))
    job_id = insert_one(store, job_limits=job_limits)
    lose(store, clock, 1, job_id)
    first = running(store, job_limits=job_limits, priority=0)
    assert store.claim_jobs(register(store), ["default"], ["t"], 5).jobs == []
    assert (store.limits.hold(job_id) is not None, losses(store, job_id)) == (True, 1)
    store.finish_attempts([succeeded(first)])
    clock.advance(MINUTE)
    assert claim_one(store).losses == 1


def test_the_count_survives_another_time(store: Store, clock: VirtualClock) -> None:
    job_id = insert_one(store)
    lose(store, clock, 1, job_id)
    store.reschedule_jobs([job_id], delay=HOUR)
    assert losses(store, job_id) == 1
    store.retry_jobs([job_id])
    assert claim_one(store).losses == 1


def test_without_a_bound_it_never_has_to_run_alone(store: Store, clock: VirtualClock) -> None:
    job_id = insert_one(store, policy=Policy(max_lost=None))
    lose(store, clock, 5, job_id)
    claimed = claim_one(store)
    assert (claimed.losses, claimed.policy.max_lost, claimed.is_exclusive) == (5, None, False)
