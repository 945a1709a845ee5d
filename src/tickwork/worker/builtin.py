"""The built-in tasks that every worker has: what they do needs no permission of its own."""

from __future__ import annotations

from tickwork.core.canary import NAME as CANARY
from tickwork.task import TaskRegistry
from tickwork.worker import canary, http_task, smtp_task

NAMES = (http_task.NAME, smtp_task.NAME, CANARY)


def add_builtin(app: TaskRegistry) -> None:
    """Give an app these tasks, but for names that it has itself."""
    http_task.add_http(app)
    smtp_task.add_smtp(app)
    canary.add_canary(app)
