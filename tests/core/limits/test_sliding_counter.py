"""The tally against a list that remembers everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.limits.rate_counters import SlidingCounter

SECOND = 1_000_000
WINDOW = 10 * SECOND
NOW = 1_800_000_000 * SECOND


@given(st.lists(st.tuples(st.integers(0, 3 * SECOND), st.integers(0, 5)), max_size=60), st.integers(0, 12 * SECOND))
def test_a_total_covers_between_nine_tenths_and_all_of_the_window(steps: list[tuple[int, int]], later_us: int) -> None:
    tally, now_us = SlidingCounter(), NOW
    seen: list[tuple[int, int]] = []
    for wait_us, count in steps:
        now_us += wait_us
        tally = tally.added(count, now_us, WINDOW)
        seen.append((now_us, count))
        assert len(tally.counts) <= 10
    now_us += later_us
    surely = sum(count for us, count in seen if us > now_us - WINDOW * 9 // 10)
    at_most = sum(count for us, count in seen if us > now_us - WINDOW)
    assert surely <= tally.total(now_us, WINDOW) <= at_most


def test_what_comes_a_little_late_counts() -> None:
    tally = SlidingCounter().added(1, NOW, WINDOW).added(2, NOW - 5 * SECOND, WINDOW)
    assert tally.total(NOW, WINDOW) == 3


def test_after_the_clock_was_set_back_it_counts_again() -> None:
    tally = SlidingCounter().added(7, NOW, WINDOW)
    earlier_us = NOW - 3600 * SECOND
    assert tally.total(earlier_us, WINDOW) == 0
    assert tally.added(1, earlier_us, WINDOW).total(earlier_us, WINDOW) == 1
