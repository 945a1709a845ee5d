"""The built-in task `@sleep`: takes its time and nothing else, for dags that play back the traces of others."""

from __future__ import annotations

import asyncio

from tickwork.errors import InvalidOption, WorkerError
from tickwork.task import TaskRegistry

NAME = "@sleep"


def add_sleep(app: TaskRegistry) -> None:
    """Give an app the task. Raises WorkerError when it has another one of that name."""
    try:
        app.task(name=NAME)(sleep)
    except InvalidOption as error:
        raise WorkerError(f"--allow-shell brings a task named {NAME!r}, but {error}") from None


async def sleep(seconds: float) -> None:
    """Hold a slot for so long, and no thread."""
    await asyncio.sleep(seconds)  # noqa: TID251  waiting is what it was asked for
