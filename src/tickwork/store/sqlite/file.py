"""The file behind a SQLite store: opened once for each process, checked, migrated, and shared between threads.

One connection writes, behind a lock; readers have connections of their own. A process that was forked opens the file
anew, since SQLite connections must not cross a fork.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from tickwork.core.duration import format_duration
from tickwork.errors import InvalidInput, MixedDrivers, StoreNotOurs, StoreUnreachable
from tickwork.store.base import Health
from tickwork.store.migrate import migrations, pending
from tickwork.store.sqlite.connection import (
    ApswConnection,
    Connection,
    SqliteConnection,
    WriteLock,
    has_wal_defect,
    library_version,
    open_connection,
    refuse_network_file_system,
    remember_driver,
    translated,
)

_log = logging.getLogger("tickwork.store")
MEMORY = ":memory:"
_CLOCK_TROUBLE = timedelta(seconds=5)


class SqliteFile:
    """Lends connections. Everything that concerns files, locks, threads and forks ends here."""

    def __init__(self, path: str, driver: str, *, adopt: bool) -> None:
        self.path = path if path == MEMORY else str(Path(path).absolute())
        self.driver = driver
        self.defect = has_wal_defect(library_version(driver))
        self.wake_folder = None if path == MEMORY else Path(f"{self.path}-wake")
        self._adopt = adopt
        self._open()

    def _open(self) -> None:
        self._pid = os.getpid()
        self._readers: list[Connection] = []
        with translated(self.path):
            if self.path != MEMORY:
                self._check_place()
            guard = Path(f"{self.path}-writer") if self.defect and self.path != MEMORY else None
            self._lock = WriteLock(guard)
            self._writer = open_connection(self.path, self.driver)
            self._prepare()
        if self.defect:
            _log.warning("%s", _DEFECT.format(version=library_version(self.driver)))

    def _check_place(self) -> None:
        path = Path(self.path)
        refuse_network_file_system(path)
        if not path.parent.is_dir():
            raise StoreUnreachable(
                f"{path} cannot be opened: there is no folder {path.parent}. Make it, or choose another."
            )
        if path.exists():
            remember_driver(path, self.driver)

    def _prepare(self) -> None:
        """Bring the schema up to date; a fresh file gets all of it."""
        tables = {name for (name,) in self._writer.run("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        ours = "tickwork_migrations" in tables
        if tables and not ours and not self._adopt:
            some = ", ".join(sorted(tables)[:5])
            raise StoreNotOurs(
                f"{self.path} is a database of another program (its tables: {some}). Nothing was touched. To keep "
                f"Tickwork's tables in the same file on purpose, say so once: Tickwork(url, upgrade=True)."
            )
        applied = dict(self._writer.run("SELECT number, checksum FROM tickwork_migrations")) if ours else {}
        if pending(migrations("tickwork.store.sqlite"), applied, self.path):
            self._migrate()
        if self.path != MEMORY:
            self._writer.run("PRAGMA journal_mode=WAL")
            remember_driver(Path(self.path), self.driver)

    def _migrate(self) -> None:
        with self._lock(), self._transaction(self._writer) as writer:
            writer.run(_MIGRATIONS)
            applied = dict(writer.run("SELECT number, checksum FROM tickwork_migrations"))
            for migration in pending(migrations("tickwork.store.sqlite"), applied, self.path):
                writer.script(migration.sql)
                row = (migration.number, migration.name, migration.checksum)
                writer.run("INSERT INTO tickwork_migrations (number, name, checksum) VALUES (?, ?, ?)", row)

    def schema(self) -> dict[int, str]:
        """The migrations that the file has, by number."""
        with self.reading() as connection:
            return dict(connection.run("SELECT number, name FROM tickwork_migrations"))

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """The writing connection inside a transaction that has the write lock from its start."""
        if os.getpid() != self._pid:
            self._open()
        with translated(self.path), self._lock(), self._transaction(self._writer) as connection:
            yield connection

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection for one short read."""
        if os.getpid() != self._pid:
            self._open()
        if self.path == MEMORY:
            with translated(self.path), self._lock():
                yield self._writer
            return
        with translated(self.path):
            connection = self._take_reader()
            try:
                with self._transaction(connection, "BEGIN"):
                    yield connection
            finally:
                self._readers.append(connection)

    def _take_reader(self) -> Connection:
        try:
            return self._readers.pop()
        except IndexError:
            return open_connection(self.path, self.driver)

    @contextlib.contextmanager
    def user_transaction(self, committed: Callable[[], None]) -> Iterator[Any]:
        """A transaction of the user's own; `committed` is called after its commit."""
        if self.path == MEMORY:
            with self.writing() as connection:
                yield UserConnection(connection)
        else:
            connection = open_connection(self.path, self.driver)
            try:
                with translated(self.path), self._file_lock(), self._transaction(connection):
                    yield UserConnection(connection)
            finally:
                connection.close()
        committed()

    @contextlib.contextmanager
    def _file_lock(self) -> Iterator[None]:
        """With a defective library even the user's own transactions must not write beside ours."""
        if not self.defect:
            yield
            return
        with self._lock():
            yield

    def borrowed(self, tx: Any) -> Connection:
        """The connection behind a `tx=` that a caller gave us."""
        if isinstance(tx, UserConnection):
            return tx.inner
        raw = sqlalchemy_driver_connection(tx)
        kind = type(raw).__module__.partition(".")[0]
        if kind == "sqlite3" and self.driver == "sqlite3":
            return SqliteConnection(raw)
        if kind == "apsw" and self.driver == "apsw":
            return ApswConnection(raw)
        if kind in {"sqlite3", "apsw"}:
            raise MixedDrivers(
                f"tx= is a connection of {kind}, and this app opens {self.path} through {self.driver}; two SQLite "
                f"libraries on one file in one process can corrupt it. Nothing was stored. Use Tickwork(url, driver={kind!r})."
            )
        raise InvalidInput(
            f"tx= is a {type(tx).__module__}.{type(tx).__qualname__}, which cannot write to {self.path}. Pass what "
            f"app.connection() gives, or a sqlite3 or SQLAlchemy connection with Tickwork(url, driver='sqlite3')."
        )

    @staticmethod
    @contextlib.contextmanager
    def _transaction(connection: Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[Connection]:
        connection.run(begin)
        try:
            yield connection
            connection.run("COMMIT")
        except BaseException:
            with contextlib.suppress(Exception):
                connection.run("ROLLBACK")
            raise

    def health(self, ahead: timedelta) -> Health:
        version = library_version(self.driver)
        facts = {
            "store": f"SQLite {version} (through {self.driver}), {self.path}",
            "durability": "synchronous=FULL: an answered enqueue survives a power loss",
            "clock": f"the file's own, {format_duration(abs(ahead))} {'ahead of' if ahead > timedelta(0) else 'behind'} this host's",
        }
        warnings = [_DEFECT.format(version=version)] if self.defect else []
        if ahead > _CLOCK_TROUBLE:
            warnings.append(
                f"The store's clock is {format_duration(ahead)} ahead of this host's: the host's clock was set back. No "
                f"job is lost or repeated; those with a fixed time start that much early until the host catches up."
            )
        return Health(facts, warnings)

    def close(self) -> None:
        if os.getpid() != self._pid:
            return
        for connection in (*self._readers, self._writer):
            connection.close()
        self._readers.clear()
        self._lock.close()


class UserConnection:
    """What `app.connection()` gives: `execute(sql, values)` with `fetchall()`, inside one transaction."""

    def __init__(self, inner: Connection) -> None:
        self.inner = inner

    def execute(self, sql: str, values: Any = ()) -> Rows:
        return Rows(self.inner.run(sql, values))


class Rows:
    """The rows that a statement gave."""

    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def fetchall(self) -> list[Any]:
        return self._rows

    def fetchone(self) -> Any:
        return self._rows[0] if self._rows else None


def sqlalchemy_driver_connection(tx: Any) -> Any:
    """The driver's own connection behind a SQLAlchemy session or connection; anything else as it is."""
    if hasattr(tx, "get_bind") and hasattr(tx, "connection"):  # a session
        tx = tx.connection()
    fairy = getattr(tx, "connection", None)
    return getattr(fairy, "driver_connection", tx)


_MIGRATIONS = """CREATE TABLE IF NOT EXISTS tickwork_migrations (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL
) STRICT"""

_DEFECT = (
    "SQLite {version} has the WAL-reset defect: two writers at the same moment can corrupt the file. Tickwork lets one "
    "process write at a time through a lock file, which other programs do not know of. Use driver='apsw' (the default), "
    "or a Python built with SQLite 3.51.3 or newer."
)
