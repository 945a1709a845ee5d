"""Tickwork, with shipped defaults; its worker loads the same bench/tasks.py."""

from __future__ import annotations

import os
import time
from datetime import timedelta

from bench.tasks import make_app

app = make_app(os.environ["PEERS_URL"], upgrade=True)
stamped = app.tasks["stamp"]


class Producer:
    async def enqueue(self, number: int) -> None:
        stamped.enqueue(number)

    async def enqueue_many(self, numbers: list[int]) -> None:
        stamped.enqueue_many([(number,) for number in numbers])

    async def enqueue_at(self, number: int, at_s: float) -> None:
        stamped.options(delay=timedelta(seconds=at_s - time.time())).enqueue(number)


async def start() -> Producer:
    """Connect, and create the tables."""
    app.store.upgrade()
    return Producer()
