"""The file of a SQLite store: opened once per process, checked, migrated, and shared between threads.

One connection writes, behind a lock; readers have connections of their own. A forked process opens the file again,
since SQLite connections must not be used across a fork.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw

from tickwork.core.text.duration import format_duration
from tickwork.errors import InvalidInput, MixedDrivers, StoreNotOurs, StoreUnreachable
from tickwork.file_modes import create_private, exposed, narrow
from tickwork.store.base import SchemaStatus, StoreHealth
from tickwork.store.migrate import Migration, migrations, pending, script
from tickwork.store.sqlite.file.connection import (
    ApswConnection,
    Connection,
    FileId,
    SqliteConnection,
    WriteLock,
    check_driver,
    forget_driver,
    has_wal_defect,
    library_version,
    open_connection,
    refuse_network_file_system,
    remember_driver,
    translated,
)
from tickwork.store.sqlite.file.transaction import ENDED, UserConnection, driver_connection, roll_back, transaction
from tickwork.store.sqlite.file.writer_queue import WriterQueue

_log = logging.getLogger("tickwork.store")
MEMORY = ":memory:"
_NO_QUEUE = contextlib.nullcontext()
_CLOCK_TROUBLE = timedelta(seconds=5)
# In a forked process: the parent's connections, referenced so that they are not closed.
_inherited: list[Connection] = []


class SqliteFile:
    """The file of a store: lends connections, and handles locks, threads and forks."""

    def __init__(self, path: str, driver: str, *, adopt: bool) -> None:
        self.path = path if path == MEMORY else str(Path(path).absolute())
        self.driver = driver
        self.defect = has_wal_defect(library_version(driver))
        self.wake_folder = None if path == MEMORY else Path(f"{self.path}-wake")
        self._adopt = adopt
        self._open()

    def _open(self) -> None:
        """Open, check and migrate the file; also after a fork."""
        self._pid = os.getpid()
        self._readers: list[Connection] = []
        self._in_transaction: set[int] = set()  # Threads that hold a transaction of the user's own.
        self._known_as: tuple[FileId, str] | None = None
        with translated(self.path):
            if self.path != MEMORY:
                self._check_place()
            beside = None if self.path == MEMORY else Path(f"{self.path}-writer")
            self._lock = WriteLock(beside if self.defect else None)
            self._queue = None if beside is None or self.defect else WriterQueue(beside)
            self._writer = open_connection(self.path, self.driver)
            try:
                self._prepare()
            except BaseException:
                self.close()
                raise
        if self.defect:
            _log.warning("%s", _DEFECT.format(version=library_version(self.driver)))

    def _check_place(self) -> None:
        """Refuse a network file system, a missing folder or a second library; create the file for this user only."""
        path = Path(self.path)
        refuse_network_file_system(path)
        if not path.parent.is_dir():
            raise StoreUnreachable(
                f"{path} cannot be opened: there is no folder {path.parent}. Make it, or choose another."
            )
        check_driver(path, self.driver)
        create_private(path)  # SQLite gives the WAL and its index the mode of the file.

    def _open_after_fork(self) -> None:
        """Open the file again in a forked process.

        Closing the parent's connections here could release the parent's locks.
        """
        _inherited.extend([*self._readers, self._writer])
        self._open()

    def _prepare(self) -> None:
        """Apply missing migrations; raise StoreNotOurs for a database of another program that was not adopted."""
        tables = {name for (name,) in self._writer.run("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        ours = "tickwork_migrations" in tables
        if tables and not ours and not self._adopt:
            some = ", ".join(sorted(tables)[:5])
            raise StoreNotOurs(
                f"{self.path} is a database of another program (its tables: {some}). Nothing was touched. To keep "
                f"Tickwork's tables in the same file on purpose, say so once: Tickwork(url, upgrade=True)."
            )
        applied = dict(self._writer.run(_APPLIED)) if ours else {}
        if pending(migrations(_PACKAGE), applied, self.path):
            self._migrate()
        if self.path != MEMORY:
            # A file shared with another program's tables keeps the mode that its users need.
            if all(name.startswith(("tickwork_", "sqlite_")) for name in tables):
                for part in self._parts():
                    narrow(part)
            self._writer.run("PRAGMA journal_mode=WAL")
            self._known_as = remember_driver(Path(self.path), self.driver)

    def _migrate(self) -> list[Migration]:
        """Apply the missing migrations in one write transaction, and return them.

        They are determined again under the lock.
        """
        with self._lock, transaction(self._writer, self._turn()) as writer:
            writer.run(_MIGRATIONS)
            missing = pending(migrations(_PACKAGE), dict(writer.run(_APPLIED)), self.path)
            for migration in missing:
                writer.script(migration.sql)
                row = (migration.number, migration.name, migration.checksum)
                writer.run("INSERT INTO tickwork_migrations (number, name, checksum) VALUES (?, ?, ?)", row)
        return missing

    def schema_status(self) -> SchemaStatus:
        """Return which migrations are applied and which are missing."""
        with self.reading() as connection:
            applied = dict(connection.run(_APPLIED))
        known = migrations(_PACKAGE)
        missing = pending(known, applied, self.path)
        return SchemaStatus(tuple(known[: len(known) - len(missing)]), tuple(missing))

    def upgrade(self) -> list[Migration]:
        """Apply the missing migrations and return them. To open the file applies them, too."""
        if os.getpid() != self._pid:
            self._open_after_fork()
        with translated(self.path):
            return self._migrate()

    def _turn(self) -> AbstractContextManager[None]:
        """Return the context manager in which a write begins, in the order of the writers' queue.

        There is no queue in memory, or with the lock file of a defective library.
        """
        return _NO_QUEUE if self._queue is None else self._queue.turn()

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """Lend the writing connection in a transaction that holds the write lock from its start.

        Raise InvalidInput in a thread that has a transaction of `app.connection()` open.
        """
        if os.getpid() != self._pid:
            self._open_after_fork()
        if threading.get_ident() in self._in_transaction:
            raise InvalidInput(
                f"this thread has a transaction open on {self.path} (app.connection()), which a second one would wait "
                f"for until its timeout. Nothing was written. Pass it along: tx=."
            )
        with translated(self.path), self._lock, transaction(self._writer, self._turn()) as connection:
            yield connection

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """Lend a connection for one short read."""
        if os.getpid() != self._pid:
            self._open_after_fork()
        if self.path == MEMORY:
            with translated(self.path), self._lock:
                yield self._writer
            return
        with translated(self.path):
            connection = self._take_reader()
            try:
                with transaction(connection):
                    yield connection
            finally:
                self._readers.append(connection)

    def _take_reader(self) -> Connection:
        """Return an idle reading connection, or a new one."""
        try:
            return self._readers.pop()
        except IndexError:
            return open_connection(self.path, self.driver)

    @contextlib.contextmanager
    def user_transaction(self, committed: Callable[[], None]) -> Iterator[Any]:
        """Lend a connection in a write transaction of the user's; call `committed` after its commit.

        Errors of the user's own statements are not translated.
        """
        if os.getpid() != self._pid:
            self._open_after_fork()
        own = self.path == MEMORY
        connection = self._writer if own else open_connection(self.path, self.driver)
        handle = UserConnection(connection, self, self.path)
        try:
            # With a defective library even the user's own transactions must not write concurrently.
            with self._lock if own or self.defect else contextlib.nullcontext():
                with translated(self.path), self._turn():
                    connection.run("BEGIN IMMEDIATE")
                try:
                    with self._marked():
                        yield handle
                        with translated(self.path):
                            connection.run("COMMIT")
                except BaseException:
                    roll_back(connection)
                    raise
                finally:
                    handle.has_ended = True
        finally:
            if not own:
                connection.close()
        committed()

    @contextlib.contextmanager
    def _marked(self) -> Iterator[None]:
        """Record that this thread holds the file's write lock during the block."""
        thread = threading.get_ident()
        self._in_transaction.add(thread)
        try:
            yield
        finally:
            self._in_transaction.discard(thread)

    @contextlib.contextmanager
    def borrowed(self, tx: Any) -> Iterator[Connection]:
        """Lend the connection of a caller's `tx=`, in a savepoint: all statements of the block take effect, or none."""
        connection = self._lent(tx) if isinstance(tx, UserConnection) else self._behind(tx)
        with translated(self.path):
            connection.run("SAVEPOINT tickwork")
            try:
                yield connection
            except BaseException:
                with contextlib.suppress(Exception):
                    connection.run("ROLLBACK TO tickwork")
                    connection.run("RELEASE tickwork")
                raise
            connection.run("RELEASE tickwork")

    def _lent(self, tx: UserConnection) -> Connection:
        """Return the connection of an `app.connection()`. Raise InvalidInput if it has ended, or is on another file."""
        same = os.path.realpath(tx.path) == os.path.realpath(self.path) and self.path != MEMORY
        if tx.owner is not self and not same:
            raise InvalidInput(f"tx= is a connection to {tx.path}, not to {self.path}. Nothing was stored.")
        if tx.has_ended:
            raise InvalidInput(f"tx= is an app.connection() to {self.path} {ENDED}")
        return tx.inner

    def _behind(self, tx: Any) -> Connection:
        """Return the driver's connection of a caller's own `tx`, in a transaction if its library expects one."""
        raw = driver_connection(tx)
        kind = type(raw).__module__.partition(".")[0]
        if kind in {"sqlite3", "apsw"} and kind != self.driver:
            raise MixedDrivers(
                f"tx= is a connection of {kind}, and this app opens {self.path} through {self.driver}; two SQLite "
                f"libraries on one file in one process can corrupt it. Nothing was stored. "
                f"Use Tickwork(url, driver={kind!r})."
            )
        if kind not in {"sqlite3", "apsw"}:
            raise InvalidInput(
                f"tx= is a {type(tx).__module__}.{type(tx).__qualname__}, which cannot write to {self.path}. Pass what "
                f"app.connection() gives, or a sqlite3 or SQLAlchemy connection with Tickwork(url, driver='sqlite3')."
            )
        connection: Connection = SqliteConnection(raw) if kind == "sqlite3" else ApswConnection(raw)
        self._check_same_file(connection)
        connection.begin_if_expected()
        return connection

    def _check_same_file(self, connection: Connection) -> None:
        """Raise InvalidInput if a connection is closed, or is on another file."""
        try:
            files = {file for _, name, file in connection.run("PRAGMA database_list") if name == "main"}
        except (sqlite3.ProgrammingError, apsw.ConnectionClosedError) as error:
            raise InvalidInput(f"tx= is a connection that cannot be used ({error}). Nothing was stored.") from None
        if not any(file and os.path.realpath(file) == os.path.realpath(self.path) for file in files):
            other = files.pop() or MEMORY
            raise InvalidInput(f"tx= is a connection to {other}, not to {self.path}. Nothing was stored.")

    def health(self, ahead: timedelta, stuck: int) -> StoreHealth:
        """Return facts and warnings about the file, for `tickwork doctor`."""
        version = library_version(self.driver)
        offset = f"{format_duration(abs(ahead))} {'ahead of' if ahead > timedelta(0) else 'behind'} this host's"
        facts = {
            "store": f"SQLite {version} (through {self.driver}), {self.path}",
            "durability": "synchronous=FULL: an answered enqueue survives a power loss",
            "clock": f"the file's own, {offset}",
            "size": f"{self._size():,} bytes",
            "stuck leases": str(stuck),
        }
        warnings = [_DEFECT.format(version=version)] if self.defect else []
        if ahead > _CLOCK_TROUBLE:
            warnings.append(
                f"The store's clock is {format_duration(ahead)} ahead of this host's: the host's clock was set back. "
                f"No job is lost or repeated; those with a fixed time start that much early until the host catches up."
            )
        if stuck:
            warnings.append(
                f"{stuck} attempts belong to workers whose lease ran out over a minute ago. No reaper runs: start a "
                f"worker."
            )
        if open_to_others := " ".join(map(str, exposed(self._parts()))):
            warnings.append(
                f"Other users of this machine have rights to files of this store, which hold arguments and results. "
                f"Take them away: chmod 600 {open_to_others}"
            )
        return StoreHealth(facts, warnings)

    def _parts(self) -> list[Path]:
        """Return the files of this store: SQLite's three, and the lock file of its writers."""
        return [] if self.path == MEMORY else [Path(f"{self.path}{end}") for end in ("", "-wal", "-shm", "-writer")]

    def _size(self) -> int:
        """Return the bytes of the file and its WAL."""
        parts = (Path(f"{self.path}{end}") for end in ("", "-wal"))
        return sum(part.stat().st_size for part in parts if part.exists())

    def close(self) -> None:
        """Close all connections, except in a forked process, where they are the parent's."""
        if os.getpid() != self._pid:
            return
        for connection in (*self._readers, self._writer):
            connection.close()
        self._readers.clear()
        self._lock.close()
        if self._queue is not None:
            self._queue.close()
        if self._known_as is not None:
            forget_driver(self._known_as)
            self._known_as = None


def schema_script() -> str:
    """Return one SQL transaction that creates the schema, to be applied by hand."""
    return script(_MIGRATIONS, migrations(_PACKAGE), "tickwork_migrations")


_PACKAGE = "tickwork.store.sqlite"
_APPLIED = "SELECT number, checksum FROM tickwork_migrations"
_MIGRATIONS = """CREATE TABLE IF NOT EXISTS tickwork_migrations (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL
) STRICT"""

_DEFECT = (
    "SQLite {version} has the WAL-reset defect: two writers at the same moment can corrupt the file. Tickwork lets one "
    "process write at a time through a lock file, which other programs do not know of. Use driver='apsw' (the "
    "default), or a Python built with SQLite 3.51.3 or newer."
)
