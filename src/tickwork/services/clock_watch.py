"""Notices when the store's clock steps, so that nothing waits for an instant that the clock has taken back.

A step back is repaired by the store itself, in the check that finds it. A step forward needs no repair, since what it
made due is caught up with. It is recorded at once: then any process notices the way back, and `tickwork doctor`
names the step.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from tickwork.clock import Clock
from tickwork.core.duration import format_duration
from tickwork.store.base import Store
from tickwork.store.clock_repair import NOTICED

_log = logging.getLogger("tickwork.services")
CHECK = timedelta(seconds=10)  # how often the reading in the store is compared and renewed


class ClockWatch:
    """Compares the store's clock with the time that went by in this process, and with its last reading in the store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._last: tuple[datetime, int] | None = None
        self._check_us = 0

    def asking(self) -> int:
        """Return the steady time just before the store is asked for its clock."""
        return self._clock.steady_us()

    def saw(self, now: datetime, asked_us: int) -> bool:
        """Judge a reading of the store's clock; True when it went back, and what was read before is out of date."""
        ahead = self._ahead(now)
        self._last = now, asked_us
        if ahead > NOTICED:
            self._store.record_clock_step(ahead)
            _log.warning(
                "The database's clock went forward by %s. What became due by that is caught up with.",
                format_duration(ahead),
            )
        elif ahead < -NOTICED or asked_us >= self._check_us:
            self._check_us = asked_us + CHECK // timedelta(microseconds=1)
            return self._check()
        return False

    def _ahead(self, now: datetime) -> timedelta:
        """Return by how much more the store's clock advanced since the last reading than time went by."""
        if self._last is None:
            return timedelta(0)
        last, asked_us = self._last
        return now - last - timedelta(microseconds=self._clock.steady_us() - asked_us)

    def _check(self) -> bool:
        back = self._store.check_clock()
        if back is None:
            return False
        _log.warning(
            "The database's clock went back by %s. Schedules, retries and leases go on by its new time.",
            format_duration(back),
        )
        return True
