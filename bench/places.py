"""Create SQLite and PostgreSQL databases for the benchmarks, and read them with plain SQL.

Every measurement gets a database of its own. Results are counted as committed rows with plain SQL, independently of the
measured code. Times are microseconds since the epoch on the store's clock.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import count
from pathlib import Path
from struct import unpack_from
from typing import Any

import apsw
import psycopg

from tests.postgres_server import PostgresServer

# Runs in a separate process. It waits for a line, or for the end of this process to close its pipe. Then it kills the
# workers, which it finds by their working folder, and removes the folder.
_GUARD = """
read -r _
for cwd in /proc/[0-9]*/cwd; do
  case "$(readlink "$cwd" 2>/dev/null)" in "$1"/*) pid=${cwd#/proc/}; kill -KILL "${pid%/cwd}" ;; esac
done
rm -rf "$1"
"""
_MB = 1024 * 1024
SETTINGS = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size")


class Database(ABC):
    """A store of one measurement: its URL, and queries on its contents."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder  # for logs and witness files of this measurement

    @abstractmethod
    def rows(self, sql: str) -> list[Any]:
        """Run a statement and return its rows."""

    def one(self, sql: str) -> Any:
        """Return the first value of the first row; None if there are no rows."""
        found = self.rows(sql)
        return found[0][0] if found else None

    @abstractmethod
    def table(self, name: str) -> str:
        """Return the SQL name of a table of Tickwork in this database."""

    @abstractmethod
    def instant(self, column: str) -> str:
        """Return a SQL expression for a time column in microseconds."""

    def finished(self) -> int:
        """Return the number of finished jobs."""
        return int(self.one(f"SELECT count(*) FROM {self.table('finished')}"))

    def queued(self) -> int:
        """Return the number of queued jobs."""
        return int(self.one(f"SELECT count(*) FROM {self.table('queue')}"))

    def parked(self) -> int:
        """Return the number of parked jobs, in the lanes of the limits that hold them."""
        return int(self.one(f"SELECT count(*) FROM {self.table('queue')} WHERE queue LIKE ':%'"))

    def unsuccessful(self) -> int:
        return int(self.one(f"SELECT count(*) FROM {self.table('finished')} WHERE state <> 'succeeded'"))

    def workers(self) -> int:
        """Return the number of workers that have ever registered."""
        return int(self.one(f"SELECT count(*) FROM {self.table('workers')}"))

    def worker_began_us(self) -> int:
        """Return when the newest worker registered, which is just before its first claim."""
        return int(self.one(f"SELECT {self.instant('max(started_at)')} FROM {self.table('workers')}"))

    def ended_us(self, after_us: int, nth: int) -> int:
        """Return when the n-th job ended after a time."""
        ended = self.instant("ended_at")
        return int(
            self.one(
                f"SELECT {ended} FROM {self.table('finished')} WHERE {ended} >= {after_us} "
                f"ORDER BY ended_at LIMIT 1 OFFSET {nth - 1}"
            )
        )

    @abstractmethod
    def settle(self) -> None:
        """Run pending maintenance after the store was filled, so that the next measurement does not pay for it."""

    @abstractmethod
    def counters(self) -> dict[str, float]:
        """Return counters that only grow; the difference of two readings is the activity in between."""

    @abstractmethod
    def size_mb(self) -> float:
        """Return the size of the store on disk, without PostgreSQL's write-ahead log, which belongs to the server."""

    @abstractmethod
    def holding_snapshot(self) -> AbstractContextManager[None]:
        """Hold a snapshot of the store in another session's open transaction for the duration of a block."""

    def first_end_us(self, since_us: int) -> int:
        """Return when the first job ended since a time."""
        ended = self.instant("ended_at")
        return int(self.one(f"SELECT min({ended}) FROM {self.table('finished')} WHERE {ended} >= {since_us}"))

    def ended_in(self, began_us: int, window_s: float) -> dict[int, int]:
        """Return the number of jobs that ended in each time window, by the number of the window."""
        window = f"(({self.instant('ended_at')}) - {began_us}) / {round(window_s * 1e6)}"
        sql = f"SELECT {window}, count(*) FROM {self.table('finished')} WHERE {self.instant('ended_at')} >= {began_us}"
        return {int(number): int(ended) for number, ended in self.rows(f"{sql} GROUP BY 1")}


class Place(ABC):
    """A kind of store on this machine, which creates databases."""

    name: str

    @abstractmethod
    def facts(self) -> dict[str, str]:
        """Return versions and settings that matter for the figures."""

    @abstractmethod
    def fresh(self) -> AbstractContextManager[Database]:
        """Create an empty database for the duration of a block (`with place.fresh() as database`)."""


class SqliteDatabase(Database):
    def __init__(self, folder: Path) -> None:
        super().__init__(f"sqlite:///{folder}/bench.db", folder)
        self._path = str(folder / "bench.db")
        self._connection: apsw.Connection | None = None
        self._index: int | None = None

    def rows(self, sql: str) -> list[Any]:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection.execute(sql).fetchall()

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(self._path)
        connection.set_busy_timeout(10_000)
        return connection

    def table(self, name: str) -> str:
        return f"tickwork_{name}"

    def instant(self, column: str) -> str:
        return column

    def settle(self) -> None:
        """Do nothing: the commit that fills the log beyond its limit also runs the checkpoint."""

    def counters(self) -> dict[str, float]:
        """Return the number of commits, which is in the third word of the wal-index (sqlite.org/walformat.html)."""
        self.rows("PRAGMA schema_version")  # keeps the database open, so that the wal-index is not deleted
        if self._index is None:
            self._index = os.open(f"{self._path}-shm", os.O_RDONLY)
        return {"commits": float(unpack_from("=I", os.pread(self._index, 12, 0), 8)[0])}

    def size_mb(self) -> float:
        files = [Path(self._path + ending) for ending in ("", "-wal")]
        return sum(file.stat().st_size for file in files if file.exists()) / _MB

    @contextmanager
    def holding_snapshot(self) -> Iterator[None]:
        with closing(self._connect()) as other:
            other.execute(f"BEGIN; SELECT count(*) FROM {self.table('workers')}").fetchall()
            yield

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._index is not None:  # not earlier: closing it releases all locks of this process on the file
            os.close(self._index)


class SqlitePlace(Place):
    """SQLite files in a temporary folder on a real disk."""

    name = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def facts(self) -> dict[str, str]:
        return {
            "version": f"SQLite {apsw.sqlite_lib_version()} (apsw {apsw.apsw_version()})",
            "settings": "journal_mode=WAL, synchronous=FULL",
            "disk": file_system(self._folder),
        }

    @contextmanager
    def fresh(self) -> Iterator[SqliteDatabase]:
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        database = SqliteDatabase(folder)
        try:
            yield database
        finally:
            database.close()
            shutil.rmtree(folder)


class PostgresDatabase(Database):
    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(url, folder)
        self._connection = psycopg.connect(url, autocommit=True)

    def rows(self, sql: str) -> list[Any]:
        cursor = self._connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []

    def table(self, name: str) -> str:
        return f"tickwork.{name}"

    def instant(self, column: str) -> str:
        return f"(extract(epoch FROM {column}) * 1000000)::bigint"

    def settle(self) -> None:
        self._connection.execute("VACUUM ANALYZE")  # as autovacuum would at any time in the next minute
        self._connection.execute("CHECKPOINT")

    def counters(self) -> dict[str, float]:
        sums = "coalesce(sum(n_tup_upd + n_tup_del), 0)::float8"
        return {
            "wal_bytes": float(self.one("SELECT pg_current_wal_insert_lsn() - '0/0'")),
            "commits": float(self.one("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")),
            "dead_tuples": float(self.one(f"SELECT {sums} FROM pg_stat_user_tables")),
        }

    def size_mb(self) -> float:
        return float(self.one("SELECT pg_database_size(current_database())")) / _MB

    @contextmanager
    def holding_snapshot(self) -> Iterator[None]:
        with psycopg.connect(self.url) as other:
            other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            other.execute(f"SELECT count(*) FROM {self.table('workers')}".encode()).fetchall()
            yield

    def close(self) -> None:
        self._connection.close()


class PostgresPlace(Place):
    """A PostgreSQL cluster of our own, as Debian ships it, with fsync on."""

    name = "postgres"

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._numbers = count(1)

    def facts(self) -> dict[str, str]:
        with psycopg.connect(self._server.url()) as connection:
            values = {name: connection.execute(f"SHOW {name}".encode()).fetchone() for name in SETTINGS}
        shown = {name: str(row[0]) for name, row in values.items() if row is not None}
        return {
            "version": f"PostgreSQL {shown.pop('server_version')} (psycopg {psycopg.__version__})",
            "settings": ", ".join(f"{name}={value}" for name, value in shown.items()),
            "disk": file_system(self._server.folder),
        }

    @contextmanager
    def fresh(self) -> Iterator[PostgresDatabase]:
        name = f"bench_{next(self._numbers)}"
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        database = PostgresDatabase(self._server.create_database(name), folder)
        try:
            yield database
        finally:
            database.close()
            self._server.drop_database(name)
            shutil.rmtree(folder)


@contextmanager
def opened_places(names: list[str]) -> Iterator[list[Place]]:
    """Start the stores of these names, and remove them at the end of the block."""
    with temporary_folder() as folder:
        places: list[Place] = [SqlitePlace(folder)] if "sqlite" in names else []
        if "postgres" not in names:
            yield places
            return
        with PostgresServer(fsync=True) as server:
            yield [*places, PostgresPlace(server, folder)]


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Create a temporary folder on a real disk, because durability cannot be measured in memory."""
    candidates = (tempfile.gettempdir(), "/var/tmp", str(Path(__file__).parent / "results"))
    parent = next((one for one in candidates if not in_memory(Path(one))), candidates[0])
    folder = Path(tempfile.mkdtemp(prefix="tickwork-bench-", dir=parent)).resolve()
    guard = subprocess.Popen(
        ["/bin/sh", "-c", _GUARD, "guard", str(folder)], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield folder
    finally:
        guard.communicate(b"\n", timeout=30)
        shutil.rmtree(folder, ignore_errors=True)  # in case the cleanup process was killed


def in_memory(path: Path) -> bool:
    return file_system(path) in {"tmpfs", "ramfs", "devtmpfs"}


def file_system(path: Path) -> str:
    """Return the kernel's name of the file system that a folder is on."""
    found = ("", "unknown")
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split(" ")
        if path.resolve().is_relative_to(mount) and len(mount) >= len(found[0]):
            found = (mount, kind)
    return found[1]
