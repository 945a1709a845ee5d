"""The built-in task `@sleep`, which waits for a given time, for dags that replay recorded workflow traces."""

from __future__ import annotations

import asyncio

from tickwork.errors import InvalidOption, WorkerError
from tickwork.registry import AppRegistry

NAME = "@sleep"


def add_sleep(app: AppRegistry) -> None:
    """Add the task to an app. Raises WorkerError if the app has a task of that name."""
    try:
        app.task(name=NAME)(sleep)
    except InvalidOption as error:
        raise WorkerError(f"--allow-shell brings a task named {NAME!r}, but {error}") from None


async def sleep(seconds: float) -> None:
    """Wait for some seconds; takes a slot but no thread."""
    await asyncio.sleep(seconds)  # noqa: TID251  waiting is the purpose of this task
