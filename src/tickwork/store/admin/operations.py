"""The store verbs of bulk operations (see core/bulk_operation.py), and of requests to workers."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, Protocol

import msgspec

from tickwork.core.bulk_operation import BulkChange, BulkOperation, OperationState
from tickwork.core.ids import WorkerId

KEPT = timedelta(days=30)

Ask = Literal["quiet", "stop"]


class OperationStep(msgspec.Struct, frozen=True):
    """The progress of an operation after a page. It is stored only if step `number` was not yet taken."""

    id: str
    number: int
    phase: int
    place: str | None
    looked: int
    changed: int
    state: OperationState
    error: str | None = None


class OperationVerbs(Protocol):
    """The verbs of operations. Each is safe to run twice."""

    def put_operation(self, id: str, change: BulkChange, by: str) -> BulkOperation:
        """Store an operation to be carried out. An existing operation with this id is not changed.

        Jobs that are created later are not affected by it.
        """

    def get_operation(self, id: str) -> BulkOperation | None:
        """Return an operation."""

    def list_operations(self, limit: int, before: str | None = None) -> list[BulkOperation]:
        """Return operations, the newest first, from just below `before` on."""

    def lease_operation(self, lease: timedelta) -> BulkOperation | None:
        """Lease and return the oldest unfinished operation that no process works on."""

    def step_operation(self, step: OperationStep, lease: timedelta) -> bool:
        """Store the progress of an operation, and renew its lease; False: it was cancelled, or the step was taken.

        The page itself was done before; a change that is applied to a job twice has the effect of one.
        """

    def cancel_operation(self, id: str) -> bool:
        """End an operation after its current page; False when it has ended."""

    def ask_worker(self, worker: WorkerId, what: Ask | None) -> bool:
        """Request that a worker be quiet or stop or, with None, continue; False if no such worker is live."""

    def asked_of(self, worker: WorkerId) -> Ask | None:
        """Return the request to a worker, if any."""
