"""Ageing: which claims take what has waited long, and what that comes to under more urgent work than can be done."""

from __future__ import annotations

from tickwork.core.fairness import AGE, LOOK_S, StarvationGuard, aged_before_us

SECOND = 1_000_000


def test_the_age_is_five_minutes() -> None:
    assert AGE.total_seconds() == 300
    assert aged_before_us(1000 * SECOND) == 700 * SECOND


def test_while_there_are_aged_jobs_every_other_claim_is_for_them_and_priorities_take_turns() -> None:
    ageing = StarvationGuard()
    first: list[int | None] = []
    for _ in range(8):
        order = ageing.turn(0.0)
        first.append(None if order is None else order[0])
        if order is not None:
            assert sorted(order) == list(range(10))
            ageing.took(9 if order[0] in (9, 1) else 2, 0.0)  # there are some of 9 and 2
    assert first == [9, None, 8, None, 1, None, 8, None]


def test_where_nothing_is_aged_one_claim_a_second_looks() -> None:
    ageing = StarvationGuard()
    looks = 0
    for step in range(1000):
        now = step / 100
        if ageing.turn(now) is not None:
            looks += 1
            ageing.took(None, now)
    assert looks == 10 / LOOK_S


def test_a_job_of_the_lowest_priority_starts_in_bounded_time_under_endless_urgent_work() -> None:
    """A worker claims one job each 10 ms; urgent ones never run out, and ten of the lowest wait from the start."""
    ageing, waiting, started = StarvationGuard(), 10, []
    for step in range(60_000):
        now = step / 100
        if ageing.turn(now) is None:
            continue
        is_aged = now > AGE.total_seconds() and waiting > 0
        waiting -= is_aged
        ageing.took(9 if is_aged else None, now)
        if is_aged:
            started.append(now)
    assert len(started) == 10
    assert started[-1] < AGE.total_seconds() + LOOK_S + 10 * 0.02
