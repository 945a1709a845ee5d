"""Base class of the shapes on PostgreSQL: statements composed of parts, one statement and one commit per verb.

A shape defines its tables and its different parts. A claim consists of `picked`, which finds and locks the jobs, and of
the parts that move them; a finish consists of the parts that close the jobs of `ending`; a fused statement has the
parts of both.

Hot tables are never simply joined: their rows are addressed by ctid, by an array of ids, or by single lookups
(LATERAL ... LIMIT). If the statistics show an empty table, the planner may prefer a sequential scan to an index, and
then reads every dead row each time. Autovacuum produces such statistics whenever it finds a queue without live rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import psycopg

from bench.shapes.base import LEASE_S, LEVELS, QUEUE, RESULT, TASK, Claimed, NewJob, Shape, ShapeFailed, Variant
from bench.shapes.bound import Bound
from bench.shapes.postgres.passing import Batch, literal

# The settings of the product: plans use indexes, which is right at every size.
_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}
_JOBS = Batch(
    "jobs",
    (
        ("job_id", "uuid"),
        ("priority", "smallint"),
        ("task", "text"),
        ("queue", "text"),
        ("args", "text"),
        ("policy", "text"),
        ("labels", "text"),
    ),
)
_ENDINGS = Batch(
    "endings",
    (
        ("job_id", "uuid"),
        ("attempt", "integer"),
        ("slot", "smallint"),
        ("state", "text"),
        ("waited_us", "bigint"),
        ("failures", "integer"),
        ("result", "text"),
    ),
)
# In every shape, vacuum runs soon after claims.
HOT = "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0"
WORKERS = """
CREATE TABLE workers (id text COLLATE "C" PRIMARY KEY, state text NOT NULL, lease_until timestamptz NOT NULL);
"""
JOBS = """
CREATE TABLE jobs (
    job_id uuid PRIMARY KEY, task text COLLATE "C" NOT NULL, queue text COLLATE "C" NOT NULL,
    priority smallint NOT NULL, args text NOT NULL, policy text NOT NULL, labels text NOT NULL,
    created_at timestamptz NOT NULL, due_at timestamptz NOT NULL, expires_at timestamptz
);
CREATE INDEX jobs_task ON jobs (task, job_id);
"""
_REGISTER = """
INSERT INTO workers VALUES (%(worker)s, 'running', clock_timestamp() + %(lease_s)s * interval '1 second')
ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until
"""
_CLOCK = "clock AS MATERIALIZED (SELECT clock_timestamp() AS now)"
_GIVEN = "given AS MATERIALIZED (SELECT given.* FROM {jobs})"
_ENDING = "ending AS MATERIALIZED (SELECT given.* FROM {endings})"
_PICKED = """
holder AS MATERIALIZED (
    SELECT w.id FROM workers w
    WHERE  w.id = %(worker)s AND w.state = 'running' AND w.lease_until > (SELECT now FROM clock)
    FOR KEY SHARE
),
picked AS MATERIALIZED (
    SELECT due.*
    FROM (
        SELECT level.*, clock.now
        FROM   holder CROSS JOIN clock
        CROSS  JOIN unnest(%(levels)s::smallint[], %(after_at)s::timestamptz[], %(after_id)s::uuid[])
               AS level (priority, after_at, after_id)
        ORDER  BY level.priority
    ) place
    CROSS JOIN LATERAL (
        SELECT q.ctid AS place, q.job_id, q.attempt, q.queue, q.priority, q.run_at, q.task, q.failures,
               q.expires_at{slot}
        FROM   {queue} q
        WHERE  {queued} AND q.queue = %(queue)s AND q.priority = place.priority
        AND    (q.run_at, q.job_id) > (place.after_at, place.after_id) AND q.run_at <= place.now
        AND    q.task = ANY (%(tasks)s::text[]) AND (q.expires_at IS NULL OR q.expires_at > place.now)
        ORDER  BY q.run_at, q.job_id
        LIMIT  %(limit)s::bigint
        FOR UPDATE OF q SKIP LOCKED
    ) due
    LIMIT %(limit)s::bigint
)"""
_CLAIMED = """
SELECT c.* FROM (
    {claimed}
    ORDER BY 4, 5, 1
) c"""
_CLOSED = "SELECT job_id::text, NULL::integer, 0, 0, NULL::timestamptz, '', '', NULL::timestamptz FROM closed"


class PostgresShape(Shape):
    """The common code of the shapes on PostgreSQL."""

    tables: ClassVar[str]
    filled: ClassVar[tuple[str, ...]]  # the tables that an insert writes to; the others are empty initially
    insert_parts: ClassVar[str]  # reads `given` and `clock`
    queue: ClassVar[str]  # the table of queued jobs, as `q`, and the condition of a free job
    queued: ClassVar[str] = "true"
    slot: ClassVar[str] = ""  # further columns of `picked`
    claim_parts: ClassVar[str]  # reads `picked` and `clock`
    claimed: ClassVar[str]  # the columns of Claimed, and now
    finish_parts: ClassVar[str]  # reads `ending` and `clock`, ends in `closed`
    reclaim_parts: ClassVar[str]  # one statement, which returns a row for each job
    successes: ClassVar[str]

    def __init__(self, variant: Variant, url: str, worker: str, bound: Bound | None = None) -> None:
        super().__init__(variant, url, worker)
        self.bound = bound or Bound(variant.bound)
        self.connection = psycopg.connect(url, autocommit=True, prepare_threshold=0)
        calls = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in _SETTINGS.items())
        self.connection.execute(f"SELECT {calls}".encode())
        self._prepare_texts()

    def _prepare_texts(self) -> None:
        given, ending = self._filled(_GIVEN), self._filled(_ENDING)
        picked = _PICKED.format(queue=self.queue, queued=self.queued, slot=self.slot)
        claimed = _CLAIMED.format(claimed=self.claimed)
        self._insert = _statement(given, self.insert_parts)
        self._claim = _statement(picked, self.claim_parts, answer=claimed)
        self._finish = _statement(ending, self.finish_parts, answer=_CLOSED)
        both = (ending, self.finish_parts, picked, self.claim_parts)
        self._both = _statement(*both, answer=f"{_CLOSED} UNION ALL {claimed}")

    def _filled(self, text: str) -> str:
        passing = self.variant.passing
        return text.format(jobs=_JOBS.source(passing), endings=_ENDINGS.source(passing))

    def create(self) -> None:
        self.connection.execute((WORKERS + self.tables).encode(), prepare=False)

    def register(self, lease_s: float = LEASE_S) -> None:
        self.connection.execute(_REGISTER, {"worker": self.worker, "lease_s": lease_s})

    def insert(self, jobs: Sequence[NewJob]) -> None:
        self.connection.execute(self._insert, _JOBS.values(self.variant.passing, jobs))

    def claim(self, limit: int) -> list[Claimed]:
        return self._learn(self.connection.execute(self._claim, self._asked(limit)).fetchall())

    def finish(self, claims: Sequence[Claimed]) -> list[str]:
        rows = self.connection.execute(self._finish, self._endings(claims)).fetchall()
        return [row[0] for row in rows]

    def finish_and_claim(self, claims: Sequence[Claimed], limit: int) -> tuple[list[str], list[Claimed]]:
        values = {**self._endings(claims), **self._asked(limit)}
        rows = self.connection.execute(self._both, values).fetchall()
        closed = [row[0] for row in rows if row[1] is None]
        return closed, self._learn([row for row in rows if row[1] is not None])

    def plans(self, claims: Sequence[Claimed], limit: int) -> list[dict[str, Any]]:
        """Return the server's plans for a claim, a finish, and both together."""
        values = {**self._endings(claims), **self._asked(limit)}
        texts = [b"EXPLAIN (FORMAT JSON) " + text for text in (self._claim, self._finish, self._both)]
        rows = [self.connection.execute(text, values).fetchone() for text in texts]
        return [row[0][0]["Plan"] for row in rows if row is not None]

    def _asked(self, limit: int) -> dict[str, Any]:
        keys = self.bound.begin()
        return {
            "worker": self.worker,
            "queue": QUEUE,
            "tasks": literal([TASK]),
            "limit": limit,
            "levels": literal(LEVELS),
            "after_at": literal([at for at, _ in keys]),
            "after_id": literal([id for _, id in keys]),
        }

    def _learn(self, rows: list[tuple[Any, ...]]) -> list[Claimed]:
        claims = [Claimed._make(row[:-1]) for row in rows]
        self.bound.end(claims, rows[0][-1] if rows else None)
        return claims

    def _endings(self, claims: Sequence[Claimed]) -> dict[str, Any]:
        rows = sorted((claim.job_id, claim.attempt, claim.slot, "succeeded", 0, 0, RESULT) for claim in claims)
        return _ENDINGS.values(self.variant.passing, rows)

    def reclaim(self) -> int:
        return len(self.connection.execute(self.reclaim_parts.encode(), {"worker": self.worker}).fetchall())

    def ended(self) -> list[str]:
        return [id for (id,) in self.connection.execute(self.successes.encode()).fetchall()]

    def query(self, sql: str) -> Any:
        row = self.connection.execute(sql.encode()).fetchone()
        if row is None:
            raise ShapeFailed(f"No row came back: {sql}")
        return row[0]

    def tend(self) -> None:
        """Do nothing: autovacuum does the maintenance."""

    def relax(self) -> None:
        self.connection.execute("RESET ALL")

    def hold(self) -> None:
        self.connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        self.query(self.history)

    def settle(self) -> None:
        self.connection.execute(f"ANALYZE {', '.join(self.filled)}".encode())

    def close(self) -> None:
        self.connection.close()


def _statement(*parts: str, answer: str = "SELECT") -> bytes:
    """Return a short statement of named queries and an answer: psycopg does not prepare texts longer than 4 KB."""
    text = f"WITH {', '.join([_CLOCK, *parts])} {answer}"
    return " ".join(text.split()).encode()
