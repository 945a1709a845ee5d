"""Bulk operations on one SQLite file (see `store.admin.bulk_operations`). The SQL is in sql/bulk_operations.sql."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tickwork.core.bulk_operation import BulkChange, BulkOperation
from tickwork.core.ids import WorkerId
from tickwork.store.admin.bulk_operations import Ask, OperationStep
from tickwork.store.rows.admin import encode_change, operation_step_row, read_operation
from tickwork.store.rows.instants import duration_us, from_us
from tickwork.store.sqlite.transactions import SQL, SqliteTransactions, Transaction

_END = "g"  # Sorts after every id.


class SqliteOperations:
    """Bulk operations, and requests to workers."""

    def __init__(self, transactions: SqliteTransactions) -> None:
        self._transactions = transactions

    def put_operation(self, id: str, change: BulkChange, by: str) -> BulkOperation:
        with self._transactions.write() as transaction:
            what = encode_change(change, from_us(transaction.now))
            transaction.run("put_operation", {"id": id, "what": what, "by": by, "now": transaction.now})
            (found,) = _found(transaction, "of_this_operation", {"id": id})
        return found

    def get_operation(self, id: str) -> BulkOperation | None:
        with self._transactions.read() as transaction:
            return next(iter(_found(transaction, "of_this_operation", {"id": id})), None)

    def list_operations(self, limit: int, before: str | None = None) -> list[BulkOperation]:
        with self._transactions.read() as transaction:
            return _found(transaction, "operations_before", {"before": before or _END, "limit": limit})

    def lease_operation(self, lease: timedelta) -> BulkOperation | None:
        with self._transactions.read() as transaction:
            if not transaction.run("any_operation"):
                return None
        with self._transactions.write() as transaction:
            until = transaction.now + duration_us(lease)
            id = transaction.value("lease_operation", {"now": transaction.now, "until": until})
            return next(iter(_found(transaction, "of_this_operation", {"id": id})), None)

    def step_operation(self, step: OperationStep, lease: timedelta) -> bool:
        with self._transactions.write() as transaction:
            until = transaction.now + duration_us(lease)
            return bool(transaction.run("step_operation", operation_step_row(step, now=transaction.now, until=until)))

    def cancel_operation(self, id: str) -> bool:
        with self._transactions.write() as transaction:
            return bool(transaction.run("cancel_operation", {"id": id, "now": transaction.now}))

    def ask_worker(self, worker: WorkerId, what: Ask | None) -> bool:
        with self._transactions.write() as transaction:
            return bool(transaction.run("ask_worker", {"id": worker, "what": what, "now": transaction.now}))

    def asked_of(self, worker: WorkerId) -> Ask | None:
        with self._transactions.read() as transaction:
            found: Ask | None = transaction.value("asked_of", (worker,))
        return found


def _found(transaction: Transaction, which: str, values: dict[str, Any]) -> list[BulkOperation]:
    """Return the operations that the SQL condition `which` selects."""
    rows = transaction.connection.run(f"{SQL['operation_columns']} {SQL[which]}", values)
    return [read_operation(row, from_us) for row in rows]
