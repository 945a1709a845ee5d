"""Read jobs, queues, workers, runs and schedules on PostgreSQL (see `store.reads`).

The SQL is in sql/read_jobs.sql, sql/job_search.sql, sql/ui_ui_page_queries.sql and sql/change_feed.sql.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from tickwork.core.dag.graph import decode_graph
from tickwork.core.dag.overview import GridCell
from tickwork.core.ids import JobId, WorkerId, is_id
from tickwork.core.job import (
    COUNTED,
    AttemptState,
    AttemptView,
    JobFilter,
    JobPage,
    JobState,
    JobView,
    LogChunk,
    QueueView,
    TaskDefinition,
    WorkerView,
)
from tickwork.core.recurrence.zones import EPOCH
from tickwork.core.stats.error_groups import FailedEnd, FailedJob, FailurePage
from tickwork.core.workers.autoscale import WaitingKind
from tickwork.store.dags import DagView
from tickwork.store.postgres.connection.session import Session, one_column, utc, utc_or_none
from tickwork.store.postgres.params import array, document, id_document, text_array
from tickwork.store.postgres.reads.job_filter_queries import AMONG, END, JobFilterQueries
from tickwork.store.postgres.schedules import schedule_views
from tickwork.store.postgres.transactions import PostgresTransactions
from tickwork.store.reads import change_feed, job_search
from tickwork.store.reads.change_feed import TOPIC_ROWS, Changes
from tickwork.store.reads.job_search import (
    SearchHits,
    StateCount,
    by_state,
    choose,
    counts_of,
    failures_of,
    hits_of,
    like,
    page_of,
)
from tickwork.store.reads.query_plan import bounds, prefix_range, state_of, ways
from tickwork.store.reads.queue_counts import QueueCounts, by_kind, by_needs, lanes_of, places_of, ranges_of
from tickwork.store.reads.ui_page_queries import (
    LOOKED_AT,
    EventPlace,
    FireCount,
    FireSummary,
    PendingApprovalView,
    RunBrief,
    RunEvent,
)
from tickwork.store.reads.verbs import Backlog
from tickwork.store.remote_leases import REMOTE_OTHERS, REMOTE_SHOWN, with_held
from tickwork.store.rows.jobs import checked_id, failed_end, read_task_definition
from tickwork.store.rows.workers import decode_names, decode_offer
from tickwork.store.runs.graph_cache import GraphCache
from tickwork.store.schedules import ScheduleView

_START = "00000000-0000-0000-0000-000000000000"  # Before every id.


@dataclass(eq=False)
class PostgresReads:
    """The verbs that only read, except those of statistics."""

    transactions: PostgresTransactions
    jobs: JobFilterQueries
    graphs: GraphCache

    # -- jobs

    def get_jobs(self, ids: Sequence[JobId]) -> dict[JobId, JobView]:
        return {view.id: view for view in self.jobs.views(AMONG.format(ids="%(ids)s"), {"ids": id_document(ids)})}

    def find_key(self, key: str) -> JobId | None:
        return next((JobId(job_id) for (job_id,) in self.transactions.run("find_key", key=key)), None)

    def attempts(self, job_id: JobId) -> list[AttemptView]:
        if not is_id(job_id):
            return []
        rows = self.transactions.run("attempts", job_id=job_id)
        return [
            AttemptView(JobId(id), number, AttemptState(state), worker, utc(began), utc_or_none(ended), *rest)
            for id, number, state, worker, began, ended, *rest in rows
        ]

    def logs(self, job_id: JobId, after: tuple[int, int] = (0, -1), limit: int = 1000) -> list[LogChunk]:
        if not is_id(job_id):
            return []
        values = {"job_id": job_id, "attempt": after[0], "seq": after[1], "limit": limit}
        rows = self.transactions.run("logs", **values)
        return [LogChunk(JobId(id), attempt, seq, utc(at), *rest) for id, attempt, seq, at, *rest in rows]

    # -- lists and searches of jobs

    def list_jobs(self, which: JobFilter, limit: int, before: JobId | None = None) -> list[JobView]:
        way, *_ = ways(which)
        return self.jobs.page(which, way, limit=limit, before=before, columns="job_columns")

    def find_jobs(self, which: JobFilter, limit: int, before: JobId | None = None) -> JobPage:
        """Return a page of jobs.

        For the queued jobs of a short queue, the queue is read first and its jobs are looked up.
        """
        if which.ids is None and which.queue is not None and state_of(which) is JobState.QUEUED:
            waiting = self._waiting_in(which.queue)
            if waiting is not None:
                way, *_ = ways(which)
                views = self.jobs.page(which, way, limit=limit, before=before, among=waiting)
                return page_of(views, limit, which, None)
        walk = choose(which, lambda way: self.jobs.floor(way, bounds(which, before)))
        views = self.jobs.page(which, walk.way, limit=limit, before=before, floor=walk.floor)
        return page_of(views, limit, which, walk.floor)

    def count_jobs(self, which: JobFilter, most: int) -> list[StateCount]:
        if which.run is not None and not is_id(which.run):
            which = replace(which, run=None, ids=())
        return [one for state, part in by_state(which) for one in self._counted(state, part, most)]

    def _counted(self, state: JobState, which: JobFilter, most: int) -> list[StateCount]:
        """Count the matching jobs in one state, on a bounded walk."""
        walk = choose(which, lambda way: self.jobs.floor(way, bounds(which, None)))
        word = self.transactions.sql["how_it_waits"] if state is JobState.QUEUED else f"'{state.value}'"
        rows, values = self.jobs.walked(word, which, walk.way, walk.floor)
        sql = self.transactions.sql["counted_by_word"].replace("{rows}", rows)
        counts = self.transactions.perform(
            lambda session: session.run_sql(sql, {**values, "now": session.now, "most": most})
        )
        return counts_of(which, dict(counts), most, walk.floor)

    def find_failures(self, which: JobFilter, limit: int, before: JobId | None = None) -> FailurePage:
        dead = replace(which, dead=True)
        walk = choose(dead, lambda way: self.jobs.floor(way, bounds(dead, before)))
        rows = self.jobs.rows("failure_columns", dead, walk.way, limit=limit, before=before, floor=walk.floor)
        found = [
            FailedJob(JobId(row["id"]), row["task"], row["error"], utc(row["ended_at"]), row["queue"]) for row in rows
        ]
        return failures_of(found, limit, dead, walk.floor)

    def _waiting_in(self, queue: str) -> list[JobId] | None:
        """Return the ids of the jobs that wait in a queue, and of the held jobs of all queues.

        None if there are too many.
        """
        low, high = lanes_of(queue)
        values = {"queue": queue, "low": low, "high": high, "walk": job_search.WALK + 1}
        rows = self.transactions.run("waiting_in", **values)
        return [JobId(job_id) for (job_id,) in rows] if len(rows) <= job_search.WALK else None

    def failed_lately(self, since: datetime, limit: int) -> list[FailedEnd]:
        return self._troubles("failed_lately", since, limit)

    def retried_lately(self, since: datetime, limit: int) -> list[FailedEnd]:
        return self._troubles("retried_lately", since, limit)

    def _troubles(self, statement: str, since: datetime, limit: int) -> list[FailedEnd]:
        """Run a statement that reads ends without success since an instant."""
        rows = self.transactions.run(statement, since=since, limit=limit)
        return [failed_end(row, utc) for row in rows]

    def ended_among(self, ids: Sequence[JobId]) -> set[JobId]:
        rows = self.transactions.run("ended_among", ids=id_document(ids))
        return {JobId(job_id) for (job_id,) in rows}

    def search_jobs(self, text: str, limit: int, before: JobId | None = None) -> SearchHits:
        """Search jobs by task, key, error and id, and merge the results by id."""
        low, high = prefix_range(text)
        below = END if before is None else checked_id(before)
        values = {"low": low, "high": high, "before": below, "limit": limit, "keys": job_search.KEYS + 1}

        def look(session: Session) -> tuple[list[str], list[str], list[str], JobId | None, list[str]]:
            names = one_column(session.run("tasks_from", **values, names=job_search.NAMES + 1))
            tasks = document(names[: job_search.NAMES])
            newest = one_column(session.run("newest_of_tasks", **values, tasks=tasks))
            keyed = one_column(session.run("jobs_with_key", **values))
            floors = session.run("failed_floor", before=below, walk=job_search.ERRORS)
            floor = next((JobId(job_id) for (job_id,) in floors), None)
            errors = {"before": below, "limit": limit, "floor": floor or _START, "like": like(text)}
            return names, newest, keyed, floor, one_column(session.run("failed_with", **errors))

        names, newest, keyed, floor, failed = self.transactions.perform(look, single=False)
        found = [newest, keyed, failed, [text] if is_id(text) and text < below else []]
        is_partial = len(names) > job_search.NAMES or len(keyed) > job_search.KEYS
        return hits_of(found, limit, floor, is_partial=is_partial)

    def queue_names(self) -> list[str]:
        return one_column(self.transactions.run("queue_names"))

    def queues(self) -> list[QueueView]:
        """Count the jobs of each queue in its lanes, the held jobs and the running jobs, in one transaction."""

        def look(session: Session) -> QueueCounts:
            found = QueueCounts()
            names = one_column(session.run("queue_names"))
            ranges = [(name, *lanes_of(name)) for name in names]
            asked = document({"queue": name, "low": low, "high": high} for name, low, high in ranges)
            for row in session.run("in_lanes", queues=asked, most=COUNTED):
                found.count(*row)
            for row in session.run("held", most=COUNTED):
                found.hold(*row)
            for row in session.run("running_in"):
                found.run(*row)
            return found

        return self.transactions.perform(look, single=False).views(utc)

    # -- queues, workers and tasks

    def durations(self) -> dict[str, timedelta]:
        return dict(self.transactions.run("durations"))

    def workers(self) -> list[WorkerView]:
        most = {"most": REMOTE_SHOWN, "others": REMOTE_OTHERS}
        rows, counts, remote = self.transactions.run_together(
            ("workers", {}), ("held_counts", {}), ("remote_workers", most)
        )
        return with_held([_worker_view(row) for row in rows], dict(counts)) + [_worker_view(row) for row in remote]

    def worker(self, id: WorkerId) -> WorkerView | None:
        row = self.transactions.find("worker", id=id)
        return None if row is None else _worker_view(row)

    def task_definition(self, name: str) -> TaskDefinition | None:
        row = self.transactions.find("task_definition", name=name)
        return None if row is None else read_task_definition(row)

    def task_definitions(self, limit: int, after: str = "") -> list[TaskDefinition]:
        rows = self.transactions.run("task_definitions", after=after, limit=limit)
        return [read_task_definition(row) for row in rows]

    def due_tasks(self, queues: Sequence[str]) -> set[str]:
        rows = self.transactions.run("due_tasks", queues=document(queues))
        return {name for (name,) in rows}

    def backlog(self, queues: Sequence[str], tasks: Sequence[str], most: int) -> list[Backlog]:
        asked: dict[str, Sequence[Any]] = {"places": places_of(queues), "ranges": ranges_of(queues), "tasks": tasks}
        values = {name: document(value) for name, value in asked.items()}
        rows = self.transactions.run("backlog", **values, most=most)
        return by_needs((lane, count, utc(oldest)) for lane, count, oldest in rows)

    def waiting_kinds(self, queue: str, most: int) -> list[WaitingKind]:
        ((low, high),) = ranges_of([queue])
        values = {"queue": queue, "low": low, "high": high, "most": most}
        return by_kind(self.transactions.run("waiting_kinds", **values))

    # -- pages of the web UI

    def newest_runs(self, dags: Sequence[str], limit: int, before: JobId | None = None) -> list[RunBrief]:
        below = END if before is None else checked_id(before)
        values = {"dags": text_array(dags), "limit": limit, "before": below}
        rows = self.transactions.run("newest_runs", **values)
        return [
            RunBrief(dag, JobId(id), version, state, utc(created), utc_or_none(start), utc_or_none(end))
            for dag, id, version, state, created, start, end in rows
        ]

    def grid(self, runs: Sequence[JobId], steps: Sequence[str]) -> list[GridCell]:
        values = {"runs": array(one for one in runs if is_id(one)), "steps": text_array(steps), "looked_at": LOOKED_AT}
        rows = self.transactions.run("grid", **values)
        return [
            GridCell(
                run, step, state, mapped, total, ended, bad, utc(since), jobs, running, attempt or 0, utc_or_none(start)
            )
            for run, step, state, mapped, total, ended, bad, since, jobs, running, attempt, start in rows
        ]

    def run_events(self, run_id: JobId, limit: int, after: EventPlace | None = None) -> list[RunEvent]:
        if not is_id(run_id):
            return []
        place = (after or EventPlace(EPOCH, -1, 0, ""))._asdict()
        rows = self.transactions.run("run_events", run=run_id, limit=limit, **place)
        return [RunEvent(EventPlace(utc(at), rank, attempt, name), *what) for at, rank, attempt, name, *what in rows]

    def asked(self, places: Sequence[tuple[JobId, str]]) -> list[PendingApprovalView]:
        known = [(run, step) for run, step in places if is_id(run)]
        values = {"runs": array(run for run, _ in known), "steps": text_array(step for _, step in known)}
        rows = self.transactions.run("asked", **values)
        return [
            PendingApprovalView(JobId(run), step, utc(since), utc_or_none(wake), text)
            for run, step, since, wake, text in rows
        ]

    def dag_version(self, name: str, version: int) -> DagView | None:
        rows = self.transactions.run("dag_at", name=name, version=version)
        for text, created in rows:
            graph = self.graphs.get(name, version) or self.graphs.put(name, version, text)
            return DagView(name, version, graph, utc(created))
        return None

    def newest_dags(self, limit: int, after: str = "") -> list[DagView]:
        rows = self.transactions.run("dags_after", after=after, limit=limit)
        return [DagView(name, version, decode_graph(text), utc(created)) for name, version, text, created in rows]

    def recent_fires(self, schedules: Sequence[str], limit: int) -> list[FireSummary]:
        values = {"schedules": text_array(schedules), "limit": limit}
        rows = self.transactions.run("recent_fires", **values)
        return [
            FireSummary(
                *(name, utc(due), action, utc(fired), is_catchup, reason),
                *(None if job_id is None else JobId(job_id), is_run, state, utc_or_none(start), utc_or_none(end)),
            )
            for name, due, action, fired, is_catchup, reason, job_id, is_run, state, start, end in rows
        ]

    def fire_counts(self, schedule: str, since: datetime, most: int) -> list[FireCount]:
        rows = self.transactions.run("fire_counts", name=schedule, since=since, most=most)
        return [FireCount(utc(at), outcome, count) for at, outcome, count in rows]

    def schedules_of(self, targets: Sequence[str], limit: int) -> list[ScheduleView]:
        return schedule_views(self.transactions, "schedules_of", targets=document(targets), limit=str(limit))

    def held_jobs(self, worker: WorkerId, limit: int) -> list[JobView]:
        values = {"worker": worker, "limit": limit}
        held = self.transactions.sql["held_by"]
        return self.jobs.views(held, values, columns="light_job_columns", begins="from_running")

    def sources_of(self, kind: str, names: Sequence[str]) -> dict[str, str]:
        return dict(self.transactions.run("sources_of", kind=kind, names=document(names)))

    def schedules_late(self) -> timedelta:
        ((now, earliest),) = self.transactions.run("earliest_wake")
        return timedelta(0) if earliest is None else max(timedelta(0), now - earliest)

    # -- the change feed

    def happenings(self, since: datetime, most: int) -> Changes:
        def look(session: Session) -> Changes:
            ((now,),) = session.run("now")
            return change_feed.happenings(lambda name, values: session.run(name, **values), utc(now), since, most, utc)

        return self.transactions.perform(look)

    def topics(self) -> dict[str, str]:
        return change_feed.topics(self.transactions.run("topics", most=TOPIC_ROWS))


def _worker_view(row: Sequence[Any]) -> WorkerView:
    """Build the view of a worker from its row."""
    id, host, pid, version, queues, tasks, slots, schedules, offer, state, started_at, lease_until, running, asked = row
    return WorkerView(
        id=id,
        host=host,
        pid=pid,
        version=version,
        queues=decode_names(queues),
        tasks=decode_names(tasks),
        slots=slots,
        state=state,
        started_at=utc(started_at),
        lease_until=utc(lease_until),
        running=running,
        schedules=decode_names(schedules),
        offer=decode_offer(offer),
        asked=asked,
    )
