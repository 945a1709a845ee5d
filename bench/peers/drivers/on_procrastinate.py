"""Procrastinate: async handlers, a pool of 10 connections."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

from handler import stamp
from procrastinate import App, PsycopgConnector

app = App(connector=PsycopgConnector(conninfo=os.environ["PEERS_URL"], max_size=10))


@app.task(name="stamp")
async def stamped(number: int) -> None:
    stamp(number)


class Producer:
    async def enqueue(self, number: int) -> None:
        await stamped.defer_async(number=number)

    async def enqueue_many(self, numbers: list[int]) -> None:
        rows: list[dict[str, Any]] = [{"number": number} for number in numbers]
        await stamped.batch_defer_async(*rows)

    async def enqueue_at(self, number: int, at_s: float) -> None:
        await stamped.configure(schedule_at=datetime.fromtimestamp(at_s, UTC)).defer_async(number=number)


async def start() -> Producer:
    """Connect, and create the tables."""
    await app.open_async()
    await app.schema_manager.apply_schema_async()
    return Producer()
