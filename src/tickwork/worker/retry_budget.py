"""Delay the retries of each queue, so that they come due no faster than the queue's retry budget allows.

A worker knows which jobs it started and which failed, so it keeps the budget in memory, without reading or writing the
store. When an attempt fails, its retry is counted in the second in which it would be due, and keeps its normal delay.
If that second is full, the retry moves to the first later second with capacity. So a retry with a long delay does not
postpone retries with short ones.

Only this worker knows its counts. They are lost with it, but the jobs keep their stored times. Each worker schedules
its retries independently of the others.

Retries of a queue come due at an even pace: a share of the recent rate of starts in it. Retries above that are delayed,
neither charged nor lost. The pace follows the load, so a busy queue recovers quickly, and it never falls below the
floor. The window is long, so that a burst of failures raises the pace of its own retries only a little. Only shares are
counted: if each worker keeps a budget of its own starts, the shares add up to the same.
"""

from __future__ import annotations

from datetime import timedelta
from random import Random

import msgspec

from tickwork.core.job import AttemptState
from tickwork.core.limits.rate_counters import SlidingCounter
from tickwork.core.option_parsing import read_span, read_whole
from tickwork.core.outcome import Transition
from tickwork.errors import InvalidOption

_SECOND_US = 1_000_000
_MICROSECOND = timedelta(microseconds=1)
LONGEST_S = 3600  # the longest postponement; also the default cap of the retry delay


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

    def started(self, starts: SlidingCounter, count: int, now_us: int) -> SlidingCounter:
        """Return the counter after `count` jobs have started, retries included."""
        return starts.added(count, now_us, self.window // _MICROSECOND)

    def retries_a_second(self, starts: SlidingCounter, now_us: int) -> int:
        """Return how many retries may come due per second, rounded down so that the share is never exceeded."""
        lately = starts.total(now_us, self.window // _MICROSECOND)
        return max(self.floor, int(self.share * lately / self.window.total_seconds()))


BUDGET = RetryBudget()
_FAILURES = frozenset({AttemptState.FAILED, AttemptState.TIMED_OUT})


class QueueRetryBudgets:
    """The retry budgets of all queues that a worker serves, on the worker's monotonic clock."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._lines: dict[str, _QueueBudget] = {}

    def started(self, queue: str, count: int, now: float) -> None:
        """Count jobs of a queue that have started; the budget is a share of the starts."""
        line = self._line(queue)
        line.starts = BUDGET.started(line.starts, count, round(now * 1e6))

    def postponed(self, queue: str, transition: Transition, now: float) -> Transition:
        """Return the transition of an attempt; if it is a retry after a failure, delayed by the budget of its queue."""
        if transition.delay is None or transition.attempt not in _FAILURES:
            return transition
        return msgspec.structs.replace(transition, delay=self.delay(queue, transition.delay, now))

    def delay(self, queue: str, wanted: timedelta, now: float) -> timedelta:
        """Return the delay of a retry whose normal delay is `wanted`, and count it in the budget.

        A delay of more than `LONGEST_S` seconds is returned unchanged and not counted.
        """
        if wanted.total_seconds() > LONGEST_S:
            return wanted
        now_us = round(now * 1e6)
        due_us = now_us + wanted // _MICROSECOND
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
        places = BUDGET.retries_a_second(self.starts, now_us)
        wanted = due_us // _SECOND_US
        second = self._first_with_room(wanted, places)
        if second - wanted > LONGEST_S:
            return due_us + rng.randrange(LONGEST_S * _SECOND_US)
        taken = self._taken.get(second, 0)
        self._taken[second] = taken + 1
        return due_us if second == wanted else second * _SECOND_US + taken * _SECOND_US // places

    def _first_with_room(self, second: int, places: int) -> int:
        """Return the first second with capacity, from `second` on; remember the result for full seconds before."""
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
