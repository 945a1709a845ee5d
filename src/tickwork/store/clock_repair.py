"""The verbs that repair a step of the store's clock. SQLite's never goes back; PostgreSQL's is that of its server."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

NOTICED = timedelta(seconds=5)  # smaller steps delay nothing by more than that


class ClockVerbs(Protocol):
    """The verbs that watch the store's clock."""

    def check_clock(self) -> timedelta | None:
        """Compare the clock with its last recorded reading. Return by how much it went back, None if it did not.

        If it did, what waits for the time of the jump is brought back with it. Schedules are looked at anew, and an
        instant that started work does not start it again. Leases, retries, rates and keys that count from the time of
        the jump are shortened by its size. An instant that a caller named stays. None also if another process did it.
        """

    def record_clock_step(self, by: timedelta) -> None:
        """Record that the clock went forward, and its reading."""
