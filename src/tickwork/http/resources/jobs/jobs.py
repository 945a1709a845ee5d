"""Jobs over REST: enqueue, find, count by state, cancel, retry and reschedule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from itertools import chain, islice
from typing import Any

import msgspec

from tickwork.api.client import Job
from tickwork.core.access.scopes import is_sensitive, told_job, told_name
from tickwork.core.ids import JobId, is_id
from tickwork.core.job import JobState, JobView, NewJob, QueuedReason
from tickwork.errors import InvalidInput, JobNotFound, KeyTaken
from tickwork.http.framework.params import AnyStateFilter, Span, StateWord, Text, duration, instant
from tickwork.http.framework.problems import Problem, ProblemDetail, required
from tickwork.http.framework.route import API, HandlerResult, ListBody, Routes, Scope, Struct
from tickwork.http.request import Call, recorded
from tickwork.http.resources.jobs.job_bodies import (
    BATCH_BYTES,
    EnqueuedBody,
    EnqueuedList,
    ExistingJobBody,
    JobBody,
    JobList,
    JobQuery,
    KnownJob,
    NewJobBody,
    NewJobsBody,
    body_of,
    item_of,
    read_job,
    read_jobs,
    shown,
)
from tickwork.http.work_scopes import check_work
from tickwork.task import Enqueues

routes = Routes("jobs")
_SPANS = ("delay", "key_for", "backoff", "timeout", "expires")
_FAULTS = 100  # errors of a batch that are listed
_WARNINGS = 5
MOST = 10_000  # of each state
SEARCHED = 1_000  # jobs that match the words of `q`


class RescheduleBody(Struct):
    """When a job is due instead: at an instant, or after a delay from now."""

    at: datetime | None = None
    delay: Span | None = None


@routes.post("/jobs", Scope.ENQUEUE, status=201, also={200: ExistingJobBody})
def create_job(call: Call, body: NewJobBody) -> JobBody | HandlerResult:
    """Enqueue a job. 200 with the existing job if its key is held: by a live job, or by an ended job with `key_for`.

    Callers without the scope `read` only get its id and state. 409 if a job of another task holds the key, or
    `if_exists` is "error". Replacing a job of a built-in task requires the scopes for creating such a job with
    secrets.
    """
    check_work(call, [(body.task, body.args)])
    check_replacing(call, [body])
    new = _new_job(call.app.named, body)
    with taken_keys(call):
        if is_sensitive(new):
            view = recorded(call, "create_job", lambda: stored(call, [new])[0])
        else:
            view = call.parts.group_commit.insert(new)
    is_new = view.id == new.id
    headers = {"Location": f"{API}/jobs/{view.id}", **warning_of(call, [new.task])}
    return HandlerResult(answered(call, view, is_new=is_new), 201 if is_new else 200, headers)


@routes.post("/jobs/batch", Scope.ENQUEUE, status=201, body_limit=BATCH_BYTES, body=NewJobsBody, reads=read_jobs)
def create_jobs(call: Call, body: list[msgspec.Raw]) -> EnqueuedList | HandlerResult:
    """Enqueue up to 10,000 jobs of up to 1 MB, all or none. 409 if a job of another task holds a key."""
    new, faults = _new_jobs(call, body)
    if faults:
        said = f"{len(faults)} of {len(body)} jobs cannot be enqueued: {faults[0].detail} Nothing was stored."
        raise Problem(422, "invalid", said, faults=faults)
    with taken_keys(call):
        if any(map(is_sensitive, new)):
            ids = recorded(call, "create_jobs", lambda: [view.id for view in stored(call, new)])
        else:
            ids = [job.id for job in call.app.client.enqueue(new)]
    answer = EnqueuedList([EnqueuedBody(id, id == job.id) for id, job in zip(ids, new, strict=True)])
    return HandlerResult(answer, 201, warning_of(call, sorted({job.task for job in new})))


def warning_of(call: Call, tasks: Iterable[str], dags: Iterable[str] = ()) -> dict[str, str]:
    """Return a header that warns of tasks that no worker has registered and of dags that are not stored; empty if
    none.

    It also names the nearest known ones. Callers without the scope `read` do not learn which tasks exist.
    """
    if Scope.READ not in call.who.scopes:
        return {}
    told = chain(
        (call.parts.store_cache.unknown_task(call.app.client, task) for task in tasks),
        (call.app.client.unknown_dag(dag) for dag in dags),
    )
    found = list(islice((text for text in told if text is not None), _WARNINGS))
    said = " ".join(found).encode("ascii", "backslashreplace").decode()
    return {"Tickwork-Warning": said} if found else {}


@contextmanager
def taken_keys(call: Call) -> Iterator[None]:
    """Answer 409 for a key that is held by another job.

    Callers without the scope `read` do not learn which job holds it.
    """
    try:
        yield
    except KeyTaken as taken:
        if Scope.READ in call.who.scopes:
            raise
        said = f"the key {taken.key!r} is taken by another job. Nothing was stored. Use another key."
        raise Problem(409, "key-taken", said) from None


def check_replacing(call: Call, bodies: list[NewJobBody]) -> None:
    """Refuse to replace a job of a built-in task for a caller who could not create every job of that task.

    The waiting job may run a command or use secrets. The check is by task, not by the existing job, which can change
    between the read and the insert.
    """
    check_work(call, ((body.task, ("secrets",)) for body in bodies if body.if_exists == "replace"))


def stored(call: Call, new: list[NewJob]) -> list[JobView]:
    """Store jobs and add sensitive ones to the audit log; return for each the stored job, or the holder of its key.

    A job whose key was held is not added, unless it was to replace the holder.
    """
    store = call.app.store
    sensitive = {job.id for job in new if is_sensitive(job)}
    keys = [job.key for job in new if job.key is not None and job.id in sensitive]
    if keys:
        store.access.hold_keys(keys)
    holders = [store.reads.find_key(key) for key in keys]
    before = store.reads.get_jobs([id for id in holders if id is not None])
    ids = [job.id for job in call.app.client.enqueue(new)]
    after = store.reads.get_jobs(ids)
    call.changed_nothing()
    for job, id in zip(new, ids, strict=True):
        if job.id in sensitive and (id == job.id or job.if_exists == "replace"):
            call.changed(told_name(job, id), before=told_job(before.get(id)), after=told_job(after[id]))
    return [after[id] for id in ids]


def answered(call: Call, view: JobView, *, is_new: bool) -> JobBody | KnownJob:
    """Return the body of a job. Without the scope `read`, a caller only gets the id and state of an existing job."""
    if is_new or Scope.READ in call.who.scopes:
        return shown(view, call.parts.store_cache.why(view))
    return KnownJob(view.id, view.state)


def _new_jobs(call: Call, bodies: list[msgspec.Raw]) -> tuple[list[NewJob], list[ProblemDetail]]:
    """Return the jobs to store, and the errors of invalid jobs with their index in the batch.

    The jobs are decoded one after another, so that only one of them is in memory as objects.
    """
    new: list[NewJob] = []
    faults: list[ProblemDetail] = []
    named = cache(call.app.named)
    for place, data in enumerate(bodies):
        body = read_job(data, place)
        check_work(call, [(body.task, body.args)])
        check_replacing(call, [body])
        try:
            new.append(_new_job(named, body))
        except (InvalidInput, Problem) as error:
            faults.append(ProblemDetail(str(error), pointer=f"/jobs/{place}"))
    return new, faults[:_FAULTS]


def _new_job(named: Callable[[str], Enqueues[Any, Any]], body: NewJobBody) -> NewJob:
    given = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not None}
    task, args = given.pop("task"), given.pop("args")
    instant("at", body.at)
    spans = {name: duration(name, given[name]) for name in _SPANS if name in given}
    return named(task).options(**{**given, **spans}).job_named(args)


@routes.get("/jobs", Scope.READ)
def list_jobs(call: Call, query: JobQuery) -> JobList:
    """List jobs, newest first. Follow `next_cursor` until it is null: a page may be short before that."""
    before = None if query.cursor is None else JobId(query.cursor)
    if query.q is None:
        ids = None if query.id is None else [JobId(one) for one in query.id if is_id(one)]
        page = call.app.store.reads.find_jobs(query.which(ids), query.limit, before)
        return JobList([item_of(view) for view in page.jobs], page.next)
    if query.id is not None:
        raise Problem(422, "invalid", "say which jobs: by `id`, or by what is in them (`q`); one of them.")
    hits = call.app.store.reads.search_jobs(query.q, query.limit, before)
    found = call.app.store.reads.find_jobs(query.which(hits.ids), query.limit) if hits.ids else None
    return JobList([item_of(view) for view in found.jobs] if found else [], hits.next, hits.is_partial)


# `/jobs/counts` is declared before `/jobs/{id}`, which would match it, too.
class CountQuery(AnyStateFilter):
    """A filter of jobs to count. `q`: the beginning of a task or a key, an id, or words of an error."""

    q: Text | None = None


class StateCountBody(Struct):
    """The number of jobs in a state; queued jobs are counted as `due`, `delayed` and `retrying`.

    `is_bounded`: counting stopped at this number, and there may be more.
    """

    state: StateWord
    count: int
    is_bounded: bool


class StateCounts(ListBody[StateCountBody]):
    """The number of jobs in each state."""


@routes.get("/jobs/counts", Scope.READ)
def count_jobs(call: Call, query: CountQuery) -> StateCounts:
    """Count jobs by state, up to 10,000 in each, reading a limited number of rows."""
    if query.q is not None:
        return _searched(call, query, query.q)
    counted = call.app.store.reads.count_jobs(query.which(), MOST)
    bounded = {one.state.value for one in counted if one.is_bounded}
    return _shown({one.state.value: one.count for one in counted}, bounded)


def _searched(call: Call, query: CountQuery, text: str) -> StateCounts:
    """Count the newest of the jobs that match the words of a text."""
    store = call.app.store
    hits = store.reads.search_jobs(text, SEARCHED)
    views = store.reads.find_jobs(query.which(hits.ids), SEARCHED).jobs if hits.ids else []
    now = store.now()
    counts = Counter(_word(view, now) for view in views)
    return _shown(counts, set(_WORDS) if hits.is_partial or hits.next is not None else set())


def _word(view: JobView, now: datetime) -> str:
    if view.state is not JobState.QUEUED:
        return view.state.value
    if view.failures:
        return QueuedReason.RETRYING.value
    return (QueuedReason.DUE if view.run_at <= now else QueuedReason.DELAYED).value


def _shown(counts: Mapping[str, int], bounded: set[str]) -> StateCounts:
    return StateCounts([StateCountBody(word, counts.get(word, 0), word in bounded) for word in _WORDS], None)


_WORDS = tuple(word for word in StateWord if word not in (StateWord.WAITING, StateWord.QUEUED))


@routes.get("/jobs/{id}", Scope.READ)
def get_job(call: Call, id: str) -> JobBody:
    """Return a job, with the reason why it does not run yet, or how it ended."""
    return body_of(call.app.client, found(call, id))


@routes.post("/jobs/{id}/cancel", Scope.OPERATE)
def cancel_job(call: Call, id: str) -> JobBody:
    """Cancel a job, or ask it to stop if it runs. 409 if it has ended."""
    job = found(call, id)
    return _changed(call, job, job.cancel, "has ended, so there is nothing to cancel")


@routes.post("/jobs/{id}/retry", Scope.OPERATE)
def retry_job(call: Call, id: str) -> JobBody:
    """Queue an ended job again, or make a waiting job due now. 409 if neither is possible.

    A job that succeeded is not run again, and a job whose key another live job holds is not changed.
    """
    job = found(call, id)
    return _changed(call, job, job.retry, "is due already, runs, has succeeded, or its key belongs to another job")


@routes.post("/jobs/{id}/reschedule", Scope.OPERATE)
def reschedule_job(call: Call, id: str, body: RescheduleBody) -> JobBody:
    """Change when a waiting job is due, and move its deadline by as much. 409 if it does not wait."""
    if (body.at is None) == (body.delay is None):
        raise Problem(422, "invalid", "say when: `at` an instant, or after a `delay`; one of them.")
    at, job = instant("at", body.at), found(call, id)
    delay = duration("delay", body.delay or 0.0)
    return _changed(call, job, lambda: job.reschedule(at, delay), "does not wait: only queued jobs are rescheduled")


def _changed(call: Call, job: Job, change: Callable[[], bool], otherwise: str) -> JobBody:
    """Change a job and add the change to the audit log. Raises Problem (409) with its state if that is not possible."""
    before = job.view
    if not change():
        raise Problem(409, "wrong-state", f"job {job.id} is {before.state.value}: it {otherwise}. Nothing was changed.")
    after = body_of(call.app.client, job)
    call.changed(
        f"job:{job.id}",
        {"state": before.state.value, "run_at": before.run_at},
        {"state": after.state.value, "run_at": after.run_at},
    )
    return after


def found(call: Call, id: str) -> Job:
    """Return the job with this id. Raises JobNotFound."""
    return required(
        call.app.job(JobId(id)) if is_id(id) else None,
        JobNotFound(f"there is no job {id!r}: it was never committed, or it was pruned."),
    )
