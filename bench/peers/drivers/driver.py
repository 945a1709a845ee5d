"""Enqueue jobs of a peer on request and time the calls; runs in the peer's environment: `python driver.py MODULE`.

MODULE, in this folder, implements the peer; the loops and the clock are here, so that all peers are timed in the same
way. Its `start` connects and returns a producer with `enqueue` and, if the peer supports them, `enqueue_many` and
`enqueue_at`. All of them are async: awaiting a call that never suspends costs a blocking peer nothing.

Each line of stdin is a request as JSON, and is answered with one line on stdout. The first line of stdout lists the
capabilities of the peer. The process ends at the end of stdin.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any


class Driver:
    """Carries out requests with a producer, and times them."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    async def enqueue(self, first: int, count: int) -> dict[str, Any]:
        """Enqueue with one call per job."""
        began = time.perf_counter()
        for number in range(first, first + count):
            await self._producer.enqueue(number)
        return {"seconds": time.perf_counter() - began}

    async def enqueue_many(self, first: int, count: int, batch: int) -> dict[str, Any]:
        """Enqueue with one call per batch."""
        numbers = range(first, first + count)
        began = time.perf_counter()
        for start in range(0, count, batch):
            await self._producer.enqueue_many(list(numbers[start : start + batch]))
        return {"seconds": time.perf_counter() - began}

    async def pace(self, count: int, per_s: float) -> dict[str, Any]:
        """Enqueue jobs evenly spaced in time; return when each call began."""
        began, at_ns = time.monotonic(), []
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / per_s - time.monotonic()))
            at_ns.append(time.time_ns())
            await self._producer.enqueue(number)
        return {"at_ns": at_ns}

    async def timers(self, count: int, lead_s: float, over_s: float) -> dict[str, Any]:
        """Set timers spread over `over_s` seconds, the first after `lead_s`; return when each is due."""
        first = time.time() + lead_s
        due_s = [first + number * over_s / count for number in range(count)]
        for number, at_s in enumerate(due_s):
            await self._producer.enqueue_at(number, at_s)
        if time.time() > first:
            raise TimeoutError(f"the timers were not all set within {lead_s} s, before the first was due")
        return {"at_ns": [round(at_s * 1e9) for at_s in due_s]}

    async def answer(self, line: str) -> dict[str, Any]:
        """Carry out the request of a line; errors are returned as a response."""
        asked = json.loads(line)
        able: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {
            "enqueue": self.enqueue,
            "enqueue_many": self.enqueue_many,
            "pace": self.pace,
            "timers": self.timers,
        }
        try:
            return await able[asked.pop("do")](**asked)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}


async def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of a peer must not be mixed with responses
    producer = await importlib.import_module(sys.argv[1]).start()
    driver = Driver(producer)
    said: dict[str, Any] = {"bulk": hasattr(producer, "enqueue_many"), "timers": hasattr(producer, "enqueue_at")}
    while True:
        print(json.dumps(said), file=answers, flush=True)
        line = await asyncio.to_thread(sys.stdin.readline)
        if not line:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)  # without waiting for threads and pools of the peer
        said = await driver.answer(line)


if __name__ == "__main__":
    asyncio.run(main())
