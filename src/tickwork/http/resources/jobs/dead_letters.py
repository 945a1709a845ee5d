"""Dead letters over REST: failed jobs grouped by error, to redrive or discard."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec
from starlette.responses import Response, StreamingResponse

from tickwork.core.bulk_operation import BulkAction, BulkChange
from tickwork.core.job import JobFilter, JobState
from tickwork.core.stats.error_groups import By, ErrorGroup
from tickwork.http.framework.params import FilterBody, Text, spacing
from tickwork.http.framework.problems import Problem
from tickwork.http.framework.route import HandlerResult, ListBody, Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.http.resources.jobs.bulk import DryRunBody, OperationBody, begun, tried
from tickwork.http.resources.jobs.job_bodies import shown

routes = Routes("dead letters")
LINES = "application/x-ndjson"
READ_LIMIT = 1_000  # the newest dead letters that are grouped
EXPORTED = 10_000
_PAGE = 500


class ErrorGroupBody(Struct):
    """Dead letters of one task with the same last line of the error, or of one task or queue.

    `task`, `queue` and `error` are those of the newest dead letter.
    """

    task: str
    queue: str
    error: str
    count: int
    newest_id: str
    newest_at: datetime
    oldest_at: datetime


class DeadFilter(Struct):
    """A filter of dead letters. `error` is words in the error of the last attempt."""

    task: Text | None = None
    queue: Text | None = None
    key: Text | None = None
    collection: Text | None = None
    label: Text | None = None
    error: Text | None = None

    def which(self) -> JobFilter:
        names = DeadFilter.__struct_fields__
        return FilterBody(**{name: getattr(self, name) for name in names}).which(dead=True)


class DeadQuery(DeadFilter):
    """A filter of dead letters, and how to group them: by error, task or queue."""

    by: By = "error"


class DeadList(ListBody[ErrorGroupBody]):
    """Groups of dead letters, largest first. `is_partial`: only the newest dead letters were read."""

    total: int
    is_partial: bool


class DeadBody(Struct):
    """The dead letters to redrive; an empty filter matches all. `rate` ("50/s") spreads out their runs.

    A dry run returns how many there are.
    """

    filter: FilterBody
    rate: str | None = None
    dry_run: bool = False


class DiscardBody(Struct):
    """The dead letters to discard; an empty filter matches all. A dry run returns how many there are."""

    filter: FilterBody
    dry_run: bool = False


@routes.get("/dead", Scope.READ)
def list_dead(call: Call, query: DeadQuery) -> DeadList:
    """List dead letters grouped by task and error, or by task or queue alone, largest group first."""
    causes, is_all = call.app.client.causes(query.which(), READ_LIMIT, query.by)
    return DeadList([cause_body(one) for one in causes], None, sum(one.count for one in causes), not is_all)


@routes.get("/dead/export", Scope.READ, streams=LINES)
def export_dead(call: Call, query: DeadFilter) -> Response:
    """Export up to 10,000 dead letters as lines of JSON, each as GET /jobs/{id} returns it, newest first."""
    return StreamingResponse(_lines(call, query.which()), media_type=LINES)


def _lines(call: Call, which: JobFilter) -> Iterator[bytes]:
    """Yield dead letters as lines of JSON, up to EXPORTED."""
    store, before, written = call.app.store, None, 0
    while written < EXPORTED:
        page = store.reads.find_jobs(which, min(_PAGE, EXPORTED - written), before)
        views = store.reads.get_jobs([view.id for view in page.jobs]) if page.jobs else {}
        found = [views[one.id] for one in page.jobs if one.id in views]
        yield b"".join(msgspec.json.encode(shown(view, "")) + b"\n" for view in found)
        before, written = page.next, written + len(page.jobs)
        if before is None:
            return


@routes.post("/dead/redrive", Scope.OPERATE, status=202, also={200: DryRunBody})
def redrive_dead(call: Call, body: DeadBody) -> OperationBody | HandlerResult:
    """Queue dead letters again, with no failures counted. `Location` is the URL of the progress."""
    change = BulkChange(BulkAction.REDRIVE, _dead(body.filter), spacing(body.rate))
    return tried(call, change) if body.dry_run else begun(call, change)


@routes.post("/dead/discard", Scope.OPERATE, status=202, also={200: DryRunBody})
def discard_dead(call: Call, body: DiscardBody) -> OperationBody | HandlerResult:
    """Remove jobs from the dead letters. The jobs stay readable until they are pruned."""
    change = BulkChange(BulkAction.DISCARD, _dead(body.filter))
    return tried(call, change) if body.dry_run else begun(call, change)


def cause_body(one: ErrorGroup) -> ErrorGroupBody:
    return ErrorGroupBody(one.task, one.queue, one.error, one.count, one.newest_id, one.newest_at, one.oldest_at)


def _dead(given: FilterBody) -> JobFilter:
    which = given.which(dead=True)
    if which.state not in (None, JobState.FAILED):
        raise Problem(422, "invalid", f"dead letters are failed jobs; none of them is {which.state.value}.")
    return which
