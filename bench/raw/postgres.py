"""The raw loop on PostgreSQL: SKIP LOCKED, one statement and one commit for each step. Frozen."""

from __future__ import annotations

from collections.abc import Sequence
from multiprocessing.connection import Connection as Pipe
from typing import Any

import psycopg

from bench.raw.base import PAYLOAD, Raw

_CREATE = """
CREATE TABLE raw_jobs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state smallint NOT NULL, run_at float8 NOT NULL, payload text NOT NULL
);
CREATE INDEX raw_due ON raw_jobs (run_at, id) WHERE state = 0;
"""
_INSERT = "INSERT INTO raw_jobs (state, run_at, payload) VALUES (0, %s, %s) RETURNING id"
_INSERT_MANY = """
INSERT INTO raw_jobs (state, run_at, payload)
SELECT 0, run_at, %s FROM unnest(%s::float8[]) AS given (run_at) RETURNING id
"""
_CLAIM = """
WITH picked AS MATERIALIZED (
    SELECT id FROM raw_jobs WHERE state = 0 AND run_at <= %s ORDER BY run_at, id LIMIT %s FOR UPDATE SKIP LOCKED
)
UPDATE raw_jobs j SET state = 1 FROM picked p WHERE j.id = p.id RETURNING j.id, j.run_at
"""
_FINISH = "UPDATE raw_jobs SET state = 2 WHERE id = ANY (%s)"
_NEXT = "SELECT min(run_at) FROM raw_jobs WHERE state = 0"


class RawPostgres(Raw):
    def connect(self) -> Any:
        return psycopg.connect(self.url, autocommit=True, prepare_threshold=0)

    def create(self, connection: Any) -> None:
        connection.execute(_CREATE, prepare=False)

    def insert_one(self, connection: Any, run_at: float) -> None:
        connection.execute(_INSERT, (run_at, PAYLOAD)).fetchall()

    def insert_many(self, connection: Any, run_ats: Sequence[float]) -> list[int]:
        return [id for (id,) in connection.execute(_INSERT_MANY, (PAYLOAD, list(run_ats))).fetchall()]

    def claim(self, connection: Any, now: float, limit: int) -> list[tuple[int, float]]:
        rows: list[tuple[int, float]] = connection.execute(_CLAIM, (now, limit)).fetchall()
        return rows

    def finish(self, connection: Any, ids: Sequence[int]) -> None:
        connection.execute(_FINISH, (list(ids),))

    def next_due(self, connection: Any) -> float | None:
        due: float | None = connection.execute(_NEXT).fetchone()[0]
        return due

    def listen(self, connection: Any) -> None:
        connection.execute("LISTEN raw_jobs")

    def call(self, connection: Any, bells: Sequence[Pipe]) -> None:
        connection.execute("NOTIFY raw_jobs")

    def wait(self, connection: Any, bell: Pipe, seconds: float) -> None:
        for _ in connection.notifies(timeout=seconds, stop_after=1):
            pass
