"""Fill a store with millions of jobs by SQL, in minutes.

Tickwork itself creates one job of each kind. Its rows are then copied with other ids and times, so that this module
needs to know only the columns that distinguish jobs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any, NamedTuple

from bench.long.base import Crowd, Tell, microseconds
from bench.places import Database
from bench.rows.base import opened
from bench.worker import BenchFailed
from tickwork import Tickwork
from tickwork.core.ids import WorkerId
from tickwork.core.job import RUN
from tickwork.core.outcome import Ending, Failed, Succeeded, decide
from tickwork.store.attempt_types import Finish
from tickwork.store.base import WorkerRegistration
from tickwork.store.remote_leases import LeaseGrant

QUIET = "quiet"  # the queue of half of the delayed jobs; the others, and all due jobs, are in `default`
WORKER = WorkerId("bench")
DAG = "dag-0"  # the dag that the other dags are copies of

_CHUNK = 200_000  # rows in one transaction
_FAILED_SHARE = 0.01
_SECOND_US = 1_000_000
_DAY_US = 86_400 * _SECOND_US
_HISTORY_US = 13 * _DAY_US // 2  # within the time that ended jobs are kept
_LATELY_US = 7200 * _SECOND_US
_DELAYED_US = 400 * _DAY_US
_TEMPLATE_LEASE = timedelta(hours=12)
_LEASE = "'lease-' || g"


class Dialect(ABC):
    """The SQL expressions that differ between the two databases."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @abstractmethod
    def columns(self, table: str) -> list[str]: ...

    @abstractmethod
    def hex(self, number: str, digits: int) -> str:
        """Return an expression for a number in hexadecimal digits."""

    @abstractmethod
    def at(self, us: str) -> str:
        """Return an expression that converts microseconds to a time."""

    def id(self, us: str, number: str) -> str:
        """Return an expression for an id as Tickwork would make it at a time, different for each number."""
        ms, node = f"(({us}) / 1000)", f"(({number}) * 2654435761 % 281474976710656)"
        head = f"{self.hex(f'{ms} / 65536', 8)} || '-' || {self.hex(f'{ms} % 65536', 4)}"
        return f"{head} || '-7000-8000-' || {self.hex(node, 12)}"

    @abstractmethod
    def hurry(self) -> None:
        """Make the later commits of this session non-durable."""

    @abstractmethod
    def settle(self) -> None:
        """Run the maintenance that a store which filled up slowly would already have had."""


class SqliteDialect(Dialect):
    def columns(self, table: str) -> list[str]:
        return [name for (name,) in self.database.rows(f"SELECT name FROM pragma_table_info('{table}')")]

    def hex(self, number: str, digits: int) -> str:
        return f"printf('%0{digits}x', {number})"

    def at(self, us: str) -> str:
        return us

    def hurry(self) -> None:
        self.database.rows("PRAGMA synchronous=OFF")
        self.database.rows("PRAGMA cache_size=-200000")

    def settle(self) -> None:
        self.database.rows("PRAGMA synchronous=FULL")
        self.database.rows("PRAGMA wal_checkpoint(TRUNCATE)")


class PostgresDialect(Dialect):
    def columns(self, table: str) -> list[str]:
        named = f"attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped"
        return [name for (name,) in self.database.rows(f"SELECT attname FROM pg_attribute WHERE {named}")]

    def hex(self, number: str, digits: int) -> str:
        return f"lpad(to_hex({number}), {digits}, '0')"

    def at(self, us: str) -> str:
        return f"to_timestamp(({us}) / 1000000.0)"

    def id(self, us: str, number: str) -> str:
        return f"({super().id(us, number)})::uuid"

    def hurry(self) -> None:
        self.database.rows("SET synchronous_commit = off")

    def settle(self) -> None:
        self.database.rows("VACUUM (ANALYZE)")
        self.database.settle()


class Span(NamedTuple):
    """A period over which jobs are spread evenly."""

    from_us: int
    over_us: int

    def at(self, first: int, count: int) -> str:
        """Return an expression for the time of the job numbered `g`, in microseconds."""
        return f"({self.from_us} + (g - {first}) * {self.over_us // max(count, 1)})"


