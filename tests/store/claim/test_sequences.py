"""Sequences: the first job of a key keeps its place until it has ended for good. One promise a test, on both stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.store.builders import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    a_job,
    again,
    ending,
    failed,
    insert_one,
    reap,
    register,
    succeeded,
)
from tests.store.claim.limits_helpers import gate, ids, in_order, limited, take
from tickwork.core.ids import JobId, WorkerId
from tickwork.core.job import Claimed, JobState, Policy
from tickwork.core.limits.job_limits import JobLimits, LimitUse
from tickwork.core.limits.limits import concurrency, rate, sequence
from tickwork.core.outcome import Released, Snoozed
from tickwork.core.why import explain
from tickwork.store.attempt_types import Finish
from tickwork.store.base import Store
from tickwork.testing import VirtualClock

Ends = Callable[[Claimed], Finish]


def released(claimed: Claimed) -> Finish:
    """Given back by a worker that stops, to be started anywhere at once."""
    return ending(claimed, Released())


def snoozed(claimed: Claimed) -> Finish:
    return ending(claimed, Snoozed(HOUR))


def retried(claimed: Claimed) -> Finish:
    return again(claimed, HOUR)


def line(store: Store, count: int = 3, *, on_retry: str = "wait", **changes: Any) -> tuple[WorkerId, list[JobId]]:
    """A worker, and some jobs of one key, of which none has started."""
    store.limits.declare_limits({"line": sequence("k", on_retry=on_retry)})
    return register(store, lease=DAY), store.insert_jobs([in_order("a", **changes) for _ in range(count)])


def started(store: Store, worker: WorkerId) -> Claimed:
    (one,) = take(store, worker)
    return one


def runs_in_this_order(store: Store, worker: WorkerId, expected: list[JobId]) -> None:
    for job_id in expected:
        one = started(store, worker)
        assert one.job_id == job_id
        store.finish_attempts([succeeded(one)])


# -- the head comes back


@pytest.mark.parametrize("end", [released, snoozed, retried])
def test_no_job_passes_a_job_that_comes_back(store: Store, clock: VirtualClock, end: Ends) -> None:
    worker, waiting = line(store)
    store.finish_attempts([end(started(store, worker))])
    if end is not released:
        assert take(store, worker) == []
        assert take(store, register(store)) == [], "nor at the second look"
        clock.advance(HOUR)
    runs_in_this_order(store, worker, waiting)


def test_no_job_passes_a_job_that_is_given_back_after_a_while(store: Store, clock: VirtualClock) -> None:
    worker, waiting = line(store)
    one = started(store, worker)
    clock.advance(MINUTE)
    store.finish_attempts([released(one)])
    runs_in_this_order(store, worker, waiting)


def test_no_job_passes_a_job_whose_worker_was_lost(store: Store, clock: VirtualClock) -> None:
    worker, waiting = line(store)
    lost = register(store, lease=MINUTE)
    assert started(store, lost).job_id == waiting[0]
    assert take(store, worker) == [], "the others are put aside"
    clock.advance(2 * MINUTE)
    assert reap(store) == {waiting[0]}
    runs_in_this_order(store, worker, waiting)


def test_a_job_comes_back_many_times(store: Store, clock: VirtualClock) -> None:
    worker, waiting = line(store)
    for end in (retried, released, snoozed, released, retried):
        one = started(store, worker)
        assert one.job_id == waiting[0]
        store.finish_attempts([end(one)])
        store.limits.open_limit_keys()
        clock.advance(HOUR)
    runs_in_this_order(store, worker, waiting)


def test_a_job_that_comes_while_the_first_one_waits_is_behind_it(store: Store, clock: VirtualClock) -> None:
    worker, waiting = line(store, 1)
    store.finish_attempts([retried(started(store, worker))])
    clock.advance(MINUTE)
    later = insert_one(store, in_order("a", priority=0))
    assert take(store, worker) == []
    clock.advance(HOUR)
    runs_in_this_order(store, worker, [*waiting, later])


def test_the_place_holds_over_queues_and_tenants(store: Store, clock: VirtualClock) -> None:
    worker, (first,) = line(store, 1)
    store.finish_attempts([retried(started(store, worker))])
    uses = (LimitUse("line", "a", 1),)
    others = store.insert_jobs(
        [
            a_job(job_limits=JobLimits(uses, "acme", sequence=True)),
            a_job(queue="mail", job_limits=JobLimits(uses, sequence=True)),
        ]
    )
    queues = ("default", "mail")
    assert take(store, worker, queues=queues) == []
    clock.advance(HOUR)
    (one,) = take(store, worker, queues=queues)
    assert one.job_id == first
    store.finish_attempts([succeeded(one)])
    assert set(ids(take(store, worker, queues=queues))) < set(others)


def test_other_keys_go_on(store: Store) -> None:
    worker, _ = line(store)
    store.finish_attempts([retried(started(store, worker))])
    other = insert_one(store, in_order("b"))
    assert ids(take(store, worker)) == [other]


def test_an_end_frees_what_else_the_job_held(store: Store) -> None:
    """The sequence keeps its key while its job waits; another limit does not."""
    store.limits.declare_limits({"line": sequence("k"), "two": concurrency(1)})
    worker = register(store)
    both = JobLimits(uses=(LimitUse("line", "a", 1), LimitUse("two", "", 1)), sequence=True)
    insert_one(store, a_job(job_limits=both))
    (one,) = take(store, worker)
    other = insert_one(store, limited())
    assert take(store, worker) == []
    store.finish_attempts([retried(one)])
    assert ids(take(store, worker)) == [other]


# -- the head ends for good


def is_cancelled(store: Store, job_id: JobId, clock: VirtualClock) -> None:
    assert store.cancel_jobs([job_id]) == [job_id]


def is_expired(store: Store, job_id: JobId, clock: VirtualClock) -> None:
    clock.advance(10 * MINUTE)
    assert store.expire_jobs(10) == 1


def is_dropped(store: Store, job_id: JobId, clock: VirtualClock) -> None:
    gate(store, "drop", collection="first")
    assert store.reads.get_jobs([job_id])[job_id].state is not JobState.RUNNING


@pytest.mark.parametrize("ends", [is_cancelled, is_expired])
@pytest.mark.parametrize("begun", [True, False])
def test_the_next_one_starts_at_once_when_the_first_one_ends_while_it_waits(
    store: Store, clock: VirtualClock, ends: Any, begun: bool
) -> None:
    """Whether it has started before, or a rate holds it and it has not. No service is asked to open anything."""
    store.limits.declare_limits({"line": sequence("k"), "api": rate("1/h", burst=0)})
    worker = register(store, lease=DAY)
    uses = (LimitUse("line", "a", 1), LimitUse("api", "", 1))
    if not begun:
        insert_one(store, limited(limit="api"))
        take(store, worker)
    first = insert_one(store, a_job(job_limits=JobLimits(uses, sequence=True), policy=Policy(expires=5 * MINUTE)))
    second = insert_one(store, in_order("a"))
    if begun:
        store.finish_attempts([retried(started(store, worker))])
    assert take(store, worker) == []
    ends(store, first, clock)
    assert ids(take(store, worker)) == [second]


def test_the_next_one_starts_at_once_when_a_gate_drops_the_first_one(store: Store, clock: VirtualClock) -> None:
    worker, (first,) = line(store, 1, collection="first")
    (second,) = store.insert_jobs([in_order("a")])
    store.finish_attempts([again(started(store, worker), SECOND)])
    clock.advance(2 * SECOND)
    gate(store, "pause", collection="first")
    assert take(store, worker) == [], "the pause holds the first one, and that one the second"
    is_dropped(store, first, clock)
    assert ids(take(store, worker)) == [second]


def test_a_job_that_failed_for_good_is_out_of_the_way_and_comes_back_at_the_end(
    store: Store, clock: VirtualClock
) -> None:
    worker, waiting = line(store)
    store.finish_attempts([failed(started(store, worker))])
    second = started(store, worker)
    assert second.job_id == waiting[1]
    clock.advance(SECOND)
    assert store.retry_jobs([waiting[0]]) == [waiting[0]]
    store.finish_attempts([succeeded(second)])
    runs_in_this_order(store, worker, [waiting[2], waiting[0]])


@pytest.mark.parametrize("ends", [is_cancelled, is_expired])
def test_a_started_job_that_ended_while_it_waited_comes_back_at_the_end(
    store: Store, clock: VirtualClock, ends: Any
) -> None:
    worker, (first,) = line(store, 1, policy=Policy(expires=5 * MINUTE))
    second, third = store.insert_jobs([in_order("a") for _ in range(2)])
    store.finish_attempts([retried(started(store, worker))])
    ends(store, first, clock)
    clock.advance(SECOND)
    assert store.retry_jobs([first]) == [first]
    runs_in_this_order(store, worker, [second, third, first])


# -- an operator moves it


def test_a_retry_that_is_hurried_is_still_the_first(store: Store) -> None:
    worker, waiting = line(store)
    store.finish_attempts([retried(started(store, worker))])
    assert take(store, worker) == []
    assert store.retry_jobs([waiting[0]]) == [waiting[0]]
    runs_in_this_order(store, worker, waiting)


def test_a_job_that_has_started_keeps_its_place_when_it_is_rescheduled(store: Store, clock: VirtualClock) -> None:
    worker, waiting = line(store)
    store.finish_attempts([retried(started(store, worker))])
    assert store.reschedule_jobs([waiting[0]], delay=2 * HOUR) == [waiting[0]]
    clock.advance(HOUR + MINUTE)
    assert take(store, worker) == []
    clock.advance(HOUR)
    runs_in_this_order(store, worker, waiting)


def test_a_job_that_has_not_started_goes_to_its_new_place_and_the_next_one_starts(store: Store) -> None:
    store.limits.declare_limits({"line": sequence("k"), "api": rate("1/h", burst=0)})
    worker = register(store)
    insert_one(store, limited(limit="api"))
    take(store, worker)
    uses = (LimitUse("line", "a", 1), LimitUse("api", "", 1))
    first = insert_one(store, a_job(job_limits=JobLimits(uses, sequence=True)))
    second = insert_one(store, in_order("a"))
    assert take(store, worker) == []
    store.reschedule_jobs([first], delay=HOUR)
    assert ids(take(store, worker)) == [second]


# -- on_retry="pass"


def test_others_may_pass_a_job_that_waits_for_its_retry(store: Store, clock: VirtualClock) -> None:
    worker, waiting = line(store, 4, on_retry="pass")
    store.finish_attempts([retried(started(store, worker))])
    second = started(store, worker)
    assert second.job_id == waiting[1]
    clock.advance(HOUR)
    assert take(store, worker) == [], "one at a time"
    store.finish_attempts([succeeded(second)])
    runs_in_this_order(store, worker, [waiting[0], *waiting[2:]])


def test_no_job_passes_a_job_that_was_given_back_and_is_due(store: Store, clock: VirtualClock) -> None:
    worker, waiting = line(store, on_retry="pass")
    lost = register(store, lease=MINUTE)
    store.finish_attempts([released(started(store, lost))])
    assert started(store, lost).job_id == waiting[0]
    clock.advance(2 * MINUTE)
    assert reap(store) == {waiting[0]}
    runs_in_this_order(store, worker, waiting)


# -- what is told


def test_why_names_the_first_one_and_until_when_it_waits(store: Store, clock: VirtualClock) -> None:
    worker, waiting = line(store)
    store.finish_attempts([retried(started(store, worker))])
    for _ in range(2):  # before and after a claim has put it aside
        hold = store.limits.hold(waiting[1])
        assert hold is not None
        assert hold.head == waiting[0]
        told = explain(store.reads.get_jobs([waiting[1]])[waiting[1]], [], store.now(), hold)
        assert f"job {waiting[0]}, which comes before it, waits for its next attempt: due in 1h" in told
        assert take(store, worker) == []


def test_a_service_leaves_what_waits_for_a_retry_alone(store: Store) -> None:
    worker, _ = line(store)
    store.finish_attempts([retried(started(store, worker))])
    assert take(store, worker) == []
    assert store.limits.open_limit_keys() == 0
