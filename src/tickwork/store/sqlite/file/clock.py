"""The clock of a SQLite store: an anchor kept in the file, plus the time that went by since.

The time that went by is read from a clock that never steps, so a host whose wall clock is set back repeats no instant
and stops nothing. When the wall clock is ahead (it was set forward, or the steady clock drifts) the anchor is moved
forward, inside the transaction that noticed it. It never moves back; `tickwork doctor` says when it is ahead of the
host.
"""

from __future__ import annotations

from typing import Any, Protocol

from tickwork.clock import Clock

DRIFT_US = 50_000  # the wall clock may be ahead by so much before the anchor follows
KEEP_US = 10_000_000  # the anchor is renewed this often, so that a reboot loses no more of it


class RunsStatements(Protocol):
    """The part of a connection that the clock needs."""

    def run(self, sql: str, values: Any = ()) -> list[Any]: ...


class StoreClock:
    """Reads the store's now through a connection, and moves its anchor where that may write."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now_us(self, connection: RunsStatements, *, may_write: bool) -> int:
        """Microseconds since the epoch by the store's clock, within the connection's transaction."""
        rows = connection.run("SELECT wall, steady, boot FROM tickwork_clock")
        steady, boot, wall = self._clock.steady_us(), self._clock.boot_id(), self._clock.wall_us()
        went = _went(rows, steady, boot)
        if went is None or wall - went > DRIFT_US:
            now = max(wall, *(int(anchored) for anchored, _, _ in rows), 0)
        else:
            now = went
        if may_write and (now != went or now - rows[0][0] > KEEP_US):
            connection.run("REPLACE INTO tickwork_clock VALUES (1, ?, ?, ?)", (now, steady, boot))
        return now

    def monotonic(self) -> float:
        """Seconds of a clock that never steps, for how long something takes."""
        return self._clock.monotonic()

    def ahead_us(self, connection: RunsStatements) -> int:
        """By how much the store's clock is ahead of the host's."""
        return self.now_us(connection, may_write=False) - self._clock.wall_us()


def _went(rows: list[tuple[int, int, str]], steady: int, boot: str) -> int | None:
    """The time by the anchor; None when there is none yet, or the steady clock began anew since (a restart)."""
    if not rows or rows[0][2] != boot:
        return None
    anchored, at, _ = rows[0]
    return anchored + max(0, steady - at)