@dataclass(frozen=True, slots=True)
class Kind:
    """Jobs of one kind: copies of a template, created over one period, and due at once or over another period.

    `split`: every other job is in the quiet queue. `keyed`: each has a key of its own. `lease`: each runs under a lease
    of its own that is a copy of this one; each remote worker holds ten of them.
    """

    template: str
    count: int
    made: Span
    due: Span | None = None
    ended: bool = False
    split: bool = False
    keyed: bool = False
    lease: str | None = None

    def rows(self, dialect: Dialect, first: int) -> dict[str, dict[str, str]]:
        """Return the rows of each job, with the columns that differ from the template's as expressions on `g`."""
        made_us = self.made.at(first, self.count)
        due_us = made_us if self.due is None else self.due.at(first, self.count)
        job_id, due = dialect.id(made_us, "g"), dialect.at(due_us)
        queue = {"queue": f"CASE WHEN g % 2 = 0 THEN 'default' ELSE '{QUIET}' END"} if self.split else {}
        key = {"key": "'key-' || g"} if self.keyed else {}
        rows = {"jobs": {"id": job_id, "created_at": dialect.at(made_us), "due_at": due, **queue, **key}}
        if self.ended:
            ended = {"started_at": due, "ended_at": dialect.at(f"({due_us} + 2000)")}
            rows["finished"] = {"job_id": job_id, "run_at": due, **ended}
        elif self.lease is not None:
            rows["running"] = {"job_id": job_id, "run_at": due, "claimed_at": due, "worker": _LEASE}
            rows["workers"] = {"id": _LEASE, "host": "'remote-' || g / 10", "started_at": due}
        else:
            rows["queue"] = {"job_id": job_id, "run_at": due, **queue}
        if self.keyed:
            rows["keys"] = {"job_id": job_id, **key}
        return rows

    def template_of(self, table: str) -> str:
        """Return the id of the template row in a table."""
        return self.lease if table == "workers" and self.lease is not None else self.template


def crowd(database: Database, size: Crowd, tell: Tell) -> None:
    """Fill a store, in addition to the template jobs.

    No process may have the store open: a worker that has claimed from it would not look for jobs that were due before.
    """
    dialect = SqliteDialect(database) if database.url.startswith("sqlite") else PostgresDialect(database)
    with opened(database) as app:
        now_us, first = microseconds(app.store.now()), 1
        kinds = _kinds(app, size, now_us)
        run = _a_run(app) if size.dags else None
    dialect.hurry()
    for kind in kinds:
        _copy_jobs(dialect, kind, first, tell)
        first += kind.count
    lease = {"id": "'idle-' || g", "lease_until": dialect.at(str(now_us + _DAY_US))}
    _copy(dialect, "workers", WORKER, 1, size.workers, lease)
    if run is not None:
        tell("filling: dags")
        _copy_dags(dialect, run, size.dags, Span(now_us - _HISTORY_US, _HISTORY_US - _LATELY_US))
    tell("settling")
    dialect.settle()


def _kinds(app: Tickwork, size: Crowd, now_us: int) -> list[Kind]:
    """Return the kinds of jobs to create; ended jobs are older than queued ones."""
    noop, day = app.tasks["noop"], timedelta(days=1)
    bench = WorkerRegistration(WORKER, "host", 1, "0", ("default",), ("noop",), 10)
    app.store.register_worker(bench, [], _TEMPLATE_LEASE)
    failed = round(size.finished * _FAILED_SHARE)
    history = Span(now_us - _HISTORY_US, _HISTORY_US - _LATELY_US)
    lately = Span(now_us - _LATELY_US, _LATELY_US)
    delayed = Span(now_us + _LATELY_US, _DELAYED_US)
    leased = [_leased(app, size.leases, lately)] if size.leases else []
    waiting = noop.options(delay=day).enqueue(0)
    keyed = noop.options(delay=day, key="the key").enqueue(0)
    return [
        Kind(_ended(app, Succeeded(b"null")), size.finished - failed, history, ended=True),
        Kind(_ended(app, Failed("it broke", fatal=True)), failed, history, ended=True),
        Kind(noop.enqueue(0).id, size.queued, lately),
        Kind(waiting.id, size.delayed - size.keys, lately, delayed, split=True),
        Kind(keyed.id, size.keys, lately, delayed, split=True, keyed=True),
        *leased,
    ]


def _ended(app: Tickwork, how: Ending) -> str:
    """Create a job that ran once and ended; return its id."""
    job = app.tasks["noop"].enqueue(0)
    (claimed,) = app.store.claim_jobs(WORKER, ["default"], ["noop"], 1).jobs
    transition = decide(claimed, how, Random(0))
    app.store.finish_attempts([Finish(claimed.job_id, claimed.attempt, claimed.claim, transition)])
    return job.id


