"""Workers over REST: who works, and to have one claim nothing, stop, or go on."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from tickwork.core.ids import WorkerId
from tickwork.core.job import WorkerView
from tickwork.http.call import Call
from tickwork.http.problems import Problem
from tickwork.http.route import Routes, Scope, Struct
from tickwork.store.operations import Ask

routes = Routes("workers")


class WorkerBody(Struct):
    """A worker process. `offer` is what it has for jobs with needs, `asked` what somebody wants of it."""

    id: str
    host: str
    pid: int
    version: str
    state: str
    queues: list[str]
    tasks: list[str]
    slots: int
    running: int
    offer: list[str]
    asked: Literal["quiet", "stop"] | None
    started_at: datetime
    lease_until: datetime


class WorkerList(Struct):
    """The workers that live, and those that were lost lately."""

    items: list[WorkerBody]
    next_cursor: str | None


@routes.get("/workers", Scope.READ)
def list_workers(call: Call) -> WorkerList:
    """List the workers that live, and those that were lost lately."""
    return WorkerList([_shown(one) for one in call.app.store.workers()], None)


@routes.get("/workers/{id}", Scope.READ)
def get_worker(call: Call, id: str) -> WorkerBody:
    """Return a worker."""
    return _shown(_found(call, id))


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
    return _shown(_found(call, id))


def _found(call: Call, id: str) -> WorkerView:
    worker = next((one for one in call.app.store.workers() if one.id == id), None)
    if worker is None:
        raise Problem(404, "not-found", f"there is no worker {id!r}.")
    return worker


def _shown(one: WorkerView) -> WorkerBody:
    return WorkerBody(
        id=one.id,
        host=one.host,
        pid=one.pid,
        version=one.version,
        state=one.state,
        queues=list(one.queues),
        tasks=list(one.tasks),
        slots=one.slots,
        running=one.running,
        offer=list(one.offer.shown),
        asked=one.asked,  # type: ignore[arg-type]
        started_at=one.started_at,
        lease_until=one.lease_until,
    )
