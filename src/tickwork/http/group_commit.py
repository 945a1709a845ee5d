"""Requests that enqueue at the same time share a commit: what comes in while one runs goes with the next.

Nobody waits for company. The first to come stores its job at once; those that come meanwhile are stored together by one
of them, so the more come, the fewer commits each of them costs.
"""

from __future__ import annotations

import threading

from tickwork.api.client import Client
from tickwork.core.job import JobView, NewJob
from tickwork.errors import JobNotFound, StoreUnreachable

MOST = 500  # jobs in one commit


class _PendingJob:
    """A job that is to be stored, and what became of it. `called`: it is, or its thread is to store what waits."""

    __slots__ = ("called", "error", "is_done", "job", "view")

    def __init__(self, job: NewJob) -> None:
        self.job = job
        self.view: JobView | None = None
        self.error: Exception | None = None
        self.is_done = False
        self.called = threading.Event()


class GroupCommit:
    """Stores jobs of many threads, those of each moment in one transaction."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._waiting: list[_PendingJob] = []
        self._is_led = False

    def insert(self, job: NewJob) -> JobView:
        """Store a job; return the one that stands for it, when that is durable. Raises what the store raised."""
        mine = _PendingJob(job)
        with self._lock:
            self._waiting.append(mine)
            leads, self._is_led = not self._is_led, True
        if not leads:
            mine.called.wait()
        if not mine.is_done:
            self._lead()
        if mine.error is not None:
            raise mine.error
        if mine.view is None:
            raise JobNotFound(f"job {job.id} was stored, and deleted before it could be read.")
        return mine.view

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

    def _store_together(self, batch: list[_PendingJob]) -> None:
        """Store all of them, or each by itself where that is refused: one that cannot be is nobody else's fault.

        Where the database does not answer, all hear of it at once: to ask it for each would take as many times as long.
        """
        try:
            jobs = self._client.enqueue([one.job for one in batch])
            views = self._client.store.get_jobs([job.id for job in jobs])
            for one, job in zip(batch, jobs, strict=True):
                one.view = views.get(job.id)
        except Exception as error:
            if len(batch) == 1 or isinstance(error, StoreUnreachable):
                for one in batch:
                    one.error = error
                return
            for one in batch:
                self._store_together([one])
