"""finish_attempts: one transaction for everything an end causes, and only while the attempt is the current one."""

from datetime import timedelta

import pytest

from tests.store.builders import (
    DAY,
    HOUR,
    MICROSECOND,
    MINUTE,
    NOTHING,
    SECOND,
    abandoned,
    again,
    an_id,
    claim,
    claim_one,
    ended,
    ending,
    failed,
    insert_one,
    jobs,
    log,
    reap,
    register,
    running,
    state_of,
    succeeded,
    with_retries,
)
from tickwork.core.ids import ClaimId
from tickwork.core.job import AttemptState, JobState, Policy
from tickwork.core.outcome import Cancelled, Crashed, Ending, Failed, Released, Snoozed, Succeeded, TimedOut, Transition
from tickwork.errors import InvariantBroken
from tickwork.store.attempt_types import Finish
from tickwork.store.base import Store
from tickwork.store.rows.instants import duration_us, to_us
from tickwork.testing import VirtualClock


def test_a_result_is_kept_with_its_attempt(store: Store, clock: VirtualClock) -> None:
    worker = register(store)
    claimed = running(store, worker)
    began = clock.now()
    clock.advance(SECOND)
    result = '{"ж": "\\u0000 \\"x\\""}'.encode()
    finish = succeeded(claimed, result)
    waited = timedelta(milliseconds=5)
    assert store.finish_attempts([Finish(*_parts(finish), duration_us(waited))]) == {claimed.job_id}

    view = store.reads.get_jobs([claimed.job_id])[claimed.job_id]
    assert (view.state, view.result, view.error) == (JobState.SUCCEEDED, result, None)
    assert (view.worker, view.attempt, view.ended_at) == (worker, 1, clock.now())
    assert view.started_at == began + waited
    (attempt,) = store.reads.attempts(claimed.job_id)
    assert (attempt.state, attempt.worker) == (AttemptState.SUCCEEDED, worker)
    assert (attempt.started_at, attempt.ended_at) == (began + waited, clock.now())


def _parts(finish: Finish) -> tuple[object, ...]:
    return finish.job_id, finish.attempt, finish.claim, finish.transition


@pytest.mark.parametrize(
    ("end", "job", "attempt"),
    [
        (Succeeded(b"1"), JobState.SUCCEEDED, AttemptState.SUCCEEDED),
        (Failed("e", fatal=True), JobState.FAILED, AttemptState.FAILED),
        (Failed("e"), JobState.QUEUED, AttemptState.FAILED),
        (TimedOut("e"), JobState.QUEUED, AttemptState.TIMED_OUT),
        (Snoozed(HOUR), JobState.QUEUED, AttemptState.RELEASED),
        (Released(), JobState.QUEUED, AttemptState.RELEASED),
        (Cancelled(), JobState.CANCELLED, AttemptState.CANCELLED),
        (Crashed("e", alone=False), JobState.QUEUED, AttemptState.LOST),
        (Crashed("e", alone=True), JobState.QUEUED, AttemptState.LOST),
    ],
)
def test_each_ending_moves_its_job(store: Store, end: Ending, job: JobState, attempt: AttemptState) -> None:
    claimed = running(store)
    finish = ending(claimed, end)
    assert store.finish_attempts([finish]) == {claimed.job_id}
    view = store.reads.get_jobs([claimed.job_id])[claimed.job_id]
    assert view.state is job
    assert (view.failures, view.crashes, view.alone) == (
        finish.transition.failures,
        finish.transition.crashes,
        finish.transition.alone,
    )
    assert [tried.state for tried in store.reads.attempts(claimed.job_id)] == [attempt]


def test_a_retry_waits_for_its_time(store: Store, clock: VirtualClock) -> None:
    claimed = running(store, priority=2)
    store.finish_attempts([again(claimed, HOUR)])
    clock.advance(HOUR - MICROSECOND)
    assert claim(store) == []
    clock.advance(MICROSECOND)
    second = claim_one(store)
    assert (second.job_id, second.attempt, second.failures) == (claimed.job_id, 2, 1)
    assert (second.priority, second.run_at_us) == (2, to_us(clock.now()))


