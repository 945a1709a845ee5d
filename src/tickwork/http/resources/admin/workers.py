"""Workers over REST: list workers and the tasks that they have registered, and quiet, stop or resume a worker."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

import msgspec

from tickwork.core.ids import WorkerId
from tickwork.core.job import JobView, TaskDefinition, WorkerView
from tickwork.declare.export import duration_text
from tickwork.errors import UnknownTask
from tickwork.http.framework.params import PageQuery, is_storable_name, name_after
from tickwork.http.framework.problems import Problem, required
from tickwork.http.framework.route import ListBody, Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.store.admin.bulk_operations import Ask

routes = Routes("workers")
HELD = 100  # the most jobs of a worker that are listed


class WorkerBody(Struct):
    """A worker process.

    `offer` are its labels and resources for jobs with needs, `asked` the last request of an operator.

    `state`: it is working, claims nothing (quiet), is stopping, or was lost because its lease has expired.
    `lease_left_s` decreases between heartbeats, and is negative if they stop. A `remote` worker works over REST:
    leases with the same name, queues, tasks and offer are shown as one worker, with the id of any of them and a slot
    for each. If there are more than 500 such workers, the rest is counted as "(others)".
    """

    id: str
    host: str
    pid: int
    version: str
    state: Literal["working", "quiet", "stopping", "lost"]
    is_remote: bool
    queues: list[str]
    tasks: list[str]
    slots: int
    running: int
    offer: list[str]
    labels: list[str]
    resources: dict[str, str]
    asked: Literal["quiet", "stop"] | None
    started_at: datetime
    lease_until: datetime
    lease_left_s: float


class WorkerJob(Struct):
    """A job that a worker runs, when it started, and its progress."""

    id: str
    task: str
    queue: str
    attempt: int
    since: datetime | None
    progress: float | None
    progress_note: str | None
    is_cancel_requested: bool
    run_id: str | None
    step: str | None


class WorkerDetail(WorkerBody):
    """A worker and the jobs that it runs, longest running first; at most 100."""

    jobs: list[WorkerJob]


class WorkerList(ListBody[WorkerBody]):
    """The live workers, and the workers that were lost recently."""


@routes.get("/workers", Scope.READ)
def list_workers(call: Call) -> WorkerList:
    """List the live workers, and the workers that were lost recently."""
    now = call.app.store.now()
    return WorkerList([WorkerBody(**_shown(one, now)) for one in call.parts.registrations.workers()], None)


@routes.get("/workers/{id}", Scope.READ)
def get_worker(call: Call, id: str) -> WorkerDetail:
    """Return a worker, and the jobs that it runs."""
    one, store = _found(call, id), call.app.store
    return WorkerDetail(
        **_shown(one, store.now()), jobs=[_held(view) for view in store.reads.held_jobs(WorkerId(id), HELD)]
    )


@routes.post("/workers/{id}/quiet", Scope.OPERATE)
def quiet_worker(call: Call, id: str) -> WorkerBody:
    """Ask a worker to claim no more jobs; running jobs continue. The worker reads the request at its next heartbeat."""
    return _ask(call, id, "quiet")


@routes.post("/workers/{id}/stop", Scope.OPERATE)
def stop_worker(call: Call, id: str) -> WorkerBody:
    """Ask a worker to finish its running jobs within its grace period and exit. It reads this at its next heartbeat."""
    return _ask(call, id, "stop")


@routes.post("/workers/{id}/resume", Scope.OPERATE)
def resume_worker(call: Call, id: str) -> WorkerBody:
    """Let a quiet worker claim jobs again. A worker that has already read a request to stop still stops."""
    return _ask(call, id, None)


def _ask(call: Call, id: str, what: Ask | None) -> WorkerBody:
    before = _found(call, id)
    if not call.app.store.operations.ask_worker(WorkerId(id), what):
        raise Problem(409, "wrong-state", f"worker {id} is {before.state}: it cannot be asked.")
    call.parts.registrations.forget_workers()
    call.changed(f"worker:{id}", {"asked": before.asked}, {"asked": what})
    return WorkerBody(**_shown(_found(call, id), call.app.store.now()))


def _found(call: Call, id: str) -> WorkerView:
    """Return a worker by its id; a remote worker by the id of any of its leases."""
    worker = required(
        call.app.store.reads.worker(WorkerId(id)), Problem(404, "not-found", f"there is no worker {id!r}.")
    )
    if worker.pid:
        return worker
    alike = (one for one in call.parts.registrations.workers() if _told_alike(one) == _told_alike(worker))
    return replace(next(alike, worker), id=id)


def _told_alike(one: WorkerView) -> tuple[object, ...]:
    """Return the fields that are equal for all leases of one remote worker."""
    return one.host, one.pid, one.queues, one.tasks, one.offer, one.state


def _shown(one: WorkerView, now: datetime) -> dict[str, Any]:
    things = [said.partition("=") for said in one.offer.shown]
    return {
        "id": one.id,
        "host": one.host,
        "pid": one.pid,
        "version": one.version,
        "state": _state(one),
        "is_remote": one.state == "remote",
        "queues": list(one.queues),
        "tasks": list(one.tasks),
        "slots": one.slots,
        "running": one.running,
        "offer": list(one.offer.shown),
        "labels": [name for name, equals, _ in things if not equals],
        "resources": {name: amount for name, equals, amount in things if equals},
        "asked": one.asked,
        "started_at": one.started_at,
        "lease_until": one.lease_until,
        "lease_left_s": round((one.lease_until - now).total_seconds(), 3),
    }


def _state(one: WorkerView) -> str:
    if one.state == "lost":
        return "lost"
    if one.state == "draining" or one.asked == "stop":
        return "stopping"
    return "quiet" if one.asked == "quiet" else "working"


def _held(view: JobView) -> WorkerJob:
    return WorkerJob(
        id=view.id,
        task=view.task,
        queue=view.queue,
        attempt=view.attempt,
        since=view.started_at,
        progress=view.progress,
        progress_note=view.progress_note,
        is_cancel_requested=view.cancel_requested,
        run_id=view.run,
        step=view.step,
    )


task_routes = Routes("tasks")


class TaskBody(Struct):
    """A task as a worker last registered it, or the newest `version` of a dag. `schema` describes the arguments."""

    name: str
    kind: str
    version: int | None
    queue: str
    priority: int
    retries: int
    backoff: str
    timeout: str | None
    expires: str | None
    schema: msgspec.Raw


class TaskPage(ListBody[TaskBody]):
    """Some tasks, by name."""


@task_routes.get("/tasks", Scope.READ)
def list_tasks(call: Call, query: PageQuery) -> TaskPage:
    """List the tasks that workers have registered, and the dags, by name."""
    found = call.app.store.reads.task_definitions(query.limit, name_after(query))
    return TaskPage([_task_body(one) for one in found], found[-1].name if len(found) == query.limit else None)


@task_routes.get("/tasks/{name}", Scope.READ)
def get_task(call: Call, name: str) -> TaskBody:
    """Return the registered definition of a task. A task without a definition can be enqueued, too."""
    found = required(
        call.parts.registrations.task_definition(name) if is_storable_name(name) else None,
        UnknownTask(f"no worker has reported a task {name!r}."),
    )
    return _task_body(found)


def _task_body(one: TaskDefinition) -> TaskBody:
    policy = one.policy
    return TaskBody(
        name=one.name,
        kind="task" if one.version is None else "dag",
        version=one.version,
        queue=one.queue,
        priority=one.priority,
        retries=policy.retry.retries,
        backoff=duration_text(policy.retry.base),
        timeout=None if policy.timeout is None else duration_text(policy.timeout),
        expires=None if policy.expires is None else duration_text(policy.expires),
        schema=msgspec.Raw(one.schema),
    )
