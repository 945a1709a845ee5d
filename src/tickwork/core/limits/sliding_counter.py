"""How often something happened lately: counts by stretches of time, small enough for a row."""

from __future__ import annotations

import msgspec

STRETCHES = 10


class SlidingCounter(msgspec.Struct, frozen=True, array_like=True):
    """Counts of the last ten stretches; `counts[0]` belongs to the stretch `newest`, the next to the one before it.

    A total covers the stretch that has just begun and the nine before it: more than nine tenths of the window, and
    never more than all of it.
    """

    newest: int = 0
    counts: tuple[int, ...] = ()

    def added(self, count: int, now_us: int, window_us: int) -> SlidingCounter:
        """Return the tally with `count` more at an instant."""
        tally = self._at(now_us, window_us)
        first, *rest = tally.counts or (0,)
        while rest and not rest[-1]:
            rest.pop()
        return SlidingCounter(tally.newest, (first + count, *rest))

    def total(self, now_us: int, window_us: int) -> int:
        """Return how often it happened in the window that ends now."""
        return sum(self._at(now_us, window_us).counts)

    def _at(self, now_us: int, window_us: int) -> SlidingCounter:
        """Return the tally as it stands at an instant.

        One a little before the newest stretch counts in that; one long before it means that the clock was set back.
        """
        stretch = now_us * STRETCHES // window_us
        if stretch < self.newest - STRETCHES:
            return SlidingCounter(stretch)
        newest = max(stretch, self.newest)
        empty = min(newest - self.newest, STRETCHES)
        return SlidingCounter(newest, ((0,) * empty + self.counts)[:STRETCHES])
