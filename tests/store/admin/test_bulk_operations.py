"""Operations, what is asked of workers, and jobs that are rescheduled: the same on every store."""

from datetime import timedelta

import pytest

from tests.store.builders import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    a_job,
    again,
    an_id,
    claim,
    claim_one,
    ended,
    failed,
    insert_one,
    jobs,
    register,
    running,
    state_of,
)
from tests.store.claim.limits_helpers import in_order, limited, take
from tickwork.core.bulk_operation import BulkAction, BulkChange, BulkOperation, OperationState
from tickwork.core.ids import JobId, WorkerId
from tickwork.core.job import JobFilter, JobState, Policy
from tickwork.core.limits.limits import concurrency, sequence
from tickwork.core.retention import Retention
from tickwork.store.admin.bulk_operations import KEPT, OperationStep
from tickwork.store.base import Store
from tickwork.testing import VirtualClock

CANCEL = BulkChange(BulkAction.CANCEL, JobFilter(task="t"))


def put(store: Store, change: BulkChange = CANCEL) -> BulkOperation:
    return store.operations.put_operation(an_id(), change, "ada")


def step(one: BulkOperation, state: OperationState = OperationState.RUNNING, **more: object) -> OperationStep:
    return OperationStep(one.id, one.step, 1, an_id(), 7, 5, state, **more)  # type: ignore[arg-type]


def test_an_operation_is_there_as_it_was_asked_for(store: Store, clock: VirtualClock) -> None:
    change = BulkChange(BulkAction.RESCHEDULE, JobFilter(state=JobState.QUEUED, ids=(an_id(),)), delay=HOUR)
    one = put(store, change)
    assert store.operations.get_operation(one.id) == one
    assert (one.change.action, one.change.delay, one.change.which.ids) == (change.action, HOUR, change.which.ids)
    assert (one.by, one.state, one.looked, one.changed, one.ended_at) == ("ada", OperationState.RUNNING, 0, 0, None)
    assert one.created_at == one.change.which.until == clock.now()
    assert store.operations.put_operation(one.id, CANCEL, "bob") == one


def test_what_is_no_id_is_no_operation(store: Store) -> None:
    assert store.operations.get_operation("x") is store.operations.get_operation(an_id()) is None
    assert not store.operations.cancel_operation("x")


def test_operations_are_listed_the_newest_first(store: Store) -> None:
    ids = [put(store).id for _ in range(3)]
    assert [one.id for one in store.operations.list_operations(2)] == [ids[2], ids[1]]
    assert [one.id for one in store.operations.list_operations(2, ids[1])] == [ids[0]]


def test_one_at_a_time_carries_an_operation_on(store: Store, clock: VirtualClock) -> None:
    first, second = put(store), put(store)
    leased = [store.operations.lease_operation(MINUTE) for _ in range(3)]
    assert [one and one.id for one in leased] == [first.id, second.id, None]
    clock.advance(MINUTE)
    taken_over = store.operations.lease_operation(MINUTE)
    assert taken_over is not None
    assert taken_over.id == first.id


def test_a_step_counts_once(store: Store) -> None:
    one = put(store)
    store.operations.lease_operation(MINUTE)
    assert store.operations.step_operation(step(one), MINUTE)
    assert not store.operations.step_operation(step(one), MINUTE)
    after = store.operations.get_operation(one.id)
    assert after is not None
    assert (after.step, after.phase, after.looked, after.changed) == (1, 1, 7, 5)
    assert store.operations.step_operation(step(after, OperationState.FAILED, error="no\0"), MINUTE)
    ended = store.operations.get_operation(one.id)
    assert ended is not None
    assert (ended.state, ended.error, ended.ended_at) == (OperationState.FAILED, "no\ufffd", store.now())


def test_an_operation_that_was_cancelled_goes_no_further(store: Store) -> None:
    one = put(store)
    assert store.operations.cancel_operation(one.id)
    assert not store.operations.cancel_operation(one.id)
    assert not store.operations.step_operation(step(one), MINUTE)
    assert store.operations.lease_operation(MINUTE) is None


def test_operations_that_ended_long_ago_are_pruned(store: Store, clock: VirtualClock) -> None:
    old, open_ = put(store), put(store)
    store.operations.cancel_operation(old.id)
    clock.advance(KEPT + SECOND)
    store.prune(Retention(), 10)
    assert [one.id for one in store.operations.list_operations(10)] == [open_.id]


# -- workers


def test_a_worker_is_asked_and_finds_it(store: Store) -> None:
    worker = register(store)
    assert store.operations.asked_of(worker) is None
    assert store.operations.ask_worker(worker, "quiet")
    assert store.operations.asked_of(worker) == "quiet"
    assert [view.asked for view in store.reads.workers()] == ["quiet"]
    assert store.operations.ask_worker(worker, None)
    assert store.operations.asked_of(worker) is None


