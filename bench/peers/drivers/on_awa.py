"""Awa: its queue storage, async handlers, 256 slots. `python -m on_awa` is a worker."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import awa
from handler import stamp

QUEUE = "default"
SLOTS = 256
URL = os.environ["PEERS_URL"]


@dataclass
class Stamp:
    number: int


class Producer:
    def __init__(self, client: awa.AsyncClient) -> None:
        self._client = client

    async def enqueue(self, number: int) -> None:
        await self._client.insert(Stamp(number), queue=QUEUE)

    async def enqueue_many(self, numbers: list[int]) -> None:
        await self._client.enqueue_many_copy([Stamp(number) for number in numbers], queue=QUEUE)

    async def enqueue_at(self, number: int, at_s: float) -> None:
        await self._client.insert(Stamp(number), queue=QUEUE, run_at=datetime.fromtimestamp(at_s, UTC))


async def start() -> Producer:
    """Connect, and create the tables."""
    client = awa.AsyncClient(URL)
    await client.migrate()
    await client.install_queue_storage()
    return Producer(client)


async def work() -> None:
    """Run until the process is stopped."""
    client = awa.AsyncClient(URL)

    @client.task(Stamp, queue=QUEUE)
    async def stamped(job: Any) -> None:
        stamp(job.args.number)

    await client.start([(QUEUE, SLOTS)])
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(work())
