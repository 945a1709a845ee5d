"""The job client: enqueue, find, wait for, cancel, retry, redrive and discard jobs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

from tickwork import errors
from tickwork.api.async_twins import twin
from tickwork.api.paging import Page
from tickwork.api.waiting import FIRST_S, LAST_S, PollDelay, raise_ended
from tickwork.context import LazyTransaction, current_or_none
from tickwork.core import why
from tickwork.core.access.scopes import BUILT_IN
from tickwork.core.ids import JobId, WorkerId
from tickwork.core.job import (
    AttemptView,
    JobFilter,
    JobState,
    JobView,
    LogChunk,
    NewJob,
    TaskDefinition,
    WorkerView,
)
from tickwork.core.job_options import read_option
from tickwork.core.stats.error_groups import By, ErrorGroup, ErrorGroups
from tickwork.core.text.duration import parse_duration, parse_spacing
from tickwork.core.text.suggestions import closest
from tickwork.store.base import Store

PAGE = 1000  # how many jobs one statement of a bulk operation changes
ENQUEUE_LIMIT = 100_000

Perform = Callable[[Callable[[], list[JobId]]], list[JobId]]
"""Carries out one page of a bulk operation; the page returns the jobs that it changed."""

DecodeResult = Callable[[str, bytes], Any]


def _plainly(change: Callable[[], list[JobId]]) -> list[JobId]:
    """Carry out one page directly, without the wrapper that a caller of a bulk operation can pass."""
    return change()


class Registrations(Protocol):
    """The registered workers and task definitions. `store.reads` implements it."""

    def workers(self) -> list[WorkerView]: ...

    def task_definition(self, name: str) -> TaskDefinition | None: ...


class Client:
    """The operations on the jobs of a store, which `Tickwork` calls."""

    def __init__(self, store: Store, decode_result: DecodeResult, registrations: Registrations) -> None:
        self.store = store
        self._registrations = registrations
        self.decode_result = decode_result

    def enqueue(self, jobs: Sequence[NewJob], tx: Any = None) -> list[Job]:
        """Store jobs, all or none, and return them. Inside a handler, the calling attempt must still be current."""
        _check_count(jobs)
        asking, by = current_or_none(), None
        if asking is not None:
            by = asking.asking
            # jobs that a transactional handler enqueues are committed with it
            tx = asking.transaction if tx is None else tx
        if isinstance(tx, LazyTransaction):
            tx = tx.begun()
        try:
            ids = self.store.insert_jobs(jobs, tx, by)
        except errors.StoreUnreachable:
            if tx is not None:
                raise
            # job ids are made by the client, so a repeated insert stores no duplicates
            ids = self.store.insert_jobs(jobs, None, by)
        return self._enqueued(jobs, ids)

    async def enqueue_async(self, jobs: Sequence[NewJob], tx: Any = None) -> list[Job]:
        """Store jobs from asyncio, all or none, and return them.

        An asynchronous `tx` is used on the caller's event loop.
        """
        insert = getattr(self.store, "insert_jobs_async", None)
        if insert is None or not asyncio.iscoroutinefunction(getattr(tx, "execute", None)):
            return await asyncio.to_thread(self.enqueue, jobs, tx)
        _check_count(jobs)
        asking = current_or_none()
        by = None if asking is None else asking.asking
        return self._enqueued(jobs, await insert(jobs, tx, by))

    def _enqueued(self, asked: Sequence[NewJob], ids: Sequence[JobId]) -> list[Job]:
        return [Job(self, id, is_new=id == job.id) for job, id in zip(asked, ids, strict=True)]

    def job(self, id: str | None = None, *, key: str | None = None) -> Job | None:
        """Return the job with this id, or the job that holds, or last held, this key; None if there is no such job."""
        if (id is None) == (key is None):
            raise errors.InvalidInput("say which job: an id or a key, and only one of them.")
        found = JobId(id) if id is not None else self.store.reads.find_key(read_option("key", key))
        view = self.store.reads.get_jobs([found]).get(found) if found else None
        return Job(self, view.id, view) if view else None

    def jobs(self, which: JobFilter, limit: int = 100, cursor: str | None = None) -> Page[Job]:
        """Return one page of matching jobs, newest first. `next_cursor` is the cursor of the next page."""
        if not 1 <= limit <= PAGE:
            raise errors.InvalidInput(f"limit must be from 1 to {PAGE}, not {limit!r}. Follow next_cursor for more.")
        views = self.store.reads.list_jobs(which, limit, JobId(cursor) if cursor else None)
        return Page([Job(self, view.id, view) for view in views], views[-1].id if len(views) == limit else None)

    def cancel(self, which: JobFilter, perform: Perform = _plainly) -> int:
        """Cancel every matching job that has not ended; return their number. `perform` carries out each page."""
        live = (JobState.QUEUED, JobState.RUNNING)
        pages = self._pages(which, lambda view: view.state in live)
        return sum(len(perform(partial(self.store.cancel_jobs, ids))) for ids in pages)

    def dead(self, which: JobFilter) -> int:
        """Return the number of matching dead letters, which `redrive` and `discard` would change."""
        return sum(len(ids) for ids in self._pages(which, _is_dead))

    def redrive(self, which: JobFilter, rate: str | None = None, perform: Perform = _plainly) -> int:
        """Queue matching dead letters again; return their number. With `rate` ("50/s") they become due at that rate."""
        spacing = timedelta(0) if rate is None else parse_spacing(rate)
        count = 0
        for ids in self._pages(which, _is_dead):
            count += len(perform(partial(self.store.retry_jobs, ids, spacing, spacing * count)))
        return count

    def discard(self, which: JobFilter, perform: Perform = _plainly) -> int:
        """Remove matching jobs from the dead letters; return their number.

        The jobs stay readable until they are pruned.
        """
        return sum(len(perform(partial(self.store.discard_jobs, ids))) for ids in self._pages(which, _is_dead))

    def causes(self, which: JobFilter, most: int, by: By = "error") -> tuple[list[ErrorGroup], bool]:
        """Group the newest `most` dead letters by error, most frequent first; return also whether these were all of
        them.
        """
        found, before, looked = ErrorGroups(by), None, 0
        while looked < most:
            page = self.store.reads.find_failures(which, min(PAGE, most - looked), before)
            found.add(page.failures)
            looked, before = looked + len(page.failures), page.next
            if before is None:
                break
        return found.most_frequent_first(), before is None

    def unknown_task(self, name: str) -> str | None:
        """Return a warning, with the nearest known name, for a task that no worker has reported, else None."""
        if name in BUILT_IN or name.startswith("@") or self._registrations.task_definition(name) is not None:
            return None
        known = {one.name for one in self.store.reads.task_definitions(PAGE)}
        known.update(task for worker in self._registrations.workers() for task in worker.tasks)
        if name in known:
            return None
        return f"No worker has reported a task {name!r} yet.{_meant(name, known)} Its jobs wait until a worker has it."

    def unknown_dag(self, name: str) -> str | None:
        """Return a warning, with the nearest stored name, for a dag that is not stored; None for a stored dag."""
        definition = self._registrations.task_definition(name)
        if definition is not None and definition.version is not None:
            return None
        known = {one.name for one in self.store.reads.task_definitions(PAGE) if one.version is not None}
        return (
            f"No dag {name!r} is stored yet.{_meant(name, known)} Store it before a schedule or a hook starts it: runs "
            f"that are started without it fail to start."
        )

    def wait_for_any(self, jobs: Sequence[Job]) -> list[Job]:
        """Wait until at least one of the jobs has ended, in any state; return the ended jobs.

        Deleted jobs count as ended.
        """
        wait_s = FIRST_S
        while jobs:
            views = self.store.reads.get_jobs([job.id for job in jobs])
            ended = [job for job in jobs if job.id not in views or views[job.id].state.ended]
            if ended:
                return [Job(self, job.id, views.get(job.id)) for job in ended]
            time.sleep(wait_s)
            wait_s = min(wait_s * 1.5, LAST_S)
        return []

    def why(self, view: JobView) -> str:
        """Explain in one sentence what a job that was just read waits for, where it runs, or how it ended."""
        store = self.store
        if view.state is not JobState.QUEUED:
            return why.explain(view, workers_of(store, view), store.now())
        gates = [one.gate for one in store.limits.list_gates()]
        return why.explain(view, self._registrations.workers(), store.now(), store.limits.hold(view.id), gates)

    def _pages(self, which: JobFilter, wanted: Callable[[JobView], bool]) -> Iterator[list[JobId]]:
        """Yield the ids of matching jobs for which `wanted` is true, one page at a time, newest first."""
        before: JobId | None = None
        while views := self.store.reads.list_jobs(which, PAGE, before):
            before = views[-1].id
            ids = [view.id for view in views if wanted(view)]
            if ids:
                yield ids


class Job:
    """A job in the store. Its properties are read from the store on each access, or once if the job has succeeded.

    `is_new`: the enqueue that returned this object stored the job. It is False for a job that already held the key,
    and for a job that was looked up.
    """

    __slots__ = ("_client", "_view", "id", "is_new")

    def __init__(self, client: Client, id: JobId, view: JobView | None = None, *, is_new: bool = False) -> None:
        self._client = client
        self.id = id
        self._view = view
        self.is_new = is_new

    def __repr__(self) -> str:
        return f"<Job {self.id}>"

    @property
    def view(self) -> JobView:
        """All stored facts of the job, read now. Raises JobNotFound if the job was deleted."""
        # jobs in other states may be retried or discarded
        if self._view is None or self._view.state is not JobState.SUCCEEDED:
            found = self._client.store.reads.get_jobs([self.id]).get(self.id)
            if found is None:
                raise errors.JobNotFound(
                    f"job {self.id} is not in this store: it was never committed, or it was pruned."
                )
            self._view = found
        return self._view

    @property
    def seen(self) -> JobView:
        """All stored facts of the job as last read. A job from a list is not read again."""
        return self._view or self.view

    @property
    def state(self) -> str:
        return self.view.state.value

    @property
    def task(self) -> str:
        return self.seen.task

    @property
    def key(self) -> str | None:
        return self.seen.key

    @property
    def attempt(self) -> int:
        """The number of the current or last attempt; 0 before the first."""
        return self.view.attempt

    @property
    def run_at(self) -> datetime:
        return self.view.run_at

    @property
    def progress(self) -> float | None:
        return self.view.progress

    @property
    def error(self) -> str | None:
        """Why the last attempt failed; None if the job has not ended."""
        return self.view.error

    def wait(self, timeout: float | str | timedelta | None = None) -> str:
        """Wait until the job has ended, in any state, and return its state. Raises WaitTimeout; the job continues."""
        return self._wait(timeout).state.value

    def _wait(self, timeout: float | str | timedelta | None) -> JobView:
        waits = PollDelay(self.id, self.why, timeout)
        while not (view := self.view).state.ended:
            time.sleep(waits.next())
        return view

    async def wait_async(self, timeout: float | str | timedelta | None = None) -> str:
        """Wait as `wait` does, without holding a thread."""
        return (await self._wait_async(timeout)).state.value

    async def _wait_async(self, timeout: float | str | timedelta | None) -> JobView:
        waits = PollDelay(self.id, self.why, timeout)
        while not (view := await asyncio.to_thread(lambda: self.view)).state.ended:
            await asyncio.sleep(waits.next())
        return view

    def result(self, timeout: float | str | timedelta | None = None) -> Any:
        """Wait until the job has ended and return its result.

        Raises JobFailed, JobCancelled, JobExpired or JobDropped.
        """
        return self._outcome(self._wait(timeout))

    async def result_async(self, timeout: float | str | timedelta | None = None) -> Any:
        """Wait and return the result, as `result` does, without blocking the event loop."""
        return self._outcome(await self._wait_async(timeout))

    def _outcome(self, view: JobView) -> Any:
        """Return the decoded result of an ended job, or raise the exception of its state."""
        if view.state is not JobState.SUCCEEDED:
            raise_ended(view)
        errors.check(view.result is not None, f"Job {self.id} succeeded without a result.")
        return self._client.decode_result(view.task, view.result or b"null")

    def reschedule(self, at: datetime | None = None, delay: str | timedelta = timedelta(0)) -> bool:
        """Change when a waiting job is due and move its deadline by as much; return False if the job does not wait."""
        wait = parse_duration(delay, what="delay")
        return bool(self._client.store.reschedule_jobs([self.id], at, wait))

    def cancel(self) -> bool:
        """Cancel the job, or ask it to stop if it runs; return False if it had already ended."""
        return bool(self._client.store.cancel_jobs([self.id]))

    def retry(self) -> bool:
        """Queue an ended job again with no failures counted, or make a delayed job due now.

        Return False if the job succeeded, runs or is already due, or if another live job holds its key.
        """
        retried = bool(self._client.store.retry_jobs([self.id]))
        if retried:
            self._view = None
        return retried

    def attempts(self) -> list[AttemptView]:
        """Return every attempt so far, oldest first."""
        return self._client.store.reads.attempts(self.id)

    def logs(self, after: tuple[int, int] = (0, -1), limit: int = 1000) -> list[LogChunk]:
        """Return the log output of the job that follows (attempt, seq), also while the job runs."""
        return self._client.store.reads.logs(self.id, after, limit)

    def why(self) -> str:
        """Explain in one sentence what the job waits for, where it runs, or how it ended."""
        return self._client.why(self.view)

    async def state_async(self) -> str:
        """Return `state` without blocking the event loop."""
        return await asyncio.to_thread(lambda: self.state)

    async def attempt_async(self) -> int:
        """Return `attempt` without blocking the event loop."""
        return await asyncio.to_thread(lambda: self.attempt)

    async def progress_async(self) -> float | None:
        """Return `progress` without blocking the event loop."""
        return await asyncio.to_thread(lambda: self.progress)

    async def error_async(self) -> str | None:
        """Return `error` without blocking the event loop."""
        return await asyncio.to_thread(lambda: self.error)

    cancel_async = twin(cancel)
    retry_async = twin(retry)
    reschedule_async = twin(reschedule)
    attempts_async = twin(attempts)
    logs_async = twin(logs)
    why_async = twin(why)


def _meant(name: str, known: Collection[str]) -> str:
    """Return a suggestion for an unknown name, " Did you mean 'fetch'?", or an empty text."""
    near = closest(name, known)
    return f" Did you mean {near!r}?" if near else ""


def _check_count(jobs: Sequence[NewJob]) -> None:
    if len(jobs) > ENQUEUE_LIMIT:
        raise errors.InvalidInput(
            f"{len(jobs):,} jobs in one transaction are too many (the cap is {ENQUEUE_LIMIT:,}). Nothing was stored. "
            f"Enqueue them in parts."
        )


def _is_dead(view: JobView) -> bool:
    return view.state is JobState.FAILED and not view.discarded


def workers_of(store: Store, view: JobView) -> list[WorkerView]:
    """Return a list with the worker that runs the job, or an empty list if the job is not running."""
    one = store.reads.worker(WorkerId(view.worker)) if view.state is JobState.RUNNING and view.worker else None
    return [] if one is None else [one]
