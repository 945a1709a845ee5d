"""The canary: a scheduled task that does nothing, whose delay measures how soon due work starts.

A canary that still waits is measured too: while nothing starts, the delay grows.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from tickwork.core.job import JobView

NAME = "@canary"  # the name of the task, and of its schedule


def delay(newest: JobView, now: datetime) -> timedelta:
    """Return how late the newest canary started, or how long it has been waiting to start."""
    due = newest.run_at if newest.occurrence is None else newest.occurrence.scheduled_for
    began = newest.started_at if newest.started_at is not None else now
    return max(began - due, timedelta(0))
