"""All that a store holds, for tests that nothing was changed."""

from collections.abc import Collection
from typing import Any

from tickwork.store.base import Store

_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'tickwork%'"
_TABLES_OF_SCHEMA = "SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname = '{}'"


def contents(store: Store, *, but: Collection[str] = ()) -> dict[str, list[str]]:
    """The rows of each table, in no order; without those of the clock, and of tables whose names end so."""
    schema: Any = getattr(store, "schema", None)  # of PostgreSQL
    with store.connection() as tx:
        found = tx.execute(_TABLES if schema is None else _TABLES_OF_SCHEMA.format(schema.name)).fetchall()
        tables = [table for (table,) in found if not table.endswith(("_clock", *but))]
        assert any(table.endswith("audit") for table in tables)
        return {table: _rows(tx, table) for table in tables}


def _rows(tx: Any, table: str) -> list[str]:
    return sorted(str(tuple(row)) for row in tx.execute(f"SELECT * FROM {table}").fetchall())
