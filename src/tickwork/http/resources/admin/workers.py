"""Workers over REST: who works, and to have one claim nothing, stop, or go on."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from tickwork.core.ids import WorkerId
from tickwork.core.job import JobView, WorkerView
from tickwork.http.framework.problems import Problem
from tickwork.http.framework.route import Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.store.admin.operations import Ask

routes = Routes("workers")
HELD = 100  # jobs of a worker that are told


class WorkerBody(Struct):
    """A worker process. `offer` is what it has for jobs with needs, `asked` what somebody wants of it.

    `state`: it is working, claims nothing (quiet), is stopping, or was lost: its lease is past. `lease_left_s` goes
    down from heartbeat to heartbeat, and below zero when it falls silent. A `remote` one works over REST: leases of one
    name with the same queues, tasks and offer are one worker, with the id of one of them and a slot for each. Of more
    than 500 such workers, the others are counted together as "(others)".
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


class HeldJob(Struct):
    """A job that a worker runs, since when, and how far it is."""

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
    """A worker and what it runs, what it has run for the longest first; of more than a hundred jobs, those."""

    jobs: list[HeldJob]


class WorkerList(Struct):
    """The workers that live, and those that were lost lately."""

    items: list[WorkerBody]
    next_cursor: str | None


@routes.get("/workers", Scope.READ)
def list_workers(call: Call) -> WorkerList:
    """List the workers that live, and those that were lost lately."""
    now = call.app.store.now()
    return WorkerList([WorkerBody(**_shown(one, now)) for one in call.app.store.workers()], None)


@routes.get("/workers/{id}", Scope.READ)
def get_worker(call: Call, id: str) -> WorkerDetail:
    """Return a worker, and the jobs that it runs."""
    one, store = _found(call, id), call.app.store
    return WorkerDetail(**_shown(one, store.now()), jobs=[_held(view) for view in store.held_jobs(WorkerId(id), HELD)])


@routes.post("/workers/{id}/quiet", Scope.OPERATE)
def quiet_worker(call: Call, id: str) -> WorkerBody:
    """Have a worker claim nothing more; what runs goes on. It notices at its next heartbeat."""
    return _ask(call, id, "quiet")


@routes.post("/workers/{id}/stop", Scope.OPERATE)
def stop_worker(call: Call, id: str) -> WorkerBody:
    """Have a worker finish what runs within its grace, and end. It notices at its next heartbeat."""
    return _ask(call, id, "stop")


@routes.post("/workers/{id}/resume", Scope.OPERATE)
def resume_worker(call: Call, id: str) -> WorkerBody:
    """Have a quiet worker claim again. One that was asked to stop, and has noticed, stops."""
    return _ask(call, id, None)


def _ask(call: Call, id: str, what: Ask | None) -> WorkerBody:
    before = _found(call, id)
    if not call.app.store.ask_worker(WorkerId(id), what):
        raise Problem(409, "wrong-state", f"worker {id} is {before.state}: there is nobody to ask.")
    call.changed(f"worker:{id}", {"asked": before.asked}, {"asked": what})
    return WorkerBody(**_shown(_found(call, id), call.app.store.now()))


def _found(call: Call, id: str) -> WorkerView:
    """A worker by its id; one over REST by the id of any of its leases."""
    worker = call.app.store.worker(WorkerId(id))
    if worker is None:
        raise Problem(404, "not-found", f"there is no worker {id!r}.")
    if worker.pid:
        return worker
    alike = (one for one in call.app.store.workers() if _told_alike(one) == _told_alike(worker))
    return replace(next(alike, worker), id=id)


def _told_alike(one: WorkerView) -> tuple[object, ...]:
    """What leases that are one worker have in common."""
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


def _held(view: JobView) -> HeldJob:
    return HeldJob(
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
