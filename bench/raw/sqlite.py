"""The raw loop on SQLite: WAL, synchronous=FULL, one statement for each step. Frozen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from multiprocessing.connection import Connection as Pipe
from typing import Any

import apsw

from bench.raw.base import PAYLOAD, Raw

_CREATE = """
CREATE TABLE raw_jobs (id INTEGER PRIMARY KEY, state INTEGER NOT NULL, run_at REAL NOT NULL, payload TEXT NOT NULL);
CREATE INDEX raw_due ON raw_jobs (run_at, id) WHERE state = 0;
"""
_INSERT = "INSERT INTO raw_jobs (state, run_at, payload) VALUES (0, ?, ?) RETURNING id"
_CLAIM = """
UPDATE raw_jobs SET state = 1 WHERE id IN (
    SELECT id FROM raw_jobs WHERE state = 0 AND run_at <= ? ORDER BY run_at, id LIMIT ?
) RETURNING id, run_at
"""
_FINISH = "UPDATE raw_jobs SET state = 2 WHERE id = ?"
_NEXT = "SELECT min(run_at) FROM raw_jobs WHERE state = 0"


class RawSqlite(Raw):
    def connect(self) -> apsw.Connection:
        connection = apsw.Connection(self.url.removeprefix("sqlite:///"))
        connection.set_busy_handler(_nap)
        connection.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
        return connection

    def create(self, connection: Any) -> None:
        connection.execute(_CREATE)

    def insert_one(self, connection: Any, run_at: float) -> None:
        connection.execute(_INSERT, (run_at, PAYLOAD)).fetchall()

    def insert_many(self, connection: Any, run_ats: Sequence[float]) -> list[int]:
        connection.execute("BEGIN IMMEDIATE")
        ids = [id for (id,) in connection.executemany(_INSERT, [(run_at, PAYLOAD) for run_at in run_ats])]
        connection.execute("COMMIT")
        return ids

    def claim(self, connection: Any, now: float, limit: int) -> list[tuple[int, float]]:
        rows: list[tuple[int, float]] = connection.execute(_CLAIM, (now, limit)).fetchall()
        return rows

    def finish(self, connection: Any, ids: Sequence[int]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(_FINISH, [(id,) for id in ids])
        connection.execute("COMMIT")

    def next_due(self, connection: Any) -> float | None:
        due: float | None = connection.execute(_NEXT).get
        return due

    def listen(self, connection: Any) -> None:
        """Do nothing: the pipe of `wait` is enough."""

    def call(self, connection: Any, bells: Sequence[Pipe]) -> None:
        for bell in bells:
            bell.send_bytes(b"!")

    def wait(self, connection: Any, bell: Pipe, seconds: float) -> None:
        if bell.poll(seconds):
            bell.recv_bytes()


def _nap(tries: int) -> bool:
    """Sleep shortly as a busy handler; SQLite's own sleeps for up to 100 ms, which would slow this baseline down."""
    time.sleep(0.0005)
    return tries < 20_000