def test_an_ended_worker_is_not_asked(store: Store, clock: VirtualClock) -> None:
    ended, lost = register(store), register(store)
    store.end_worker(ended)
    clock.advance(HOUR)
    assert not any(store.operations.ask_worker(one, "stop") for one in (ended, lost, WorkerId("nobody")))
    assert store.operations.asked_of(WorkerId("nobody")) is None


# -- rescheduled


def due_at(store: Store, job_id: JobId) -> timedelta:
    return store.reads.get_jobs([job_id])[job_id].run_at - store.now()


@pytest.mark.parametrize("how", [{"delay": HOUR}, {"at": True}])
def test_a_waiting_job_is_due_at_another_time(store: Store, clock: VirtualClock, how: dict[str, object]) -> None:
    now_due, later = insert_one(store), insert_one(store, delay=DAY)
    given = {"at": clock.now() + HOUR} if "at" in how else how
    assert store.reschedule_jobs([now_due, later, now_due, an_id(), JobId("x")], **given) == [now_due, later]  # type: ignore[arg-type]
    assert due_at(store, now_due) == due_at(store, later) == HOUR
    assert claim(store) == []
    clock.advance(HOUR)
    assert {one.job_id for one in claim(store)} == {now_due, later}


def test_a_time_in_the_past_is_now(store: Store, clock: VirtualClock) -> None:
    worker = register(store)
    later = insert_one(store, delay=HOUR)
    assert claim(store, worker=worker) == []
    assert store.reschedule_jobs([later], clock.now() - DAY) == [later]
    assert due_at(store, later) == timedelta(0)
    assert claim_one(store, worker).job_id == later


def test_what_does_not_wait_is_not_rescheduled(store: Store) -> None:
    runs, over = running(store).job_id, ended(store, failed)
    assert store.reschedule_jobs([runs, over], delay=HOUR) == []
    assert state_of(store, runs) is JobState.RUNNING
    assert state_of(store, over) is JobState.FAILED


def test_a_retry_that_is_rescheduled_keeps_its_counts_and_its_key(store: Store) -> None:
    claimed = running(store, key="k", priority=2)
    store.finish_attempts([again(claimed, HOUR)])
    store.reschedule_jobs([claimed.job_id])
    next_one = claim_one(store)
    assert (next_one.attempt, next_one.failures, next_one.priority) == (2, 1, 2)
    assert store.insert_jobs([a_job(key="k")]) == [claimed.job_id]


def test_a_deadline_moves_with_its_job(store: Store, clock: VirtualClock) -> None:
    job_id = insert_one(store, delay=HOUR, policy=Policy(expires=MINUTE))
    store.reschedule_jobs([job_id], delay=DAY)
    assert store.reads.get_jobs([job_id])[job_id].expires_at == clock.now() + DAY + MINUTE
    clock.advance(DAY)
    assert store.expire_jobs(10) == 0
    clock.advance(MINUTE)
    assert store.expire_jobs(10) == 1


def test_what_a_limit_holds_is_judged_again_at_its_time(store: Store, clock: VirtualClock) -> None:
    store.limits.declare_limits({"two": concurrency(1)})
    worker = register(store, lease=DAY)
    store.insert_jobs([limited(), limited()])
    (first,) = take(store, worker)
    (held,) = [view.id for view in store.reads.list_jobs(JobFilter(state=JobState.QUEUED), 10)]
    assert store.limits.hold(held) is not None
    assert store.reschedule_jobs([held], delay=HOUR) == [held]
    assert store.limits.hold(held) is None
    store.finish_attempts([failed(first)])
    assert take(store, worker) == []
    clock.advance(HOUR)
    assert [one.job_id for one in take(store, worker)] == [held]


def test_a_job_of_a_sequence_goes_to_its_new_place(store: Store, clock: VirtualClock) -> None:
    store.limits.declare_limits({"line": sequence("k")})
    worker = register(store, lease=DAY)
    first, second = store.insert_jobs([in_order("a", priority=1), in_order("a", priority=9)])
    store.reschedule_jobs([first], delay=SECOND)
    clock.advance(MINUTE)
    (one,) = take(store, worker)
    assert one.job_id == second
    store.finish_attempts([failed(one)])
    assert [one.job_id for one in take(store, worker)] == [first]


def test_many_are_rescheduled_at_once(store: Store) -> None:
    ids = store.insert_jobs(jobs(300))
    assert store.reschedule_jobs(ids, delay=HOUR) == ids
    (queue,) = store.reads.queues()
    assert (queue.due, queue.later) == (0, 300)
