"""Open a SQLite file safely, through apsw or the standard library, behind one interface.

Only one SQLite library per process and file: POSIX locks of a process are released when either copy of the library
closes the file, so a second driver on the same file is refused. A library with the WAL-reset defect is only used with a
lock file that lets one process write at a time.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import apsw

from tickwork.errors import MixedDrivers, StoreError, StoreFull, StoreNotOurs, StoreReadOnly, StoreUnreachable
from tickwork.file_modes import FILE_MODE

BUSY_S = 5.0
_NAP_S, _FIRST_NAP_S = 0.0005, 0.00005
_FIRST_NAPS = 20  # A commit takes about as long as these.
MOUNTS = Path("/proc/mounts")
_PRAGMAS = "PRAGMA synchronous=FULL;\nPRAGMA journal_size_limit=67108864;"
_NETWORK = frozenset(
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "fuse.sshfs",
        "afs",
        "ceph",
        "fuse.ceph",
        "glusterfs",
        "fuse.glusterfs",
        "lustre",
        "gpfs",
        "beegfs",
        "9p",
    ]
)
FileId = tuple[int, int]
_drivers: Counter[tuple[FileId, str]] = Counter()  # How often each library has each file open in this process.
_drivers_lock = threading.Lock()

Values = Sequence[Any] | dict[str, Any]


class Connection(Protocol):
    """The interface of a SQLite connection, for both libraries."""

    raw: Any

    def run(self, sql: str, values: Values = ()) -> list[Any]:
        """Run one statement and return all its rows as tuples."""

    def run_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run one statement that returns no rows, for each row of values."""

    def rows(self, sql: str, values: Values = ()) -> list[dict[str, Any]]:
        """Run one statement and return all its rows as dicts by column name."""

    def script(self, sql: str) -> None:
        """Run several statements, each of which begins on a new line."""

    def begin_if_expected(self) -> None:
        """Begin a transaction if the library would have begun one before the first write."""

    def close(self) -> None: ...


class ApswConnection:
    """A connection of apsw, which bundles a current SQLite."""

    def __init__(self, raw: apsw.Connection) -> None:
        self.raw = raw

    def run(self, sql: str, values: Values = ()) -> list[Any]:
        return self.raw.execute(sql, values).fetchall()

    def run_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        self.raw.executemany(sql, rows)

    def rows(self, sql: str, values: Values = ()) -> list[dict[str, Any]]:
        cursor = self.raw.execute(sql, values)
        try:
            names = [column[0] for column in cursor.description]
        except apsw.ExecutionCompleteError:  # A statement without rows has finished already.
            return []
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def script(self, sql: str) -> None:
        self.raw.execute(sql).fetchall()  # Without fetchall it would stop at the first statement that returns a row.

    def begin_if_expected(self) -> None: ...

    def close(self) -> None:
        self.raw.close()


class SqliteConnection:
    """A connection of the standard library, for a file that the user's own sqlite3 code shares."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self.raw = raw

    def run(self, sql: str, values: Values = ()) -> list[Any]:
        return self._cursor().execute(sql, values).fetchall()

    def run_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        self._cursor().executemany(sql, rows)

    def rows(self, sql: str, values: Values = ()) -> list[dict[str, Any]]:
        cursor = self._cursor().execute(sql, values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def _cursor(self) -> sqlite3.Cursor:
        """Return a cursor that returns tuples, whatever the user's row factory is."""
        cursor = self.raw.cursor()
        cursor.row_factory = None
        return cursor

    def script(self, sql: str) -> None:
        for statement in _statements(sql):
            self.raw.execute(statement)

    def begin_if_expected(self) -> None:
        if self.raw.isolation_level is not None and not self.raw.in_transaction:
            self.raw.execute("BEGIN")

    def close(self) -> None:
        self.raw.close()


def open_connection(path: str, driver: str) -> Connection:
    """Open the file for reading and writing, with synchronous=FULL, and return the connection."""
    connection: Connection = (
        ApswConnection(_open_apsw(path)) if driver == "apsw" else SqliteConnection(_open_sqlite(path))
    )
    connection.script(_PRAGMAS)
    return connection


def _open_apsw(path: str) -> apsw.Connection:
    """Open the file through apsw, with Tickwork's busy handler."""
    # A statement run for many rows takes an entry of this cache for each row, which must not evict the others.
    raw = apsw.Connection(path, statementcachesize=512)
    raw.set_busy_handler(_busy_handler())
    # Otherwise the library plans a statement again when a bound value could change its plan: for a claim, always.
    raw.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    return raw


def _open_sqlite(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)


def _busy_handler() -> Any:
    """Return a busy handler for apsw that retries every half millisecond, at first more often.

    SQLite's own handler sleeps up to 100 ms.
    """
    began = 0.0

    def nap(tries: int) -> bool:
        nonlocal began
        if tries == 0:
            began = time.monotonic()
        time.sleep(_FIRST_NAP_S if tries < _FIRST_NAPS else _NAP_S)
        return time.monotonic() - began < BUSY_S

    return nap


