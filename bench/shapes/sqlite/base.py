"""Base class of the shapes on SQLite: WAL, synchronous=FULL, one transaction per verb.

SQLite has one writer at a time and keeps no dead rows that a claim would scan, so no lower bound is needed. Writes to
the log are counted here at each commit, because SQLite does not count them.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import apsw
import msgspec

from bench.shapes.base import LEASE_S, LEVELS, QUEUE, RESULT, TASK, Claimed, NewJob, Shape, ShapeFailed, Variant

_CHECKPOINT_PAGES = 1000  # SQLite's default
_FRAME = 24  # bytes of the log around each page
_BUSY_LIMIT_S = 30.0
_NAP_S = 0.0005

WORKERS = """
CREATE TABLE workers (id TEXT PRIMARY KEY, state TEXT NOT NULL, lease_until INTEGER NOT NULL) STRICT, WITHOUT ROWID;
"""
JOBS = """
CREATE TABLE jobs (
    job_id TEXT PRIMARY KEY, task TEXT NOT NULL, queue TEXT NOT NULL, priority INTEGER NOT NULL, args TEXT NOT NULL,
    policy TEXT NOT NULL, labels TEXT NOT NULL, created_at INTEGER NOT NULL, due_at INTEGER NOT NULL, expires_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX jobs_task ON jobs (task, job_id);
"""
INSERT_JOB = """
INSERT INTO jobs (job_id, task, queue, priority, args, policy, labels, created_at, due_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
RUNNING = """
CREATE TABLE running (
    job_id TEXT PRIMARY KEY, attempt INTEGER NOT NULL, worker TEXT NOT NULL, queue TEXT NOT NULL,
    priority INTEGER NOT NULL, task TEXT NOT NULL, run_at INTEGER NOT NULL, claimed_at INTEGER NOT NULL,
    failures INTEGER NOT NULL, expires_at INTEGER, cancel_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX running_worker ON running (worker);
CREATE TABLE finished (
    job_id TEXT PRIMARY KEY, state TEXT NOT NULL, ended_at INTEGER NOT NULL, run_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL, worker TEXT, started_at INTEGER, failures INTEGER NOT NULL, result TEXT, error TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX finished_end ON finished (ended_at);
"""
_REGISTER = """
INSERT INTO workers VALUES (?, 'running', ?) ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until
"""
_LEASE = "SELECT 1 FROM workers WHERE id = ? AND state = 'running' AND lease_until > ?"


class SqliteShape(Shape):
    """The common code of the shapes on SQLite."""

    tables: ClassVar[str]
    pick: ClassVar[str]  # the due jobs of one priority, oldest first, as the columns of Claimed
    successes: ClassVar[str]

    def __init__(self, variant: Variant, url: str, worker: str) -> None:
        super().__init__(variant, url, worker)
        self.tally = {"wal_bytes": 0.0, "commits": 0.0}
        self.connection = apsw.Connection(url.removeprefix("sqlite:///"))
        self.connection.set_busy_handler(_nap)
        self.connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        self.connection.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
        self._pages = 0
        self._page_bytes = int(self.query("PRAGMA page_size")) + _FRAME
        self.connection.set_wal_hook(self._committed)

    def _committed(self, connection: apsw.Connection, name: str, pages: int) -> int:
        """Count a commit, then checkpoint as SQLite does by default; this hook replaces the automatic checkpoint."""
        self.tally["commits"] += 1
        self.tally["wal_bytes"] += (pages - self._pages if pages > self._pages else pages) * self._page_bytes
        self._pages = pages
        if pages >= _CHECKPOINT_PAGES:
            with suppress(apsw.BusyError):  # another connection is running a checkpoint
                connection.wal_checkpoint(name)
        return apsw.SQLITE_OK

    @contextmanager
    def writing(self) -> Iterator[int]:
        """Run a write transaction; yields its time, which is read after the write lock is held."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield time.time_ns() // 1000
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def create(self) -> None:
        self.connection.execute(WORKERS + self.tables)

    def register(self, lease_s: float = LEASE_S) -> None:
        with self.writing() as now:
            self.connection.execute(_REGISTER, (self.worker, now + round(lease_s * 1e6)))

    def insert(self, jobs: Sequence[NewJob]) -> None:
        with self.writing() as now:
            self.enter(jobs, now)

    def claim(self, limit: int) -> list[Claimed]:
        with self.writing() as now:
            return self._take(limit, now)

    def finish(self, claims: Sequence[Claimed]) -> list[str]:
        with self.writing() as now:
            return self.end(claims, now)

    def finish_and_claim(self, claims: Sequence[Claimed], limit: int) -> tuple[list[str], list[Claimed]]:
        with self.writing() as now:
            return self.end(claims, now), self._take(limit, now)

    def _take(self, limit: int, now: int) -> list[Claimed]:
        if not self.connection.execute(_LEASE, (self.worker, now)).fetchall():
            return []
        picked: list[Claimed] = []
        for level in LEVELS:
            if len(picked) == limit:
                break
            asked = {
                "queue": QUEUE,
                "priority": level,
                "now": now,
                "limit": limit - len(picked),
                "tasks": f'["{TASK}"]',
            }
            picked += map(Claimed._make, self.connection.execute(self.pick, asked))
        self.start(picked, now)
        return picked

    @abstractmethod
    def enter(self, jobs: Sequence[NewJob], now: int) -> None:
        """Store jobs and queue them."""

    @abstractmethod
    def start(self, picked: Sequence[Claimed], now: int) -> None:
        """Move the picked jobs from the queue to this worker."""

    @abstractmethod
    def end(self, claims: Sequence[Claimed], now: int) -> list[str]:
        """Close the attempts that are still current; return the ids of their jobs."""

    def ended(self) -> list[str]:
        return [id for (id,) in self.connection.execute(self.successes)]

    def query(self, sql: str) -> Any:
        row = self.connection.execute(sql).fetchone()
        if row is None:
            raise ShapeFailed(f"No row came back: {sql}")
        return row[0]

    def tend(self) -> None:
        """Do nothing: SQLite keeps no dead rows."""

    def relax(self) -> None:
        """Do nothing: there are no planner settings."""

    def hold(self) -> None:
        self.connection.execute("BEGIN")
        self.query(self.history)

    def settle(self) -> None:
        """Do nothing, as in the product: statistics without running jobs lead to plans that scan all of them."""

    def close(self) -> None:
        self.connection.close()


def ids_of(claims: Sequence[Claimed]) -> str:
    return msgspec.json.encode([claim.job_id for claim in claims]).decode()


def endings_of(claims: Sequence[Claimed]) -> str:
    rows = [(claim.job_id, claim.attempt, "succeeded", 0, 0, RESULT) for claim in claims]
    return msgspec.json.encode(rows).decode()


def _nap(tries: int) -> bool:
    """Sleep shortly as a busy handler; SQLite's own sleeps for up to 100 ms, which would delay claims."""
    time.sleep(_NAP_S)
    return tries < _BUSY_LIMIT_S / _NAP_S
