"""Counts what happened to jobs into figures, from which charts and metrics are read.

Nobody leads: what was counted is added in the transaction that moves the marks, from where they were looked at, so each
row counts once, however many count at the same time. While there is much to count, a page follows the other after some
rest, so that work comes first.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from tickwork.clock import Clock
from tickwork.core.figures import fold
from tickwork.store.base import Store

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
        page = self._store.count_figures(marks, PAGE)
        if page.counted:
            wait = timedelta(0) if page.is_full else timedelta(seconds=INTERVAL_S)
            moved = msgspec.structs.replace(page.marks, look_at=instant + wait)
            self._store.add_figures(moved, fold(page.counted, instant))
        return (self._clock.monotonic() - now) * REST if page.is_full else INTERVAL_S
