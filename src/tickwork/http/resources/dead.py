"""Dead letters: jobs that failed for good, by what went wrong, to be queued again or let go."""

from __future__ import annotations

from datetime import datetime

from tickwork.core.causes import Cause
from tickwork.core.job import JobFilter, JobState
from tickwork.core.operation import Action, Change
from tickwork.http.call import Call
from tickwork.http.durations import spacing
from tickwork.http.problems import Problem
from tickwork.http.reading import FilterBody, Text
from tickwork.http.resources.bulk import OperationBody, begun
from tickwork.http.route import Answer, Routes, Scope, Struct

routes = Routes("dead letters")
READ_LIMIT = 1_000  # so many of the newest are put together


class CauseBody(Struct):
    """Dead letters of one task with the same error, told by its last line. The newest stands for all."""

    task: str
    error: str
    count: int
    newest_id: str
    newest_at: datetime
    oldest_at: datetime


class DeadQuery(Struct):
    task: Text | None = None
    queue: Text | None = None
    key: Text | None = None
    collection: Text | None = None
    label: Text | None = None


class DeadList(Struct):
    """Dead letters by cause, the most frequent first. `is_partial`: only the newest were looked at."""

    items: list[CauseBody]
    next_cursor: str | None
    total: int
    is_partial: bool


class DeadBody(Struct):
    """Which dead letters; an empty filter: all. `rate` ("50/s") spreads out those that run again."""

    filter: FilterBody
    rate: str | None = None


class DiscardBody(Struct):
    """Which dead letters; an empty filter: all."""

    filter: FilterBody


@routes.get("/dead", Scope.READ)
def list_dead(call: Call, query: DeadQuery) -> DeadList:
    """List dead letters by task and error, the most frequent first."""
    which = FilterBody(**{name: getattr(query, name) for name in query.__struct_fields__})
    causes, is_all = call.app.client.causes(which.which(dead=True), READ_LIMIT)
    return DeadList([cause_body(one) for one in causes], None, sum(one.count for one in causes), not is_all)


@routes.post("/dead/redrive", Scope.OPERATE, status=202)
def redrive_dead(call: Call, body: DeadBody) -> OperationBody | Answer:
    """Queue dead letters again. `Location` is where the progress is read."""
    return begun(call, Change(Action.REDRIVE, _dead(body.filter), spacing(body.rate)))


@routes.post("/dead/discard", Scope.OPERATE, status=202)
def discard_dead(call: Call, body: DiscardBody) -> OperationBody | Answer:
    """Take jobs out of the dead letters; they stay readable until they are pruned."""
    return begun(call, Change(Action.DISCARD, _dead(body.filter)))


def cause_body(one: Cause) -> CauseBody:
    return CauseBody(one.task, one.error, one.count, one.newest_id, one.newest_at, one.oldest_at)


def _dead(given: FilterBody) -> JobFilter:
    which = given.which(dead=True)
    if which.state not in (None, JobState.FAILED):
        raise Problem(422, "invalid", f"dead letters are failed jobs; none of them is {which.state.value}.")
    return which
