"""The embedded store: one SQLite file, for any number of processes on one machine."""

from tickwork.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
