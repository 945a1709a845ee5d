"""Requests that enqueue at the same time share a commit: what comes in while one runs goes with the next.

Nobody waits for company. The first to come stores its job at once; those that come meanwhile are stored together by one
of them, so the more come, the fewer commits each of them costs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tickwork import errors
from tickwork.client import Job
from tickwork.core.ids import JobId
from tickwork.core.job import NewJob
from tickwork.errors import TickworkError

MOST = 500  # jobs in one commit


class _Waiting:
    """A job that is to be stored, and what became of it. `called`: it is, or its thread is to store what waits."""

    __slots__ = ("called", "error", "id", "is_done", "job")

    def __init__(self, job: NewJob) -> None:
        self.job = job
        self.id: JobId | None = None
        self.error: TickworkError | None = None
        self.is_done = False
        self.called = threading.Event()


class Gathering:
    """Stores jobs of many threads, those of each moment in one transaction."""

    def __init__(self, enqueue: Callable[[list[NewJob]], list[Job]]) -> None:
        self._enqueue = enqueue
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._is_led = False

    def insert(self, job: NewJob) -> JobId:
        """Store a job; return the one that stands for it now, when it is durable. Raises what the store raised."""
        mine = _Waiting(job)
        with self._lock:
            self._waiting.append(mine)
            leads, self._is_led = not self._is_led, True
        if not leads:
            mine.called.wait()
        if not mine.is_done:
            self._lead()
        if mine.error is not None:
            raise mine.error
        errors.check(mine.id is not None, f"Job {job.id} was stored, and nobody knows as what.")
        return mine.id or job.id

    def _lead(self) -> None:
        """Store what waits, the oldest first; then the next who waits does, if anybody is left."""
        with self._lock:
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
        try:
            self._store_together(batch)
        finally:
            for one in batch:
                one.is_done = True
                one.called.set()
            with self._lock:
                self._is_led = bool(self._waiting)
                if self._waiting:
                    self._waiting[0].called.set()

    def _store_together(self, batch: list[_Waiting]) -> None:
        """Store all of them, or each by itself where that is refused: one that cannot be is nobody else's fault."""
        try:
            for one, job in zip(batch, self._enqueue([one.job for one in batch]), strict=True):
                one.id = job.id
        except TickworkError as error:
            if len(batch) == 1:
                batch[0].error = error
                return
            for one in batch:
                self._store_together([one])
