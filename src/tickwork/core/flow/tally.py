"""How often something happened lately: counts by stretches of time, small enough for a row."""

from __future__ import annotations

import msgspec

STRETCHES = 10


class Tally(msgspec.Struct, frozen=True, array_like=True):
    """Counts of the last ten stretches; `counts[0]` belongs to the stretch `newest`, the next to the one before it.

    A total covers the stretch that has just begun and the nine before it: more than nine tenths of the window, and
    never more than all of it.
    """

    newest: int = 0
    counts: tuple[int, ...] = ()

    def added(self, count: int, now_us: int, window_us: int) -> Tally:
        """Return the tally with `count` more at an instant; one before the newest stretch counts in that."""
        stretch = max(now_us * STRETCHES // window_us, self.newest)
        first, *rest = self._since(stretch) or (0,)
        while rest and not rest[-1]:
            rest.pop()
        return Tally(stretch, (first + count, *rest))

    def total(self, now_us: int, window_us: int) -> int:
        """Return how often it happened in the window that ends now."""
        return sum(self._since(max(now_us * STRETCHES // window_us, self.newest)))

    def _since(self, stretch: int) -> tuple[int, ...]:
        """The counts as they stand when a stretch has begun."""
        empty = min(stretch - self.newest, STRETCHES)
        return ((0,) * empty + self.counts)[:STRETCHES]
