"""Group commit: jobs that requests enqueue while a commit runs are stored together by the next commit.

No request waits for other requests to arrive. The first request stores its job at once. Of the requests that arrive
meanwhile, one stores the jobs of all, so under load more jobs share the cost of a commit.
"""

from __future__ import annotations

import threading

from tickwork.api.client import Client
from tickwork.core.job import JobView, NewJob
from tickwork.errors import JobNotFound, StoreUnreachable

MOST = 500  # jobs in one commit


class _PendingJob:
    """A job to store, and the outcome.

    `called` is set when the job is stored, or its thread is to store the next batch.
    """

    __slots__ = ("called", "error", "is_done", "job", "view")

    def __init__(self, job: NewJob) -> None:
        self.job = job
        self.view: JobView | None = None
        self.error: Exception | None = None
        self.is_done = False
        self.called = threading.Event()


class GroupCommit:
    """Stores the jobs of many threads: jobs that wait at the same time are stored in one transaction."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._waiting: list[_PendingJob] = []
        self._is_led = False

    def insert(self, job: NewJob) -> JobView:
        """Store a job; return it, or the job that holds its key, when it is durable. Raises the errors of the store."""
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
        """Store the waiting jobs, oldest first; then wake the thread of the next waiting job, if any."""
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
        """Store jobs in one transaction; if that is refused, store each by itself, so that an invalid job fails
        alone.

        If the database does not answer, all of them fail at once: trying each by itself would take one timeout per
        job.
        """
        try:
            jobs = self._client.enqueue([one.job for one in batch])
            views = self._client.store.reads.get_jobs([job.id for job in jobs])
            for one, job in zip(batch, jobs, strict=True):
                one.view = views.get(job.id)
        except Exception as error:
            if len(batch) == 1 or isinstance(error, StoreUnreachable):
                for one in batch:
                    one.error = error
                return
            for one in batch:
                self._store_together([one])
