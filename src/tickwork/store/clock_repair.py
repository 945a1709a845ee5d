"""Store verbs that repair stored times after the store's clock was stepped.

SQLite's clock never goes back; PostgreSQL's is the clock of its server.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

NOTICED = timedelta(seconds=5)  # Smaller steps delay nothing by more than this.


class ClockVerbs(Protocol):
    """The verbs that watch the store's clock."""

    def check_clock(self) -> timedelta | None:
        """Compare the clock with its last recorded reading. Return by how much it went back, None if it did not.

        If it did, times that were stored during the jump are moved back with it. Schedules are evaluated again, but an
        occurrence that has fired does not fire twice. Leases, retries, rates and keys that count from the time of the
        jump are shortened by its size. An instant that a caller named is kept. None also if another process made the
        repair.
        """

    def record_clock_step(self, by: timedelta) -> None:
        """Record that the clock went forward, and its reading."""
