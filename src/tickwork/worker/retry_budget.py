"""Lines up the retries of each queue, so that they come due no faster than the queue's budget allows.

A worker knows what it started and what failed of it, so it keeps the budget by itself: nothing is read or written for
it. When an attempt fails, its retry takes a place in the second in which it would be due, and waits as it would without
a budget; or where that second is full, in the first one after it that has a place left. So a retry with a long wait is
not in the way of those with short ones.

What is lined up is known to this worker alone. When it is lost, so is the line: the jobs have their times, and those of
other workers are lined up beside them.
"""

from __future__ import annotations

from datetime import timedelta
from random import Random

from tickwork.core.limits.retry_budget import RetryBudget, retries_a_second, started
from tickwork.core.limits.sliding_counter import SlidingCounter

_SECOND_US = 1_000_000
LONGEST_S = 3600  # nothing is put off by more; it is also the longest wait of a retry unless a task says otherwise
BUDGET = RetryBudget()


class QueueRetryBudgets:
    """The lines of all queues that a worker serves. Times are its monotonic clock's."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._lines: dict[str, _QueueBudget] = {}

    def started(self, queue: str, count: int, now: float) -> None:
        """Jobs of a queue have started."""
        line = self._line(queue)
        line.starts = started(BUDGET, line.starts, count, round(now * 1e6))

    def delay(self, queue: str, wanted: timedelta, now: float) -> timedelta:
        """Return how long a retry waits that would be due after `wanted`; what is far off waits as it wants to."""
        if wanted.total_seconds() > LONGEST_S:
            return wanted
        now_us = round(now * 1e6)
        due_us = now_us + wanted // timedelta(microseconds=1)
        return wanted + timedelta(microseconds=self._line(queue).place_us(due_us, now_us, self._rng) - due_us)

    def _line(self, queue: str) -> _QueueBudget:
        line = self._lines.get(queue)
        if line is None:
            line = self._lines[queue] = _QueueBudget()
        return line


class _QueueBudget:
    """What started lately in a queue, and how many places are taken in each second to come."""

    def __init__(self) -> None:
        self.starts = SlidingCounter()
        self._taken: dict[int, int] = {}
        self._onward: dict[int, int] = {}  # from seconds that were full to where to look on
        self._cleared = 0

    def place_us(self, due_us: int, now_us: int, rng: Random) -> int:
        """Take a place at an instant or after it. When all of the longest line is taken, chance finds one in it."""
        self._clear(now_us // _SECOND_US)
        places = retries_a_second(BUDGET, self.starts, now_us)
        wanted = due_us // _SECOND_US
        second = self._first_with_room(wanted, places)
        if second - wanted > LONGEST_S:
            return due_us + rng.randrange(LONGEST_S * _SECOND_US)
        taken = self._taken.get(second, 0)
        self._taken[second] = taken + 1
        return due_us if second == wanted else second * _SECOND_US + taken * _SECOND_US // places

    def _first_with_room(self, second: int, places: int) -> int:
        full = []
        while second in self._onward or self._taken.get(second, 0) >= places:
            full.append(second)
            second = self._onward.get(second, second + 1)
        for one in full:
            self._onward[one] = second
        return second

    def _clear(self, now_s: int) -> None:
        """Forget the seconds that have passed."""
        if now_s == self._cleared:
            return
        self._cleared = now_s
        for seconds in (self._taken, self._onward):
            for past in [second for second in seconds if second < now_s]:
                del seconds[past]
