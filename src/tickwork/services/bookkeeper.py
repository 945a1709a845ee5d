"""Counts what happened to jobs into figures, from which charts and metrics are read.

Nobody leads: what was counted is added in the transaction that moves the marks, from where they were looked at, so each
row counts once, however many count at the same time. While there is much to count, a page follows the other after some
rest, so that work comes first.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from tickwork.clock import Clock
from tickwork.core.figures import fold
from tickwork.store.base import Store
from tickwork.store.figures import FigureMarks

INTERVAL_S = 5.0
PAGE = 20_000
REST = 4  # times as long as a page took


class Bookkeeper:
    """Adds up what has happened since somebody last did. Safe to run many times at once, on many machines."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def tick(self, now: float) -> float:
        marks, instant = self._store.figure_marks(), self._store.now()
        if marks.look_at > instant:
            return INTERVAL_S
        is_full = count_on(self._store, marks, instant)
        return (self._clock.monotonic() - now) * REST if is_full else INTERVAL_S


def count_on(store: Store, marks: FigureMarks, now: datetime) -> bool:
    """Count a page from these marks on; say whether there is more to count at once. Of nothing, nothing is written."""
    page = store.count_figures(marks, PAGE)
    if page.counted:
        wait = timedelta(0) if page.is_full else timedelta(seconds=INTERVAL_S)
        store.add_figures(msgspec.structs.replace(page.marks, look_at=now + wait), fold(page.counted, now))
    return page.is_full
