"""The stats rollup: counts events of jobs for charts and metrics. Servers run it, workers do not.

There is no leader: counts are added in the transaction that moves the marks from where they were read, so no row is
counted twice, however many servers count at the same time. After a full page no server counts for four times as long as
the page took: all servers together use a fifth of the time of one, so that workers come first.
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
REST = 4  # times as long as the page took


class StatsRollup:
    """Counts the job events since the last count. Safe to run several times at once, on several machines."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def tick(self, now: float) -> float:
        """Count one page unless another server counted recently; return the seconds until the next count."""
        marks, instant = self._store.stats.rollup_marks(), self._store.now()
        if marks.look_at > instant:
            return INTERVAL_S
        return self.count(marks, instant)

    def count(self, marks: RollupMarks, now: datetime) -> float:
        """Count a page from these marks on; return the seconds until there is more to count."""
        began = self._clock.monotonic()
        page = self._store.stats.count_events(marks, PAGE)
        took_s = self._clock.monotonic() - began
        wait_s = min(took_s * REST, INTERVAL_S) if page.is_full else INTERVAL_S
        if page.counted:
            look_at = now + timedelta(seconds=took_s + wait_s)
            self._store.stats.add_rollups(msgspec.structs.replace(page.marks, look_at=look_at), fold(page.counted, now))
        return wait_s
