"""Read jobs, queues, workers, runs and schedules on a SQLite file (see `store.reads.verbs`).

The SQL is in sql/read_jobs.sql, sql/job_search.sql, sql/ui_ui_page_queries.sql and sql/change_feed.sql.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

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
from tickwork.core.stats.error_groups import FailedEnd, FailedJob, FailurePage
from tickwork.core.workers.autoscale import WaitingKind
from tickwork.store.dags import DagView
from tickwork.store.reads import change_feed, job_search
from tickwork.store.reads.change_feed import TOPIC_ROWS, Changes
from tickwork.store.reads.job_search import (
    SearchHits,
    StateCount,
    by_state,
    choose,
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
from tickwork.store.rows.instants import from_us, from_us_or_none, to_us
from tickwork.store.rows.jobs import (
    checked_id,
    failed_end,
    job_view,
    read_task_definition,
)
from tickwork.store.rows.schedules import schedule_view
from tickwork.store.rows.workers import worker_view
from tickwork.store.runs.graph_cache import GraphCache
from tickwork.store.schedules import ScheduleView
from tickwork.store.sqlite.reads import job_filter_queries
from tickwork.store.sqlite.reads.job_filter_queries import LIGHT
from tickwork.store.sqlite.transactions import SQL, SqliteTransactions, as_json

_END = "g"  # Sorts after every id.


class SqliteReads:
    """The verbs that read jobs, queues, workers, tasks, runs and schedules."""

    def __init__(self, transactions: SqliteTransactions, graphs: GraphCache) -> None:
        self._transactions = transactions
        self._graphs = graphs

    # -- jobs

    def get_jobs(self, ids: Sequence[JobId]) -> dict[JobId, JobView]:
        with self._transactions.read() as transaction:
            rows = transaction.connection.rows(
                SQL["job_columns"] + SQL["from_jobs"] + SQL["of_these"], (as_json(list(ids)),)
            )
        views = (job_view(row, from_us) for row in rows)
        return {view.id: view for view in views}

    def find_key(self, key: str) -> JobId | None:
        with self._transactions.read() as transaction:
            holder = transaction.value("holder_of_key", (key,)) or transaction.value("newest_of_key", (key,))
        return None if holder is None else JobId(holder)

    def attempts(self, job_id: JobId) -> list[AttemptView]:
        with self._transactions.read() as transaction:
            rows = transaction.run("attempts", {"job_id": job_id})
        return [
            AttemptView(JobId(id), number, AttemptState(state), worker, from_us(began), from_us_or_none(ended), *rest)
            for id, number, state, worker, began, ended, *rest in rows
        ]

    def logs(self, job_id: JobId, after: tuple[int, int] = (0, -1), limit: int = 1000) -> list[LogChunk]:
        values = {"job_id": job_id, "attempt": after[0], "seq": after[1], "limit": limit}
        with self._transactions.read() as transaction:
            rows = transaction.run("logs", values)
        return [
            LogChunk(JobId(id), attempt, seq, from_us(at), text, shared == 1)
            for id, attempt, seq, at, text, shared in rows
        ]

    def list_jobs(self, which: JobFilter, limit: int, before: JobId | None = None) -> list[JobView]:
        with self._transactions.read() as transaction:
            return job_filter_queries.page(
                transaction, SQL["job_columns"], which, ways(which)[0], limit=limit, before=before
            )

    def find_jobs(self, which: JobFilter, limit: int, before: JobId | None = None) -> JobPage:
        """Return a page of jobs.

        For the queued jobs of a short queue, the queue is read first and its jobs are looked up.
        """
        with self._transactions.read() as transaction:
            if which.ids is None and which.queue is not None and state_of(which) is JobState.QUEUED:
                waiting = job_filter_queries.waiting_in(transaction, which.queue)
                if waiting is not None:
                    way = ways(which)[0]
                    found = job_filter_queries.page(
                        transaction, LIGHT, which, way, limit=limit, before=before, among=waiting
                    )
                    return page_of(found, limit, which, None)
            walk = choose(which, lambda way: job_filter_queries.floor(transaction, way, bounds(which, before)))
            found = job_filter_queries.page(
                transaction, LIGHT, which, walk.way, limit=limit, before=before, floor=walk.floor
            )
            return page_of(found, limit, which, walk.floor)

    def count_jobs(self, which: JobFilter, most: int) -> list[StateCount]:
        with self._transactions.read() as transaction:
            return [
                one
                for state, part in by_state(which)
                for one in job_filter_queries.counted(transaction, state, part, most)
            ]

    def find_failures(self, which: JobFilter, limit: int, before: JobId | None = None) -> FailurePage:
        dead = replace(which, dead=True)
        with self._transactions.read() as transaction:
            walk = choose(dead, lambda way: job_filter_queries.floor(transaction, way, bounds(dead, before)))
            columns = SQL["failure_columns"]
            rows = job_filter_queries.rows_of(
                transaction, columns, dead, walk.way, limit=limit, before=before, floor=walk.floor
            )
        found = [
            FailedJob(row["id"], row["task"], row["error"], from_us(row["ended_at"]), row["queue"]) for row in rows
        ]
        return failures_of(found, limit, dead, walk.floor)

    def failed_lately(self, since: datetime, limit: int) -> list[FailedEnd]:
        return self._troubles("failed_lately", since, limit)

    def retried_lately(self, since: datetime, limit: int) -> list[FailedEnd]:
        return self._troubles("retried_lately", since, limit)

    def _troubles(self, statement: str, since: datetime, limit: int) -> list[FailedEnd]:
        with self._transactions.read() as transaction:
            rows = transaction.run(statement, {"since": to_us(since), "limit": limit})
        return [failed_end(row, from_us) for row in rows]

    def ended_among(self, ids: Sequence[JobId]) -> set[JobId]:
        with self._transactions.read() as transaction:
            return set(transaction.column("ended_among", (as_json(list(ids)),)))

    def search_jobs(self, text: str, limit: int, before: JobId | None = None) -> SearchHits:
        low, high = prefix_range(text)
        below = _END if before is None else checked_id(before)
        values = {"low": low, "high": high, "before": below, "limit": limit, "keys": job_search.KEYS + 1}
        with self._transactions.read() as transaction:
            names = transaction.column("tasks_from", {**values, "names": job_search.NAMES + 1})
            found = [
                transaction.column("newest_of_task", {**values, "task": name}) for name in names[: job_search.NAMES]
            ]
            keyed = transaction.column("jobs_with_key", values)
            floor = transaction.value("failed_floor", {"before": below, "walk": job_search.ERRORS})
            errors = {**values, "floor": floor or "", "like": like(text)}
            found += [keyed, transaction.column("failed_with", errors)]
        if is_id(text) and text < below:
            found.append([text])
        is_partial = len(names) > job_search.NAMES or len(keyed) > job_search.KEYS
        return hits_of(found, limit, floor, is_partial=is_partial)

    def queue_names(self) -> list[str]:
        with self._transactions.read() as transaction:
            return transaction.column("queue_names")

    def queues(self) -> list[QueueView]:
        """Count the jobs of each queue in its lanes, the held jobs and the running jobs."""
        with self._transactions.read() as transaction:
            found = QueueCounts()
            most = {"now": transaction.now, "most": COUNTED}
            for name in transaction.column("queue_names"):
                low, high = lanes_of(name)
                found.count(name, *transaction.first("in_lanes", {**most, "queue": name, "low": low, "high": high}))
            for lane, due, later, oldest in transaction.run("held", most):
                found.hold(lane, due, later, oldest)
            for lane, count in transaction.run("running_in"):
                found.run(lane, count)
        return found.views(from_us)

    # -- workers and tasks

    def durations(self) -> dict[str, timedelta]:
        with self._transactions.read() as transaction:
            rows = transaction.run("durations")
        return {queue: timedelta(microseconds=average) for queue, average in rows}

    def workers(self) -> list[WorkerView]:
        with self._transactions.read() as transaction:
            now = transaction.now
            processes = [worker_view(row, from_us) for row in transaction.run("workers", {"now": now})]
            counts = dict(transaction.run("held_counts"))
            values = {"now": now, "most": REMOTE_SHOWN, "others": REMOTE_OTHERS}
            remote = [worker_view(row, from_us) for row in transaction.run("remote_workers", values)]
        return with_held(processes, counts) + remote

    def worker(self, id: WorkerId) -> WorkerView | None:
        with self._transactions.read() as transaction:
            row = transaction.first("worker", {"id": id, "now": transaction.now})
        return None if row is None else worker_view(row, from_us)

    def task_definition(self, name: str) -> TaskDefinition | None:
        with self._transactions.read() as transaction:
            row = transaction.first("task_definition", (name,))
        return None if row is None else read_task_definition(row)

    def task_definitions(self, limit: int, after: str = "") -> list[TaskDefinition]:
        with self._transactions.read() as transaction:
            rows = transaction.run("task_definitions", {"after": after, "limit": limit})
        return [read_task_definition(row) for row in rows]

    def due_tasks(self, queues: Sequence[str]) -> set[str]:
        with self._transactions.read() as transaction:
            values = ((queue, transaction.now) for queue in queues)
            return {name for value in values for (name,) in transaction.run("due_tasks", value)}

    def backlog(self, queues: Sequence[str], tasks: Sequence[str], most: int) -> list[Backlog]:
        asked = {"places": places_of(queues), "ranges": ranges_of(queues), "tasks": list(tasks)}
        values = {name: as_json(value) for name, value in asked.items()}
        with self._transactions.read() as transaction:
            rows = transaction.run("backlog", {**values, "most": most, "now": transaction.now})
        return by_needs((lane, count, from_us(oldest)) for lane, count, oldest in rows)

    def waiting_kinds(self, queue: str, most: int) -> list[WaitingKind]:
        ((low, high),) = ranges_of([queue])
        with self._transactions.read() as transaction:
            values = {"queue": queue, "low": low, "high": high, "most": most, "now": transaction.now}
            return by_kind(transaction.run("waiting_kinds", values))

    # -- pages

    def newest_runs(self, dags: Sequence[str], limit: int, before: JobId | None = None) -> list[RunBrief]:
        below = _END if before is None else checked_id(before)
        with self._transactions.read() as transaction:
            rows = transaction.run("newest_runs", {"dags": as_json(list(dags)), "limit": limit, "before": below})
        return [
            RunBrief(dag, JobId(id), version, state, from_us(created), from_us_or_none(start), from_us_or_none(end))
            for dag, id, version, state, created, start, end in rows
        ]

    def grid(self, runs: Sequence[JobId], steps: Sequence[str]) -> list[GridCell]:
        values = {"runs": as_json(list(runs)), "steps": as_json(list(steps)), "looked_at": LOOKED_AT}
        with self._transactions.read() as transaction:
            rows = transaction.run("grid", values)
        return [
            GridCell(
                run=run,
                step=step,
                standing=state,
                mapped=bool(mapped),
                total=total,
                ended=ended,
                bad=bad,
                since=from_us(since),
                jobs=jobs,
                running=running or 0,
                attempt=attempt or 0,
                started_at=from_us_or_none(start),
            )
            for run, step, state, mapped, total, ended, bad, since, jobs, running, attempt, start in rows
        ]

    def run_events(self, run_id: JobId, limit: int, after: EventPlace | None = None) -> list[RunEvent]:
        place = {"at": 0, "rank": -1, "attempt": 0, "name": ""}
        if after is not None:
            place = {**after._asdict(), "at": to_us(after.at)}
        with self._transactions.read() as transaction:
            rows = transaction.run("run_events", {"run": run_id, "limit": limit, **place})
        return [
            RunEvent(EventPlace(from_us(at), rank, attempt, name), *what) for at, rank, attempt, name, *what in rows
        ]

    def asked(self, places: Sequence[tuple[JobId, str]]) -> list[PendingApprovalView]:
        with self._transactions.read() as transaction:
            rows = transaction.run("asked", (as_json(list(places)),))
        return [
            PendingApprovalView(JobId(run), step, from_us(since), from_us_or_none(wake), text)
            for run, step, since, wake, text in rows
        ]

    def dag_version(self, name: str, version: int) -> DagView | None:
        with self._transactions.read() as transaction:
            rows = transaction.run("dag_at", (name, version))
        for text, created in rows:
            graph = self._graphs.get(name, version) or self._graphs.put(name, version, text)
            return DagView(name, version, graph, from_us(created))
        return None

    def newest_dags(self, limit: int, after: str = "") -> list[DagView]:
        with self._transactions.read() as transaction:
            rows = transaction.run("dags_after", {"after": after, "limit": limit})
        return [DagView(name, version, decode_graph(text), from_us(created)) for name, version, text, created in rows]

    def recent_fires(self, schedules: Sequence[str], limit: int) -> list[FireSummary]:
        with self._transactions.read() as transaction:
            rows = transaction.run("recent_fires", {"schedules": as_json(list(schedules)), "limit": limit})
        return [
            FireSummary(
                schedule=name,
                due_at=from_us(due),
                action=action,
                fired_at=from_us(fired),
                is_catchup=bool(is_catchup),
                reason=reason,
                job_id=None if job_id is None else JobId(job_id),
                is_run=bool(is_run),
                state=state,
                started_at=from_us_or_none(start),
                ended_at=from_us_or_none(end),
            )
            for name, due, action, fired, is_catchup, reason, job_id, is_run, state, start, end in rows
        ]

    def fire_counts(self, schedule: str, since: datetime, most: int) -> list[FireCount]:
        with self._transactions.read() as transaction:
            rows = transaction.run("fire_counts", {"name": schedule, "since": to_us(since), "most": most})
        return [FireCount(from_us(at), outcome, count) for at, outcome, count in rows]

    def schedules_of(self, targets: Sequence[str], limit: int) -> list[ScheduleView]:
        sql = SQL["schedule_columns"] + SQL["schedules_of"]
        with self._transactions.read() as transaction:
            rows = transaction.connection.rows(sql, {"targets": as_json(list(targets)), "limit": limit})
        return [schedule_view(row, from_us) for row in rows]

    def held_jobs(self, worker: WorkerId, limit: int) -> list[JobView]:
        sql = f"{LIGHT} {SQL['from_running']} {SQL['held_by']}"
        with self._transactions.read() as transaction:
            rows = transaction.connection.rows(sql, {"worker": worker, "limit": limit})
        return [job_view(row, from_us) for row in rows]

    def sources_of(self, kind: str, names: Sequence[str]) -> dict[str, str]:
        with self._transactions.read() as transaction:
            return dict(transaction.run("sources_of", {"kind": kind, "names": as_json(list(names))}))

    def schedules_late(self) -> timedelta:
        with self._transactions.read() as transaction:
            earliest = transaction.value("earliest_wake")
            late = 0 if earliest is None else transaction.now - earliest
        return timedelta(microseconds=max(0, late))

    # -- the change feed

    def happenings(self, since: datetime, most: int) -> Changes:
        with self._transactions.read() as transaction:
            return change_feed.happenings(transaction.run, from_us(transaction.now), since, most, to_us)

    def topics(self) -> dict[str, str]:
        with self._transactions.read() as transaction:
            return change_feed.topics(transaction.run("topics", {"now": transaction.now, "most": TOPIC_ROWS}))
