"""Bulk operations on PostgreSQL (see `store.admin.operations`). The SQL is in sql/operations.sql."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from tickwork.core.bulk_operation import BulkChange, BulkOperation
from tickwork.core.ids import WorkerId, is_id
from tickwork.errors import check
from tickwork.store.admin.operations import Ask, OperationStep
from tickwork.store.postgres.connection.session import Session
from tickwork.store.postgres.connection.verb_pool import VerbPool
from tickwork.store.postgres.rows import utc
from tickwork.store.rows.admin import encode_change, operation_step_row, read_operation
from tickwork.store.rows.instants import duration_us

T = TypeVar("T")

_END = "ffffffff-ffff-ffff-ffff-ffffffffffff"


class PostgresOperations:
    """A part of PostgresStore. It needs from the rest the transactions."""

    _sql: dict[str, str]

    def _perform(self, work: Callable[[Session], T], *, pool: VerbPool | None = None, single: bool = True) -> T:
        raise NotImplementedError

    def put_operation(self, id: str, change: BulkChange, by: str) -> BulkOperation:
        def put(session: Session) -> list[BulkOperation]:
            ((now,),) = session.run("now")
            session.run("put_operation", id=id, what=encode_change(change, utc(now)), by=by)
            return self._found(session, "of_this_operation", id=id)

        found = self._perform(put, single=False)
        check(found, f"Operation {id} was stored and is not there.")
        return found[0]

    def get_operation(self, id: str) -> BulkOperation | None:
        if not is_id(id):
            return None
        found = self._perform(lambda session: self._found(session, "of_this_operation", id=id))
        return found[0] if found else None

    def list_operations(self, limit: int, before: str | None = None) -> list[BulkOperation]:
        values = {"before": before or _END, "limit": limit}
        return self._perform(lambda session: self._found(session, "operations_before", **values))

    def lease_operation(self, lease: timedelta) -> BulkOperation | None:
        if not self._perform(lambda session: session.run("any_operation")):
            return None
        rows = self._perform(lambda session: session.run("lease_operation", lease_us=duration_us(lease)))
        return self.get_operation(rows[0][0]) if rows else None

    def step_operation(self, step: OperationStep, lease: timedelta) -> bool:
        row = operation_step_row(step, lease_us=duration_us(lease))
        return bool(self._perform(lambda session: session.run("step_operation", **row)))

    def cancel_operation(self, id: str) -> bool:
        return is_id(id) and bool(self._perform(lambda session: session.run("cancel_operation", id=id)))

    def ask_worker(self, worker: WorkerId, what: Ask | None) -> bool:
        return bool(self._perform(lambda session: session.run("ask_worker", id=worker, what=what)))

    def asked_of(self, worker: WorkerId) -> Ask | None:
        rows = self._perform(lambda session: session.run("asked_of", id=worker))
        return rows[0][0] if rows else None

    def _found(self, session: Session, which: str, **values: Any) -> list[BulkOperation]:
        rows = session.run_sql(f"{self._sql['operation_columns']} {self._sql[which]}", values)
        return [read_operation(row, utc) for row in rows]
