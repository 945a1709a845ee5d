"""Bulk operations on PostgreSQL (see `store.admin.bulk_operations`). The SQL is in sql/bulk_operations.sql."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tickwork.core.bulk_operation import BulkChange, BulkOperation
from tickwork.core.ids import WorkerId, is_id
from tickwork.errors import check
from tickwork.store.admin.bulk_operations import Ask, OperationStep
from tickwork.store.postgres.connection.session import Session, utc
from tickwork.store.postgres.transactions import PostgresTransactions
from tickwork.store.rows.admin import encode_change, operation_step_row, read_operation
from tickwork.store.rows.instants import duration_us

_END = "ffffffff-ffff-ffff-ffff-ffffffffffff"


@dataclass(eq=False)
class PostgresOperations:
    """Bulk operations, and requests of operators to workers."""

    transactions: PostgresTransactions

    def put_operation(self, id: str, change: BulkChange, by: str) -> BulkOperation:
        def put(session: Session) -> list[BulkOperation]:
            ((now,),) = session.run("now")
            session.run("put_operation", id=id, what=encode_change(change, utc(now)), by=by)
            return self._found(session, "of_this_operation", id=id)

        found = self.transactions.perform(put, single=False)
        check(found, f"Operation {id} was stored and is not there.")
        (operation,) = found
        return operation

    def get_operation(self, id: str) -> BulkOperation | None:
        if not is_id(id):
            return None
        return next(iter(self._read("of_this_operation", id=id)), None)

    def list_operations(self, limit: int, before: str | None = None) -> list[BulkOperation]:
        return self._read("operations_before", before=before or _END, limit=limit)

    def _read(self, which: str, **values: Any) -> list[BulkOperation]:
        """Return the operations that the SQL condition `which` selects, in a transaction of its own."""
        return self.transactions.perform(lambda session: self._found(session, which, **values))

    def lease_operation(self, lease: timedelta) -> BulkOperation | None:
        if not self.transactions.run("any_operation"):
            return None
        (id,) = self.transactions.find("lease_operation", lease_us=duration_us(lease)) or (None,)
        return None if id is None else self.get_operation(id)

    def step_operation(self, step: OperationStep, lease: timedelta) -> bool:
        row = operation_step_row(step, lease_us=duration_us(lease))
        return bool(self.transactions.run("step_operation", **row))

    def cancel_operation(self, id: str) -> bool:
        return is_id(id) and bool(self.transactions.run("cancel_operation", id=id))

    def ask_worker(self, worker: WorkerId, what: Ask | None) -> bool:
        return bool(self.transactions.run("ask_worker", id=worker, what=what))

    def asked_of(self, worker: WorkerId) -> Ask | None:
        (asked,) = self.transactions.find("asked_of", id=worker) or (None,)
        what: Ask | None = asked
        return what

    def _found(self, session: Session, which: str, **values: Any) -> list[BulkOperation]:
        """Return the operations that the SQL condition `which` selects."""
        rows = session.run_sql(f"{self.transactions.sql['operation_columns']} {self.transactions.sql[which]}", values)
        return [read_operation(row, utc) for row in rows]
