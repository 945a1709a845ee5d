"""Bulk operations: apply one change to many jobs, a page at a time.

A page is applied first and recorded afterwards. If the process dies in between, another process applies the page
again and finds nothing left to change.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, assert_never

from tickwork.core.bulk_operation import BulkAction, BulkChange, BulkOperation, OperationState, concerns, phases
from tickwork.core.ids import JobId
from tickwork.core.job import JobPage
from tickwork.core.job_options import LONGEST
from tickwork.errors import InvalidInput
from tickwork.store.admin.bulk_operations import OperationStep
from tickwork.store.base import Store

PAGE = 500
INTERVAL_S = 2.0
LEASE = timedelta(seconds=30)


class BulkOperations:
    """Leases bulk operations that no process carries out, and applies their pages. Safe to run on several machines."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def tick(self, now: float) -> float:
        """Carry out one operation as far as possible; return the seconds until the next look."""
        operation = self._store.operations.lease_operation(LEASE)
        if operation is None:
            return INTERVAL_S
        while (further := self._page(operation)) is not None:
            operation = further
        return 0.0

    def _page(self, operation: BulkOperation) -> BulkOperation | None:
        """Apply one page; return the operation for the next page.

        Returns None if it was the last page, or another process has the lease.
        """
        lists = phases(operation.change)
        before = None if operation.place is None else JobId(operation.place)
        try:
            page = self._store.reads.find_jobs(lists[operation.phase], PAGE, before)
            changed = self._apply(operation, page)
        except InvalidInput as error:  # every retry would fail as well
            self._store.operations.step_operation(_step(operation, OperationState.FAILED, error=str(error)), LEASE)
            return None
        counts = {"looked": operation.looked + len(page.jobs), "changed": operation.changed + len(changed)}
        phase = operation.phase if page.next is not None else operation.phase + 1
        state = OperationState.SUCCEEDED if phase == len(lists) else OperationState.RUNNING
        step = _step(operation, state, phase=phase, place=page.next, **counts)
        if not self._store.operations.step_operation(step, LEASE) or state is not OperationState.RUNNING:
            return None
        return self._store.operations.get_operation(operation.id)

    def _apply(self, operation: BulkOperation, page: JobPage) -> Sequence[JobId]:
        """Apply the change to the jobs of a page that match it; return the jobs that changed."""
        change = operation.change
        ids = [view.id for view in page.jobs if concerns(change, view)]
        return apply(self._store, change, ids, operation.changed) if ids else []


def apply(store: Store, change: BulkChange, ids: Sequence[JobId], done: int) -> Sequence[JobId]:
    """Apply a change to jobs, after `done` others; return the jobs that changed.

    `done` determines where the spacing of due times continues.
    """
    match change.action:
        case BulkAction.CANCEL:
            return store.cancel_jobs(ids)
        case BulkAction.RETRY | BulkAction.REDRIVE:
            return store.retry_jobs(ids, change.spacing, min(change.spacing * done, LONGEST))
        case BulkAction.DISCARD:
            return store.discard_jobs(ids)
        case BulkAction.RESCHEDULE:
            return store.reschedule_jobs(ids, change.at, change.delay or timedelta(0))
    assert_never(change.action)


def _step(operation: BulkOperation, state: OperationState, **further: Any) -> OperationStep:
    """Return the next recorded step of an operation: its current values, overridden by the given ones."""
    names = ("phase", "place", "looked", "changed")
    return OperationStep(
        id=operation.id,
        number=operation.step,
        state=state,
        **{**{name: getattr(operation, name) for name in names}, **further},
    )
