"""The canary: a schedule of a task that does nothing, whose delay tells how soon work starts that is due.

A canary that waits is counted as well: while nothing starts, the delay grows.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from tickwork.core.job import JobView

NAME = "@canary"  # of the task, and of its schedule


def delay(newest: JobView, now: datetime) -> timedelta:
    """How much later than it was due the newest canary began, or how long it has been waiting."""
    due = newest.run_at if newest.tick is None else newest.tick.scheduled_for
    began = newest.started_at if newest.started_at is not None else now
    return max(began - due, timedelta(0))
