"""Masses of jobs that are held: they leave the way, and what may start does not wait for that."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.store.builders import SECOND, a_job, insert_one, register, state_of, succeeded
from tests.store.claim.limits_helpers import gate, ids, in_order, limited, take
from tickwork.core.ids import JobId
from tickwork.core.job import JobState, NewJob
from tickwork.core.limits.limits import concurrency, sequence
from tickwork.store.base import Store
from tickwork.store.claim import limited as limited_claims
from tickwork.store.claim.limited import ClaimResult
from tickwork.store.claim.types import BULK_WALK
from tickwork.store.limits import LimitedCapacity
from tickwork.testing import VirtualClock

MANY = 4 * BULK_WALK


def paused_task(store: Store) -> tuple[Callable[[], NewJob], Callable[[], NewJob]]:
    gate(store, "pause", task="other")
    return lambda: a_job("other"), a_job


def paused_label(store: Store) -> tuple[Callable[[], NewJob], Callable[[], NewJob]]:
    gate(store, "pause", label="slow")
    return lambda: a_job(labels=("slow",)), a_job


def full_key(store: Store) -> tuple[Callable[[], NewJob], Callable[[], NewJob]]:
    store.limits.declare_limits({"two": concurrency(1)})
    insert_one(store, limited("full"))
    take(store, register(store))
    return lambda: limited("full"), lambda: limited("free")


def full_key_beside_plain(store: Store) -> tuple[Callable[[], NewJob], Callable[[], NewJob]]:
    return full_key(store)[0], a_job


def held_count(store: Store) -> int:
    return sum(view.held for view in store.reads.queues())


@pytest.mark.parametrize("hold", [paused_task, paused_label, full_key, full_key_beside_plain])
def test_masses_are_parked_and_those_between_them_start(
    store: Store, hold: Callable[[Store], tuple[Callable[[], NewJob], Callable[[], NewJob]]]
) -> None:
    held, free = hold(store)
    store.insert_jobs([held() for _ in range(BULK_WALK)])
    between = insert_one(store, free())
    store.insert_jobs([held() for _ in range(BULK_WALK)])
    worker = register(store)
    taken = [one for _ in range(3) for one in ids(take(store, worker))]
    assert taken == [between]
    assert held_count(store) == 2 * BULK_WALK


@pytest.mark.parametrize("hold", [paused_task, paused_label, full_key, full_key_beside_plain])
def test_what_comes_behind_a_mass_starts_before_all_of_that_is_parked(
    store: Store,
    clock: VirtualClock,
    hold: Callable[[Store], tuple[Callable[[], NewJob], Callable[[], NewJob]]],
) -> None:
    held, free = hold(store)
    store.insert_jobs([held() for _ in range(MANY)])
    clock.advance(SECOND)
    last = insert_one(store, free())
    assert ids(take(store, register(store), 1)) == [last]
    assert held_count(store) < MANY


def test_what_stands_in_the_middle_of_a_mass_is_found_too(store: Store, clock: VirtualClock) -> None:
    gate(store, "pause", task="other")
    store.insert_jobs([a_job("other") for _ in range(3 * BULK_WALK)])
    between = insert_one(store)
    store.insert_jobs([a_job("other") for _ in range(BULK_WALK)])
    clock.advance(SECOND)
    assert ids(take(store, register(store), 1)) == [between]
    assert held_count(store) < 3 * BULK_WALK


def test_a_mass_that_was_parked_starts_when_its_gate_is_lifted(store: Store) -> None:
    gate(store, "pause", task="other")
    waiting = store.insert_jobs([a_job("other") for _ in range(BULK_WALK)])
    worker = register(store)
    assert take(store, worker) == []
    store.limits.lift_gates({"task": "other"})
    taken: list[JobId] = []
    while more := ids(take(store, worker, 500)):
        taken += more
    assert taken == waiting


@pytest.mark.usefixtures("small_masses")
def test_a_sequence_that_a_gate_has_parked_goes_on_in_its_order(store: Store) -> None:
    store.limits.declare_limits({"line": sequence("key")})
    gate(store, "pause", task="other")
    waiting = store.insert_jobs([in_order("a", task="other") for _ in range(10)])
    worker = register(store)
    assert take(store, worker) == []
    store.limits.lift_gates({"task": "other"})
    for expected in waiting:
        (one,) = take(store, worker)
        assert one.job_id == expected
        store.finish_attempts([succeeded(one)])


@pytest.mark.usefixtures("small_masses")
def test_jobs_of_a_mass_that_are_not_due_or_have_expired_stay_where_they_are(store: Store, clock: VirtualClock) -> None:
    gate(store, "pause", task="other")
    store.insert_jobs([a_job("other") for _ in range(3)])
    late = insert_one(store, a_job("other", delay=2 * SECOND))
    expired = insert_one(store, a_job("other", expires_at=store.now() + SECOND))
    clock.advance(SECOND)
    assert take(store, register(store)) == []
    assert held_count(store) == 3
    assert [state_of(store, one) for one in (late, expired)] == [JobState.QUEUED] * 2


def test_a_claim_of_other_tasks_does_not_look_past_what_is_behind_a_mass(store: Store, clock: VirtualClock) -> None:
    gate(store, "pause", task="other")
    worker = register(store)
    store.insert_jobs([a_job("other") for _ in range(MANY)])
    clock.advance(SECOND)
    first = insert_one(store)
    assert ids(take(store, worker, 1)) == [first]
    second = insert_one(store)
    assert store.claim_jobs(worker, ["default"], ["none of these"], 1).jobs == []
    clock.advance(SECOND)
    assert ids(take(store, worker, 1)) == [second]
    assert held_count(store) < MANY


def test_a_claim_that_took_long_hands_over_what_it_has_and_is_to_be_repeated() -> None:
    times = iter([0.0, 0.01, 0.5])
    results = [limited_claims.RoundResult(wants_more=True) for _ in range(3)]
    request = limited_claims.ClaimRequest(["default"], ("t",), 10, LimitedCapacity(10))
    again = limited_claims.run_rounds(lambda request, after_parking: results.pop(), request, lambda: next(times))
    assert again == ClaimResult(0.0)
    assert len(results) == 1
