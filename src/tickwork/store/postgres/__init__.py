"""The distributed store: a schema in a PostgreSQL database, any number of processes of any number of machines."""

from tickwork.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
