"""The built-in task `@canary`, which does nothing but measure the delay until a job starts. Every worker has it."""

from __future__ import annotations

from tickwork.context import current_job
from tickwork.core.stats.canary import NAME
from tickwork.registry import AppRegistry


def add_canary(app: AppRegistry) -> None:
    """Add the task to an app."""
    if NAME not in app.tasks:
        app.task(name=NAME, retries=0)(canary)


async def canary() -> float:
    """Return the seconds between the time when the job was due and its start."""
    return round(current_job().late_by.total_seconds(), 6)
