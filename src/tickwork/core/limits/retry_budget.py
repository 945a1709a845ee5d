"""Retry budget: bound the rate of retries of a queue, so that many failures at once do not cause a retry storm.

Retries of a queue come due at an even pace: a share of the recent rate of starts in it. Retries above that are delayed,
neither charged nor lost. The pace follows the load, so a busy queue recovers quickly, and it never falls below the
floor. The window is long, so that a burst of failures raises the pace of its own retries only a little. Only shares are
counted: if each worker keeps a budget of its own starts, the shares add up to the same.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from tickwork.core.limits.sliding_counter import SlidingCounter
from tickwork.core.option_parsing import read_span, read_whole, to_us
from tickwork.errors import InvalidOption


class RetryBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Retries per second are at most `share` of the starts per second in `window`, and at least `floor`."""

    share: float = 0.2
    window: timedelta = timedelta(minutes=2)
    floor: int = 10

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise InvalidOption(f"the share of a retry budget is from 0 to 1, not {self.share!r}.")
        read_span("the window of a retry budget", self.window, timedelta(seconds=1), timedelta(hours=1))
        read_whole("the floor of a retry budget", self.floor, 1, 10_000)


def started(budget: RetryBudget, starts: SlidingCounter, count: int, now_us: int) -> SlidingCounter:
    """Return the counter after `count` jobs have started, retries included."""
    return starts.added(count, now_us, to_us(budget.window))


def retries_a_second(budget: RetryBudget, starts: SlidingCounter, now_us: int) -> int:
    """Return how many retries may come due per second, rounded down so that the share is never exceeded."""
    lately = starts.total(now_us, to_us(budget.window))
    return max(budget.floor, int(budget.share * lately / budget.window.total_seconds()))