def test_all_tries_are_remembered_the_first_one_first(store: Store) -> None:
    job_id = insert_one(store, policy=with_retries(5))
    for n in range(3):
        store.finish_attempts([again(claim_one(store), error=f"error {n}")])
    claim_one(store)
    tries = store.reads.attempts(job_id)
    assert [(tried.number, tried.error) for tried in tries] == [
        (1, "error 0"),
        (2, "error 1"),
        (3, "error 2"),
        (4, None),
    ]
    assert [tried.state for tried in tries] == [AttemptState.FAILED] * 3 + [AttemptState.RUNNING]


def test_a_batch_is_closed_together_and_each_on_its_own_terms(store: Store) -> None:
    store.insert_jobs(jobs(30))
    claimed = claim(store)
    finishes = [(succeeded, failed, again)[n % 3](one) for n, one in enumerate(claimed)]
    assert store.finish_attempts(finishes) == {one.job_id for one in claimed}
    views = store.reads.get_jobs([one.job_id for one in claimed])
    wanted = [JobState.SUCCEEDED, JobState.FAILED, JobState.QUEUED]
    assert [views[one.job_id].state for one in claimed] == [wanted[n % 3] for n in range(30)]
    assert len(claim(store)) == 10


def test_no_endings_are_no_trouble(store: Store) -> None:
    assert store.finish_attempts([]) == set()
    assert store.reclaim_attempts([]) == set()


class TestFence:
    def test_an_attempt_is_closed_once(self, store: Store) -> None:
        claimed = running(store)
        assert store.finish_attempts([succeeded(claimed, b"1")]) == {claimed.job_id}
        assert store.finish_attempts([failed(claimed)]) == set()
        assert store.reads.get_jobs([claimed.job_id])[claimed.job_id].result == b"1"

    def test_a_worker_that_lost_its_lease_cannot_finish_the_job(self, store: Store, clock: VirtualClock) -> None:
        late = running(store)
        clock.advance(HOUR)
        assert reap(store) == {late.job_id}
        current = claim_one(store)

        assert store.finish_attempts([succeeded(late, b'"late"')]) == set()
        assert state_of(store, late.job_id) is JobState.RUNNING
        assert store.finish_attempts([succeeded(current, b'"current"')]) == {current.job_id}
        assert store.finish_attempts([succeeded(late, b'"late"')]) == set()
        assert store.reads.get_jobs([late.job_id])[late.job_id].result == b'"current"'

    def test_a_late_result_that_was_not_reclaimed_is_kept(self, store: Store, clock: VirtualClock) -> None:
        late = running(store)
        clock.advance(DAY)
        assert store.finish_attempts([succeeded(late)]) == {late.job_id}
        assert reap(store) == set()
        assert state_of(store, late.job_id) is JobState.SUCCEEDED

    def test_an_attempt_that_never_was_closes_nothing(self, store: Store) -> None:
        claimed = running(store)
        others = [
            Finish(claimed.job_id, 2, ClaimId(claimed.claim ^ 1), succeeded(claimed).transition),
            Finish(an_id(), 1, claimed.claim, succeeded(claimed).transition),
        ]
        assert store.finish_attempts(others) == set()
        assert state_of(store, claimed.job_id) is JobState.RUNNING

    def test_stale_endings_do_not_keep_good_ones_back(self, store: Store) -> None:
        stale, good = running(store), running(store)
        store.finish_attempts([again(stale, HOUR)])
        assert store.finish_attempts([succeeded(stale), succeeded(good)]) == {good.job_id}

    def test_a_job_that_was_retried_by_hand_is_not_ended_by_its_old_attempt(self, store: Store) -> None:
        old = running(store)
        store.finish_attempts([failed(old)])
        store.retry_jobs([old.job_id])
        assert store.finish_attempts([succeeded(old)]) == set()
        assert state_of(store, old.job_id) is JobState.QUEUED


