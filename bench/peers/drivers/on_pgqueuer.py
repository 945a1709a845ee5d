"""PgQueuer: the asyncpg driver, async handlers."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
from handler import stamp
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

STAMP = "stamp"


class Producer:
    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    async def enqueue(self, number: int) -> None:
        await self._queries.enqueue(STAMP, b"%d" % number)

    async def enqueue_many(self, numbers: list[int]) -> None:
        payloads: list[bytes | None] = [b"%d" % number for number in numbers]
        await self._queries.enqueue([STAMP] * len(numbers), payloads, [0] * len(numbers))

    async def enqueue_at(self, number: int, at_s: float) -> None:
        await self._queries.enqueue(STAMP, b"%d" % number, execute_after=timedelta(seconds=at_s - time.time()))


async def start() -> Producer:
    """Connect, and create the tables."""
    queries = Queries(await _driver())
    await queries.install()
    return Producer(queries)


@asynccontextmanager
async def main() -> AsyncIterator[PgQueuer]:
    """The entry point for `pgq run`."""
    worker = PgQueuer(await _driver())

    @worker.entrypoint(STAMP)
    async def stamped(job: Job) -> None:
        stamp(int(job.payload or b""))

    yield worker


async def _driver() -> AsyncpgDriver:
    return AsyncpgDriver(await asyncpg.connect(os.environ["PEERS_URL"]))
