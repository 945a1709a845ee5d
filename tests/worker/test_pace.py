"""How much is taken ahead follows how long jobs take."""

import pytest

from tickwork.worker.pace import MOST, SHORT_S, Pace


def after(durations: list[float], slots: int = 10) -> int:
    pace = Pace(slots)
    for seconds in durations:
        pace.took(seconds)
    return pace.ahead()


def test_nothing_is_taken_ahead_before_anything_was_measured() -> None:
    assert Pace(10).ahead() == 0


def test_the_shorter_the_jobs_the_more_is_taken_ahead() -> None:
    taken = [after([seconds] * 500) for seconds in (0.015, 0.005, 0.001, 0.0001)]
    assert taken == sorted(taken)
    assert taken[0] > 0
    assert taken[-1] == MOST


def test_it_learns_by_and_by_that_jobs_are_short() -> None:
    assert 0 < after([0.0001] * 3) < after([0.0001] * 50) <= MOST


@pytest.mark.parametrize("seconds", [SHORT_S * 1.01, 1.0, 3600.0])
def test_one_slow_job_stops_it_at_once(seconds: float) -> None:
    assert after([0.0001] * 500 + [seconds]) == 0


def test_after_a_slow_job_short_ones_bring_it_back() -> None:
    assert after([0.0001] * 500 + [0.5] + [0.0001] * 500) > 0


def test_no_more_is_taken_ahead_than_the_slots_finish_in_a_moment() -> None:
    assert after([0.001] * 500, slots=1) <= 50
    assert after([0.001] * 500, slots=2) <= 100


def test_jobs_that_take_no_time_at_all_are_no_trouble() -> None:
    assert after([0.0] * 1000) == MOST
