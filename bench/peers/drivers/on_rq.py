"""RQ on Redis, with default options."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from redis import Redis
from rq import Queue

STAMP = "handler.stamp"
queue = Queue(connection=Redis.from_url(os.environ["PEERS_URL"]))


class Producer:
    async def enqueue(self, number: int) -> None:
        queue.enqueue(STAMP, number)

    async def enqueue_many(self, numbers: list[int]) -> None:
        queue.enqueue_many([Queue.prepare_data(STAMP, (number,)) for number in numbers])

    async def enqueue_at(self, number: int, at_s: float) -> None:
        queue.enqueue_at(datetime.fromtimestamp(at_s, UTC), STAMP, number)


async def start() -> Producer:
    """Connected at the first job."""
    return Producer()
