"""Testing helpers: a clock that moves only when a test advances it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class VirtualClock:
    """A clock for tests and the simulator.

    `advance` moves time; `step` sets the wall clock, as an operator might do.
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._steady = 0
        self._wall = (start - _EPOCH) // _MICROSECOND

    def advance(self, duration: timedelta) -> None:
        """Move time forward."""
        moved = duration // _MICROSECOND
        self._steady += moved
        self._wall += moved

    def step(self, by: timedelta) -> None:
        """Set the wall clock forward or back, without moving time."""
        self._wall += by // _MICROSECOND

    def now(self) -> datetime:
        """Return the time of the wall clock."""
        return _EPOCH + timedelta(microseconds=self._wall)

    def wall_us(self) -> int:
        return self._wall

    def steady_us(self) -> int:
        return self._steady

    def boot_id(self) -> str:
        return "virtual"

    def monotonic(self) -> float:
        return self._steady / 1e6
