"""The store verbs of bulk operations (see core/bulk_operation.py), and of requests to workers.

A bulk operation is one change to many jobs. A service executes it page by page; a step is the record of one page.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, Protocol

import msgspec

from tickwork.core.bulk_operation import BulkChange, BulkOperation, OperationState
from tickwork.core.ids import WorkerId

KEPT = timedelta(days=30)

Ask = Literal["quiet", "stop"]


class OperationStep(msgspec.Struct, frozen=True):
    """The progress of a bulk operation after one more page of jobs. It is stored only once for each `number`.

    `place` is the position after which the next page begins, `looked` and `changed` count the jobs read and changed.
    """

    id: str
    number: int
    phase: int
    place: str | None
    looked: int
    changed: int
    state: OperationState
    error: str | None = None


class OperationVerbs(Protocol):
    """The verbs of bulk operations and of requests to workers. Each is safe to run twice."""

    def put_operation(self, id: str, change: BulkChange, by: str) -> BulkOperation:
        """Store a bulk operation for later execution, and return it; if the id exists, return the stored one unchanged.

        Jobs that are created after this call are not affected by the operation.
        """

    def get_operation(self, id: str) -> BulkOperation | None:
        """Return a bulk operation; None if the id is unknown."""

    def list_operations(self, limit: int, before: str | None = None) -> list[BulkOperation]:
        """Return up to `limit` operations whose id is less than `before` (None: of all), the newest first."""

    def lease_operation(self, lease: timedelta) -> BulkOperation | None:
        """Lease the oldest unfinished operation that no process has leased, and return it; None if there is none."""

    def step_operation(self, step: OperationStep, lease: timedelta) -> bool:
        """Store the progress of an operation and renew its lease; return whether that was done.

        False if the operation was cancelled or another process has stored this step. The caller has changed the jobs of
        the page before; to change a job twice has the same effect as once.
        """

    def cancel_operation(self, id: str) -> bool:
        """Cancel an operation, which ends after its current page; return False if it is unknown or has ended."""

    def ask_worker(self, worker: WorkerId, what: Ask | None) -> bool:
        """Store a request to a worker; return False if the worker is not live.

        The worker is to claim no more jobs ("quiet"), to stop, or (None) to continue.
        """

    def asked_of(self, worker: WorkerId) -> Ask | None:
        """Return the request that was made to a worker; None if there is none."""
