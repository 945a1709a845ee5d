"""Detect and repair steps of PostgreSQL's clock (see `Store.check_clock`). The SQL is in sql/clock_repair.sql.

The last reading is a row, so any process notices a step, also after a restart or a failover to a server whose clock is
behind. The row is written when it is old, not at every check, which would serialize all processes on it.
"""

from __future__ import annotations

from datetime import timedelta

from tickwork.core.ids import first_id
from tickwork.store.base import CLOCK_STEP
from tickwork.store.postgres.connection.session import Session, utc
from tickwork.store.postgres.transactions import PostgresTransactions
from tickwork.store.rows.instants import duration_us

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


def check_clock(transactions: PostgresTransactions) -> timedelta | None:
    """Compare the last recorded reading with the clock, and repair a step back; otherwise renew an old reading."""
    ((now, reading),) = transactions.run("read_clock")
    if reading is not None and reading > now + CLOCK_STEP:
        back = transactions.perform(_repair, single=False)
        transactions.notifier.call()
        return back
    if reading is None or reading < now - _OLD:
        transactions.run("record_reading")
    return None


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
