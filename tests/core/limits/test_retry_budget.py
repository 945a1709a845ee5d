"""The retry budget: the pace that it grants."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.limits.retry_budget import RetryBudget, retries_a_second, started
from tickwork.core.limits.sliding_counter import SlidingCounter
from tickwork.errors import InvalidOption

SECOND = 1_000_000
NOW = 1_800_000_000 * SECOND
BUDGET = RetryBudget()


def after(per_second: int, seconds: int) -> SlidingCounter:
    starts = SlidingCounter()
    for second in range(seconds):
        starts = started(BUDGET, starts, per_second, NOW + second * SECOND)
    return starts


def test_a_fifth_of_what_started_in_two_minutes_may_be_retries() -> None:
    assert 180 <= retries_a_second(BUDGET, after(1000, 300), NOW + 300 * SECOND) <= 200


def test_a_queue_that_is_idle_has_the_floor() -> None:
    assert retries_a_second(BUDGET, SlidingCounter(), NOW) == 10
    assert retries_a_second(BUDGET, after(1000, 60), NOW + 200 * SECOND) == 10


def test_a_burst_raises_the_pace_of_its_own_retries_little() -> None:
    assert retries_a_second(BUDGET, started(BUDGET, SlidingCounter(), 50_000, NOW), NOW) == 83


@given(st.floats(0, 1), st.lists(st.tuples(st.integers(0, 60 * SECOND), st.integers(0, 5000)), max_size=60))
def test_it_is_never_more_than_the_share_of_all_that_started_or_the_floor(
    share: float, claims: list[tuple[int, int]]
) -> None:
    budget = RetryBudget(share=share)
    starts, now_us, all_starts = SlidingCounter(), NOW, []
    for wait_us, count in claims:
        now_us += wait_us
        starts = started(budget, starts, count, now_us)
        all_starts.append((now_us, count))
        lately = sum(count for us, count in all_starts if us > now_us - 120 * SECOND)
        assert retries_a_second(budget, starts, now_us) <= max(budget.floor, share * lately / 120)


@pytest.mark.parametrize(
    ("given_options", "message"),
    [
        ({"share": 1.5}, "the share of a retry budget is from 0 to 1, not 1.5"),
        ({"window": timedelta(0)}, "the window of a retry budget: .* is not from 1s to 1h"),
        ({"floor": 0}, "the floor of a retry budget must be a whole number from 1"),
    ],
)
def test_other_budgets_are_refused(given_options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        RetryBudget(**given_options)  # type: ignore[arg-type]
