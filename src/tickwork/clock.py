"""System clocks. This is the only file that reads the time.

Stored times come from the clock of the store: PostgreSQL's own clock, or for SQLite an anchor in the file plus the
time since then on a clock that never steps. A process measures its own waits on its monotonic clock.
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Protocol

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # counts time in suspend, where the system supports it


class Clock(Protocol):
    """The clocks that a scheduler needs: wall time, steady time across processes, and monotonic time."""

    def wall_us(self) -> int:
        """Return microseconds since the epoch by the host's clock. It may step in either direction."""

    def steady_us(self) -> int:
        """Return microseconds on a clock that never steps and is the same for all processes of one boot."""

    def boot_id(self) -> str:
        """Return an identifier of the boot in which `steady_us` counts."""

    def monotonic(self) -> float:
        """Return seconds, for measuring waits within this process."""


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
    except OSError:  # not Linux: a boot is identified by its start, to the minute
        return f"boot-{(time.time_ns() - time.clock_gettime_ns(_STEADY)) // 60_000_000_000}"
