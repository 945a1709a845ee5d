"""Sliding-window counter: how often an event happened recently, small enough to store in a row."""

from __future__ import annotations

import msgspec

STRETCHES = 10


class SlidingCounter(msgspec.Struct, frozen=True, array_like=True):
    """Counts of the last ten sections of time; `counts[0]` belongs to section `newest`, the next to the one before.

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
        clock was set back, and the counter starts anew.
        """
        stretch = now_us * STRETCHES // window_us
        if stretch < self.newest - STRETCHES:
            return SlidingCounter(stretch)
        newest = max(stretch, self.newest)
        empty = min(newest - self.newest, STRETCHES)
        return SlidingCounter(newest, ((0,) * empty + self.counts)[:STRETCHES])
