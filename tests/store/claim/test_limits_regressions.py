"""Regressions of limits, found by the model and by users: each promise was broken once."""

from __future__ import annotations

import pytest

from tests.store.builders import HOUR, SECOND, a_job, again, register, states_of, succeeded
from tests.store.claim.limits_helpers import gate, ids, limited, take
from tickwork.core.job import JobState
from tickwork.core.limits.job_limits import JobLimits, LimitUse
from tickwork.core.limits.limits import concurrency, rate, sequence
from tickwork.store.base import Store
from tickwork.testing import VirtualClock


@pytest.mark.parametrize("before", [None, rate("1000/s", burst=10)])
def test_a_limit_counts_what_started_before_it_came(store: Store, before: object) -> None:
    """A limit below the number of running jobs admits no job until there is room, whether lowered or new."""
    if before is not None:
        store.limits.set_limit("two", before)  # type: ignore[arg-type]
    worker = register(store, lease=HOUR)
    store.insert_jobs([limited() for _ in range(4)])
    running = take(store, worker)
    assert len(running) == 4
    store.limits.set_limit("two", concurrency(3))
    store.insert_jobs([limited() for _ in range(4)])
    assert take(store, worker) == []
    store.finish_attempts([succeeded(one) for one in running[:2]])
    assert len(take(store, worker)) == 1


def test_a_limit_that_was_away_for_a_while_counts_what_started_meanwhile(store: Store) -> None:
    worker = register(store, lease=HOUR)
    store.limits.set_limit("two", concurrency(1))
    store.insert_jobs([limited() for _ in range(3)])
    assert len(take(store, worker)) == 1
    store.limits.set_limit("two", None)
    assert len(take(store, worker)) == 2
    store.limits.set_limit("two", concurrency(3))
    store.insert_jobs([limited() for _ in range(3)])
    assert take(store, worker) == []


@pytest.mark.parametrize("held_by", [("pause", {}), ("slow", {"rate": "1/h"})])
def test_a_drop_that_comes_later_drops_what_another_gate_holds(
    store: Store, held_by: tuple[str, dict[str, str]]
) -> None:
    """Of the gates that match, drop decides before all others, whichever was there first."""
    kind, how = held_by
    worker = register(store, lease=HOUR)
    gate(store, kind, task="t", **how)
    waiting = store.insert_jobs([a_job() for _ in range(3)])
    running = ids(take(store, worker))
    gate(store, "drop", task="t")
    assert take(store, worker) == []
    assert states_of(store, waiting) == [JobState.RUNNING if one in running else JobState.DROPPED for one in waiting]


def test_a_job_of_a_sequence_that_a_rate_held_and_that_is_tried_again_later_holds_up_no_other(
    store: Store, clock: VirtualClock
) -> None:
    store.limits.declare_limits({"line": sequence("key", on_retry="pass"), "api": rate("2/s", burst=0)})
    uses = (LimitUse("api", "a", 1), LimitUse("line", "a", 1))
    waiting = store.insert_jobs([a_job(job_limits=JobLimits(uses, sequence=True)) for _ in range(3)])
    worker = register(store)
    for expected, end in zip(waiting[:2], (succeeded, lambda one: again(one, HOUR)), strict=True):
        (one,) = take(store, worker)
        assert one.job_id == expected
        store.finish_attempts([end(one)])
        assert take(store, worker) == [], "the rate holds the next one"
        clock.advance(SECOND)
    assert ids(take(store, worker)) == waiting[2:]
