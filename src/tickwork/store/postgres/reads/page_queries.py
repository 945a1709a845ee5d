"""Page queries on PostgreSQL (see `store.reads.page_queries`). The SQL is in sql/page_queries.sql."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from tickwork.core.dag.graph import decode_graph
from tickwork.core.dag.overview import GridCell
from tickwork.core.ids import JobId, WorkerId, is_id
from tickwork.core.job import JobView
from tickwork.core.recurrence.zones import EPOCH
from tickwork.store.dags import DagView
from tickwork.store.postgres.connection.session import Session
from tickwork.store.postgres.connection.verb_pool import VerbPool
from tickwork.store.postgres.params import array, document, text_array
from tickwork.store.postgres.rows import instant, utc
from tickwork.store.reads.page_queries import (
    LOOKED_AT,
    EventPlace,
    FireCount,
    FireSummary,
    PendingApprovalView,
    RunBrief,
    RunEvent,
)
from tickwork.store.rows.jobs import checked_id
from tickwork.store.runs.graph_cache import GraphCache
from tickwork.store.schedules import ScheduleView

T = TypeVar("T")

_END = "ffffffff-ffff-ffff-ffff-ffffffffffff"


class PostgresPageQueries:
    """A part of PostgresStore. It needs from the rest the transactions, and the readers of jobs and schedules."""

    _sql: dict[str, str]
    _graphs: GraphCache

    def _perform(self, work: Callable[[Session], T], *, pool: VerbPool | None = None, single: bool = True) -> T:
        raise NotImplementedError

    def _schedule_views(self, which: str, **values: str) -> list[ScheduleView]:
        raise NotImplementedError

    def _light_views(self, where: str, values: dict[str, Any], begins: str) -> list[JobView]:
        raise NotImplementedError

    def newest_runs(self, dags: Sequence[str], limit: int, before: JobId | None = None) -> list[RunBrief]:
        below = _END if before is None else checked_id(before)
        values = {"dags": text_array(dags), "limit": limit, "before": below}
        rows = self._perform(lambda session: session.run("newest_runs", **values))
        return [
            RunBrief(dag, JobId(id), version, state, utc(created), instant(start), instant(end))
            for dag, id, version, state, created, start, end in rows
        ]

    def grid(self, runs: Sequence[JobId], steps: Sequence[str]) -> list[GridCell]:
        values = {"runs": array(one for one in runs if is_id(one)), "steps": text_array(steps), "looked_at": LOOKED_AT}
        rows = self._perform(lambda session: session.run("grid", **values))
        return [
            GridCell(
                run, step, state, mapped, total, ended, bad, utc(since), jobs, running, attempt or 0, instant(start)
            )
            for run, step, state, mapped, total, ended, bad, since, jobs, running, attempt, start in rows
        ]

    def run_events(self, run_id: JobId, limit: int, after: EventPlace | None = None) -> list[RunEvent]:
        if not is_id(run_id):
            return []
        place = (after or EventPlace(EPOCH, -1, 0, ""))._asdict()
        rows = self._perform(lambda session: session.run("run_events", run=run_id, limit=limit, **place))
        return [RunEvent(EventPlace(utc(at), rank, attempt, name), *what) for at, rank, attempt, name, *what in rows]

    def asked(self, places: Sequence[tuple[JobId, str]]) -> list[PendingApprovalView]:
        known = [(run, step) for run, step in places if is_id(run)]
        values = {"runs": array(run for run, _ in known), "steps": text_array(step for _, step in known)}
        rows = self._perform(lambda session: session.run("asked", **values))
        return [
            PendingApprovalView(JobId(run), step, utc(since), instant(wake), text)
            for run, step, since, wake, text in rows
        ]

    def dag_version(self, name: str, version: int) -> DagView | None:
        rows = self._perform(lambda session: session.run("dag_at", name=name, version=version))
        for text, created in rows:
            graph = self._graphs.get(name, version) or self._graphs.put(name, version, text)
            return DagView(name, version, graph, utc(created))
        return None

    def newest_dags(self, limit: int, after: str = "") -> list[DagView]:
        rows = self._perform(lambda session: session.run("dags_after", after=after, limit=limit))
        return [DagView(name, version, decode_graph(text), utc(created)) for name, version, text, created in rows]

    def recent_fires(self, schedules: Sequence[str], limit: int) -> list[FireSummary]:
        values = {"schedules": text_array(schedules), "limit": limit}
        rows = self._perform(lambda session: session.run("recent_fires", **values))
        return [
            FireSummary(
                *(name, utc(due), action, utc(fired), is_catchup, reason),
                *(None if job_id is None else JobId(job_id), is_run, state, instant(start), instant(end)),
            )
            for name, due, action, fired, is_catchup, reason, job_id, is_run, state, start, end in rows
        ]

    def fire_counts(self, schedule: str, since: datetime, most: int) -> list[FireCount]:
        rows = self._perform(lambda session: session.run("fire_counts", name=schedule, since=since, most=most))
        return [FireCount(utc(at), outcome, count) for at, outcome, count in rows]

    def schedules_of(self, targets: Sequence[str], limit: int) -> list[ScheduleView]:
        return self._schedule_views("schedules_of", targets=document(targets), limit=str(limit))

    def held_jobs(self, worker: WorkerId, limit: int) -> list[JobView]:
        return self._light_views(self._sql["held_by"], {"worker": worker, "limit": limit}, "from_running")

    def sources_of(self, kind: str, names: Sequence[str]) -> dict[str, str]:
        return dict(self._perform(lambda session: session.run("sources_of", kind=kind, names=document(names))))

    def schedules_late(self) -> timedelta:
        ((now, earliest),) = self._perform(lambda session: session.run("earliest_wake"))
        return timedelta(0) if earliest is None else max(timedelta(0), now - earliest)
