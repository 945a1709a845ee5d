"""Delay the retries of each queue, so that they come due no faster than the queue's retry budget allows.

A worker knows which jobs it started and which failed, so it keeps the budget in memory, without reading or writing the
store. When an attempt fails, its retry is counted in the second in which it would be due, and keeps its normal delay.
If that second is full, the retry moves to the first later second with capacity. So a retry with a long delay does not
postpone retries with short ones.

Only this worker knows its counts. They are lost with it, but the jobs keep their stored times. Each worker schedules
its retries independently of the others.
"""

from __future__ import annotations

from datetime import timedelta
from random import Random

from tickwork.core.limits.retry_budget import RetryBudget, retries_a_second, started
from tickwork.core.limits.sliding_counter import SlidingCounter

_SECOND_US = 1_000_000
LONGEST_S = 3600  # the longest postponement; also the default cap of the retry delay
BUDGET = RetryBudget()


class QueueRetryBudgets:
    """The retry budgets of all queues that a worker serves, on its monotonic clock."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._lines: dict[str, _QueueBudget] = {}

    def started(self, queue: str, count: int, now: float) -> None:
        """Count jobs of a queue that have started; the budget is a share of the starts."""
        line = self._line(queue)
        line.starts = started(BUDGET, line.starts, count, round(now * 1e6))

    def delay(self, queue: str, wanted: timedelta, now: float) -> timedelta:
        """Return the delay of a retry whose normal delay is `wanted`, and count it in the budget.

        A delay of more than `LONGEST_S` seconds is returned unchanged and not counted.
        """
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
    """The recent starts of a queue, and the number of retries that come due in each future second."""

    def __init__(self) -> None:
        self.starts = SlidingCounter()
        self._taken: dict[int, int] = {}
        self._onward: dict[int, int] = {}  # full second -> a later second at which to continue the search
        self._cleared = 0

    def place_us(self, due_us: int, now_us: int, rng: Random) -> int:
        """Reserve capacity for a retry at `due_us` or later; return its time in microseconds.

        If no second has capacity within `LONGEST_S`, returns a random time in that range.
        """
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
        """Return the first second with capacity, from `second` on; remembers the result for the full seconds before."""
        full = []
        while second in self._onward or self._taken.get(second, 0) >= places:
            full.append(second)
            second = self._onward.get(second, second + 1)
        for one in full:
            self._onward[one] = second
        return second

    def _clear(self, now_s: int) -> None:
        """Remove the seconds that have passed."""
        if now_s == self._cleared:
            return
        self._cleared = now_s
        for seconds in (self._taken, self._onward):
            for past in [second for second in seconds if second < now_s]:
                del seconds[past]
