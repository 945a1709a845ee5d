"""A budget for retries, so that a failure of many jobs at once does not come back as a storm.

Retries of a queue come due at an even pace: a share of how often anything started in it lately. What is above it is put
off, not charged and not lost. The pace follows the load, so a busy queue repairs itself quickly, and no queue is slower
than the floor. The window is long, so that a burst which fails does not raise the pace of its own retries much. Only
shares are counted: when each worker keeps a budget of its own starts, the shares add up to the same.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from tickwork.core.limits.sliding_counter import SlidingCounter
from tickwork.core.option_parsing import read_span, read_whole, to_us
from tickwork.errors import InvalidOption


class RetryBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Retries a second are at most `share` of the starts a second in `window`, and `floor` a second in any case."""

    share: float = 0.2
    window: timedelta = timedelta(minutes=2)
    floor: int = 10

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise InvalidOption(f"the share of a retry budget is from 0 to 1, not {self.share!r}.")
        read_span("the window of a retry budget", self.window, timedelta(seconds=1), timedelta(hours=1))
        read_whole("the floor of a retry budget", self.floor, 1, 10_000)


def started(budget: RetryBudget, starts: SlidingCounter, count: int, now_us: int) -> SlidingCounter:
    """Return the tally after `count` jobs have started, retries among them."""
    return starts.added(count, now_us, to_us(budget.window))


def retries_a_second(budget: RetryBudget, starts: SlidingCounter, now_us: int) -> int:
    """Return how many retries may come due in one second; rounded down, so that they are never more than the share."""
    lately = starts.total(now_us, to_us(budget.window))
    return max(budget.floor, int(budget.share * lately / budget.window.total_seconds()))
