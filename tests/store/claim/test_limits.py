"""Limits, sequences, gates, tenants and needs, as claims keep them: one promise a test, on both stores."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import msgspec
import psycopg
import pytest

from tests.store.builders import (
    HOUR,
    MINUTE,
    a_job,
    a_worker,
    abandoned,
    again,
    insert_one,
    reap,
    register,
    state_of,
    states_of,
    succeeded,
)
from tests.store.claim.limits_helpers import claims, gate, ids, in_order, limited, needing, of_tenant, take
from tickwork.core.ids import JobId, WorkerId
from tickwork.core.job import Claimed, JobFilter, JobState, NewJob
from tickwork.core.limits.breaker import breaker
from tickwork.core.limits.job_limits import JobLimits, LimitKey, LimitUse
from tickwork.core.limits.lanes import home_lane
from tickwork.core.limits.limits import concurrency, rate, sequence
from tickwork.core.placement import GRACE_US, GROUPS, PATIENCE_US, Offer, home_of, read_offer
from tickwork.core.why import RUNNABLE, explain
from tickwork.store.base import Store, WorkerRegistration
from tickwork.store.limits import LimitedCapacity
from tickwork.store.postgres import PostgresStore
from tickwork.store.rows.instants import to_us
from tickwork.testing import VirtualClock

SECOND = timedelta(seconds=1)


# -- tenants, of whom some have nothing that the worker can run


@pytest.mark.parametrize("limit", [1, 2, 10])
def test_a_tenant_with_jobs_for_other_workers_takes_no_turns_from_others(store: Store, limit: int) -> None:
    for tenant in "abc":
        store.insert_jobs([of_tenant(tenant, task="nobody's") for _ in range(3)])
    waiting = store.insert_jobs([of_tenant(tenant) for tenant in "def" for _ in range(2)])
    worker = register(store)
    taken = [one for _ in range(6) for one in ids(take(store, worker, limit))]
    assert sorted(taken) == sorted(waiting)


# -- shares of tenants, at a worker whose jobs are so short that it asks for many more than it has free slots


def shares(store: Store, starts: int, slots: Callable[[], int]) -> list[str | None]:
    """The tenants of jobs in the order of their starts, while one worker claims, and ends what it claimed."""
    worker, seen = register(store, lease=24 * HOUR), []
    while len(seen) < starts:
        taken = take(store, worker, 256, capacity=LimitedCapacity(slots()))
        assert taken
        store.finish_attempts([succeeded(one) for one in taken])
        seen += [one.job_limits.tenant if one.job_limits else None for one in taken]
    return seen


@pytest.mark.parametrize("slots", [(1, 1), (1, 4), (10, 10), (1, 16)])
def test_tenants_start_as_their_weights_are_whatever_a_claim_has_room_for(store: Store, slots: tuple[int, int]) -> None:
    store.limits.set_weight("a", 3)
    store.insert_jobs([of_tenant(tenant) for tenant in "ab" for _ in range(500)])
    rng = Random(1)
    seen = shares(store, 200, lambda: rng.randint(*slots))
    for first in range(0, len(seen) - 100, 20):
        assert seen[first : first + 100].count("b") == pytest.approx(25, abs=3)


def test_jobs_that_are_taken_ahead_take_no_turns_from_tenants(store: Store) -> None:
    store.limits.set_weight("a", 3)
    store.insert_jobs([of_tenant(tenant) for tenant in "ab" for _ in range(60)])
    store.insert_jobs([a_job() for _ in range(1500)])
    seen = [tenant for tenant in shares(store, 800, lambda: 4) if tenant is not None]
    assert seen.count("b") == pytest.approx(len(seen) / 4, abs=2)


def test_jobs_of_tenants_are_taken_to_spare_and_their_turns_count(store: Store) -> None:
    store.limits.set_weight("a", 3)
    store.insert_jobs([of_tenant(tenant) for tenant in "ab" for _ in range(20)])
    taken = take(store, register(store), 8, capacity=LimitedCapacity(4, prefetch=4))
    assert Counter(one.job_limits.tenant for one in taken if one.job_limits) == {"a": 6, "b": 2}
    assert take(store, register(store), 8, capacity=LimitedCapacity(0)) == []


def test_half_of_the_limited_jobs_that_could_start_are_prefetched_and_half_left_to_others(
    store: Store,
) -> None:
    store.limits.declare_limits({"two": concurrency(1)})
    store.insert_jobs([limited(key) for key in "abcdef"])
    busy = register(store)
    assert len(take(store, busy, 3, capacity=LimitedCapacity(0, prefetch=3))) == 3
    assert len(take(store, busy, 3, capacity=LimitedCapacity(0, prefetch=3))) == 1
    assert len(take(store, busy, 1, capacity=LimitedCapacity(0, prefetch=1))) == 1
    assert take(store, busy, 1, capacity=LimitedCapacity(0, prefetch=1)) == []
    assert len(take(store, register(store), 1, capacity=LimitedCapacity(1, prefetch=1))) == 1


def test_jobs_that_a_limit_held_are_prefetched_when_their_keys_become_free(store: Store) -> None:
    store.limits.declare_limits({"two": concurrency(1)})
    store.insert_jobs([limited(key) for key in "ab"])
    waiting = store.insert_jobs([limited(key) for key in "ab"])
    busy = register(store)
    running = take(store, busy, 8, capacity=LimitedCapacity(8))
    assert take(store, busy, 2, capacity=LimitedCapacity(0, prefetch=2)) == []
    store.finish_attempts([succeeded(one) for one in running])
    assert ids(take(store, busy, 2, capacity=LimitedCapacity(0, prefetch=2))) == waiting[:1]


def test_a_key_that_a_start_has_filled_is_not_looked_at_until_that_job_ends(store: Store) -> None:
    store.limits.declare_limits({"two": concurrency(1)})
    store.insert_jobs([limited("a") for _ in range(3)])
    worker = register(store)
    (first,) = take(store, worker)
    store.finish_attempts([succeeded(first)])
    (second,) = take(store, worker, 1)
    assert [(view.held, view.opens_at) for view in store.limits.limit_keys("two", 10)] == [(1, None)]
    store.finish_attempts([succeeded(second)])
    assert len(take(store, worker)) == 1


@pytest.mark.parametrize("what", ["a rate", "the last key", "a need"])
def test_nothing_is_prefetched_behind_a_job_that_needs_a_free_slot(store: Store, what: str) -> None:
    """Else a busy worker would take others each time that one of its jobs ends, and never one that needs a slot."""
    store.limits.declare_limits({"two": rate("100/s", burst=50) if what == "a rate" else concurrency(1)})
    urgent = store.insert_jobs(
        [a_job(priority=0, job_limits=JobLimits(needs="gpu")) if what == "a need" else limited(priority=0)]
    )
    store.insert_jobs([a_job() for _ in range(20)])
    worker, offer = register(store), read_offer(["gpu"])
    assert take(store, worker, 2, capacity=LimitedCapacity(0, offer, prefetch=2)) == []
    assert ids(take(store, worker, 3, capacity=LimitedCapacity(1, offer, prefetch=2)))[0] == urgent[0]


# -- concurrency


def test_no_more_than_the_limit_run_at_once_and_the_next_starts_when_one_ends(store: Store) -> None:
    store.limits.declare_limits({"two": concurrency(2)})
    waiting = store.insert_jobs([limited() for _ in range(5)])
    worker = register(store)
    first = take(store, worker)
    assert ids(first) == waiting[:2]
    assert take(store, worker) == []
    store.finish_attempts([succeeded(first[0])])
    assert ids(take(store, worker)) == waiting[2:3]
    store.finish_attempts([succeeded(first[1])])
    assert ids(take(store, worker)) == waiting[3:4]
    assert states_of(store, waiting).count(JobState.RUNNING) == 2


def test_each_key_is_counted_apart_and_a_full_one_blocks_no_job(store: Store) -> None:
    store.limits.declare_limits({"two": concurrency(2)})
    a = store.insert_jobs([limited("a") for _ in range(50)])
    b = store.insert_jobs([limited("b") for _ in range(2)])
    plain = insert_one(store)
    taken = ids(take(store, register(store)))
    assert set(taken) == {*a[:2], *b, plain}


def test_a_job_that_weighs_more_takes_more_and_light_ones_do_not_keep_it_out(store: Store) -> None:
    store.limits.declare_limits({"two": concurrency(4)})
    worker = register(store)
    light, heavy, late = store.insert_jobs([limited(), limited(weight=4), limited()])
    first = take(store, worker)
    assert ids(first) == [light]
    store.finish_attempts([succeeded(first[0])])
    second = take(store, worker)
    assert ids(second) == [heavy]
    store.finish_attempts([succeeded(second[0])])
    assert ids(take(store, worker)) == [late]


def test_what_a_lost_worker_held_is_free_when_it_is_reclaimed(store: Store, clock: VirtualClock) -> None:
    store.limits.declare_limits({"two": concurrency(2)})
    waiting = store.insert_jobs([limited() for _ in range(4)])
    take(store, register(store))
    clock.advance(2 * MINUTE)
    assert reap(store) == set(waiting[:2])
    other = register(store)
    assert len(take(store, other)) == 2
    assert states_of(store, waiting).count(JobState.RUNNING) == 2


def test_a_job_that_is_tried_again_gives_its_place_up_meanwhile(store: Store) -> None:
    store.limits.declare_limits({"two": concurrency(1)})
    one, two = store.insert_jobs([limited(), limited()])
    worker = register(store)
    (first,) = take(store, worker)
    store.finish_attempts([again(first, HOUR)])
    assert ids(take(store, worker)) == [two]
    assert state_of(store, one) is JobState.QUEUED


def test_endings_and_claim_in_one_go_fill_the_place_at_once(store: Store) -> None:
    store.limits.declare_limits({"two": concurrency(1)})
    waiting = store.insert_jobs([limited() for _ in range(3)])
    worker = register(store)
    (held,) = take(store, worker)
    for expected in waiting[1:]:
        done = store.exchange(worker, [succeeded(held)], (), queues=["default"], tasks=["t"], limit=10)
        assert done.claims is not None
        (held,) = done.claims.jobs
        assert held.job_id == expected


def test_a_limit_that_is_raised_or_removed_lets_the_held_ones_through(store: Store) -> None:
    store.limits.declare_limits({"two": concurrency(1)})
    waiting = store.insert_jobs([limited() for _ in range(6)])
    worker = register(store)
    assert len(take(store, worker)) == 1
    store.limits.set_limit("two", concurrency(3))
    assert len(take(store, worker)) == 2
    assert store.limits.set_limit("two", None)
    assert len(take(store, worker)) == 0
    store.limits.declare_limits({"two": concurrency(6)})
    assert len(take(store, worker)) == 3
    assert states_of(store, waiting) == [JobState.RUNNING] * 6


def test_a_limit_that_is_not_declared_holds_no_job(store: Store) -> None:
    store.insert_jobs([limited(limit="unknown") for _ in range(3)])
    assert len(take(store, register(store))) == 3


def test_a_job_waits_for_all_of_its_limits_and_holds_none_meanwhile(store: Store) -> None:
    store.limits.declare_limits({"one": concurrency(1), "two": concurrency(2)})
    both = a_job(job_limits=JobLimits(uses=(LimitUse("one", "", 1), LimitUse("two", "", 1))))
    store.insert_jobs([limited("", "one"), both, limited("", "two"), limited("", "two"), limited("", "two")])
    taken = take(store, register(store))
    assert Counter(slot.limit for one in taken if one.job_limits for slot in one.job_limits.uses) == {
        "one": 1,
        "two": 2,
    }


@pytest.mark.parametrize(("most", "keys", "taken"), [(10, "aaaaaaaaaa", 5), (1, "aabb", 2)])
def test_a_key_that_stays_half_empty_or_was_empty_lets_a_worker_take_ahead(
    store: Store, most: int, keys: str, taken: int
) -> None:
    store.limits.declare_limits({"two": concurrency(most)})
    store.insert_jobs([limited(key) for key in keys])
    assert len(take(store, register(store), 20, capacity=LimitedCapacity(0))) == taken


def test_nothing_limited_is_taken_beyond_the_free_slots_where_others_could_want_it(store: Store) -> None:
    store.limits.declare_limits({"two": concurrency(6)})
    store.insert_jobs([limited() for _ in range(10)])
    store.insert_jobs([a_job() for _ in range(10)])
    taken = take(store, register(store), 20, capacity=LimitedCapacity(3))
    assert sum(one.job_limits is not None for one in taken) == 3
    assert sum(one.job_limits is None for one in taken) == 10


def test_held_jobs_can_be_cancelled_and_expire(store: Store, clock: VirtualClock) -> None:
    store.limits.declare_limits({"two": concurrency(1)})
    running, cancelled, expiring, last = store.insert_jobs(
        [limited(), limited(), limited(expires_at=clock.now() + MINUTE / 4), limited()]
    )
    worker = register(store, lease=HOUR)
    (held,) = take(store, worker)
    assert store.cancel_jobs([cancelled]) == [cancelled]
    clock.advance(MINUTE / 2)
    assert store.expire_jobs(10) == 1
    assert states_of(store, [running, cancelled, expiring]) == ["running", "cancelled", "expired"]
    store.finish_attempts([succeeded(held)])
    assert ids(take(store, worker)) == [last]


def test_the_held_come_in_the_order_of_urgency_and_time(store: Store) -> None:
    store.limits.declare_limits({"two": concurrency(1)})
    worker = register(store)
    insert_one(store, limited())
    (held,) = take(store, worker)
    low, normal, urgent = store.insert_jobs([limited(priority=9), limited(priority=5), limited(priority=0)])
    take(store, worker)
    order = []
    for _ in range(3):
        store.finish_attempts([succeeded(held)])
        (held,) = take(store, worker)
        order.append(held.job_id)
    assert order == [urgent, normal, low]


# -- rates


def test_a_rate_lets_a_number_start_and_says_when_the_next_may(store: Store, clock: VirtualClock) -> None:
    store.limits.declare_limits({"api": rate("10/s", burst=4)})
    store.insert_jobs([limited(limit="api") for _ in range(20)])
    worker = register(store)
    first = claims(store, worker)
    assert len(first.jobs) == 5
    assert claims(store, worker).again_s == pytest.approx(0.1, abs=0.01)
    clock.advance(timedelta(seconds=0.1))
    assert len(take(store, worker)) == 1
    clock.advance(SECOND)
    assert len(take(store, worker)) == 5


def test_a_rate_goes_on_counting_across_workers_and_failures(store: Store, clock: VirtualClock) -> None:
    store.limits.declare_limits({"api": rate("1/s", burst=0)})
    store.insert_jobs([limited(limit="api") for _ in range(5)])
    one, two = register(store), register(store)
    (first,) = take(store, one)
    assert take(store, two) == []
    store.finish_attempts([again(first)])
    assert take(store, two) == []
    clock.advance(SECOND)
    assert len(take(store, two)) == 1
    assert take(store, one) == []


# -- sequences


def test_a_sequence_runs_one_at_a_time_in_the_order_of_time_whatever_the_priority(store: Store) -> None:
    store.limits.declare_limits({"line": sequence("k")})
    worker = register(store)
    waiting = store.insert_jobs([in_order("a", priority=priority) for priority in (9, 0, 5)])
    other = insert_one(store, in_order("b"))
    first = take(store, worker)
    assert ids(first) == [waiting[0], other]
    order = [first[0].job_id]
    held = first[0]
    for _ in range(2):
        store.finish_attempts([succeeded(held)])
        (held,) = take(store, worker)
        order.append(held.job_id)
    assert order == waiting


def test_no_job_passes_the_first_of_a_sequence_while_something_else_holds_it(store: Store) -> None:
    store.limits.declare_limits({"line": sequence("k"), "two": concurrency(1)})
    worker = register(store)
    insert_one(store, limited())
    (holder,) = take(store, worker)
    both = a_job(job_limits=JobLimits(uses=(LimitUse("line", "a", 1), LimitUse("two", "", 1)), sequence=True))
    first, second = store.insert_jobs([both, in_order("a")])
    assert take(store, worker) == []
    assert take(store, worker) == []
    store.finish_attempts([succeeded(holder)])
    (now_first,) = take(store, worker)
    assert now_first.job_id == first
    store.finish_attempts([succeeded(now_first)])
    assert ids(take(store, worker)) == [second]


@pytest.mark.parametrize(("what", "how"), [("pause", {}), ("divert", {"to": "spare"})])
def test_no_job_passes_the_first_of_a_sequence_that_a_gate_parks(store: Store, what: str, how: dict[str, str]) -> None:
    store.limits.declare_limits({"line": sequence("k")})
    worker = register(store)
    gate(store, what, collection="aside", **how)
    first, second = store.insert_jobs([in_order("a", collection="aside"), in_order("a")])
    assert take(store, worker) == []
    store.limits.lift_gates({"collection": "aside"})
    (now_first,) = take(store, worker, queues=("default", "spare"))
    assert now_first.job_id == first
    store.finish_attempts([succeeded(now_first)])
    assert ids(take(store, worker)) == [second]


# -- gates


def test_a_pause_holds_what_it_names_and_nothing_else_until_it_is_lifted(store: Store) -> None:
    gate(store, "pause", task="t", reason="the bank is closed", by="ada")
    held = store.insert_jobs([a_job() for _ in range(30)])
    other = insert_one(store, a_job("other"))
    worker = register(store)
    assert ids(take(store, worker, 5)) == [other]
    (view,) = store.limits.list_gates()
    assert (view.held, view.gate.reason, view.gate.by) == (30, "the bank is closed", "ada")
    assert [one.name for one in store.limits.lift_gates({"task": "t"})] == ["pause task=t"]
    assert ids(take(store, worker)) == held
    assert store.limits.list_gates() == []


def test_a_pause_ends_by_itself(store: Store, clock: VirtualClock) -> None:
    gate(store, "pause", queue="default", until="30s")
    job_id = insert_one(store)
    worker = register(store)
    looked = claims(store, worker)
    assert looked.jobs == []
    assert claims(store, register(store)).again_s == pytest.approx(30, abs=1)
    clock.advance(timedelta(seconds=31))
    assert ids(take(store, worker)) == [job_id]
    store.limits.open_limit_keys()
    assert store.limits.list_gates() == []


def test_a_drop_ends_what_it_names_and_counts_it(store: Store) -> None:
    gate(store, "drop", collection="campaign-7")
    dropped, kept = store.insert_jobs([a_job(collection="campaign-7"), a_job(collection="campaign-8")])
    assert ids(take(store, register(store))) == [kept]
    assert state_of(store, dropped) is JobState.DROPPED
    (view,) = store.limits.list_gates()
    assert view.passed_on == 1


def test_a_slow_gate_is_a_rate(store: Store, clock: VirtualClock) -> None:
    gate(store, "slow", task="t", rate=rate("1/s", burst=0))
    store.insert_jobs([a_job() for _ in range(3)])
    worker = register(store)
    assert len(take(store, worker)) == 1
    assert take(store, worker) == []
    clock.advance(SECOND)
    assert len(take(store, worker)) == 1
    store.limits.lift_gates({"task": "t"})
    assert len(take(store, worker)) == 1


def test_a_slow_gate_keeps_its_pace_while_nothing_waits_for_it(store: Store, clock: VirtualClock) -> None:
    gate(store, "slow", task="t", rate=rate("1/s", burst=0))
    worker = register(store)
    first, second = insert_one(store), a_job()
    assert ids(take(store, worker)) == [first]
    store.limits.open_limit_keys()
    store.insert_jobs([second])
    assert take(store, worker) == []
    clock.advance(SECOND)
    assert ids(take(store, worker)) == [second.id]


def test_a_divert_sends_jobs_to_another_queue_once(store: Store) -> None:
    gate(store, "divert", task="t", to="spare")
    gate(store, "divert", queue="spare", to="default")
    job_id = insert_one(store)
    worker = register(store)
    assert take(store, worker) == []
    (taken,) = take(store, worker, queues=("spare",))
    assert (taken.job_id, taken.queue) == (job_id, "spare")
    assert store.reads.get_jobs([job_id])[job_id].queue == "spare"


def test_what_runs_when_a_gate_comes_goes_on_and_its_retry_is_held(store: Store) -> None:
    worker = register(store)
    job_id = insert_one(store)
    (running,) = take(store, worker)
    gate(store, "pause", task="t")
    store.finish_attempts([again(running)])
    assert take(store, worker) == []
    store.limits.lift_gates({"task": "t"})
    (second,) = take(store, worker)
    assert (second.job_id, second.attempt) == (job_id, 2)


# -- tenants


def test_tenants_take_turns_however_much_one_of_them_has(store: Store) -> None:
    store.insert_jobs([of_tenant("big") for _ in range(500)])
    store.insert_jobs([of_tenant("small") for _ in range(10)])
    taken = take(store, register(store), 20)
    assert Counter(one.job_limits.tenant for one in taken if one.job_limits) == {"big": 10, "small": 10}


def test_a_heavier_tenant_gets_as_many_more_turns(store: Store) -> None:
    store.limits.set_weight("gold", 3)
    assert store.limits.weights() == {"gold": 3}
    for tenant in ("gold", "iron"):
        store.insert_jobs([of_tenant(tenant) for _ in range(100)])
    taken = take(store, register(store), 40)
    assert Counter(one.job_limits.tenant for one in taken if one.job_limits) == {"gold": 30, "iron": 10}


def test_turns_come_before_urgency_and_urgency_counts_within_a_tenant(store: Store) -> None:
    urgent = store.insert_jobs([of_tenant("a", priority=0) for _ in range(2)])
    low, high = store.insert_jobs([of_tenant("b", priority=9), of_tenant("b", priority=1)])
    taken = ids(take(store, register(store), 2))
    assert set(taken) == {urgent[0], high}
    assert state_of(store, low) is JobState.QUEUED


# -- ageing


@pytest.mark.parametrize("tenant", [None, "acme"])
def test_what_has_waited_for_five_minutes_starts_although_urgent_work_never_ends(
    store: Store, clock: VirtualClock, tenant: str | None
) -> None:
    worker = register(store, lease=24 * HOUR)
    job_limits = None if tenant is None else JobLimits(tenant=tenant)
    low = store.insert_jobs([a_job(priority=9, job_limits=job_limits) for _ in range(4)])
    for _ in range(5):
        store.insert_jobs([a_job(priority=0, job_limits=job_limits) for _ in range(20)])
        for _ in range(4):
            assert not set(low) & set(ids(take(store, worker, 2)))
        clock.advance(MINUTE + SECOND)
    store.insert_jobs([a_job(priority=0, job_limits=job_limits) for _ in range(20)])
    taken = [job_id for _ in range(8) for job_id in ids(take(store, worker, 2))]
    assert set(low) <= set(taken)
    assert len(set(taken) - set(low)) >= 8, "urgent work keeps half"


@pytest.mark.parametrize("how", ["tenant", "search"])
def test_a_job_that_waited_long_brings_no_younger_ones_of_its_place_forward(
    store: Store, clock: VirtualClock, how: str
) -> None:
    job_limits, capacity = (
        (JobLimits(tenant="acme"), None) if how == "tenant" else (None, LimitedCapacity(3, search="all"))
    )
    aged = insert_one(store, priority=9, job_limits=job_limits)
    clock.advance(6 * MINUTE)
    low, urgent = store.insert_jobs([a_job(priority=priority, job_limits=job_limits) for priority in (9, 2)])
    clock.advance(SECOND)
    worker = register(store, lease=24 * HOUR)
    assert set(ids(take(store, worker, 2, capacity=capacity))) == {aged, urgent}
    assert state_of(store, low) is JobState.QUEUED


# -- needs


def test_a_job_is_taken_only_by_a_worker_that_has_what_it_needs(store: Store) -> None:
    (job_id,) = store.insert_jobs([needing(gpu=True)])
    worker = register(store)
    assert take(store, worker) == []
    assert ids(take(store, worker, capacity=LimitedCapacity(5, Offer(frozenset({"gpu"}))))) == [job_id]


def test_needs_that_fit_together_are_taken_and_the_others_stay(store: Store) -> None:
    waiting = store.insert_jobs([needing(mem="5GB"), needing(mem="5GB"), needing(mem="3GB")])
    taken = take(store, register(store), capacity=LimitedCapacity(5, read_offer(resources="mem=8GB")))
    assert len(taken) == 2
    assert {one.job_limits.needs for one in taken if one.job_limits} == {"mem=5000000000", "mem=3000000000"}
    assert states_of(store, waiting).count(JobState.QUEUED) == 1


# -- sticky


def sticking(spot: int, **changes: Any) -> NewJob:
    return a_job(job_limits=JobLimits(spot=spot), **changes)


def homes(*workers: WorkerId) -> dict[WorkerId, int]:
    """A spot for each worker, of which it is the home."""
    found: dict[WorkerId, int] = {}
    for spot in range(GROUPS):
        found.setdefault(WorkerId(home_of(spot, workers) or ""), spot)
    return found


def test_a_job_that_sticks_is_left_to_its_home_for_a_moment_and_then_taken_by_any_worker(
    store: Store, clock: VirtualClock
) -> None:
    one, other = register(store), register(store)
    spots = homes(one, other)
    first, second = store.insert_jobs([sticking(spots[one]), sticking(spots[other])])
    assert ids(take(store, one)) == [first]
    again_s = claims(store, one).again_s
    assert again_s is not None
    assert 0 < again_s <= GRACE_US / 1e6, "it knows when it may take what was left to the other"
    clock.advance(timedelta(microseconds=GRACE_US))
    assert ids(take(store, one)) == [second]


def test_why_names_the_worker_that_a_job_is_left_to(store: Store, clock: VirtualClock) -> None:
    workers = [replace(a_worker(f"why-{pid}"), pid=pid) for pid in (1, 2)]
    for worker in workers:
        store.register_worker(worker, [], MINUTE)
    other = workers[1]
    job_id = insert_one(store, sticking(homes(*(worker.id for worker in workers))[other.id]))

    def told() -> str:
        return explain(store.reads.get_jobs([job_id])[job_id], store.reads.workers(), store.now())

    assert told().startswith(f"{RUNNABLE}, but it is left to host:2 for a moment, where jobs of its key run")
    clock.advance(timedelta(microseconds=GRACE_US))
    assert told() == f"{RUNNABLE}, but no worker has taken it yet"


def test_a_delayed_job_is_left_to_its_home_from_when_it_is_due(store: Store, clock: VirtualClock) -> None:
    one, other = register(store), register(store)
    (job_id,) = store.insert_jobs([sticking(homes(one, other)[other], delay=SECOND)])
    clock.advance(SECOND)
    assert take(store, one) == []
    assert ids(take(store, other)) == [job_id]


@pytest.mark.parametrize("how", ["ended", "draining", "silent"])
def test_nothing_is_left_to_a_home_that_takes_no_more(store: Store, clock: VirtualClock, how: str) -> None:
    one, other = register(store, lease=HOUR), register(store)
    (job_id,) = store.insert_jobs([sticking(homes(one, other)[other])])
    match how:
        case "ended":
            store.end_worker(other)
        case "draining":
            store.drain_worker(other)
        case _:
            clock.advance(2 * MINUTE)
            (job_id,) = store.insert_jobs([sticking(homes(one, other)[other])])
    assert job_id in ids(take(store, one))


def test_what_is_left_to_another_blocks_no_job(store: Store) -> None:
    one, other = register(store), register(store)
    spots = homes(one, other)
    store.insert_jobs([sticking(spots[other], priority=0) for _ in range(20)])
    behind = store.insert_jobs([a_job(), sticking(spots[one]), of_tenant("acme")])
    assert sorted(ids(take(store, one, 3))) == sorted(behind)


def test_a_worker_takes_its_own_before_what_sticks_to_others_unless_that_is_more_urgent(
    store: Store, clock: VirtualClock
) -> None:
    one, other = register(store), register(store)
    spots = homes(one, other)
    theirs, urgent = store.insert_jobs([sticking(spots[other]), sticking(spots[other], priority=0)])
    clock.advance(SECOND)
    (ours,) = store.insert_jobs([sticking(spots[one])])
    assert [ids(take(store, one, 1)) for _ in range(3)] == [[urgent], [ours], [theirs]]


def test_a_claim_for_others_takes_what_sticks_at_once(store: Store) -> None:
    workers = [register(store) for _ in range(3)]
    server = WorkerRegistration(WorkerId("server"), "host", 1, "1.0", ("default",), ("t",), 0)
    store.register_worker(server, [], MINUTE)
    waiting = store.insert_jobs([sticking(spot) for spot in homes(*workers).values()])
    assert set(ids(take(store, server.id))) == set(waiting)


def test_what_is_left_behind_a_job_that_cannot_start_is_looked_at_in_time(store: Store, clock: VirtualClock) -> None:
    """The first one is of a task that this worker does not have, and the second one still left to its home."""
    one, other = register(store), register(store)
    spot = homes(one, other)[other]
    store.insert_jobs([a_job("unknown", job_limits=JobLimits(spot=spot))])
    clock.advance(SECOND)
    (second,) = store.insert_jobs([sticking(spot)])
    found = claims(store, one)
    assert (found.jobs, found.again_s) == ([], GRACE_US / 1e6)
    clock.advance(timedelta(microseconds=GRACE_US))
    assert ids(take(store, one)) == [second]


def test_what_sticks_to_a_worker_that_does_not_take_it_has_its_turn_elsewhere(
    store: Store, clock: VirtualClock
) -> None:
    one, other = register(store), register(store)
    (theirs,) = store.insert_jobs([sticking(homes(one, other)[other])])
    clock.advance(timedelta(microseconds=PATIENCE_US))
    store.insert_jobs([a_job() for _ in range(5)])
    assert ids(take(store, one, 1)) == [theirs]


def test_a_sequence_keeps_its_order_wherever_its_jobs_stick(store: Store, clock: VirtualClock) -> None:
    store.limits.declare_limits({"line": sequence("k")})
    one, other = register(store), register(store)
    spots = homes(one, other)
    flows = [JobLimits((LimitUse("line", "a", 1),), sequence=True, spot=spots[worker]) for worker in (other, one)]
    first, second = [insert_one(store, a_job(job_limits=job_limits)) for job_limits in flows]
    (running,) = take(store, one)
    assert running.job_id == first
    store.finish_attempts([succeeded(running)])
    assert ids(take(store, other)) == [second]


def test_what_a_limit_held_goes_to_the_first_claim(store: Store) -> None:
    store.limits.declare_limits({"two": concurrency(1)})
    one, other = register(store), register(store)
    job_limits = JobLimits((LimitUse("two", "", 1),), spot=homes(one, other)[one])
    first, second = store.insert_jobs([a_job(job_limits=job_limits), a_job(job_limits=job_limits)])
    (running,) = take(store, one)
    assert running.job_id == first
    store.finish_attempts([succeeded(running)])
    assert ids(take(store, other)) == [second]


# -- breakers


def test_a_breaker_holds_everything_for_a_while_and_then_lets_one_try(store: Store, clock: VirtualClock) -> None:
    store.limits.declare_limits({"frail": breaker(failures=2, window="1m", pause="1m")})
    limit_key = LimitKey("frail", "")
    store.insert_jobs([limited(limit="frail") for _ in range(6)])
    worker = register(store, lease=HOUR)
    first = take(store, worker, 2)
    store.limits.end_probes([(limit_key, one.job_id, True) for one in first])
    assert take(store, worker) == []
    clock.advance(MINUTE + SECOND)
    (probe,) = take(store, worker)
    assert probe.is_probe
    assert take(store, worker) == []
    store.limits.end_probes([(limit_key, probe.job_id, False)])
    assert len(take(store, worker)) == 3


# -- what is said of it


def test_a_held_job_says_what_holds_it_who_is_inside_and_how_many_are_ahead(store: Store) -> None:
    store.limits.declare_limits({"two": concurrency(2)})
    waiting = store.insert_jobs([limited("a") for _ in range(5)])
    take(store, register(store))
    hold = store.limits.hold(waiting[4])
    assert hold is not None
    assert (hold.held_by, hold.rule, hold.live) == (LimitKey("two", "a"), concurrency(2), 2)
    assert (set(hold.holders), hold.ahead, hold.gate) == (set(waiting[:2]), 2, None)
    assert store.limits.hold(waiting[0]) is None


class Everything:
    """A store in which all sorts of jobs wait, and what a claim of all of them takes."""

    def __init__(self, store: Store, draw: Random) -> None:
        self.store = store
        self.draw = draw
        store.limits.declare_limits(
            {"two": concurrency(2), "four": concurrency(4), "api": rate("2/s"), "line": sequence("k")}
        )
        store.limits.declare_limits({"frail": breaker(failures=1, window="1m", pause="1m")})
        self.worker = register(store, lease=HOUR)
        self.held: list[Claimed] = []

    def job(self) -> NewJob:
        one, draw = self.draw.choice, self.draw
        slots = {
            name: LimitUse(name, one("ab"), 1 if name != "four" else draw.randint(1, 4))
            for name in draw.sample(["two", "four", "api", "line", "frail"], draw.randint(0, 2))
        }
        job_limits = JobLimits(tuple(slots.values()), one([None, None, "acme"]), one(["", "", "gpu"]), "line" in slots)
        job_limits = msgspec.structs.replace(job_limits, spot=one([None, None, 7, 8, 9]))
        plain = job_limits == JobLimits()
        return a_job(
            one(["t", "other"]),
            queue=one(["default", "mail"]),
            priority=draw.randint(4, 6),
            delay=one([None, None, None, MINUTE]),
            collection=one([None, "c"]),
            job_limits=None if plain else job_limits,
        )

    def happen(self, clock: VirtualClock) -> None:
        """Something that changes who may start."""
        match self.draw.randint(0, 7):
            case 0 | 1:
                self.store.insert_jobs([self.job() for _ in range(self.draw.randint(1, 6))])
            case 2:
                self.held += self.take(self.draw.randint(1, 3))
            case 3 if self.held:
                self.store.finish_attempts([succeeded(self.held.pop())])
            case 4:
                kind, more = self.draw.choice([("pause", {}), ("slow", {"rate": "1/s"}), ("drop", {})])
                which = self.draw.choice([{"task": "t"}, {"queue": "mail"}, {"collection": "c"}, {"tenant": "acme"}])
                gate(self.store, kind, **which, **more)
            case 5:
                for view in self.store.limits.list_gates():
                    self.store.limits.lift_gates(view.gate.selects)
            case 6:
                clock.advance(self.draw.choice([SECOND / 2, MINUTE]))
            case _:
                self.store.limits.set_limit("two", self.draw.choice([None, concurrency(1), concurrency(3)]))

    def take(self, limit: int) -> list[Claimed]:
        capacity = LimitedCapacity(limit, read_offer(["gpu"]))
        return take(self.store, self.worker, limit, queues=("default", "mail"), capacity=capacity)

    def can_run(self) -> set[JobId]:
        """Return the jobs that can run now, according to `why`."""
        now, gates = self.store.now(), [view.gate for view in self.store.limits.list_gates()]
        waiting = self.store.reads.list_jobs(JobFilter(state=JobState.QUEUED), 1000)
        told = {one.id: explain(one, (), now, self.store.limits.hold(one.id), gates) for one in waiting}
        return {job_id for job_id, text in told.items() if text.startswith(RUNNABLE)}


@pytest.mark.parametrize("seed", range(20))
def test_why_calls_those_runnable_that_a_claim_of_all_takes(store: Store, clock: VirtualClock, seed: int) -> None:
    everything = Everything(store, Random(seed))
    for _ in range(25):
        everything.happen(clock)
    expected = everything.can_run()
    store.drain_worker(everything.worker)  # else jobs that stick to it would be left to it for a moment
    everything.worker = register(store)
    assert set(ids(everything.take(1000))) == expected


def test_limits_are_listed_with_what_is_live_and_what_they_hold(store: Store) -> None:
    store.limits.declare_limits({"two": concurrency(2), "api": rate("5/s")})
    store.limits.set_limit("two", concurrency(3))
    store.insert_jobs([limited(key) for key in "aaaaab"])
    take(store, register(store))
    api, two = store.limits.list_limits()
    assert (api.name, api.rule, api.live, api.held) == ("api", rate("5/s"), 0, 0)
    assert (two.declared, two.rule, two.live, two.held) == (concurrency(2), concurrency(3), 4, 2)


def test_the_keys_of_a_limit_are_listed_those_that_hold_the_most_first(store: Store, clock: VirtualClock) -> None:
    store.limits.declare_limits(
        {"two": concurrency(2), "twofold": concurrency(1), "frail": breaker(failures=1, pause="1m")}
    )
    store.insert_jobs([limited(key) for key in "abbbbb"] + [limited("", "twofold"), limited("k", "frail")])
    claimed = take(store, register(store))
    store.limits.end_probes([(LimitKey("frail", "k"), next(one.job_id for one in claimed), True)])

    full, free = store.limits.limit_keys("two", 100)
    assert [(one.key, one.live, one.held, one.opens_at) for one in (full, free)] == [
        ("b", 2, 3, None),
        ("a", 1, 0, None),
    ]
    assert [one.key for one in store.limits.limit_keys("two", 1)] == ["b"]
    (frail,) = store.limits.limit_keys("frail", 100)
    assert frail.breaker.phase(to_us(clock.now())) == "open"
    assert frail.breaker.phase(to_us(clock.now() + MINUTE)) == "half-open"
    assert store.limits.limit_keys("nothing", 100) == []


def test_a_queue_tells_what_is_held_apart_from_what_is_due(store: Store) -> None:
    store.limits.declare_limits({"two": concurrency(1)})
    store.insert_jobs([*(limited() for _ in range(4)), a_job(queue="mail")])
    take(store, register(store))
    default, mail = store.reads.queues()
    assert (default.name, default.due, default.held, default.running) == ("default", 0, 3, 1)
    assert (mail.name, mail.due, mail.held) == ("mail", 1, 0)


# -- nothing is left behind


def test_what_waits_for_a_lease_that_does_not_exist_is_opened(store: Store, clock: VirtualClock) -> None:
    store.limits.declare_limits({"line": sequence("k"), "two": concurrency(1)})
    worker = register(store, lease=HOUR)
    insert_one(store, limited())
    take(store, worker)
    both = a_job(job_limits=JobLimits(uses=(LimitUse("line", "a", 1), LimitUse("two", "", 1)), sequence=True))
    first, second = store.insert_jobs([both, in_order("a")])
    assert take(store, worker) == []
    store.cancel_jobs([first])  # no later job will hold the key, so no end opens it
    store.limits.open_limit_keys()
    assert ids(take(store, worker)) == [second]


def test_limit_states_that_say_nothing_are_forgotten(store: Store, clock: VirtualClock) -> None:
    store.limits.declare_limits({"two": concurrency(1), "api": rate("10/s")})
    worker = register(store, lease=HOUR)
    store.insert_jobs([limited(str(key)) for key in range(20)] + [limited(str(key), "api") for key in range(20)])
    store.finish_attempts([succeeded(one) for one in take(store, worker)])
    clock.advance(MINUTE)
    store.limits.open_limit_keys()
    assert store.limits.list_limits()[0].live == 0
    store.insert_jobs([limited("0"), limited("0")])
    assert len(take(store, worker)) == 1


def test_a_reclaimed_attempt_frees_what_it_held_once(store: Store, clock: VirtualClock) -> None:
    store.limits.declare_limits({"two": concurrency(1)})
    insert_one(store, limited())
    (lost,) = take(store, register(store))
    clock.advance(2 * MINUTE)
    reap(store)
    (second,) = take(store, register(store))
    assert store.finish_attempts([abandoned(lost)]) == set()
    assert (store.limits.list_limits()[0].live, second.attempt) == (1, 2)


def test_a_claim_from_a_lane_in_order_waits_for_the_claim_of_another_worker(postgres: PostgresStore) -> None:
    """It used to leave the lane out, find nothing, and wait for its next poll, beside hundreds of jobs."""
    postgres.limits.declare_limits({"line": sequence("key")})
    first, second = postgres.insert_jobs([in_order("a"), in_order("b")])
    one, other = register(postgres), register(postgres)
    lock = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 7))"
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with psycopg.connect(postgres.url) as holder, psycopg.connect(postgres.url, autocommit=True) as watcher:
        holder.execute(lock.encode(), (home_lane("default", in_order("a").job_limits),))
        with ThreadPoolExecutor(1) as threads:
            claimed = threads.submit(take, postgres, one, 1)
            until = time.monotonic() + 10
            while time.monotonic() < until and not claimed.done():
                if watcher.execute(waiting.encode()).fetchall() == [(1,)]:
                    break
            assert not claimed.done(), "it waits for its turn"
            holder.rollback()
            assert ids(claimed.result()) == [first]
    assert ids(take(postgres, other, 1)) == [second]
