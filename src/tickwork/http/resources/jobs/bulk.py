"""Bulk operations over REST: one change to many jobs, with a dry run; services carry it out in the background."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta

from tickwork.core.bulk_operation import BulkAction, BulkChange, BulkOperation, OperationState, concerns, phases
from tickwork.core.ids import JobId, is_id
from tickwork.core.job import JobView
from tickwork.http.framework.params import (
    FilterBody,
    PageQuery,
    Span,
    bad_cursor,
    duration,
    instant,
    shown_filter,
    spacing,
)
from tickwork.http.framework.problems import Problem, required
from tickwork.http.framework.route import HandlerResult, ListBody, Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.http.resources.jobs.job_bodies import JobItem, item_of
from tickwork.store.base import Store

routes = Routes("bulk")
IDS_LIMIT = 10_000
COUNTED = 10_000  # a dry run counts up to here
SAMPLE = 10
_PAGE = 1000
_PAGES = 10  # the most that a dry run reads


class BulkBody(Struct):
    """The change, and the jobs to change: those that match `filter`, or those with `ids`.

    `rate` ("50/s") spreads out jobs that run again. `at` or `delay` is when rescheduled jobs are due.
    """

    action: BulkAction
    filter: FilterBody | None = None
    ids: Annotated[list[str], Meta(max_length=IDS_LIMIT)] | None = None
    dry_run: bool = False
    rate: str | None = None
    at: datetime | None = None
    delay: Span | None = None


class DryRunBody(Struct):
    """The jobs that would be changed. `is_partial`: there may be more than were counted.

    `at` is the time of the count. Pass it as `created_before` so that the change skips jobs created since then.
    """

    count: int
    is_partial: bool
    sample: list[JobItem]
    at: datetime


class OperationBody(Struct):
    """A bulk operation and its progress: `looked` jobs were checked so far, and `changed` of them were changed."""

    id: str
    action: BulkAction
    filter: FilterBody
    state: OperationState
    looked: int
    changed: int
    by: str
    error: str | None
    created_at: datetime
    ended_at: datetime | None


class OperationList(ListBody[OperationBody]):
    """Bulk operations, newest first."""


@routes.post("/bulk", Scope.OPERATE, status=202, also={200: DryRunBody})
def change_jobs(call: Call, body: BulkBody) -> OperationBody | HandlerResult:
    """Change many jobs. With `dry_run` nothing is changed, and the answer (200) is how many jobs would be.

    Otherwise the change begins: 202, with the URL of its progress in `Location`. Jobs that are created later are not
    changed.
    """
    change = _change(body)
    if body.dry_run:
        return tried(call, change)
    return begun(call, change)


def _change(body: BulkBody) -> BulkChange:
    """Return the bulk change that a body requests. Raises Problem."""
    if (body.filter is None) == (body.ids is None):
        raise Problem(422, "invalid", "say which jobs: a `filter` or `ids`, one of them. Nothing was done.")
    if body.filter is not None and body.filter.is_empty and body.action is not BulkAction.REDRIVE:
        raise Problem(422, "invalid", "the filter means all jobs; restrict it, if only by a state. Nothing was done.")
    ids = None if body.ids is None else [JobId(one) for one in body.ids if is_id(one)]
    which = (body.filter or FilterBody()).which(ids)
    delay = None if body.delay is None else duration("delay", body.delay)
    return BulkChange(body.action, which, spacing(body.rate), instant("at", body.at), delay)


def begun(call: Call, change: BulkChange) -> HandlerResult:
    """Store a bulk operation, which the services then carry out; return the answer."""
    operation = call.app.begin(change, call.who.name)
    shown = _shown(operation)
    call.changed(f"operation:{operation.id}", after={"filter": shown.filter, **_said(change)})
    return HandlerResult(shown, 202, {"Location": f"/api/v1/operations/{operation.id}"})


def _said(change: BulkChange) -> dict[str, Any]:
    """Return the parameters of a change, without its filter, for the audit log."""
    said: dict[str, Any] = {"ids": change.which.ids, "at": change.at}
    said["spacing_s"] = change.spacing.total_seconds() or None
    said["delay_s"] = None if change.delay is None else change.delay.total_seconds()
    return {"action": change.action.value, **{name: value for name, value in said.items() if value is not None}}


def tried(call: Call, change: BulkChange) -> HandlerResult:
    """Return the answer to a dry run: the jobs that a change would affect, up to a limit."""
    call.changed_nothing()
    return HandlerResult(_tried(call.app.store, change), 200)


def _tried(store: Store, change: BulkChange) -> DryRunBody:
    """Return the jobs that a change would affect, reading at most _PAGES pages."""
    found: dict[str, JobView] = {}
    at, pages = store.now(), 0
    for which in phases(change):
        before: JobId | None = None
        while len(found) < COUNTED and pages < _PAGES:
            page = store.reads.find_jobs(which, _PAGE, before)
            found |= {view.id: view for view in page.jobs if concerns(change, view)}
            before, pages = page.next, pages + 1
            if before is None:
                break
        else:
            return _dry_run(found, at, is_partial=True)
    return _dry_run(found, at, is_partial=False)


def _dry_run(found: dict[str, JobView], at: datetime, *, is_partial: bool) -> DryRunBody:
    return DryRunBody(len(found), is_partial, [item_of(view) for view in list(found.values())[:SAMPLE]], at)


@routes.get("/operations", Scope.READ)
def list_operations(call: Call, query: PageQuery) -> OperationList:
    """List bulk operations, newest first. They are kept for 30 days after they end."""
    if query.cursor is not None and not is_id(query.cursor):
        raise bad_cursor()
    found = call.app.store.operations.list_operations(query.limit, query.cursor)
    return OperationList([_shown(one) for one in found], found[-1].id if len(found) == query.limit else None)


@routes.get("/operations/{id}", Scope.READ)
def get_operation(call: Call, id: str) -> OperationBody:
    """Return a bulk operation and its progress."""
    return _shown(_found(call, id))


@routes.post("/operations/{id}/cancel", Scope.OPERATE)
def cancel_operation(call: Call, id: str) -> OperationBody:
    """Cancel a bulk operation after its current page. Changes that were already made stay. 409 if it has ended."""
    before = _found(call, id)
    if not call.app.store.operations.cancel_operation(id):
        raise Problem(409, "wrong-state", f"operation {id} has {before.state.value}; there is nothing to cancel.")
    after = _shown(_found(call, id))
    call.changed(f"operation:{id}", {"state": before.state.value}, {"state": after.state.value})
    return after


def _found(call: Call, id: str) -> BulkOperation:
    return required(
        call.app.store.operations.get_operation(id), Problem(404, "not-found", f"there is no operation {id!r}.")
    )


def _shown(one: BulkOperation) -> OperationBody:
    return OperationBody(
        id=one.id,
        action=one.change.action,
        filter=shown_filter(one.change.which),
        state=one.state,
        looked=one.looked,
        changed=one.changed,
        by=one.by,
        error=one.error,
        created_at=one.created_at,
        ended_at=one.ended_at,
    )
