"""What a store promises of operations (see core/bulk_operation.py), and of what is asked of workers."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, Protocol

import msgspec

from tickwork.core.bulk_operation import BulkChange, BulkOperation, OperationState
from tickwork.core.ids import WorkerId

KEPT = timedelta(days=30)

Ask = Literal["quiet", "stop"]


class OperationStep(msgspec.Struct, frozen=True):
    """How far an operation is after a page. It counts if `number` is the step that was not yet taken."""

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
        """Store an operation, to be carried out from now on. One of this id that is there is left as it is.

        Of jobs that are made later, it touches none.
        """

    def operation(self, id: str) -> BulkOperation | None:
        """Return an operation."""

    def operations(self, limit: int, before: str | None = None) -> list[BulkOperation]:
        """Return operations, the newest first, from just below `before` on."""

    def lease_operation(self, lease: timedelta) -> BulkOperation | None:
        """Return the oldest operation that is not through and that nobody carries on, for as long as the lease."""

    def step_operation(self, step: OperationStep, lease: timedelta) -> bool:
        """Store how far an operation is, and renew its lease; False when it was cancelled, or another took the step.

        The page itself was done before, and what is done to a job twice is done once.
        """

    def cancel_operation(self, id: str) -> bool:
        """End an operation after the page that it is at; False when it has ended."""

    def ask_worker(self, worker: WorkerId, what: Ask | None) -> bool:
        """Ask a worker to be quiet or to stop, or, with None, to go on; False when there is none that lives."""

    def asked_of(self, worker: WorkerId) -> Ask | None:
        """Return what somebody wants of a worker."""
