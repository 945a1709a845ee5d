"""Huey on Redis or SQLite, with default options."""

from __future__ import annotations

import os
import time

from handler import stamp
from huey import RedisHuey, SqliteHuey

_url = os.environ["PEERS_URL"]
huey = RedisHuey(url=_url) if _url.startswith("redis:") else SqliteHuey(filename=_url.removeprefix("sqlite:///"))
stamped = huey.task()(stamp)


class Producer:
    async def enqueue(self, number: int) -> None:
        stamped(number)

    async def enqueue_at(self, number: int, at_s: float) -> None:
        stamped.schedule(args=(number,), delay=at_s - time.time())


async def start() -> Producer:
    """Connected at the first job."""
    return Producer()
