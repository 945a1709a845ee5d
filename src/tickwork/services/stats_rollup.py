"""Counts what happened to jobs into figures, from which charts and metrics are read. Servers do; workers work.

Nobody leads: what was counted is added in the transaction that moves the marks, from where they were looked at, so each
row counts once, however many count at the same time. While there is much to count, nobody counts on for some times as
long as a page took: all of them together take a fifth of the time of one, and work comes first.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from tickwork.clock import Clock
from tickwork.core.stats.rollups import fold
from tickwork.store.base import Store
from tickwork.store.reads.stats import RollupMarks

INTERVAL_S = 5.0
PAGE = 20_000
REST = 4  # times as long as a page took


class StatsRollup:
    """Adds up what has happened since somebody last did. Safe to run many times at once, on many machines."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def tick(self, now: float) -> float:
        marks, instant = self._store.figure_marks(), self._store.now()
        if marks.look_at > instant:
            return INTERVAL_S
        return self.count(marks, instant)

    def count(self, marks: RollupMarks, now: datetime) -> float:
        """Count a page from these marks on; return the seconds until there is more to count."""
        began = self._clock.monotonic()
        page = self._store.count_figures(marks, PAGE)
        took_s = self._clock.monotonic() - began
        wait_s = min(took_s * REST, INTERVAL_S) if page.is_full else INTERVAL_S
        if page.counted:
            look_at = now + timedelta(seconds=took_s + wait_s)
            self._store.add_figures(msgspec.structs.replace(page.marks, look_at=look_at), fold(page.counted, now))
        return wait_s
