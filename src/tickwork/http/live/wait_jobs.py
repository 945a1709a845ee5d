"""Wait for jobs to end: one query at a time serves all waiting requests, and no request holds a thread."""

from __future__ import annotations

import asyncio
from collections import Counter

from starlette.concurrency import run_in_threadpool

from tickwork.core.ids import JobId
from tickwork.store.base import Store

LOOK_S = 0.1


async def stops(stopping: asyncio.Event, within_s: float) -> bool:
    """Wait up to `within_s` seconds; return whether the server is stopping."""
    try:
        async with asyncio.timeout(within_s):
            await stopping.wait()
    except TimeoutError:
        return False
    return True


class JobWaits:
    """Polls for the end of all jobs that requests wait for, ten times a second while there are any."""

    def __init__(self) -> None:
        self._waited: Counter[JobId] = Counter()
        self._ended: set[JobId] = set()
        self._task: asyncio.Task[None] | None = None

    async def ended(self, store: Store, job_id: JobId, wait_s: float, stopping: asyncio.Event) -> bool:
        """Wait for a job to end, up to `wait_s` seconds or until the server stops; return whether it has ended."""
        self._waited[job_id] += 1
        try:
            async with asyncio.timeout(wait_s):
                while not stopping.is_set():
                    if self._task is None or self._task.done():
                        self._task = asyncio.create_task(self._look(store, stopping))
                    await asyncio.shield(self._task)
                    if job_id in self._ended:
                        return True
        except TimeoutError:
            return False
        finally:
            self._waited -= Counter((job_id,))
        return False

    async def _look(self, store: Store, stopping: asyncio.Event) -> None:
        """Wait LOOK_S, then read which of the jobs that requests wait for have ended."""
        await stops(stopping, LOOK_S)
        self._ended = await run_in_threadpool(store.reads.ended_among, list(self._waited))
