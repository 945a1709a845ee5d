"""The only file that asks what time it is.

Stored times are the store's: PostgreSQL's own clock, or for SQLite an anchor in the file plus the time that went by
since on a clock that never steps. What a process waits for, it measures on its monotonic clock.
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Protocol

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # counts suspended time, where the system can


class Clock(Protocol):
    """What the time is, in the three senses that a scheduler needs."""

    def wall_us(self) -> int:
        """Microseconds since the epoch by the host's clock. It may step in either direction."""

    def steady_us(self) -> int:
        """Microseconds on a clock that never steps and is the same for all processes of one boot."""

    def boot_id(self) -> str:
        """Names the boot that `steady_us` counts in."""

    def monotonic(self) -> float:
        """Seconds, for measuring waits within this process."""


class SystemClock:
    """The clocks of this machine."""

    def wall_us(self) -> int:
        return time.time_ns() // 1000

    def steady_us(self) -> int:
        return time.clock_gettime_ns(_STEADY) // 1000

    def boot_id(self) -> str:
        return _boot_id()

    def monotonic(self) -> float:
        return time.monotonic()


@cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # not Linux: a boot is known by when it began, to the minute
        return f"boot-{(time.time_ns() - time.clock_gettime_ns(_STEADY)) // 60_000_000_000}"
