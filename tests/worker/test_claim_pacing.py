"""When a worker searches instead of claiming, and how soon again."""

from __future__ import annotations

import pytest

from tickwork.worker.claim_pacing import (
    EACH_S,
    FORGETS_S,
    LONG_REST_S,
    LONG_S,
    MEDIUM_S,
    MOST,
    REST_S,
    SHARE,
    SHORT_S,
    TRIPS,
    ClaimBackoff,
    Prefetch,
)

NOW = 100.0
LONG = 2 * LONG_S
SHORT = LONG_S / 10


def claimed(
    claim_backoff: ClaimBackoff,
    took_s: float,
    found: int = 0,
    moved: int = 0,
    *,
    began: float | None = None,
    is_near: bool = False,
    least_s: float = 0.0,
) -> ClaimBackoff:
    began = max(NOW, claim_backoff.again_at) if began is None else began
    claim_backoff.claimed(began, began + took_s, found, moved, is_near=is_near, least_s=least_s)
    return claim_backoff


def searches(claim_backoff: ClaimBackoff) -> bool:
    return claim_backoff.search(NOW + 1000) == "all"


def slow(took_s: float = LONG) -> ClaimBackoff:
    """Return the backoff after a slow claim."""
    return claimed(ClaimBackoff(), took_s)


def test_two_claims_that_take_long_for_what_they_bring_are_followed_by_a_search() -> None:
    assert searches(claimed(slow(), LONG))
    assert searches(claimed(slow(), LONG, found=1, moved=1))


def test_a_claim_that_takes_long_between_short_ones_is_not() -> None:
    claim_backoff = ClaimBackoff()
    for took_s in (LONG, SHORT, 10.0, SHORT):
        assert not searches(claimed(claim_backoff, took_s, found=1, moved=1))


def test_a_claim_that_moves_much_may_take_longer() -> None:
    moved = round(2 * LONG_S / EACH_S)
    assert not searches(claimed(slow(), LONG, found=moved, moved=moved))
    assert not searches(claimed(slow(), LONG, found=0, moved=moved))


def test_a_search_goes_on_until_there_is_no_need_for_it() -> None:
    claim_backoff = claimed(slow(), LONG, found=1)
    assert searches(claimed(claim_backoff, SHORT, found=5, moved=5))
    assert not searches(claimed(claim_backoff, SHORT, found=5, moved=5, is_near=True))


def test_a_search_without_a_result_is_repeated_in_a_part_of_the_time_and_new_jobs_all_the_time() -> None:
    claim_backoff = claimed(claimed(slow(), LONG), LONG)
    assert claim_backoff.again_at == pytest.approx(NOW + LONG + LONG * SHARE)
    assert claim_backoff.search(claim_backoff.again_at - 0.01) == "ends"
    assert claim_backoff.search(claim_backoff.again_at) == "all"
    assert not claim_backoff.rests(claim_backoff.again_at - 0.01)


def test_the_first_search_follows_at_once() -> None:
    assert claimed(slow(), 10.0).search(NOW + 10.0) == "all"


def test_no_job_waits_long_because_the_store_stood_still_during_a_search() -> None:
    assert claimed(claimed(slow(), LONG), 10.0).again_at == NOW + 10.0 + REST_S


def test_what_takes_long_each_time_is_looked_for_seldom_and_not_never() -> None:
    claim_backoff = claimed(claimed(claimed(slow(), LONG), 0.5), 0.5)
    assert claim_backoff.again_at - NOW > 0.5 * SHARE
    began = claimed(claim_backoff, 10.0).again_at
    assert claimed(claim_backoff, 10.0).again_at == pytest.approx(began + 10.0 + LONG_REST_S)


def test_no_job_waits_long_because_the_store_is_far_away() -> None:
    claim_backoff = claimed(ClaimBackoff(scarce=True), 0.5)
    began = claim_backoff.again_at
    claimed(claim_backoff, 0.5, least_s=0.5 / TRIPS)
    assert claim_backoff.again_at == pytest.approx(began + 0.5 + REST_S)


def test_a_look_at_new_jobs_alone_changes_nothing() -> None:
    claim_backoff = claimed(claimed(slow(), LONG), SHORT)
    until = claim_backoff.again_at
    claimed(claim_backoff, 1.0, found=3, moved=3, began=NOW, is_near=True)
    assert claim_backoff.again_at == until
    assert claim_backoff.search(until) == "all"


