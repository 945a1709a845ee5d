"""Request and response bodies of jobs, with the occurrence of a schedule."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Annotated, Any, cast, get_type_hints

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwork.api.client import Client, Job
from tickwork.core.blob_ref import MARK
from tickwork.core.job import IfExists, JobState, JobView
from tickwork.core.occurrence import Occurrence
from tickwork.core.stats.error_groups import last_line
from tickwork.declare.export import duration_text
from tickwork.http.framework.params import FilterBody, Limit, Span, Text
from tickwork.http.framework.problems import Problem
from tickwork.http.framework.route import BODY_LIMIT, ListBody, Struct
from tickwork.http.request import decoded

BATCH_LIMIT = 10_000
BATCH_BYTES = 16 * 1024 * 1024
IDS_LIMIT = 200  # the most ids in a list query


class IntervalBody(Struct, rename={"start": "from", "end": "to"}):
    """The period of an occurrence: from the previous occurrence to this one."""

    start: datetime
    end: datetime


def occurrence_fields(occurrence: Occurrence | None) -> dict[str, Any]:
    """Return the four fields that describe an occurrence; without one, they are null and `is_catchup` is false."""
    return {
        "schedule": None if occurrence is None else occurrence.schedule,
        "scheduled_for": None if occurrence is None else occurrence.scheduled_for,
        "is_catchup": occurrence is not None and occurrence.is_catchup,
        "interval": None if occurrence is None or occurrence.interval is None else IntervalBody(*occurrence.interval),
    }


class NewJobBody(Struct):
    """A job to enqueue: its task, its arguments by name, and options as in `task.options(...)`.

    Durations are texts such as "1h30m", or numbers of seconds.
    """

    task: str
    args: dict[str, Any] = msgspec.field(default_factory=dict)
    queue: str | None = None
    priority: int | str | None = None
    delay: Span | None = None
    at: datetime | None = None
    key: str | None = None
    key_for: Span | None = None
    if_exists: IfExists | None = None
    retries: int | None = None
    backoff: Span | None = None
    timeout: Span | None = None
    expires: Span | None = None
    collection: str | None = None
    labels: list[str] | None = None
    tenant: str | None = None
    needs: dict[str, bool | int | float | str] | None = None


class NewJobsBody(Struct):
    """Jobs to enqueue, all or none."""

    jobs: list[NewJobBody]


class NewJobs(Struct):
    """A batch of jobs that are not decoded yet."""

    jobs: list[msgspec.Raw]


class _Counter(threading.local):
    """How many more jobs the batch that this thread reads may have."""

    left = 0


_counter = _Counter()


class _CountedJob(msgspec.Struct, gc=False):
    """A job of a batch, decoded only for counting."""

    task: str

    def __post_init__(self) -> None:
        _counter.left -= 1
        if _counter.left < 0:
            raise Problem(422, "invalid", f"there are more than {BATCH_LIMIT:,} jobs, which is the cap for a batch.")


class _CountedJobs(msgspec.Struct):
    """A batch, decoded only to count its jobs."""

    jobs: list[_CountedJob]


def read_jobs(data: bytes) -> list[msgspec.Raw]:
    """Return the jobs of a batch, each as JSON. Raises Problem if there are too many, or one is too large.

    Both are checked before any job is decoded: as objects they would take up to thirty times as much memory.
    """
    _counter.left = BATCH_LIMIT
    decoded(data, _CountedJobs)
    jobs: list[msgspec.Raw] = decoded(data, NewJobs).jobs
    large = next((place for place, job in enumerate(jobs) if len(memoryview(job)) > BODY_LIMIT), None)
    if large is not None:
        raise Problem(422, "invalid", f"/jobs/{large}: the job is over {BODY_LIMIT:,} bytes. Nothing was stored.")
    return jobs


def read_job(data: msgspec.Raw, place: int) -> NewJobBody:
    """Return a job of a batch, decoded. Raises Problem if it is invalid; `place` is its index in the batch."""
    job: NewJobBody = decoded(data, NewJobBody, f"$.jobs[{place}]")
    return job


class EnqueuedBody(Struct):
    """The enqueued job, or the existing one that holds its key."""

    id: str
    is_new: bool


class EnqueuedList(Struct):
    """For each job of a batch, in order, the enqueued job or the existing job that holds its key."""

    items: list[EnqueuedBody]


class JobItem(Struct):
    """A job in a list. `error` is the last line of its error. `is_run`: it is a run of the dag `task`."""

    id: str
    task: str
    queue: str
    priority: int
    state: JobState
    key: str | None
    collection: str | None
    labels: list[str]
    parent_id: str | None
    creator: str | None
    run_id: str | None
    step: str | None
    created_at: datetime
    run_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    attempt: int
    failures: int
    losses: int
    retries: int
    is_run: bool
    progress: float | None
    progress_note: str | None
    worker: str | None
    error: str | None


class JobOptionsBody(Struct):
    """The other options that a job was created with, as POST /jobs accepts them to create it again.

    Options `retry_on`, `give_up_on`, `on_lost` and `max_lost` can hold values that only code can set.
    """

    retries: int
    backoff: str
    timeout: str | None
    expires: str | None
    key_for: str | None
    needs: dict[str, bool | str]
    retry_on: list[str]
    give_up_on: list[str]
    on_lost: str
    max_lost: int | None


class JobBody(Struct):
    """A job. `creator` is its origin, such as `user:ada`, `key:deploy`, `schedule:nightly`, `hook:github` or
    `job:ID`.

    `result` is set if the job succeeded and its result is not large, `error` if its last attempt did not succeed.

    A result that `is_large` is read at `/jobs/{id}/result`. If a schedule created the job, or the run of this step,
    `scheduled_for` is the occurrence, and `interval` the period of that.
    """

    id: str
    task: str
    queue: str
    priority: int
    state: JobState
    args: msgspec.Raw
    key: str | None
    collection: str | None
    labels: list[str]
    tenant: str | None
    options: JobOptionsBody
    is_run: bool
    schedule: str | None
    scheduled_for: datetime | None
    is_catchup: bool
    interval: IntervalBody | None
    parent_id: str | None
    creator: str | None
    run_id: str | None
    step: str | None
    created_at: datetime
    run_at: datetime
    expires_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    attempt: int
    failures: int
    losses: int
    progress: float | None
    progress_note: str | None
    worker: str | None
    is_cancel_requested: bool
    is_discarded: bool
    is_large: bool
    result: msgspec.Raw | None
    error: str | None
    why: str


class KnownJob(Struct):
    """All that callers without the scope `read` learn of a job or run that already existed."""

    id: str
    state: JobState


def existing(kind: type[Struct]) -> type[Struct]:
    """Return the type of the answer for an existing job or run: a `KnownJob`, or all fields of `kind`."""
    hints = get_type_hints(kind, include_extras=True)
    optional = [(name, hint | UnsetType, UNSET) for name, hint in hints.items() if name not in ("id", "state")]
    made = msgspec.defstruct(f"Existing{kind.__name__}", optional, bases=(KnownJob,), kw_only=True)
    return cast("type[Struct]", made)


ExistingJobBody = existing(JobBody)


class JobQuery(FilterBody):
    """A filter of jobs to list. `q`: the beginning of a task or a key, an id, or words of an error.

    `id` may be repeated, to list only these jobs in their current state.
    """

    q: Text | None = None
    id: Annotated[list[str], Meta(max_length=IDS_LIMIT)] | None = None
    limit: Limit = 50
    cursor: str | None = None


class JobList(ListBody[JobItem]):
    """Some jobs, newest first. A page may be short or empty while `next_cursor` leads to more.

    `is_partial`: the words of `q` match the beginning of too many tasks or keys, and some were left out.
    """

    is_partial: bool = False


def body_of(client: Client, job: Job) -> JobBody:
    view = job.view
    return shown(view, client.why(view))


def item_of(view: JobView) -> JobItem:
    return JobItem(**_common(view), retries=view.policy.retry.retries, error=last_line(view.error) or None)


def shown(view: JobView, why: str) -> JobBody:
    is_large = view.result is not None and MARK in view.result
    return JobBody(
        **_common(view),
        args=msgspec.Raw(view.args),
        tenant=None if view.job_limits is None else view.job_limits.tenant,
        options=_options(view),
        **occurrence_fields(view.occurrence),
        expires_at=view.expires_at,
        is_cancel_requested=view.cancel_requested,
        is_discarded=view.discarded,
        is_large=is_large,
        result=None if view.result is None or is_large else msgspec.Raw(view.result),
        error=view.error,
        why=why,
    )


def needs_of(view: JobView) -> dict[str, bool | str]:
    """Return the needs of a job in the form that callers give: labels as true, resources with their amounts."""
    parts = (part.partition("=") for part in (view.job_limits.needs if view.job_limits else "").split())
    return {name: value if equals else True for name, equals, value in parts}


def _options(view: JobView) -> JobOptionsBody:
    policy = view.policy
    return JobOptionsBody(
        retries=policy.retry.retries,
        backoff=duration_text(policy.retry.base),
        timeout=_text(policy.timeout),
        expires=_text(policy.expires),
        key_for=_text(policy.key_for),
        needs=needs_of(view),
        retry_on=list(policy.retry_on),
        give_up_on=list(policy.give_up_on),
        on_lost=policy.on_lost,
        max_lost=policy.max_lost,
    )


def _text(value: timedelta | None) -> str | None:
    return None if value is None else duration_text(value)


def _common(view: JobView) -> dict[str, Any]:
    return {
        "id": view.id,
        "task": view.task,
        "queue": view.queue,
        "priority": view.priority,
        "state": view.state,
        "key": view.key,
        "collection": view.collection,
        "labels": list(view.labels),
        "parent_id": view.parent,
        "creator": view.creator,
        "run_id": view.run,
        "step": view.step,
        "created_at": view.created_at,
        "run_at": view.run_at,
        "started_at": view.started_at,
        "ended_at": view.ended_at,
        "attempt": view.attempt,
        "failures": view.failures,
        "losses": view.losses,
        "is_run": view.version is not None,
        "progress": view.progress,
        "progress_note": view.progress_note,
        "worker": view.worker,
    }
