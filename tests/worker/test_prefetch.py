"""How much is taken ahead follows how long jobs take."""

import pytest

from tickwork.worker.prefetch import MEDIUM_S, MOST, SHORT_S, Prefetch


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
