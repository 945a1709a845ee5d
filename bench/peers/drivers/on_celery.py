"""Celery on Redis: prefetch of 128, nothing remote, no results."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from celery import Celery
from handler import stamp

app = Celery(broker=os.environ["PEERS_URL"])
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=128,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
)
stamped = app.task(name="stamp")(stamp)


class Producer:
    async def enqueue(self, number: int) -> None:
        stamped.delay(number)

    async def enqueue_at(self, number: int, at_s: float) -> None:
        stamped.apply_async((number,), eta=datetime.fromtimestamp(at_s, UTC))


async def start() -> Producer:
    """Connected at the first job."""
    return Producer()
