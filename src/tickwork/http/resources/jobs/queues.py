"""Queues over REST: counts of their jobs, pause, resume and limit."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from tickwork.core.job import QueueView
from tickwork.core.workers.autoscale import QueueLoad
from tickwork.http.framework.params import Text
from tickwork.http.framework.problems import Problem, required
from tickwork.http.framework.route import ListBody, Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.http.resources.limits.limits import GateBody, LimitBody, RuleBody, gate_body, limit_set, put_gate

routes = Routes("queues")


class QueueBody(Struct):
    """A queue and its counts. Counts named in `at_least` are lower bounds.

    `held` jobs wait for a limit or a gate. `wanted` is how many workers would start all due jobs within 30 s.
    `unplaced` is how many of the due jobs no worker of the queue can run, because none has their task, labels or
    resources; `wanted` then includes further workers for them.
    """

    name: str
    due: int
    later: int
    running: int
    held: int
    at_least: list[Literal["due", "later", "held"]]
    oldest_due_at: datetime | None
    workers: int
    wanted: int
    is_paused: bool
    unplaced: int


class QueueList(ListBody[QueueBody]):
    """The queues that have jobs, by name."""


class QueuePauseBody(Struct):
    """`until`: an instant, or a duration such as "2h"; without it, the queue is paused until it is resumed."""

    until: Text | None = None
    reason: Text | None = None


class LiftedBody(Struct):
    """The number of gates that were removed."""

    lifted: int


@routes.get("/queues", Scope.READ)
def list_queues(call: Call) -> QueueList:
    """List all queues with the number of due, later, running and held jobs."""
    return QueueList(all_queues(call), None)


@routes.get("/queues/{name}", Scope.READ)
def get_queue(call: Call, name: str) -> QueueBody:
    """Return a queue and its counts."""
    return _found(call, name)


@routes.post("/queues/{name}/pause", Scope.OPERATE)
def pause_queue(call: Call, name: str, body: QueuePauseBody) -> GateBody:
    """Pause a queue: start no more of its jobs. Running jobs continue; new jobs wait."""
    return put_gate(call, "pause", {"queue": name, "until": body.until, "reason": body.reason})


@routes.post("/queues/{name}/resume", Scope.OPERATE)
def resume_queue(call: Call, name: str) -> LiftedBody:
    """Remove the gates that apply to all jobs of a queue. 409 if there are none."""
    before = [gate_body(one.gate) for one in call.app.gates() if one.gate.selects == {"queue": name}]
    lifted = call.app.resume(queue=name)
    if not lifted:
        raise Problem(409, "wrong-state", f"no gate is for all of queue {name}. Nothing was changed.")
    call.changed(f"queue:{name}", before={"gates": before}, after={"gates": []})
    return LiftedBody(lifted)


@routes.post("/queues/{name}/limit", Scope.OPERATE)
def limit_queue(call: Call, name: str, body: RuleBody) -> LimitBody:
    """Override the limit that code declares for a queue, from now on and also for waiting jobs."""
    return limit_set(call, call.app.limit_of(name), body)


def _found(call: Call, name: str) -> QueueBody:
    return required(
        next((queue for queue in all_queues(call) if queue.name == name), None),
        Problem(404, "not-found", f"no job stands or runs in a queue {name!r}."),
    )


def all_queues(call: Call) -> list[QueueBody]:
    """Return every queue that has jobs."""
    pauses = (one.gate for one in call.app.gates() if one.gate.kind == "pause")
    paused = {gate.queue for gate in pauses if set(gate.selects) == {"queue"}}
    return [_shown(one, one.queue.name in paused) for one in call.app.queue_loads()]


def _shown(load: QueueLoad, is_paused: bool) -> QueueBody:
    queue: QueueView = load.queue
    return QueueBody(
        name=queue.name,
        due=queue.due,
        later=queue.later,
        running=queue.running,
        held=queue.held,
        at_least=list(queue.at_least),  # type: ignore[arg-type]
        oldest_due_at=queue.oldest_due_at,
        workers=load.workers,
        wanted=load.wanted,
        is_paused=is_paused,
        unplaced=load.unplaced,
    )