class TestCancelled:
    """A caller that was told that a running job is cancelled was told the truth."""

    @pytest.mark.parametrize("finish", [succeeded, failed, again, abandoned])
    def test_it_ends_as_cancelled_whatever_its_attempt_came_to(self, store: Store, finish: object) -> None:
        claimed = running(store, key="k")
        assert store.cancel_jobs([claimed.job_id]) == [claimed.job_id]
        assert callable(finish)
        assert store.finish_attempts([finish(claimed)]) == {claimed.job_id}
        view = store.reads.get_jobs([claimed.job_id])[claimed.job_id]
        assert (view.state, view.result) == (JobState.CANCELLED, None)
        assert view.error
        assert [tried.state for tried in store.reads.attempts(claimed.job_id)] == [AttemptState.CANCELLED]
        assert claim(store) == []
        assert insert_one(store, key="k") != claimed.job_id, "and its key is free"

    def test_a_lost_one_is_not_run_again(self, store: Store, clock: VirtualClock) -> None:
        claimed = running(store)
        store.cancel_jobs([claimed.job_id])
        clock.advance(HOUR)
        assert reap(store) == {claimed.job_id}
        assert state_of(store, claimed.job_id) is JobState.CANCELLED


def test_logs_come_with_the_end_they_belong_to(store: Store) -> None:
    claimed, other = running(store), running(store)
    store.finish_attempts([succeeded(claimed)], [log(claimed, "one\n"), log(claimed, "two\n", 1), log(other, "three")])
    assert [chunk.text for chunk in store.reads.logs(claimed.job_id)] == ["one\n", "two\n"]
    assert [chunk.text for chunk in store.reads.logs(other.job_id)] == ["three"]


def test_logs_of_a_stale_attempt_are_dropped_with_its_end(store: Store) -> None:
    stale = running(store)
    store.finish_attempts([again(stale)])
    claim_one(store)
    assert store.finish_attempts([succeeded(stale)], [log(stale, "late")]) == set()
    assert store.reads.logs(stale.job_id) == []


def test_what_a_store_cannot_hold_does_not_keep_a_job_from_ending(store: Store) -> None:
    claimed = running(store)
    text = "a NUL \0, half a character \ud83d, and a whole one \U0001f600"
    assert store.finish_attempts([failed(claimed, text)], [log(claimed, text)]) == {claimed.job_id}
    stored = "a NUL \ufffd, half a character \ufffd, and a whole one \U0001f600"
    assert store.reads.get_jobs([claimed.job_id])[claimed.job_id].error == stored
    assert [chunk.text for chunk in store.reads.logs(claimed.job_id)] == [stored]


def test_a_job_to_be_queued_again_needs_a_time(store: Store) -> None:
    claimed, other = running(store), running(store)
    broken = Finish(claimed.job_id, 1, claimed.claim, Transition(AttemptState.FAILED, JobState.QUEUED, 1, 0, None))
    with pytest.raises(InvariantBroken):
        store.finish_attempts([succeeded(other), broken])
    assert state_of(store, other.job_id) is JobState.RUNNING


def test_a_deadline_goes_on_over_retries(store: Store, clock: VirtualClock) -> None:
    claimed = running(store, policy=Policy(expires=MINUTE))
    store.finish_attempts([again(claimed, NOTHING)])
    clock.advance(HOUR)
    assert claim(store) == []
    assert store.expire_jobs(10) == 1
    assert state_of(store, claimed.job_id) is JobState.EXPIRED


def test_a_job_is_in_one_place_only(store: Store, clock: VirtualClock) -> None:
    """After every road through the states: what stands in the queue, what runs and what ended is everything."""
    ids = store.insert_jobs(jobs(6))
    claimed = claim(store, 5)
    store.finish_attempts([succeeded(claimed[0]), failed(claimed[1]), again(claimed[2])])
    store.cancel_jobs([claimed[3].job_id, ids[5]])
    clock.advance(HOUR)
    reap(store)
    store.retry_jobs([claimed[1].job_id])
    ended(store, queue="other")
    (queue,) = store.reads.queues()
    views = store.reads.get_jobs(ids)
    assert queue.due + queue.later == sum(view.state is JobState.QUEUED for view in views.values()) == 3
    assert sorted(view.state for view in views.values()) == ["cancelled"] * 2 + ["queued"] * 3 + ["succeeded"]