def _leased(app: Tickwork, count: int, made: Span) -> Kind:
    """Return jobs that run under leases of their own, as those of REST workers do."""
    job, lease = app.tasks["noop"].enqueue(0), WorkerId("lease")
    (claimed,) = app.store.claim_jobs(WORKER, ["default"], ["noop"], 1).jobs
    grant = LeaseGrant(
        claimed.job_id, claimed.claim, lease, "remote", "bench", ("default",), ("noop",), _TEMPLATE_LEASE
    )
    app.store.remote.grant_leases(WORKER, [grant])
    return Kind(job.id, count, made, lease=lease)


def _a_run(app: Tickwork) -> str:
    """Run a dag of two steps; return the id of the run."""

    def steps() -> None:
        app.tasks["forward"](app.tasks["forward"](0))

    dag = app.dag(name=DAG)(steps)
    app.store.dags.put_dag(dag.graph)
    run = dag.enqueue()
    for _ in range(3):  # the run itself, and each of its steps
        claims = app.store.claim_jobs(WORKER, ["default"], ["forward", RUN], 100).jobs
        for one in claims:
            done = decide(one, Succeeded(b"0"), Random(0))
            app.store.finish_attempts([Finish(one.job_id, one.attempt, one.claim, done, run=one.run, step=one.step)])
    if run.state != "succeeded":
        raise BenchFailed(f"the run that the others are copies of is {run.state}.")
    return run.id


def _copy_dags(dialect: Dialect, run: str, count: int, made: Span) -> None:
    """Copy a dag with its run. Ids of runs and steps contain the time of creation, and differ in their last part."""
    database, name = dialect.database, "'dag-' || g"
    at = made.at(1, count)
    table = database.table
    run_id, when = dialect.id(at, "g * 4"), {"created_at": dialect.at(at)}
    _copy(dialect, "dags", DAG, 1, count, {"name": name, **when}, "name")
    _copy(dialect, "tasks", DAG, 1, count, {"name": name}, "name")
    _copy(dialect, "jobs", run, 1, count, {"id": run_id, "task": name, "due_at": dialect.at(at), **when})
    ended = {"ended_at": dialect.at(f"({at} + 5000)")}
    _copy(dialect, "finished", run, 1, count, {"job_id": run_id, **ended})
    _copy(dialect, "runs", run, 1, count, {"id": run_id})
    for number, (step, job) in enumerate(database.rows(f"SELECT step, id FROM {table('jobs')} WHERE run = '{run}'"), 1):
        job_id = dialect.id(at, f"g * 4 + {number}")
        _copy(dialect, "steps", step, 1, count, {"run": run_id}, "step")
        _copy(dialect, "jobs", job, 1, count, {"id": job_id, "run": run_id, **when})
        _copy(dialect, "finished", job, 1, count, {"job_id": job_id, **ended})


def _copy_jobs(dialect: Dialect, kind: Kind, first: int, tell: Tell) -> None:
    rows = kind.rows(dialect, first) if kind.count else {}
    for start in range(first, first + kind.count, _CHUNK):
        count = min(_CHUNK, first + kind.count - start)
        for table, changes in rows.items():
            _copy(dialect, table, kind.template_of(table), start, count, changes)
        tell(f"filling: {start + count - 1:,} jobs")


def _copy(
    dialect: Dialect, name: str, template: str, first: int, count: int, changes: Mapping[str, str], by: str = ""
) -> None:
    """Copy a row `count` times; `changes` are expressions on `g`, which counts from `first` on.

    The row is found by the column `by`, or else by the id of its job.
    """
    table = dialect.database.table(name)
    columns = dialect.columns(table)
    id_column = by or ("job_id" if "job_id" in columns else "id")
    found = dialect.database.rows(f"SELECT {', '.join(columns)} FROM {table} WHERE {id_column} = '{template}'")
    unknown = changes.keys() - set(columns)
    if len(found) != 1 or unknown:
        raise BenchFailed(f"{table} is not as it was: {len(found)} rows of {template}, columns {sorted(unknown)} gone.")
    values = (changes.get(column, _literal(value)) for column, value in zip(columns, found[0], strict=True))
    dialect.database.rows(
        f"WITH RECURSIVE series (g) AS (SELECT CAST({first} AS bigint) UNION ALL "
        f"SELECT g + 1 FROM series WHERE g < {first + count - 1}) "
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)} FROM series"
    )


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | float):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"
