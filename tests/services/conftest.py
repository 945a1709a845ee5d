"""The stores and the clock of tests/store, for services."""

from tests.store.conftest import (
    clock,
    kind,
    open_pooled_postgres,
    open_postgres,
    open_store,
    pooled_url,
    pooler,
    postgres_database,
    schema,
    shared_schema,
    store,
)

__all__ = [
    "clock",
    "kind",
    "open_pooled_postgres",
    "open_postgres",
    "open_store",
    "pooled_url",
    "pooler",
    "postgres_database",
    "schema",
    "shared_schema",
    "store",
]
