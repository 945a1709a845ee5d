"""The built-in task `@canary`: does nothing, so that what is measured is the way to it. Every worker has it."""

from __future__ import annotations

from tickwork.context import current_job
from tickwork.core.stats.canary import NAME
from tickwork.task import TaskRegistry


def add_canary(app: TaskRegistry) -> None:
    """Give an app the task."""
    if NAME not in app.tasks:
        app.task(name=NAME, retries=0)(canary)


async def canary() -> float:
    """Say how many seconds late it is."""
    return round(current_job().late_by.total_seconds(), 6)
