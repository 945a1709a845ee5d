"""The embedded store: one SQLite file, any number of processes of one machine."""

from tickwork.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
