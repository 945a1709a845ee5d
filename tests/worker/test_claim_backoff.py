"""When a worker searches instead of claiming, and how soon again."""

from __future__ import annotations

import pytest

from tickwork.worker.claim_backoff import EACH_S, FORGETS_S, LONG_REST_S, LONG_S, REST_S, SHARE, TRIPS, ClaimBackoff

NOW = 100.0
LONG = 2 * LONG_S
SHORT = LONG_S / 10


def claimed(
    supply: ClaimBackoff,
    took_s: float,
    found: int = 0,
    moved: int = 0,
    *,
    began: float | None = None,
    is_near: bool = False,
    least_s: float = 0.0,
) -> ClaimBackoff:
    began = max(NOW, supply.again_at) if began is None else began
    supply.claimed(began, began + took_s, found, moved, is_near=is_near, least_s=least_s)
    return supply


def searches(supply: ClaimBackoff) -> bool:
    return supply.search(NOW + 1000) == "all"


def slow(took_s: float = LONG) -> ClaimBackoff:
    """What is known after a claim that took long."""
    return claimed(ClaimBackoff(), took_s)


def test_two_claims_that_take_long_for_what_they_bring_are_followed_by_a_search() -> None:
    assert searches(claimed(slow(), LONG))
    assert searches(claimed(slow(), LONG, found=1, moved=1))


def test_a_claim_that_takes_long_between_short_ones_is_not() -> None:
    supply = ClaimBackoff()
    for took_s in (LONG, SHORT, 10.0, SHORT):
        assert not searches(claimed(supply, took_s, found=1, moved=1))


def test_a_claim_that_moves_much_may_take_longer() -> None:
    moved = round(2 * LONG_S / EACH_S)
    assert not searches(claimed(slow(), LONG, found=moved, moved=moved))
    assert not searches(claimed(slow(), LONG, found=0, moved=moved))


def test_a_search_goes_on_until_there_is_no_need_for_it() -> None:
    supply = claimed(slow(), LONG, found=1)
    assert searches(claimed(supply, SHORT, found=5, moved=5))
    assert not searches(claimed(supply, SHORT, found=5, moved=5, is_near=True))


def test_what_was_searched_in_vain_is_searched_in_a_part_of_the_time_and_new_jobs_all_the_time() -> None:
    supply = claimed(claimed(slow(), LONG), LONG)
    assert supply.again_at == pytest.approx(NOW + LONG + LONG * SHARE)
    assert supply.search(supply.again_at - 0.01) == "ends"
    assert supply.search(supply.again_at) == "all"
    assert not supply.rests(supply.again_at - 0.01)


def test_the_first_search_follows_at_once() -> None:
    assert claimed(slow(), 10.0).search(NOW + 10.0) == "all"


def test_nobody_waits_long_because_the_store_stood_still_during_a_search() -> None:
    assert claimed(claimed(slow(), LONG), 10.0).again_at == NOW + 10.0 + REST_S


def test_what_takes_long_each_time_is_looked_for_seldom_and_not_never() -> None:
    supply = claimed(claimed(claimed(slow(), LONG), 0.5), 0.5)
    assert supply.again_at - NOW > 0.5 * SHARE
    began = claimed(supply, 10.0).again_at
    assert claimed(supply, 10.0).again_at == pytest.approx(began + 10.0 + LONG_REST_S)


def test_nobody_waits_long_because_the_store_is_far_away() -> None:
    supply = claimed(ClaimBackoff(scarce=True), 0.5)
    began = supply.again_at
    claimed(supply, 0.5, least_s=0.5 / TRIPS)
    assert supply.again_at == pytest.approx(began + 0.5 + REST_S)


def test_a_look_at_new_jobs_alone_changes_nothing() -> None:
    supply = claimed(claimed(slow(), LONG), SHORT)
    until = supply.again_at
    claimed(supply, 1.0, found=3, moved=3, began=NOW, is_near=True)
    assert supply.again_at == until
    assert supply.search(until) == "all"


def test_where_the_store_is_far_away_not_every_other_claim_is_a_search() -> None:
    supply, searched = ClaimBackoff(), 0
    for _ in range(200):
        searched += supply.search(NOW) is not None
        claimed(supply, 0.05, is_near=True)
    assert 1 <= searched < 10


def test_what_was_learnt_of_a_store_that_was_busy_once_is_forgotten() -> None:
    supply = claimed(claimed(slow(1.0), 1.0), 1.0, is_near=True)
    assert not searches(claimed(claimed(supply, 10 * LONG_S), 10 * LONG_S))
    assert searches(claimed(supply, 10 * LONG_S, began=NOW + 10 * FORGETS_S))


def test_what_was_found_is_looked_for_again_at_once() -> None:
    assert claimed(slow(), LONG, found=1, moved=1).search(NOW + LONG) == "all"


def test_short_claims_in_vain_are_repeated_whenever_somebody_calls() -> None:
    supply = claimed(ClaimBackoff(), SHORT)
    assert supply.search(NOW + SHORT) is None
    assert not supply.rests(NOW + SHORT)


def test_a_task_of_its_own_is_searched_until_it_is_known_that_nothing_stands_in_its_way() -> None:
    assert searches(ClaimBackoff(scarce=True))
    assert searches(claimed(ClaimBackoff(scarce=True), SHORT))
    assert not searches(claimed(ClaimBackoff(scarce=True), SHORT, is_near=True))
    assert not searches(ClaimBackoff())


def test_a_task_of_its_own_is_not_looked_for_all_the_time() -> None:
    took_s = LONG_S / 2
    supply = claimed(ClaimBackoff(scarce=True), took_s)
    assert supply.rests(NOW + took_s)
    assert not supply.rests(NOW + took_s * (SHARE + 2))
