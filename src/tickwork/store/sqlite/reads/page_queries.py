"""Page queries on one SQLite file (see `store.reads.page_queries`). The SQL is in sql/page_queries.sql."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta

from tickwork.core.dag.graph import decode_graph
from tickwork.core.dag.overview import GridCell
from tickwork.core.ids import JobId, WorkerId
from tickwork.core.job import JobView
from tickwork.store.dags import DagView
from tickwork.store.reads.page_queries import (
    LOOKED_AT,
    EventPlace,
    FireCount,
    FireSummary,
    PendingApprovalView,
    RunBrief,
    RunEvent,
)
from tickwork.store.rows.instants import from_us, to_us
from tickwork.store.rows.jobs import checked_id, job_view
from tickwork.store.rows.schedules import schedule_view
from tickwork.store.runs.graph_cache import GraphCache
from tickwork.store.schedules import ScheduleView
from tickwork.store.sqlite.reads.job_search import LIGHT
from tickwork.store.sqlite.transitions import SQL, Transaction, as_json

_END = "g"  # Sorts after every id.


class SqlitePageQueries:
    """A part of SqliteStore. It needs from the rest the transactions."""

    _graphs: GraphCache

    def _read(self) -> AbstractContextManager[Transaction]:
        raise NotImplementedError

    def newest_runs(self, dags: Sequence[str], limit: int, before: JobId | None = None) -> list[RunBrief]:
        below = _END if before is None else checked_id(before)
        with self._read() as transaction:
            rows = transaction.run("newest_runs", {"dags": as_json(list(dags)), "limit": limit, "before": below})
        return [
            RunBrief(dag, JobId(id), version, state, from_us(created), _at(start), _at(end))
            for dag, id, version, state, created, start, end in rows
        ]

    def grid(self, runs: Sequence[JobId], steps: Sequence[str]) -> list[GridCell]:
        values = {"runs": as_json(list(runs)), "steps": as_json(list(steps)), "looked_at": LOOKED_AT}
        with self._read() as transaction:
            rows = transaction.run("grid", values)
        return [
            GridCell(
                *(run, step, state, bool(mapped), total, ended, bad, from_us(since)),
                *(jobs, running or 0, attempt or 0, _at(start)),
            )
            for run, step, state, mapped, total, ended, bad, since, jobs, running, attempt, start in rows
        ]

    def run_events(self, run_id: JobId, limit: int, after: EventPlace | None = None) -> list[RunEvent]:
        at, rank, attempt, name = (0, -1, 0, "") if after is None else (to_us(after.at), *after[1:])
        place = {"at": at, "rank": rank, "attempt": attempt, "name": name}
        with self._read() as transaction:
            rows = transaction.run("run_events", {"run": run_id, "limit": limit, **place})
        return [
            RunEvent(EventPlace(from_us(at), rank, attempt, name), *what) for at, rank, attempt, name, *what in rows
        ]

    def asked(self, places: Sequence[tuple[JobId, str]]) -> list[PendingApprovalView]:
        with self._read() as transaction:
            rows = transaction.run("asked", (as_json(list(places)),))
        return [
            PendingApprovalView(JobId(run), step, from_us(since), _at(wake), text)
            for run, step, since, wake, text in rows
        ]

    def dag_version(self, name: str, version: int) -> DagView | None:
        with self._read() as transaction:
            rows = transaction.run("dag_at", (name, version))
        for text, created in rows:
            graph = self._graphs.get(name, version) or self._graphs.put(name, version, text)
            return DagView(name, version, graph, from_us(created))
        return None

    def newest_dags(self, limit: int, after: str = "") -> list[DagView]:
        with self._read() as transaction:
            rows = transaction.run("dags_after", {"after": after, "limit": limit})
        return [DagView(name, version, decode_graph(text), from_us(created)) for name, version, text, created in rows]

    def recent_fires(self, schedules: Sequence[str], limit: int) -> list[FireSummary]:
        with self._read() as transaction:
            rows = transaction.run("recent_fires", {"schedules": as_json(list(schedules)), "limit": limit})
        return [
            FireSummary(
                *(name, from_us(due), action, from_us(fired), bool(is_catchup), reason),
                *(None if job_id is None else JobId(job_id), bool(is_run), state, _at(start), _at(end)),
            )
            for name, due, action, fired, is_catchup, reason, job_id, is_run, state, start, end in rows
        ]

    def fire_counts(self, schedule: str, since: datetime, most: int) -> list[FireCount]:
        with self._read() as transaction:
            rows = transaction.run("fire_counts", {"name": schedule, "since": to_us(since), "most": most})
        return [FireCount(from_us(at), outcome, count) for at, outcome, count in rows]

    def schedules_of(self, targets: Sequence[str], limit: int) -> list[ScheduleView]:
        sql = SQL["schedule_columns"] + SQL["schedules_of"]
        with self._read() as transaction:
            rows = transaction.connection.rows(sql, {"targets": as_json(list(targets)), "limit": limit})
        return [schedule_view(row, from_us) for row in rows]

    def held_jobs(self, worker: WorkerId, limit: int) -> list[JobView]:
        sql = f"{LIGHT} {SQL['from_running']} {SQL['held_by']}"
        with self._read() as transaction:
            rows = transaction.connection.rows(sql, {"worker": worker, "limit": limit})
        return [job_view(row, from_us) for row in rows]

    def sources_of(self, kind: str, names: Sequence[str]) -> dict[str, str]:
        with self._read() as transaction:
            return dict(transaction.run("sources_of", {"kind": kind, "names": as_json(list(names))}))

    def schedules_late(self) -> timedelta:
        with self._read() as transaction:
            ((earliest,),) = transaction.run("earliest_wake")
            late = 0 if earliest is None else transaction.now - earliest
        return timedelta(microseconds=max(0, late))


def _at(us: int | None) -> datetime | None:
    return None if us is None else from_us(us)
