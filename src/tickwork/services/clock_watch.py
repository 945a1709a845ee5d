"""Clock step detection: notices when the store's clock steps, so that nothing waits for a time that was taken back.

The store itself repairs a step back, in the check that finds it. A step forward needs no repair: occurrences and jobs
that became due are handled late. The step is recorded at once, so that every process notices when the clock is set
back again, and `tickwork doctor` can report it.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from tickwork.clock import Clock
from tickwork.core.text.duration import format_duration
from tickwork.store.base import CLOCK_STEP, Store

_log = logging.getLogger("tickwork.services")
# how often the clock is compared with its last reading in the store, and that reading is renewed
CHECK = timedelta(seconds=10)


class ClockWatch:
    """Compares the store's clock with the time elapsed in this process, and with the last reading in the store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._last: tuple[datetime, int] | None = None
        self._check_us = 0

    def asking(self) -> int:
        """Return the monotonic time just before the store's clock is read, to pass to `saw`."""
        return self._clock.steady_us()

    def saw(self, now: datetime, asked_us: int) -> bool:
        """Check a reading of the store's clock; return True if it stepped back and earlier readings are out of date."""
        ahead = self._ahead(now)
        self._last = now, asked_us
        if ahead > CLOCK_STEP:
            self._store.record_clock_step(ahead)
            _log.warning(
                "The database's clock went forward by %s. What became due by that is caught up with.",
                format_duration(ahead),
            )
        elif ahead < -CLOCK_STEP or asked_us >= self._check_us:
            self._check_us = asked_us + CHECK // timedelta(microseconds=1)
            return self._check()
        return False

    def _ahead(self, now: datetime) -> timedelta:
        """Return how much further the store's clock moved since the last reading than this process's clock."""
        if self._last is None:
            return timedelta(0)
        last, asked_us = self._last
        return now - last - timedelta(microseconds=self._clock.steady_us() - asked_us)

    def _check(self) -> bool:
        """Let the store check its clock and repair a step back; return whether there was one."""
        back = self._store.check_clock()
        if back is None:
            return False
        _log.warning(
            "The database's clock went back by %s. Schedules, retries and leases go on by its new time.",
            format_duration(back),
        )
        return True
