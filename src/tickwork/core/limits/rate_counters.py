"""Counters of rates, each small enough to store in a row: GCRA and sliding windows.

*GCRA* (generic cell rate algorithm) is a rate limit with a burst, kept in one number. The *arrival* is the instant at
which the next start would be due if all starts came evenly. A start may come up to `burst` intervals ahead of it, and
moves it on by one interval for each unit of weight. For starts at s1 <= s2 <= ..., the k-th is therefore no earlier
than `s1 + (k - 1 - burst) * interval`: in any stretch of n intervals there are at most n + burst starts, whatever
happened before.

A *sliding-window counter* tells how often an event happened recently.
"""

from __future__ import annotations

import msgspec


def settled(arrival_us: int, interval_us: int, burst: int, now_us: int) -> int:
    """Return the arrival, reduced to the latest value that it can have right after a full burst.

    It exceeds that value only after the rate was raised or the clock was set back, and jobs must not wait for the old
    rate then.
    """
    return min(arrival_us, now_us + (burst + 1) * interval_us)


def opens_at_us(arrival_us: int, weight: int, interval_us: int, burst: int) -> int:
    """Return the first instant at which `weight` units may start. `weight` is at most burst + 1."""
    return arrival_us + (weight - 1 - burst) * interval_us


def arrival_after(arrival_us: int, weight: int, interval_us: int, now_us: int) -> int:
    """Return the arrival after `weight` units have started. Time in which nothing started is not saved up."""
    return max(arrival_us, now_us) + weight * interval_us


def room(arrival_us: int, interval_us: int, burst: int, now_us: int) -> int:
    """Return how many units may start now."""
    ahead_us = max(arrival_us, now_us) - now_us
    return max(0, (burst * interval_us - ahead_us) // interval_us + 1)


STRETCHES = 10


class SlidingCounter(msgspec.Struct, frozen=True, array_like=True):
    """Counts of events in the last ten sections of time; `counts[0]` is section `newest`, `counts[1]` the one before.

    A total covers the section that has just begun and the nine before it: more than nine tenths of the window, and
    never more than all of it.
    """

    newest: int = 0
    counts: tuple[int, ...] = ()

    def added(self, count: int, now_us: int, window_us: int) -> SlidingCounter:
        """Return the counter with `count` more events at an instant."""
        tally = self._at(now_us, window_us)
        first, *rest = tally.counts or (0,)
        while rest and not rest[-1]:
            rest.pop()
        return SlidingCounter(tally.newest, (first + count, *rest))

    def total(self, now_us: int, window_us: int) -> int:
        """Return the number of events in the window that ends now."""
        return sum(self._at(now_us, window_us).counts)

    def _at(self, now_us: int, window_us: int) -> SlidingCounter:
        """Return the counter moved to an instant.

        An instant slightly before the newest section counts in that section; an instant long before it means that the
        clock was set back, and the counter starts again from 0.
        """
        stretch = now_us * STRETCHES // window_us
        if stretch < self.newest - STRETCHES:
            return SlidingCounter(stretch)
        newest = max(stretch, self.newest)
        empty = min(newest - self.newest, STRETCHES)
        return SlidingCounter(newest, ((0,) * empty + self.counts)[:STRETCHES])
