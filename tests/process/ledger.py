"""Looks at the tables of a store from outside: triggers write down each claim and each end, a process counts leases.

Nothing here is code of the product, and a job's key is read from its own arguments. The numbers that triggers give are
those of an order in which things happened: who claims under a limit sees the ends before it, which have their numbers.
"""

import json
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import apsw
import psycopg

from tests.process.harness import HERE, die_with_the_tests

_TRIGGERS = {
    "sqlite": """
        CREATE TABLE proof (number INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT, job_id TEXT, attempt INTEGER,
                            run_at INTEGER, claimed_at INTEGER);
        CREATE TRIGGER proof_claim AFTER INSERT ON tickwork_running BEGIN
            INSERT INTO proof (what, job_id, attempt, run_at, claimed_at)
            VALUES ('claim', NEW.job_id, NEW.attempt, NEW.run_at, NEW.claimed_at);
        END;
        CREATE TRIGGER proof_end AFTER DELETE ON tickwork_running BEGIN
            INSERT INTO proof (what, job_id, attempt, run_at, claimed_at)
            VALUES ('end', OLD.job_id, OLD.attempt, OLD.run_at, OLD.claimed_at);
        END;
    """,
    "postgres": """
        CREATE TABLE proof (number bigserial, what text, job_id uuid, attempt integer, run_at timestamptz,
                            claimed_at timestamptz);
        CREATE FUNCTION proof() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF TG_OP = 'INSERT' THEN
                INSERT INTO public.proof (what, job_id, attempt, run_at, claimed_at)
                VALUES ('claim', NEW.job_id, NEW.attempt, NEW.run_at, NEW.claimed_at);
            ELSE
                INSERT INTO public.proof (what, job_id, attempt, run_at, claimed_at)
                VALUES ('end', OLD.job_id, OLD.attempt, OLD.run_at, OLD.claimed_at);
            END IF;
            RETURN NULL;
        END $$;
        CREATE TRIGGER proof AFTER INSERT OR DELETE ON tickwork.running FOR EACH ROW EXECUTE FUNCTION proof();
    """,
}
_EVENTS = {
    "sqlite": """SELECT p.number, p.what, p.job_id, p.attempt, p.run_at / 1e6, p.claimed_at / 1e6,
                        json_extract(j.args, '$.account')
                 FROM proof p JOIN tickwork_jobs j ON j.id = p.job_id ORDER BY p.number""",
    "postgres": """SELECT p.number, p.what, p.job_id::text, p.attempt, extract(epoch FROM p.run_at)::float8,
                          extract(epoch FROM p.claimed_at)::float8, j.args::json ->> 'account'
                   FROM proof p JOIN tickwork.jobs j ON j.id = p.job_id ORDER BY p.number""",
}
LEASES = {
    "sqlite": """SELECT json_extract(j.args, '$.account'), count(*) FROM tickwork_running r
                 JOIN tickwork_jobs j ON j.id = r.job_id GROUP BY 1""",
    "postgres": """SELECT j.args::json ->> 'account', count(*) FROM tickwork.running r
                   JOIN tickwork.jobs j ON j.id = r.job_id GROUP BY 1""",
}


@dataclass(frozen=True)
class Step:
    """A claim or an end, with the place in which the job stood for it."""

    number: int
    what: str
    job: str
    attempt: int
    run_at: float
    claimed_at: float
    account: str | None

    @property
    def place(self) -> tuple[float, str]:
        return self.run_at, self.job


class Ledger:
    """Reads the tables of one store, with connections of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.kind = "sqlite" if url.startswith("sqlite") else "postgres"

    def keep(self) -> None:
        """Record each claim and each end from now on."""
        if self.kind == "sqlite":
            with closing(sqlite_connection(self.url)) as connection:
                connection.execute(_TRIGGERS["sqlite"])
        else:
            with psycopg.connect(self.url) as connection:
                connection.execute("DROP TABLE IF EXISTS proof; DROP FUNCTION IF EXISTS proof CASCADE")
                connection.execute(_TRIGGERS["postgres"])

    def read(self, query: str) -> list[Any]:
        """Run a query in which tables have the names of PostgreSQL's."""
        if self.kind == "sqlite":
            with closing(sqlite_connection(self.url)) as connection:
                return connection.execute(query.replace("tickwork.", "tickwork_")).fetchall()
        with psycopg.connect(self.url, connect_timeout=10) as connection:
            return connection.execute(query.encode()).fetchall()

    def steps(self) -> list[Step]:
        return [Step(*row) for row in self.read(_EVENTS[self.kind])]

    def running(self) -> set[tuple[str, int]]:
        return {(str(job), attempt) for job, attempt in self.read("SELECT job_id, attempt FROM tickwork.running")}

    def count(self, table: str) -> int:
        ((count,),) = self.read(f"SELECT count(*) FROM tickwork.{table}")
        return int(count)


def sqlite_connection(url: str, wait_s: float = 30.0) -> apsw.Connection:
    """A connection past Tickwork, through the library that it uses: two in one process forget each other's locks."""
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    connection.set_busy_timeout(round(wait_s * 1000))
    return connection


class Observer:
    """A process that counts the live leases of each key again and again (see observer_process.py)."""

    def __init__(self, url: str, limit: int) -> None:
        self._seen: dict[str, Any] | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.process.observer_process", url, str(limit)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=HERE.parents[1],
            preexec_fn=die_with_the_tests,  # noqa: PLW1509  # started before any thread is
        )

    def stop(self) -> dict[str, Any]:
        """Its report: the number of samples, the most leases of each key, and the samples that exceeded a limit."""
        if self._seen is None:
            said, _ = self._process.communicate(b"", timeout=30)
            self._seen = json.loads(said)
        return self._seen
