"""How many jobs ended in each minute of the last hour, counted a bounded number of rows at a time.

A minute that is over is counted once and remembered. A server that was just started on a busy store knows the newest
minutes first, and the others a few looks later.
"""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

from tickwork.store.base import Store

MINUTE = timedelta(minutes=1)
MINUTES = 60
ROWS = 200_000  # are counted at a look
_SETTLED = timedelta(seconds=5)  # a transaction may have been open for so long


class Throughput:
    """The counts that one process remembers, by the minute. A count of ROWS is of that many or more."""

    def __init__(self) -> None:
        self._counts: dict[datetime, int] = {}
        self._lock = threading.Lock()

    def look(self, store: Store, now: datetime) -> list[tuple[datetime, int | None]]:
        """Each minute of the last hour, the oldest first, and how many ended in it; None: not counted yet."""
        this = now.replace(second=0, microsecond=0)
        minutes = [this - MINUTE * ago for ago in range(MINUTES)]
        with self._lock:
            self._counts = {minute: count for minute, count in self._counts.items() if minute in minutes}
            found, left = dict(self._counts), ROWS
            for minute in minutes:
                if minute not in found and left > 0:
                    (found[minute],) = store.ended_counts([minute, minute + MINUTE], ROWS)
                    left -= found[minute]
                    if now >= minute + MINUTE + _SETTLED:
                        self._counts[minute] = found[minute]
        return [(minute, found.get(minute)) for minute in reversed(minutes)]
