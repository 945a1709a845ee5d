"""A claim that parks jobs and a session that opens their limit at the same moment: neither misses the other.

Both go one round trip at a time, and each is stopped at every point while the other goes on. No test asks a service
to open what was forgotten: what may start can be claimed right after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.store.builders import HOUR, MINUTE, NOTHING, a_job, again, insert_one, reap, register, succeeded
from tests.store.claim.limits_helpers import gate, ids, in_order, limited, take
from tests.store.interleaving import wipe
from tests.store.stepping import SteppedStore, Stepper, Verb, meet
from tickwork.core.ids import JobId, WorkerId
from tickwork.core.job import Claimed
from tickwork.core.limits.job_limits import JobLimits, LimitKey, LimitUse
from tickwork.core.limits.limits import concurrency, rate, sequence
from tickwork.errors import LeaseLost, StoreUnreachable
from tickwork.store.attempt_types import Exchange
from tickwork.store.postgres import PostgresStore
from tickwork.testing import VirtualClock

pytestmark = pytest.mark.process  # every meeting of two, step by step, takes its time

MOST_STEPS = 8


def starts_now(store: PostgresStore, job_id: JobId, claimed: list[Claimed]) -> None:
    """Check that the interleaved claim has started the job, or that the next claim starts it."""
    assert job_id in {*ids(claimed), *ids(take(store, register(store)))}


# -- an end


def ends(holder: Claimed) -> Verb:
    return lambda store: store.finish_attempts([succeeded(holder)])


def is_tried_again(holder: Claimed) -> Verb:
    return lambda store: store.finish_attempts([again(holder, HOUR)])


def ends_in_an_exchange(holder: Claimed) -> Verb:
    return lambda store: store.exchange(
        register(store), [succeeded(holder)], (), queues=["elsewhere"], tasks=["t"], limit=1
    )


def ends_in_a_round(holder: Claimed) -> Verb:
    return lambda store: exchange_in_a_round(store, register(store), holder, "elsewhere")


def exchange_in_a_round(store: PostgresStore, worker: WorkerId, holder: Claimed, queue: str = "default") -> Exchange:
    """As a worker does whose last claim had to be guarded."""
    store.claims.rounds.memory_of(worker).is_guarded = True
    return store.exchange(worker, [succeeded(holder)], (), queues=[queue], tasks=["t"], limit=100)


@pytest.mark.parametrize("end", [ends, is_tried_again, ends_in_an_exchange, ends_in_a_round])
def test_what_a_claim_parks_while_the_holder_ends_can_start(
    postgres: PostgresStore, every_meeting: Callable[..., None], end: Callable[[Claimed], Verb]
) -> None:
    def make() -> tuple[Verb, Verb, Callable[[Any, Any], None]]:
        postgres.limits.declare_limits({"two": concurrency(1)})
        insert_one(postgres, limited())
        (holder,) = take(postgres, register(postgres))
        waiting = insert_one(postgres, limited())
        worker = register(postgres)
        return lambda store: take(store, worker), end(holder), lambda got, _: starts_now(postgres, waiting, got)

    every_meeting(make)


def test_of_a_claim_and_a_round_that_stores_the_end_of_the_holder_one_starts_the_next(
    postgres: PostgresStore, every_meeting: Callable[..., None]
) -> None:
    def make() -> tuple[Verb, Verb, Callable[[Any, Any], None]]:
        postgres.limits.declare_limits({"two": concurrency(1)})
        insert_one(postgres, limited())
        holders = register(postgres)
        (holder,) = take(postgres, holders)
        aside, new = insert_one(postgres, limited()), insert_one(postgres, limited())
        worker = register(postgres)

        def check(got: list[Claimed], exchanged: Exchange) -> None:
            assert exchanged.finished == {holder.job_id}
            assert exchanged.claims is not None
            later = take(postgres, register(postgres))
            started = [*ids(got), *ids(exchanged.claims.jobs), *ids(later)]
            assert len(started) == 1
            assert set(started) <= {aside, new}

        return lambda store: take(store, worker), lambda store: exchange_in_a_round(store, holders, holder), check

    every_meeting(make)


def test_what_a_claim_parks_while_the_holder_is_reclaimed_can_start(
    postgres: PostgresStore, clock: VirtualClock, every_meeting: Callable[..., None]
) -> None:
    def make() -> tuple[Verb, Verb, Callable[[Any, Any], None]]:
        postgres.limits.declare_limits({"two": concurrency(1)})
        lost = insert_one(postgres, limited())
        take(postgres, register(postgres, lease=MINUTE))
        waiting = insert_one(postgres, limited())
        clock.advance(2 * MINUTE)
        worker = register(postgres)

        def check(got: list[Claimed], reclaimed: set[JobId]) -> None:
            assert reclaimed == {lost}
            assert len({*ids(got), *ids(take(postgres, register(postgres)))} & {lost, waiting}) == 1

        return lambda store: take(store, worker), reap, check

    every_meeting(make)


def test_an_end_in_a_transaction_of_another_client_is_told_of_and_lets_the_next_one_through(
    postgres: PostgresStore, every_meeting: Callable[..., None]
) -> None:
    def make() -> tuple[Verb, Verb, Callable[[Any, Any], None]]:
        postgres.limits.declare_limits({"two": concurrency(1)})
        insert_one(postgres, limited())
        (holder,) = take(postgres, register(postgres))
        waiting = insert_one(postgres, limited())
        worker = register(postgres)

        def end(store: PostgresStore) -> None:
            with postgres.connection() as tx:
                postgres.finish_attempts([succeeded(holder)], tx=tx)
            store.limits.let_through([LimitKey("two", "")])

        return lambda store: take(store, worker), end, lambda got, _: starts_now(postgres, waiting, got)

    every_meeting(make)


def test_the_next_of_a_sequence_can_start_when_the_one_before_it_ends(
    postgres: PostgresStore, every_meeting: Callable[..., None]
) -> None:
    def make() -> tuple[Verb, Verb, Callable[[Any, Any], None]]:
        postgres.limits.declare_limits({"line": sequence("k")})
        insert_one(postgres, in_order("a"))
        (holder,) = take(postgres, register(postgres))
        second, third = postgres.insert_jobs([in_order("a"), in_order("a")])
        worker = register(postgres)

        def check(got: list[Claimed], _: Any) -> None:
            starts_now(postgres, second, got)
            assert third not in ids(take(postgres, register(postgres)))

        return lambda store: take(store, worker), ends(holder), check

    every_meeting(make)


@pytest.mark.parametrize("delay", [NOTHING, HOUR])
def test_no_job_passes_a_job_of_a_sequence_that_comes_back(
    postgres: PostgresStore, every_meeting: Callable[..., None], delay: timedelta
) -> None:
    def make() -> tuple[Verb, Verb, Callable[[Any, Any], None]]:
        postgres.limits.declare_limits({"line": sequence("k")})
        first = insert_one(postgres, in_order("a"))
        (holder,) = take(postgres, register(postgres))
        postgres.insert_jobs([in_order("a"), in_order("a")])
        worker = register(postgres)

        def check(got: list[Claimed], _: Any) -> None:
            after = take(postgres, register(postgres))
            assert [*ids(got), *ids(after)] == ([] if delay else [first])

        return lambda store: take(store, worker), lambda store: store.finish_attempts([again(holder, delay)]), check

    every_meeting(make)


def test_the_next_of_a_sequence_can_start_when_the_one_before_it_is_cancelled_as_it_waits(
    postgres: PostgresStore, every_meeting: Callable[..., None]
) -> None:
    def make() -> tuple[Verb, Verb, Callable[[Any, Any], None]]:
        postgres.limits.declare_limits({"line": sequence("k")})
        first = insert_one(postgres, in_order("a"))
        (holder,) = take(postgres, register(postgres))
        postgres.finish_attempts([again(holder, HOUR)])
        second, third = postgres.insert_jobs([in_order("a"), in_order("a")])
        worker = register(postgres)

        def check(got: list[Claimed], _: Any) -> None:
            starts_now(postgres, second, got)
            assert third not in ids(take(postgres, register(postgres)))

        return lambda store: take(store, worker), lambda store: store.cancel_jobs([first]), check

    every_meeting(make)


def test_the_end_of_one_of_two_limits_lets_through_who_waited_for_both(
    postgres: PostgresStore, every_meeting: Callable[..., None]
) -> None:
    def make() -> tuple[Verb, Verb, Callable[[Any, Any], None]]:
        postgres.limits.declare_limits({"one": concurrency(1), "two": concurrency(1)})
        postgres.insert_jobs([limited(limit="one"), limited(limit="two")])
        first, second = take(postgres, register(postgres))
        both = insert_one(postgres, a_job(job_limits=JobLimits(uses=(LimitUse("one", "", 1), LimitUse("two", "", 1)))))
        take(postgres, register(postgres))
        worker = register(postgres)

        def end_both(store: PostgresStore) -> None:
            store.finish_attempts([succeeded(first)])
            store.finish_attempts([succeeded(second)])

        return lambda store: take(store, worker), end_both, lambda got, _: starts_now(postgres, both, got)

    every_meeting(make)


# -- a rule changes


@pytest.mark.parametrize(
    "change",
    [
        lambda store: store.limits.set_limit("two", concurrency(2)),
        lambda store: store.limits.declare_limits({"two": concurrency(2)}),
    ],
)
def test_what_a_claim_parks_while_its_limit_is_raised_can_start(
    postgres: PostgresStore, every_meeting: Callable[..., None], change: Verb
) -> None:
    def make() -> tuple[Verb, Verb, Callable[[Any, Any], None]]:
        postgres.limits.declare_limits({"two": concurrency(1)})
        insert_one(postgres, limited())
        take(postgres, register(postgres))
        waiting = insert_one(postgres, limited())
        worker = register(postgres)
        return lambda store: take(store, worker), change, lambda got, _: starts_now(postgres, waiting, got)

    every_meeting(make)


@pytest.mark.parametrize(("kind", "how"), [("pause", {}), ("slow", {"rate": "1/h"})])
def test_what_a_claim_parks_while_its_gate_is_lifted_can_start(
    postgres: PostgresStore, every_meeting: Callable[..., None], kind: str, how: dict[str, str]
) -> None:
    def make() -> tuple[Verb, Verb, Callable[[Any, Any], None]]:
        gate(postgres, kind, task="t", **how)
        first, second = postgres.insert_jobs([a_job(), a_job()])
        worker = register(postgres)

        def check(got: list[Claimed], _: Any) -> None:
            assert {*ids(got), *ids(take(postgres, register(postgres)))} == {first, second}

        return lambda store: take(store, worker), lambda store: store.limits.lift_gates({"task": "t"}), check

    every_meeting(make)


def test_a_job_that_is_stored_while_a_claim_empties_its_limit_key_can_start(
    postgres: PostgresStore, every_meeting: Callable[..., None]
) -> None:
    def make() -> tuple[Verb, Verb, Callable[[Any, Any], None]]:
        postgres.limits.declare_limits({"two": concurrency(2)})
        postgres.limits.set_limit("two", concurrency(1))
        postgres.insert_jobs([limited(), limited()])
        take(postgres, register(postgres))
        postgres.limits.set_limit("two", concurrency(3))
        worker, late = register(postgres), limited()
        return (
            lambda store: take(store, worker),
            lambda store: store.insert_jobs([late]),
            lambda got, _: starts_now(postgres, late.id, got),
        )

    every_meeting(make)


# -- two claims


def test_two_claims_take_no_more_than_the_limit(postgres: PostgresStore, every_meeting: Callable[..., None]) -> None:
    def make() -> tuple[Verb, Verb, Callable[[Any, Any], None]]:
        postgres.limits.declare_limits({"two": concurrency(2)})
        postgres.insert_jobs([limited() for _ in range(4)])
        workers = [register(postgres), register(postgres)]

        def check(one: list[Claimed], other: list[Claimed]) -> None:
            assert len(one) + len(other) + len(take(postgres, register(postgres))) == 2

        return lambda store: take(store, workers[0], 2), lambda store: take(store, workers[1], 2), check

    every_meeting(make)


def test_two_claims_of_a_sequence_take_the_first_one(
    postgres: PostgresStore, every_meeting: Callable[..., None]
) -> None:
    def make() -> tuple[Verb, Verb, Callable[[Any, Any], None]]:
        postgres.limits.declare_limits({"line": sequence("k")})
        first, *_ = postgres.insert_jobs([in_order("a") for _ in range(3)])
        workers = [register(postgres), register(postgres)]

        def check(one: list[Claimed], other: list[Claimed]) -> None:
            assert [*ids(one), *ids(other), *ids(take(postgres, register(postgres)))] == [first]

        return lambda store: take(store, workers[0], 1), lambda store: take(store, workers[1], 1), check

    every_meeting(make)


def test_a_claim_that_looked_before_others_started_does_not_set_their_rate_back(
    postgres: PostgresStore, clock: VirtualClock, opens: Callable[[], SteppedStore]
) -> None:
    """A worker may be paused between its look at the clock and its judgement: the rate has gone on meanwhile."""
    for steps in range(MOST_STEPS):
        wipe(postgres)
        postgres.limits.declare_limits({"api": rate("50/s", burst=5)})
        postgres.insert_jobs([limited(limit="api") for _ in range(40)])
        worker, slow = register(postgres, lease=HOUR), register(postgres, lease=HOUR)
        paused = Stepper(opens(), lambda store, slow=slow: take(store, slow))
        for _ in range(steps):
            paused.step()
        clock.advance(timedelta(seconds=2))
        between = Stepper(opens(), lambda store, worker=worker: take(store, worker, 6))
        while not between.is_done and not between.waits_for_a_lock():
            between.step()
        meet(paused, between, 0, 0)
        after = take(postgres, worker)
        starts = Counter(one.claimed_at_us for one in [*paused.answer, *between.answer, *after])
        assert max(starts.values()) <= 6, f"so many at one instant, after {steps} steps of the paused one"


def test_a_lease_that_runs_out_between_two_rounds_leaves_nothing_that_the_worker_does_not_know_of(
    postgres: PostgresStore, clock: VirtualClock, opens: Callable[[], SteppedStore]
) -> None:
    """It may be renewed afterwards, as long as no reaper came by: what it holds would then be held for ever."""
    store = opens()
    for steps in range(MOST_STEPS + 4):
        wipe(postgres)
        postgres.limits.declare_limits({"two": concurrency(1)})
        postgres.insert_jobs([limited(), limited()])
        worker = register(postgres, lease=MINUTE)
        paused = Stepper(store, lambda store, worker=worker: take(store, worker))
        for _ in range(steps):
            paused.step()
        clock.advance(2 * MINUTE)
        paused.finish()
        paused.join()
        assert postgres.renew_lease(worker, MINUTE)
        told = set() if isinstance(paused.answer, LeaseLost) else set(ids(paused.answer))
        assert {one.job_id for one in postgres.open_attempts(worker)} == told, f"after {steps} steps"


def test_a_worker_that_is_stopped_in_a_round_does_not_keep_others_waiting_for_long(
    postgres: PostgresStore, opens: Callable[[], SteppedStore]
) -> None:
    postgres.limits.declare_limits({"two": concurrency(1)})
    picked = insert_one(postgres, limited("a"))
    worker = register(postgres)
    stopped = Stepper(opens(), lambda store: take(store, worker))
    assert all(stopped.step() for _ in range(5)), "it claimed twice, which brought nothing, looked, picked and locked"
    other = insert_one(postgres, limited("b"))
    assert set(ids(take(postgres, register(postgres)))) == {picked, other}, "before it gives up waiting for the lock"
    stopped.finish()
    stopped.join()
    assert isinstance(stopped.answer, StoreUnreachable)