def test_where_the_store_is_far_away_not_every_other_claim_is_a_search() -> None:
    claim_backoff, searched = ClaimBackoff(), 0
    for _ in range(200):
        searched += claim_backoff.search(NOW) is not None
        claimed(claim_backoff, 0.05, is_near=True)
    assert 1 <= searched < 10


def test_what_was_learnt_of_a_store_that_was_busy_once_is_forgotten() -> None:
    claim_backoff = claimed(claimed(slow(1.0), 1.0), 1.0, is_near=True)
    assert not searches(claimed(claimed(claim_backoff, 10 * LONG_S), 10 * LONG_S))
    assert searches(claimed(claim_backoff, 10 * LONG_S, began=NOW + 10 * FORGETS_S))


def test_what_was_found_is_looked_for_again_at_once() -> None:
    assert claimed(slow(), LONG, found=1, moved=1).search(NOW + LONG) == "all"


def test_short_claims_without_jobs_are_repeated_at_every_call() -> None:
    claim_backoff = claimed(ClaimBackoff(), SHORT)
    assert claim_backoff.search(NOW + SHORT) is None
    assert not claim_backoff.rests(NOW + SHORT)


def test_a_task_of_its_own_is_searched_until_it_is_known_that_nothing_stands_in_its_way() -> None:
    assert searches(ClaimBackoff(scarce=True))
    assert searches(claimed(ClaimBackoff(scarce=True), SHORT))
    assert not searches(claimed(ClaimBackoff(scarce=True), SHORT, is_near=True))
    assert not searches(ClaimBackoff())


def test_a_task_of_its_own_is_not_looked_for_all_the_time() -> None:
    took_s = LONG_S / 2
    claim_backoff = claimed(ClaimBackoff(scarce=True), took_s)
    assert claim_backoff.rests(NOW + took_s)
    assert not claim_backoff.rests(NOW + took_s * (SHARE + 2))


def after(durations: list[float], slots: int = 10) -> int:
    pace = Prefetch(slots)
    for seconds in durations:
        pace.took(seconds)
    return pace.ahead()


def test_nothing_is_taken_ahead_before_anything_was_measured() -> None:
    assert Prefetch(10).ahead() == 0


def test_the_shorter_the_jobs_the_more_is_taken_ahead() -> None:
    taken = [after([seconds] * 500) for seconds in (0.015, 0.005, 0.001, 0.0001)]
    assert taken == sorted(taken)
    assert taken[0] > 0
    assert taken[-1] == MOST


def test_it_learns_by_and_by_that_jobs_are_short() -> None:
    assert 0 < after([0.0001] * 3) < after([0.0001] * 50) <= MOST


@pytest.mark.parametrize("seconds", [MEDIUM_S * 1.01, 1.0, 3600.0])
def test_one_slow_job_stops_it_at_once(seconds: float) -> None:
    assert after([0.0001] * 500 + [seconds]) == 0


def test_after_a_slow_job_short_ones_bring_it_back() -> None:
    assert after([0.0001] * 500 + [0.5] + [0.0001] * 500) > 0


def test_no_more_is_taken_ahead_than_the_slots_finish_in_a_moment() -> None:
    assert after([0.001] * 500, slots=1) <= 50
    assert after([0.001] * 500, slots=2) <= 100


def test_jobs_that_take_no_time_at_all_are_no_trouble() -> None:
    assert after([0.0] * 1000) == MOST


@pytest.mark.parametrize("seconds", [SHORT_S * 1.01, 0.05, MEDIUM_S])
def test_of_jobs_that_are_not_short_a_few_are_held_to_spare(seconds: float) -> None:
    assert after([seconds], slots=1) == 1
    assert 1 < after([seconds], slots=8) <= 6


def test_the_longer_an_exchange_takes_the_more_is_held_to_spare() -> None:
    pace = Prefetch(16)
    pace.took(0.05)
    before = pace.ahead()
    for _ in range(50):
        pace.exchanged(0.01, 0.0)
    assert before < pace.ahead() == pace.prefetch() <= 12


def test_short_jobs_have_none_to_spare() -> None:
    pace = Prefetch(16)
    for _ in range(500):
        pace.took(0.001)
    assert pace.ahead() > 0
    assert pace.prefetch() == 0


def test_the_longer_an_exchange_takes_the_longer_ends_may_wait_for_others() -> None:
    pace = Prefetch(16)
    for _ in range(50):
        pace.exchanged(0.001, 10.0)
    quick = pace.gather_until()
    for _ in range(50):
        pace.exchanged(0.02, 10.0)
    assert 10.0 < quick < 10.003
    assert 10.03 < pace.gather_until() < 10.05
