"""Jobs over REST."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from tickwork.client import Job
from tickwork.core.ids import JobId, is_id
from tickwork.core.job import JobView
from tickwork.errors import JobNotFound
from tickwork.http.call import Call
from tickwork.http.route import Answer, Routes, Scope, Struct

routes = Routes("jobs")


class NewJobBody(Struct):
    """A job to enqueue: its task, its arguments by name, and options as in `task.options(...)`."""

    task: str
    args: dict[str, Any] = msgspec.field(default_factory=dict)
    queue: str | None = None
    priority: int | str | None = None
    delay: str | float | None = None
    at: datetime | None = None
    key: str | None = None
    key_for: str | float | None = None
    replace: bool | None = None
    retries: int | None = None
    backoff: str | float | None = None
    timeout: str | float | None = None
    expires: str | float | None = None
    collection: str | None = None
    labels: list[str] | None = None
    tenant: str | None = None
    needs: str | None = None


class JobBody(Struct):
    """A job. `result` is there when it succeeded, `error` when its last attempt did not."""

    id: str
    task: str
    queue: str
    priority: int
    state: str
    args: msgspec.Raw
    key: str | None
    collection: str | None
    labels: list[str]
    parent_id: str | None
    run_id: str | None
    step: str | None
    created_at: datetime
    run_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    attempt: int
    progress: float | None
    progress_note: str | None
    worker: str | None
    result: msgspec.Raw | None
    error: str | None
    why: str


@routes.post("/jobs", Scope.ENQUEUE, status=201, also={200: JobBody})
def create_job(call: Call, body: NewJobBody) -> JobBody | Answer:
    """Enqueue a job. 200 with the job that is there, when a live one holds the same key."""
    given = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not None}
    task, args = given.pop("task"), given.pop("args")
    job = call.app.named(task).options(**given).enqueue(**args)
    return Answer(body_of(job), headers={"Location": f"/api/v1/jobs/{job.id}"})


@routes.get("/jobs/{id}", Scope.READ)
def get_job(call: Call, id: str) -> JobBody:
    """Return a job, with why it does not run yet, or how it ended."""
    return body_of(found(call, id))


def found(call: Call, id: str) -> Job:
    """The job with this id. Raises JobNotFound."""
    job = call.app.job(JobId(id)) if is_id(id) else None
    if job is None:
        raise JobNotFound(f"there is no job {id!r}: it was never committed, or it was pruned.")
    return job


def body_of(job: Job) -> JobBody:
    view = job.view
    return shown(view, job.why())


def shown(view: JobView, why: str) -> JobBody:
    return JobBody(
        id=view.id,
        task=view.task,
        queue=view.queue,
        priority=view.priority,
        state=view.state.value,
        args=msgspec.Raw(view.args),
        key=view.key,
        collection=view.collection,
        labels=list(view.labels),
        parent_id=view.parent,
        run_id=view.run,
        step=view.step,
        created_at=view.created_at,
        run_at=view.run_at,
        started_at=view.started_at,
        ended_at=view.ended_at,
        attempt=view.attempt,
        progress=view.progress,
        progress_note=view.progress_note,
        worker=view.worker,
        result=None if view.result is None else msgspec.Raw(view.result),
        error=view.error,
        why=why,
    )
