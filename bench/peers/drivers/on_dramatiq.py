"""Dramatiq on Redis, with default options."""

from __future__ import annotations

import os
import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from handler import stamp

dramatiq.set_broker(RedisBroker(url=os.environ["PEERS_URL"]))
stamped = dramatiq.actor(stamp)


class Producer:
    async def enqueue(self, number: int) -> None:
        stamped.send(number)

    async def enqueue_at(self, number: int, at_s: float) -> None:
        stamped.send_with_options(args=(number,), delay=round((at_s - time.time()) * 1000))


async def start() -> Producer:
    """Connected at the first job."""
    return Producer()
