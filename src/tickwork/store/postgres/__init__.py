"""The distributed store: a schema in a PostgreSQL database, for any number of processes and machines."""

from tickwork.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
