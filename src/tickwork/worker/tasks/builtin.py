"""The built-in tasks that every worker has: what they do needs no permission of its own."""

from __future__ import annotations

from tickwork.core.stats.canary import NAME as CANARY
from tickwork.task import TaskRegistry
from tickwork.worker.tasks import canary, http, smtp

NAMES = (http.NAME, smtp.NAME, CANARY)


def add_builtin(app: TaskRegistry) -> None:
    """Give an app these tasks, but for names that it has itself."""
    http.add_http(app)
    smtp.add_smtp(app)
    canary.add_canary(app)
