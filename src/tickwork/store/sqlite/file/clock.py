"""The clock of a SQLite store, which never goes back: an anchor stored in the file, plus the time elapsed since.

The elapsed time is read from a monotonic clock, so setting back the host's wall clock repeats no instant and stops
nothing. When the wall clock is ahead (it was set forward, or the monotonic clock drifts) the anchor is moved forward,
in the transaction that noticed it. It never moves back; `tickwork doctor` reports when it is ahead of the host.
"""

from __future__ import annotations

from typing import Any, Protocol

from tickwork.clock import Clock

DRIFT_US = 50_000  # The wall clock may be ahead by this much before the anchor follows.
KEEP_US = 10_000_000  # The anchor is renewed this often, so that a reboot loses at most this much of it.


class RunsStatements(Protocol):
    """A connection that runs statements, which is all that the clock needs of it."""

    def run(self, sql: str, values: Any = ()) -> list[Any]: ...


class StoreClock:
    """Reads the store's time through a connection, and moves its anchor if it may write."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now_us(self, connection: RunsStatements, *, may_write: bool) -> int:
        """Return the store's time in microseconds since the epoch, within the connection's transaction."""
        rows = connection.run("SELECT wall, steady, boot FROM tickwork_clock")
        steady, boot, wall = self._clock.steady_us(), self._clock.boot_id(), self._clock.wall_us()
        anchored, at, anchor_boot = next(iter(rows), (0, 0, None))
        # The time by the anchor; None when there is none, or the host has restarted since.
        went = anchored + max(0, steady - at) if anchor_boot == boot else None
        now = max(wall, anchored) if went is None or wall - went > DRIFT_US else went
        if may_write and (now != went or now - anchored > KEEP_US):
            connection.run("REPLACE INTO tickwork_clock VALUES (1, ?, ?, ?)", (now, steady, boot))
        return now

    def monotonic(self) -> float:
        """Return the seconds of a monotonic clock, to measure durations."""
        return self._clock.monotonic()

    def ahead_us(self, connection: RunsStatements) -> int:
        """Return by how much the store's clock is ahead of the host's."""
        return self.now_us(connection, may_write=False) - self._clock.wall_us()
