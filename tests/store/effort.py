"""The work of a store for a verb, counted by the database itself: the same on every machine, busy or not.

PostgreSQL: its statements and the rows that their plans read, planned as they are in production, without a look at the
values. SQLite: the steps of its virtual machine.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from typing import Any

import apsw
import psycopg
import pytest
from psycopg import sql
from psycopg.pq.abc import PGresult

from tickwork.store.postgres.connection.libpq_connection import PLACE, PgConnection, Statement

Verb = Callable[[], object]
Plan = dict[str, Any]

_OURS = re.compile(r"\s*(SELECT|WITH|INSERT|UPDATE|DELETE)\b")
_names = count(1)
_PARALLEL_IS_CHEAP = (
    "SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0; "
    "SET LOCAL min_parallel_table_scan_size = 0; SET LOCAL min_parallel_index_scan_size = 0"
)


class SqliteEffort:
    """Counts what every connection does that is opened while it lives."""

    def __init__(self) -> None:
        self._steps = 0
        apsw.connection_hooks.append(self._watch)

    def _watch(self, connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._note)

    def _note(self, event: dict[str, Any]) -> None:
        self._steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    def of(self, verb: Verb) -> int:
        before = self._steps
        verb()
        return self._steps - before

    def close(self) -> None:
        apsw.connection_hooks.remove(self._watch)


class PostgresEffort:
    """Explains each statement of a verb in a transaction that is rolled back, before the statement runs."""

    def of(self, verb: Verb) -> int:
        with _explaining("ANALYZE, ") as plans:
            verb()
        return len(plans) + sum(_rows_read(node) for plan in plans for node in nodes(plan))

    def plans(self, verb: Verb) -> list[Plan]:
        """The plans of a verb on a server that thinks nothing of starting helpers for a query."""
        with _explaining("", _PARALLEL_IS_CHEAP) as plans:
            verb()
        return plans

    def close(self) -> None: ...


@contextmanager
def _explaining(how: str, first: str = "SELECT") -> Iterator[list[Plan]]:
    plans: list[Plan] = []
    execute, results = psycopg.Cursor.execute, PgConnection.results

    def explain(connection: psycopg.Connection[Any], text: str, values: dict[str, Any]) -> None:
        if _OURS.match(text):
            with patch.context() as inner:
                inner.setattr(psycopg.Cursor, "execute", execute)
                plans.append(_explain(connection, text, values, how, first))

    def explain_and_execute(self: Any, query: Any, params: Any = None, **options: Any) -> Any:
        if params is not None:
            explain(self.connection, query.decode() if isinstance(query, bytes) else query, params)
        return execute(self, query, params, **options)

    def explain_and_run(self: PgConnection, statements: Sequence[Statement]) -> list[PGresult]:
        for statement in statements:
            explain(self, *statement)
        return results(self, statements)

    patch = pytest.MonkeyPatch()
    patch.setattr(psycopg.Cursor, "execute", explain_and_execute)
    patch.setattr(PgConnection, "results", explain_and_run)
    try:
        yield plans
    finally:
        patch.undo()


def _explain(connection: psycopg.Connection[Any], text: str, values: dict[str, Any], how: str, first: str) -> Plan:
    """The plan that is kept for a prepared statement, which was made without a look at the values."""
    name = sql.Identifier(f"explained_{next(_names)}")
    places = {place: f"${number}" for number, place in enumerate(dict.fromkeys(PLACE.findall(text)), 1)}
    literals = sql.SQL(", ").join(sql.Literal(values[place]) for place in places)
    arguments = sql.SQL("({})").format(literals) if places else sql.SQL("")
    prepare = PLACE.sub(lambda found: places[found[1]], text).replace("%%", "%")
    with connection.transaction(force_rollback=True):
        connection.execute(first.encode())
        connection.execute(sql.SQL("PREPARE {} AS ").format(name) + sql.SQL(prepare))
        explain = sql.SQL("EXPLAIN ({}FORMAT JSON) EXECUTE {} {}").format(sql.SQL(how), name, arguments)
        row = connection.execute(explain).fetchone()
        connection.execute(sql.SQL("DEALLOCATE {}").format(name))
    assert row is not None
    found = row[0] if not isinstance(row[0], str) else json.loads(row[0])
    plan: Plan = found[0]["Plan"]
    return plan


def nodes(plan: Plan) -> Iterator[Plan]:
    """A plan's nodes, from its top on."""
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def _rows_read(node: Plan) -> int:
    """Count the rows of tables, and of intermediate results, which a bad join reads over and over."""
    is_result = node["Node Type"] in {"CTE Scan", "Function Scan", "Materialize"}
    if not is_result and ("Relation Name" not in node or node["Node Type"] == "ModifyTable"):
        return 0
    removed = sum(value for name, value in node.items() if name.startswith("Rows Removed by"))
    return int((node["Actual Rows"] + removed) * node["Actual Loops"])


def effort_on(kind: str) -> AbstractContextManager[SqliteEffort | PostgresEffort]:
    """What counts on this kind of store, from before it is opened."""

    @contextmanager
    def counting() -> Iterator[SqliteEffort | PostgresEffort]:
        effort = SqliteEffort() if kind == "sqlite" else PostgresEffort()
        try:
            yield effort
        finally:
            effort.close()

    return counting()