def library_version(driver: str) -> str:
    return apsw.sqlite_lib_version() if driver == "apsw" else sqlite3.sqlite_version


def has_wal_defect(version: str) -> bool:
    """Return whether a library can corrupt a WAL file when one connection checkpoints while another commits."""
    numbers = tuple(int(part) for part in version.split("."))
    return numbers < (3, 51, 3) and not ((3, 50, 7) <= numbers < (3, 51)) and not ((3, 44, 6) <= numbers < (3, 45))


def check_driver(path: Path, driver: str) -> None:
    """Raise MixedDrivers if another library has the file open in this process."""
    if not path.exists():
        return
    known = {opened for file, opened in _drivers if file == _file_id(path)} - {driver}
    if known:
        other = known.pop()
        raise MixedDrivers(
            f"{path} is open in this process through {other}; opening it through {driver} as well can corrupt it. "
            f"Use one of them: Tickwork(url, driver={other!r})."
        )


def remember_driver(path: Path, driver: str) -> tuple[FileId, str]:
    """Record that a library has the file open in this process; return the value for `forget_driver`."""
    opened = (_file_id(path), driver)
    with _drivers_lock:
        _drivers[opened] += 1
    return opened


def forget_driver(opened: tuple[FileId, str]) -> None:
    """Record that a connection, as `remember_driver` returned it, was closed."""
    with _drivers_lock:
        _drivers[opened] -= 1
        if not _drivers[opened]:
            del _drivers[opened]


def _file_id(path: Path) -> FileId:
    status = path.stat()
    return status.st_dev, status.st_ino


def refuse_network_file_system(path: Path) -> None:
    """Raise StoreNotOurs on a network file system, where SQLite's locks do not work."""
    try:
        mounts = MOUNTS.read_text().splitlines()
    except OSError:
        return  # Not Linux: it cannot be determined.
    parent = str(path.parent.resolve())
    found = ("", "")
    for line in mounts:
        _, mount, kind, *_ = (field.replace(r"\040", " ") for field in line.split(" "))
        inside = parent == mount or parent.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(found[0]):
            found = (mount, kind)
    if found[1] in _NETWORK:
        raise StoreNotOurs(
            f"{path} is on a network file system ({found[1]} at {found[0]}), where SQLite's locks do not hold. "
            f"Nothing was touched. Use a local disk, or PostgreSQL: TICKWORK_URL=postgresql://..."
        )


class WriteLock:
    """Admits one writer at a time: among the threads of this process and, with `path`, among processes too."""

    def __init__(self, path: Path | None) -> None:
        self._threads = threading.RLock()
        self._file = None if path is None else os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)

    def __enter__(self) -> None:
        self._threads.acquire()
        if self._file is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX)
            except BaseException:
                self._threads.release()
                raise

    def __exit__(self, *_: object) -> None:
        try:
            if self._file is not None:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        finally:
            self._threads.release()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class translated:
    """Translate SQLite's errors in a block to Tickwork's, for both libraries."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (apsw.Error, sqlite3.Error)):
            raise _translate(self._path, error) from error
        # Raised by opening the lock file.
        if isinstance(error, OSError) and error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise StoreReadOnly(f"{self._path} cannot be written ({error.strerror}). Nothing was written.") from error


def _translate(path: str, error: Exception) -> StoreError:
    """Return Tickwork's error for a SQLite error, by its primary result code."""
    match _primary_code(error):
        case 5 | 6:
            return StoreUnreachable(
                f"{path} stayed locked by another writer for {BUSY_S:.0f} s. Nothing was written. Is a transaction of "
                f"app.connection() held open, or another program writing to the file?"
            )
        case 8:
            return StoreReadOnly(f"{path} cannot be written (read-only file, folder or disk). Nothing was written.")
        case 13:
            return StoreFull(
                f"the disk of {path} is full. Nothing was written. Free some room; work goes on by itself."
            )
        case 14:
            return StoreUnreachable(f"{path} cannot be opened. Does its folder exist, and may this user write there?")
        case 11 | 26:
            return StoreNotOurs(f"{path} is not a SQLite database ({error}). Nothing was touched.")
        case _:
            return StoreError(f"SQLite refused on {path}: {error}")


def is_stored_already(error: BaseException | None) -> bool:
    """Return whether the error is an insert of a job id that exists already."""
    return isinstance(error, (apsw.ConstraintError, sqlite3.IntegrityError)) and "tickwork_jobs.id" in str(error)


def _primary_code(error: Exception) -> int:
    """Return SQLite's primary result code of an error of either library; 0 if it has none."""
    code = (
        getattr(error, "sqlite_errorcode", None)
        or getattr(error, "extendedresult", None)
        or getattr(error, "result", 0)
    )
    return int(code or 0) & 0xFF


def _statements(script: str) -> Iterator[str]:
    """Split a script at the lines that end a statement."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement
