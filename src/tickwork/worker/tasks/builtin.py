"""Add the built-in tasks that every worker has, because they need no special permission."""

from __future__ import annotations

from tickwork.core.stats.canary import NAME as CANARY
from tickwork.registry import AppRegistry
from tickwork.worker.tasks import canary, http, smtp

NAMES = (http.NAME, smtp.NAME, CANARY)


def add_builtin(app: AppRegistry) -> None:
    """Add the built-in tasks to an app, except those whose names the app already uses."""
    http.add_http(app)
    smtp.add_smtp(app)
    canary.add_canary(app)
