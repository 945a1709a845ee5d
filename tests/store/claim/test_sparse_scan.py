"""Searches: claims that walk on a bit at a time, where few jobs stand among very many of other tasks."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from typing import Any, Literal

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.builders import HOUR, SECOND, a_job, again, insert_one, jobs, register, states_of, succeeded
from tests.store.claim.limits_helpers import gate, ids, in_order, limited
from tickwork.core.ids import JobId, WorkerId
from tickwork.core.job import JobState, NewJob
from tickwork.core.limits.job_limits import JobLimits
from tickwork.core.limits.limits import concurrency, sequence
from tickwork.core.placement import GRACE_US, GROUPS
from tickwork.store.attempt_types import Claims
from tickwork.store.base import Store
from tickwork.store.claim import limited as limited_claims
from tickwork.store.claim import sparse_scan
from tickwork.store.limits import LimitedCapacity
from tickwork.store.postgres import PostgresStore
from tickwork.testing import VirtualClock

WALK = 10


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_scan, "WALK", WALK)
    monkeypatch.setattr(sparse_scan, "LEAST", WALK)


def step(
    store: Store,
    worker: WorkerId,
    limit: int = 5,
    slots: int | None = None,
    queues: tuple[str, ...] = ("default",),
    search: Literal["all", "ends"] = "all",
) -> Claims:
    """One search for jobs of the task `t`."""
    capacity = LimitedCapacity(limit if slots is None else slots, search=search)
    return store.claim_jobs(worker, list(queues), ["t"], limit, capacity=capacity)


def steps(store: Store, worker: WorkerId, most: int, **how: Any) -> list[JobId]:
    """Return the jobs that some searches find, one after the other."""
    return [one for _ in range(most) for one in ids(step(store, worker, **how).jobs)]


def others(count: int, **changes: Any) -> list[NewJob]:
    return jobs(count, task="other", **changes)


def test_a_job_among_many_others_is_found_in_as_many_steps_as_it_takes_to_get_there(
    store: Store, clock: VirtualClock
) -> None:
    store.insert_jobs(others(5 * WALK))
    wanted = insert_one(store)
    store.insert_jobs(others(WALK))
    clock.advance(SECOND)
    worker = register(store)
    assert steps(store, worker, 5) == []
    assert steps(store, worker, 1) == [wanted]


def test_a_step_does_not_come_far(store: Store, clock: VirtualClock) -> None:
    store.insert_jobs(others(5 * WALK))
    insert_one(store)
    clock.advance(SECOND)
    first = step(store, register(store))
    assert first == Claims([], None, 0.0)


def test_what_comes_at_the_end_is_found_at_once(store: Store, clock: VirtualClock) -> None:
    store.insert_jobs(others(20 * WALK))
    clock.advance(SECOND)
    worker = register(store)
    assert steps(store, worker, 2) == []
    clock.advance(SECOND)
    wanted = insert_one(store)
    assert steps(store, worker, 1) == [wanted]


def test_a_look_at_the_ends_finds_what_has_just_come_and_nothing_else(store: Store, clock: VirtualClock) -> None:
    early = store.insert_jobs([*others(2 * WALK), a_job()])[-1]
    clock.advance(SECOND)
    worker = register(store)
    new = insert_one(store)
    assert steps(store, worker, 5, search="ends") == [new]
    assert steps(store, worker, 4) == [early]


def test_a_burst_of_others_does_not_keep_a_search_from_what_comes_after_it(store: Store, clock: VirtualClock) -> None:
    store.insert_jobs(others(2 * WALK))
    clock.advance(SECOND)
    worker = register(store)
    assert steps(store, worker, 5) == []
    between = store.insert_jobs([*others(10 * WALK), a_job()])[-1]
    assert steps(store, worker, 1) == []
    clock.advance(SECOND)
    new = insert_one(store)
    assert steps(store, worker, 1, search="ends") == [new]
    assert steps(store, worker, 15) == [between]


def test_what_comes_just_behind_a_burst_of_others_is_found_at_once(store: Store, clock: VirtualClock) -> None:
    store.insert_jobs(others(2 * WALK))
    clock.advance(SECOND)
    worker = register(store)
    assert steps(store, worker, 1) == []
    new = store.insert_jobs([*others(3 * WALK), a_job()])[-1]
    clock.advance(timedelta(milliseconds=50))
    assert steps(store, worker, 1, search="ends") == [new]


def test_what_comes_to_stand_where_it_was_looked_is_found_later(store: Store, clock: VirtualClock) -> None:
    store.insert_jobs(others(3 * WALK))
    worker = register(store)
    clock.advance(SECOND)
    assert steps(store, worker, 5) == []
    late = insert_one(store, at=store.now() - HOUR)
    clock.advance(2 * SECOND)
    assert steps(store, worker, 1) == [late]


def test_a_search_that_has_seen_all_says_when_to_look_again(store: Store, clock: VirtualClock) -> None:
    store.insert_jobs(others(2 * WALK))
    worker = register(store)
    clock.advance(SECOND)
    assert steps(store, worker, 3) == []
    again_s = step(store, worker).again_s
    assert again_s is not None
    assert 0.5 < again_s <= 1.0


@pytest.mark.parametrize("search", [None, "all", "ends"])
def test_a_claim_among_others_says_when_something_behind_them_is_due(
    store: Store, clock: VirtualClock, search: Literal["all", "ends"] | None
) -> None:
    store.insert_jobs(others(WALK // 2, job_limits=JobLimits(tenant="a")))
    wanted = insert_one(store, job_limits=JobLimits(tenant="a"), delay=timedelta(milliseconds=300))
    clock.advance(timedelta(milliseconds=100))
    worker = register(store)
    capacity = LimitedCapacity(5, search=search)
    again_s = store.claim_jobs(worker, ["default"], ["t"], 5, capacity=capacity).again_s
    assert again_s is not None
    assert again_s <= 0.2
    clock.advance(timedelta(milliseconds=200))
    assert ids(store.claim_jobs(worker, ["default"], ["t"], 5, capacity=capacity).jobs) == [wanted]


@pytest.mark.parametrize("among", [0, WALK - 1])
def test_where_few_others_are_no_search_is_needed(store: Store, clock: VirtualClock, among: int) -> None:
    store.insert_jobs(others(among))
    clock.advance(SECOND)
    assert step(store, register(store)).is_near


def test_where_all_that_is_wanted_is_at_hand_no_search_is_needed(store: Store, clock: VirtualClock) -> None:
    store.insert_jobs(jobs(5 * WALK))
    clock.advance(SECOND)
    found = step(store, register(store), 7)
    assert len(found.jobs) == 7
    assert found.is_near


def test_where_many_others_stand_before_it_a_search_goes_on(store: Store, clock: VirtualClock) -> None:
    store.insert_jobs([*others(2 * WALK), *jobs(2 * WALK)])
    clock.advance(SECOND)
    worker = register(store)
    found = [step(store, worker) for _ in range(5)]
    assert sum(len(one.jobs) for one in found) > WALK
    assert not any(one.is_near for one in found)


def test_what_it_had_no_room_for_is_found_by_the_next_one(store: Store, clock: VirtualClock) -> None:
    store.insert_jobs(others(2 * WALK))
    wanted = store.insert_jobs([a_job(job_limits=JobLimits(tenant="a")) for _ in range(4)])
    clock.advance(SECOND)
    worker = register(store)
    assert steps(store, worker, 4, limit=5, slots=2) == wanted


def test_one_that_failed_and_is_due_again_is_found(store: Store, clock: VirtualClock) -> None:
    store.insert_jobs(others(3 * WALK))
    wanted = insert_one(store)
    clock.advance(SECOND)
    worker = register(store)
    (one,) = [one for _ in range(4) for one in step(store, worker).jobs]
    store.finish_attempts([again(one)])
    clock.advance(SECOND)
    assert steps(store, worker, 1) == [wanted]


@pytest.mark.parametrize("places", [8, 60])
def test_all_are_found_however_many_places_there_are(store: Store, clock: VirtualClock, places: int) -> None:
    tenants = [f"tenant {number}" for number in range(places)]
    store.insert_jobs([one for tenant in tenants for one in others(2, job_limits=JobLimits(tenant=tenant))])
    wanted = store.insert_jobs([a_job(job_limits=JobLimits(tenant=tenant)) for tenant in tenants])
    clock.advance(HOUR)
    worker = register(store)
    assert sorted(steps(store, worker, places)) == sorted(wanted)
    assert step(store, worker).is_near


def test_the_oldest_and_the_most_urgent_are_found_both(store: Store, clock: VirtualClock) -> None:
    wanted = []
    for priority in range(7, -1, -1):
        store.insert_jobs(others(3 * WALK, priority=priority))
        wanted.append(insert_one(store, priority=priority))
        clock.advance(HOUR)
    assert sorted(steps(store, register(store), 8)) == sorted(wanted)


def test_what_has_expired_or_is_just_being_claimed_does_not_end_a_search(store: Store, clock: VirtualClock) -> None:
    insert_one(store, expires_at=store.now() + SECOND)
    store.insert_jobs(others(2 * WALK))
    wanted = insert_one(store)
    clock.advance(2 * SECOND)
    worker = register(store)
    found = [step(store, worker, 1) for _ in range(4)]
    assert [one for claims in found for one in ids(claims.jobs)] == [wanted]
    assert not any(one.is_near for one in found)


def test_a_claim_that_others_are_in_the_middle_of_takes_nothing_from_a_search(
    postgres: PostgresStore, clock: VirtualClock
) -> None:
    first, second = postgres.insert_jobs(jobs(2))
    postgres.insert_jobs(others(3 * WALK))
    clock.advance(SECOND)
    worker = register(postgres)
    with psycopg.connect(postgres.url) as other:
        table = f'"{postgres.schema.name}".queue'
        other.execute(f"SELECT FROM {table} WHERE job_id = %s FOR UPDATE".encode(), (first,))
        assert steps(postgres, worker, 1, limit=1) == [second]
    clock.advance(2 * SECOND)
    assert steps(postgres, worker, 5, limit=1) == [first]


def test_what_a_round_found_that_was_rolled_back_is_found_by_the_next(
    store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.insert_jobs(others(2 * WALK))
    wanted = insert_one(store)
    clock.advance(SECOND)
    worker = register(store)
    assert steps(store, worker, 2) == []
    with monkeypatch.context() as broken:
        broken.setattr(limited_claims, "admit_candidates", _fails)
        with pytest.raises(ZeroDivisionError):
            step(store, worker)
    assert steps(store, worker, 1) == [wanted]


def _fails(*_: object) -> None:
    raise ZeroDivisionError


def test_a_clock_that_is_set_back_hides_nothing(postgres: PostgresStore, clock: VirtualClock) -> None:
    postgres.insert_jobs(others(3 * WALK))
    clock.advance(SECOND)
    worker = register(postgres, lease=2 * HOUR)
    assert steps(postgres, worker, 5) == []
    clock.advance(-HOUR)
    wanted = insert_one(postgres)
    assert steps(postgres, worker, 5) == [wanted]


def test_it_goes_through_all_queues_and_priorities(store: Store, clock: VirtualClock) -> None:
    wanted = []
    for queue in ("default", "second"):
        for priority in (0, 9):
            store.insert_jobs(others(WALK, queue=queue, priority=priority))
            wanted.append(insert_one(store, queue=queue, priority=priority))
    clock.advance(SECOND)
    found = steps(store, register(store), 3, queues=("default", "second"))
    assert sorted(found) == sorted(wanted)


def test_limits_and_gates_hold_what_a_search_finds(store: Store, clock: VirtualClock) -> None:
    store.limits.declare_limits({"two": concurrency(2)})
    gate(store, "pause", label="slow")
    store.insert_jobs(others(2 * WALK))
    under = store.insert_jobs([limited() for _ in range(3)])
    paused = insert_one(store, labels=("slow",))
    clock.advance(SECOND)
    worker = register(store)
    assert steps(store, worker, 5) == under[:2]
    assert states_of(store, [under[2], paused]) == [JobState.QUEUED] * 2


def test_a_sequence_keeps_its_order(store: Store, clock: VirtualClock) -> None:
    store.limits.declare_limits({"line": sequence("key")})
    store.insert_jobs([in_order("others", task="other") for _ in range(2 * WALK)])
    line = store.insert_jobs([in_order("a") for _ in range(5)])
    clock.advance(SECOND)
    worker = register(store)
    for expected in line:
        (one,) = [one for _ in range(3) for one in step(store, worker).jobs]
        assert one.job_id == expected
        store.finish_attempts([succeeded(one)])


def test_what_sticks_to_another_worker_is_left_to_it_for_its_time(store: Store, clock: VirtualClock) -> None:
    mine, theirs = register(store), register(store)
    spots = store.insert_jobs([a_job(job_limits=JobLimits(spot=spot)) for spot in range(2 * GROUPS)])
    first, second = (set(steps(store, one, 40, limit=100)) for one in (mine, theirs))
    assert first
    assert second
    assert first | second == set(spots)
    more = store.insert_jobs([a_job(job_limits=JobLimits(spot=spot)) for spot in range(2 * GROUPS)])
    clock.advance(timedelta(microseconds=GRACE_US + 1))
    assert set(steps(store, mine, 40, limit=100)) == set(more)


def test_a_search_for_other_tasks_goes_its_own_way(store: Store, clock: VirtualClock) -> None:
    store.insert_jobs(others(3 * WALK))
    wanted = insert_one(store)
    clock.advance(SECOND)
    worker = register(store)
    assert steps(store, worker, 2) == []
    capacity = LimitedCapacity(1, search="all")
    assert store.claim_jobs(worker, ["default"], ["nobody's"], 1, capacity=capacity).jobs == []
    assert steps(store, worker, 2) == [wanted]


_places = st.tuples(st.sampled_from(["t", "other", "other"]), st.integers(0, 2), st.sampled_from([None, "a", "b"]))
_numbers = count()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])  # each has a queue of its own
@given(lines=st.lists(_places, max_size=60), limit=st.integers(1, 8))
def test_searches_take_each_job_once_and_leave_all_others(
    store: Store, clock: VirtualClock, lines: list[tuple[str, int, str | None]], limit: int
) -> None:
    queue = f"queue-{next(_numbers)}"
    placed = [
        a_job(task, queue=queue, priority=priority, job_limits=JobLimits(tenant=tenant) if tenant else None)
        for task, priority, tenant in lines
    ]
    store.insert_jobs(placed)
    clock.advance(SECOND)
    found = steps(store, register(store), len(lines) + 3, limit=limit, queues=(queue,))
    assert sorted(found) == sorted(one.id for one in placed if one.task == "t")


def test_a_search_takes_the_next_job_where_another_claim_has_the_first_ones_locked(
    postgres: PostgresStore, clock: VirtualClock
) -> None:
    """With room for one, it used to find nothing, and to rest for up to a second: half of eight busy workers did."""
    waiting = postgres.insert_jobs(jobs(4))
    clock.advance(SECOND)
    worker = register(postgres)
    locked = f"SELECT FROM {postgres.schema.name}.queue WHERE job_id = ANY (%s::uuid[]) FOR UPDATE"
    with psycopg.connect(postgres.url) as other:
        other.execute(locked.encode(), (waiting[:2],))
        assert steps(postgres, worker, 1, limit=1) == waiting[2:3]
    assert steps(postgres, worker, 1, limit=1) == waiting[3:4]
