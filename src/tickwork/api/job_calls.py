"""The calls of `Tickwork` that find jobs and runs, and cancel, redrive or discard them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, overload

from tickwork.api.async_twins import twin
from tickwork.api.client import PAGE, Job
from tickwork.api.paging import Page, Pages
from tickwork.api.runs import Run
from tickwork.core.bulk_operation import BulkChange, BulkOperation
from tickwork.core.ids import JobId
from tickwork.core.job import JobFilter, JobState
from tickwork.core.job_options import read_option, task_name
from tickwork.dag import Dag
from tickwork.errors import InvalidInput
from tickwork.task import TaskRegistry

AnyJob = TypeVar("AnyJob", bound=Job)


class JobCalls(TaskRegistry):
    """The part of an app that reads and changes jobs and runs."""

    def job(self, id: str | Job | None = None, *, key: str | None = None) -> Job | None:
        """Return the job with this id, or the job that holds, or last held, this key; None if there is no such job."""
        return self.client.job(None if id is None else _job_id(id), key=key)

    def run(self, id: str) -> Run | None:
        """Return the dag run with this id; None if there is none."""
        found = self.client.job(id)
        return Run(self.client, found.id, found.seen) if found is not None and found.seen.version is not None else None

    @overload
    def runs(
        self, /, dag: str | Dag[Any, Any] | None = None, *, limit: None = None, cursor: str | None = None, **which: Any
    ) -> Pages[Run]: ...

    @overload
    def runs(
        self, /, dag: str | Dag[Any, Any] | None = None, *, limit: int, cursor: str | None = None, **which: Any
    ) -> Page[Run]: ...

    def runs(
        self,
        /,
        dag: str | Dag[Any, Any] | None = None,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        **which: Any,
    ) -> Pages[Run] | Page[Run]:
        """Return the runs of a dag, or of all dags, newest first. `state=`, `key=` and so on filter as for jobs.

        Pages are read while iterating; with `limit`, one page is returned, whose `next_cursor` is the cursor of the
        next page.
        """
        read = self._reads_runs(dag, which)
        return Pages(partial(read, PAGE), cursor) if limit is None else read(limit, cursor)

    def _reads_runs(self, dag: str | Dag[Any, Any] | None, which: dict[str, Any]) -> Callable[..., Page[Run]]:
        """Return a function that reads one page of matching runs."""
        wanted = replace(_filter(which if dag is None else {**which, "task": dag}), runs=True)

        def read(limit: int, cursor: str | None) -> Page[Run]:
            page = self.client.jobs(wanted, limit, cursor)
            return Page([Run(self.client, job.id, job.seen) for job in page], page.next_cursor)

        return read

    @overload
    def jobs(self, /, *, limit: None = None, cursor: str | None = None, **which: Any) -> Pages[Job]: ...

    @overload
    def jobs(self, /, *, limit: int, cursor: str | None = None, **which: Any) -> Page[Job]: ...

    def jobs(self, /, *, limit: int | None = None, cursor: str | None = None, **which: Any) -> Pages[Job] | Page[Job]:
        """Return the jobs, newest first; filter with state=, task=, queue=, key=, label=, creator=, error=, since=
        ...

        Pages are read while iterating; with `limit`, one page is returned, whose `next_cursor` is the cursor of the
        next page.
        """
        read = partial(self.client.jobs, _filter(which))
        return Pages(partial(read, PAGE), cursor) if limit is None else read(limit, cursor)

    def cancel(self, job: str | Job | None = None, /, **which: Any) -> int:
        """Cancel one job, or all matching jobs that have not ended; return their number."""
        return self.client.cancel(_some(job, which))

    def redrive(self, job: str | Job | None = None, /, *, rate: str | None = None, **which: Any) -> int:
        """Queue all or the matching dead letters again; return their number. `rate="50/s"` spreads them over time."""
        return self.client.redrive(replace(_filter(_with_id(job, which)), dead=True), rate)

    def discard(self, job: str | Job | None = None, /, **which: Any) -> int:
        """Remove failed jobs from the dead letters; return their number."""
        return self.client.discard(replace(_some(job, which), dead=True))

    def begin(self, change: BulkChange, by: str) -> BulkOperation:
        """Start a bulk operation, which the services of any worker or server carry out page by page."""
        return self.store.operations.put_operation(self._ids.new_id(), change, by)

    async def jobs_async(self, /, *, limit: int | None = None, cursor: str | None = None, **which: Any) -> Page[Job]:
        """Return the jobs, as `jobs` does. Without `limit`, all jobs are read.

        `async for` over `jobs()` reads one page at a time.
        """
        return await asyncio.to_thread(_read, partial(self.client.jobs, _filter(which)), limit, cursor)

    async def runs_async(
        self,
        /,
        dag: str | Dag[Any, Any] | None = None,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        **which: Any,
    ) -> Page[Run]:
        """Return the runs, as `runs` does. Without `limit`, all runs are read.

        `async for` over `runs()` reads one page at a time.
        """
        return await asyncio.to_thread(_read, self._reads_runs(dag, which), limit, cursor)

    job_async = twin(job)
    run_async = twin(run)
    cancel_async = twin(cancel)
    redrive_async = twin(redrive)
    discard_async = twin(discard)


def _job_id(job: str | Job) -> str:
    return job.id if isinstance(job, Job) else job


def _with_id(job: str | Job | None, which: dict[str, Any]) -> dict[str, Any]:
    return which if job is None else {**which, "id": _job_id(job)}


def _some(job: str | Job | None, which: dict[str, Any]) -> JobFilter:
    """Return a filter for one job or for matching jobs. Raises InvalidInput for a filter that would match all jobs."""
    which = _with_id(job, which)
    if not which:
        raise InvalidInput("say which jobs: an id, key=, task=, queue=, collection=, label=, creator= or state=.")
    return _filter(which)


_FILTERS = (
    *("id", "ids", "state", "task", "queue", "key", "collection", "label", "parent", "creator", "error", "since"),
    "until",
)


def _filter(which: dict[str, Any]) -> JobFilter:
    """Return a filter from keyword arguments. Raises InvalidInput and InvalidOption."""
    unknown = [name for name in which if name not in _FILTERS]
    if unknown:
        raise InvalidInput(f"jobs cannot be chosen by {unknown[0]!r}; they can by {', '.join(_FILTERS)}.")
    chosen = dict(which)
    if "id" in chosen:
        chosen["ids"] = [chosen.pop("id")]
    if chosen.get("ids") is not None:
        chosen["ids"] = tuple(JobId(_job_id(one)) for one in chosen["ids"])
    if chosen.get("task") is not None:
        chosen["task"] = task_name(chosen["task"] if isinstance(chosen["task"], str) else chosen["task"].name)
    for text in ("label", "creator"):
        if chosen.get(text) is not None:
            (chosen[text],) = read_option("labels", [chosen[text]])
    for option in ("queue", "key", "collection", "parent"):
        if option in chosen:
            chosen[option] = read_option(option, chosen[option])
    if chosen.get("state") is not None:
        chosen["state"] = _state(chosen["state"])
    for instant in ("since", "until"):
        if chosen.get(instant) is not None:
            chosen[instant] = read_option("at", chosen[instant])
    return JobFilter(**chosen)


def _read(read: Callable[..., Page[AnyJob]], limit: int | None, cursor: str | None) -> Page[AnyJob]:
    """Return one page of a list, or, without a limit, the whole list as one page."""
    if limit is not None:
        return read(limit, cursor)
    return Page(Pages(partial(read, PAGE), cursor).load(), None)


def _state(name: str) -> JobState:
    try:
        return JobState(name)
    except ValueError:
        raise InvalidInput(f"there is no state {name!r}; the states are {', '.join(JobState)}.") from None
