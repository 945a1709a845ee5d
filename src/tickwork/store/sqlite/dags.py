"""Dags and their runs on a SQLite file (see `store.dags`). The SQL is in sql/runs.sql and sql/read_runs.sql."""

from __future__ import annotations

from collections.abc import Sequence

from tickwork.core.dag.graph import Graph, decode_graph, definition_of, digest, encode_graph
from tickwork.core.dag.overview import StepTimes, counted
from tickwork.core.ids import JobId
from tickwork.core.job import JobView, MapIndex
from tickwork.core.stats.findings import PendingApproval
from tickwork.store.dags import AssetView, DagView, InstanceView, StepView
from tickwork.store.rows.instants import from_us, from_us_or_none
from tickwork.store.rows.jobs import job_view
from tickwork.store.rows.limits import encode_rule
from tickwork.store.rows.schedules import dag_in_use
from tickwork.store.runs import run_lifecycle, step_jobs
from tickwork.store.runs.graph_cache import GraphCache
from tickwork.store.sqlite import insert_jobs, run_transitions
from tickwork.store.sqlite.run_transitions import SqliteRunTx, step_rows
from tickwork.store.sqlite.transactions import SQL, SqliteTransactions, as_json


class SqliteDags:
    """Definitions of dags, their runs and steps, assets and approvals."""

    def __init__(self, transactions: SqliteTransactions, graphs: GraphCache) -> None:
        self._transactions = transactions
        self._graphs = graphs

    def put_dag(self, graph: Graph) -> int:
        """Store a definition with its task, limits and triggers, unless it equals the newest; return its version."""
        found = digest(graph)
        with self._transactions.write() as transaction:
            newest, newest_digest = transaction.first("newest_dag", (graph.name,)) or (0, None)
            is_known = newest_digest == found
            if is_known and transaction.run("task_definition", (graph.name,)):
                return int(newest)
            version = newest + (not is_known)
            if not is_known:
                text = encode_graph(graph).decode()
                transaction.run("insert_dag", (graph.name, version, found, text, transaction.now))
            transaction.run("define_task", insert_jobs.task_row(definition_of(graph, version)))
            transaction.run("forget_triggers", (graph.name,))
            transaction.run_many(
                "insert_trigger", [(asset, graph.name, grp) for asset, grp in step_jobs.triggers_of(graph)]
            )
            for name, rule in step_jobs.limits_of(graph, version).items():
                transaction.run("declare_limit", {"name": name, "rule": encode_rule(rule)})
        return int(version)

    def delete_dag(self, name: str) -> bool:
        with self._transactions.write() as transaction:
            starts = transaction.value("starts_dag", (name,))
            if starts is not None:
                raise dag_in_use(name, starts)
            transaction.run("forget_triggers", (name,))
            return bool(transaction.run("undefine_dag", (name,)))

    def list_dags(self, name: str | None = None) -> list[DagView]:
        with self._transactions.read() as transaction:
            rows = transaction.run("newest_dags") if name is None else transaction.run("versions_of_dag", (name,))
        return [DagView(name, version, decode_graph(text), from_us(created)) for name, version, text, created in rows]

    def rerun(self, run_id: JobId, steps: Sequence[str] | None = None, args: bytes | None = None) -> bool:
        with self._transactions.write() as transaction:
            queued = run_transitions.rerun(transaction, run_id, steps, transaction.now)
            if queued and args is not None:
                transaction.run("set_args", (args.decode(), run_id))
        self._transactions.wake()
        return queued

    def run_steps(self, run_id: JobId, names: Sequence[str] | None = None) -> list[StepView]:
        with self._transactions.read() as transaction:
            rows = step_rows(transaction, run_id, names)
        return [StepView(row.state, from_us(row.changed_at), from_us_or_none(row.wake_at)) for row in rows]

    def step_times(self, run_id: JobId) -> list[StepTimes]:
        with self._transactions.read() as transaction:
            rows = transaction.run("step_times", {"run": run_id, "now": transaction.now})
        return [
            StepTimes(
                step=step,
                queued=queued,
                running=running,
                started_at=from_us_or_none(start),
                ended_at=from_us_or_none(end),
                ends=counted(*ends),
                job_id=job_id,
                attempt=attempt,
                changed_at=from_us(changed),
            )
            for step, queued, running, start, end, job_id, attempt, changed, *ends in rows
        ]

    def run_instances(self, run_id: JobId, limit: int, after: tuple[str, int] = ("", -1)) -> list[InstanceView]:
        with self._transactions.read() as transaction:
            step, idx = after
            rows = transaction.run("run_instances", {"run": run_id, "step": step, "idx": idx, "limit": limit})
        return [
            InstanceView(step, idx, JobId(job_id), state, attempt, from_us_or_none(start), from_us_or_none(end))
            for step, idx, job_id, state, attempt, start, end in rows
        ]

    def map_places(self, ids: Sequence[JobId]) -> dict[JobId, MapIndex]:
        with self._transactions.read() as transaction:
            rows = transaction.run("map_places", (as_json(list(ids)),))
        return {JobId(job_id): MapIndex(index, count) for job_id, index, count in rows}

    def run_failures(self, run_id: JobId, limit: int) -> list[tuple[str, str]]:
        with self._transactions.read() as transaction:
            return transaction.run("failed_steps", (run_id, limit))

    def step_jobs(self, run_id: JobId, step: str, first: int, limit: int) -> list[JobView]:
        sql = f"{SQL['job_columns']} {SQL['from_jobs']} {SQL['of_step']}"
        with self._transactions.read() as transaction:
            rows = transaction.connection.rows(sql, (run_id, step, first, limit))
        return [job_view(row, from_us) for row in rows]

    def answer(self, run_id: JobId, step: str, approved: bool, by: str, note: str | None = None) -> bool:
        with self._transactions.write() as transaction:
            answered = run_lifecycle.answer(
                SqliteRunTx(transaction, self._graphs), run_id, step, *run_lifecycle.said(approved, by, note)
            )
        self._transactions.wake()
        return answered

    def list_assets(self) -> list[AssetView]:
        with self._transactions.read() as transaction:
            rows = transaction.run("assets")
        return [AssetView(name, from_us(made), JobId(by)) for name, made, by in rows]

    def waiting_approvals(self, limit: int) -> list[PendingApproval]:
        with self._transactions.read() as transaction:
            rows = transaction.run("waiting_approvals", (limit,))
        return [PendingApproval(run, dag, step, text, from_us(since)) for run, dag, step, text, since in rows]

    def answer_overdue(self, limit: int) -> int:
        with self._transactions.write() as transaction:
            overdue = transaction.run("overdue_steps", (transaction.now, limit))
            for run, step in overdue:
                run_lifecycle.answer_by_default(SqliteRunTx(transaction, self._graphs), run, step)
        if overdue:
            self._transactions.wake()
        return len(overdue)
