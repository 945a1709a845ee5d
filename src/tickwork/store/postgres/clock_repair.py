"""Detect and repair steps of PostgreSQL's clock (see `Store.check_clock`). The SQL is in sql/clock_repair.sql.

The last reading is a row, so any process notices a step, also after a restart or a failover to a server whose clock is
behind. The row is written when it is old, not at every check, which would serialize all processes on it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from tickwork.core.ids import first_id
from tickwork.store.base import CLOCK_STEP
from tickwork.store.postgres.connection.session import Session
from tickwork.store.postgres.connection.verb_pool import VerbPool
from tickwork.store.postgres.connection.wake_notify import WakeNotifier
from tickwork.store.postgres.rows import utc
from tickwork.store.rows.instants import duration_us

T = TypeVar("T")
_OLD = timedelta(seconds=5)
_REPAIRS = (
    "rewind_schedules",
    "forget_idle_fires",
    "rewind_limit_states",
    "rewind_queue",
    "rewind_leases",
    "rewind_keys",
    "rewind_steps",
    "rewind_operations",
    "rewind_notifications",
    "rewind_rollups",
    "rewind_logins",
)


class PostgresClock:
    """A part of PostgresStore. It needs from the rest the transactions, and a way to wake workers."""

    _notifier: WakeNotifier

    def _perform(self, work: Callable[[Session], T], *, pool: VerbPool | None = None, single: bool = True) -> T:
        raise NotImplementedError

    def check_clock(self) -> timedelta | None:
        """Compare the last recorded reading with the clock, and repair a step back; otherwise renew an old reading."""
        ((now, reading),) = self._perform(lambda session: session.run("read_clock"))
        if reading is not None and reading > now + CLOCK_STEP:
            back = self._perform(_repair, single=False)
            self._notifier.call()
            return back
        if reading is None or reading < now - _OLD:
            self._perform(lambda session: session.run("record_reading"))
        return None

    def record_clock_step(self, by: timedelta) -> None:
        self._perform(lambda session: session.run("record_step", step_us=duration_us(by)))


def _repair(session: Session) -> timedelta | None:
    """Move back the times that were stored in the time that the clock has repeated; None if another process did."""
    rows = session.run("take_step_back", noticed_us=duration_us(CLOCK_STEP))
    if not rows:
        return None
    ((at, reading),) = rows
    values = {"at": at, "reading": reading, "back": reading - at, "created": first_id(utc(at))}
    for statement in _REPAIRS:
        session.run(statement, **values)
    return utc(reading) - utc(at)
