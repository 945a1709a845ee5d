"""The verbs of dags and runs on PostgreSQL (see `store.dags`). Rows of runs are changed in run_transitions.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tickwork.core.dag.advance import StepState
from tickwork.core.dag.graph import Graph, decode_graph, definition_of, digest, encode_graph
from tickwork.core.dag.overview import StepTimes, counted
from tickwork.core.ids import JobId, is_id
from tickwork.core.job import JobView, MapIndex
from tickwork.core.stats.findings import PendingApproval
from tickwork.store.dags import AssetView, DagView, InstanceView, StepView
from tickwork.store.postgres import params
from tickwork.store.postgres.connection.session import Session, utc, utc_or_none
from tickwork.store.postgres.job_transitions import JobTransitions
from tickwork.store.postgres.params import array, text_array
from tickwork.store.postgres.reads.job_filter_queries import JobFilterQueries
from tickwork.store.postgres.run_transitions import PostgresRunTx
from tickwork.store.postgres.transactions import PostgresTransactions
from tickwork.store.rows.limits import encode_rule
from tickwork.store.rows.schedules import dag_in_use
from tickwork.store.runs import run_lifecycle, step_jobs


@dataclass(eq=False)
class PostgresDags:
    """Definitions of dags, and reads and changes of their runs."""

    transactions: PostgresTransactions
    changes: JobTransitions
    jobs: JobFilterQueries

    def put_dag(self, graph: Graph) -> int:
        """Store a definition with its task, limits and triggers, under a lock on its name; return its version."""
        found = digest(graph)

        def put(session: Session) -> int:
            session.run("lock_dag", name=graph.name)
            newest, stored = session.find("newest_dag", name=graph.name) or (0, None)
            version = int(newest) + (stored != found)
            if stored == found and session.run("task_definition", name=graph.name):
                return version
            if stored != found:
                text = encode_graph(graph).decode()
                session.run("insert_dag", name=graph.name, version=version, digest=found, graph=text)
            session.run("define_tasks", tasks=params.task_definitions([definition_of(graph, version)]))
            limits = step_jobs.limits_of(graph, version).items()
            rules = params.document({"name": name, "rule": encode_rule(rule)} for name, rule in limits)
            session.run("declare_limits", limits=rules)
            session.run("forget_triggers", dag=graph.name)
            triggers = step_jobs.triggers_of(graph)
            assets, groups = text_array([one for one, _ in triggers]), array([number for _, number in triggers])
            session.run("insert_triggers", dag=graph.name, assets=assets, groups=groups)
            return version

        return self.transactions.perform(put, single=False)

    def delete_dag(self, name: str) -> bool:
        def delete(session: Session) -> bool:
            session.run("lock_dag", name=name)
            for (schedule,) in session.run("starts_dag", name=name):
                raise dag_in_use(name, schedule)
            session.run("forget_triggers", dag=name)
            return bool(session.run("undefine_dag", name=name))

        return self.transactions.perform(delete, single=False)

    def list_dags(self, name: str | None = None) -> list[DagView]:
        wanted, values = ("newest_dags", {}) if name is None else ("versions_of_dag", {"name": name})
        rows = self.transactions.run(wanted, **values)
        return [DagView(name, version, decode_graph(text), utc(created)) for name, version, text, created in rows]

    def rerun(self, run_id: JobId, steps: Sequence[str] | None = None, args: bytes | None = None) -> bool:
        def begin_again(run_tx: PostgresRunTx) -> bool:
            if not run_tx.rerun(run_id, steps, 0):
                return False
            if args is not None:
                run_tx.together(("set_args", {"id": run_id, "args": args.decode()}))
            return True

        return is_id(run_id) and self.changes.advance(begin_again)

    def run_steps(self, run_id: JobId, names: Sequence[str] | None = None) -> list[StepView]:
        if not is_id(run_id):
            return []
        wanted = None if names is None else text_array(names)
        rows = self.transactions.run("steps", run=run_id, names=wanted)
        return [StepView(StepState(*state), utc(since), utc_or_none(wake_at)) for since, wake_at, *state in rows]

    def step_times(self, run_id: JobId) -> list[StepTimes]:
        if not is_id(run_id):
            return []
        rows = self.transactions.run("step_times", run=run_id)
        return [
            StepTimes(
                step,
                queued,
                running,
                utc_or_none(start),
                utc_or_none(end),
                counted(*ends),
                job_id,
                attempt,
                utc(changed),
            )
            for step, queued, running, start, end, job_id, attempt, changed, *ends in rows
        ]

    def run_instances(self, run_id: JobId, limit: int, after: tuple[str, int] = ("", -1)) -> list[InstanceView]:
        if not is_id(run_id):
            return []
        values = {"run": run_id, "step": after[0], "idx": after[1], "limit": limit}
        rows = self.transactions.run("run_instances", **values)
        return [
            InstanceView(step, idx, JobId(job_id), state, attempt, utc_or_none(start), utc_or_none(end))
            for step, idx, job_id, state, attempt, start, end in rows
        ]

    def map_places(self, ids: Sequence[JobId]) -> dict[JobId, MapIndex]:
        rows = self.transactions.run("map_places", ids=array([one for one in ids if is_id(one)]))
        return {JobId(job_id): MapIndex(index, count) for job_id, index, count in rows}

    def run_failures(self, run_id: JobId, limit: int) -> list[tuple[str, str]]:
        if not is_id(run_id):
            return []
        return self.transactions.run("failed_steps", run=run_id, limit=limit)

    def step_jobs(self, run_id: JobId, step: str, first: int, limit: int) -> list[JobView]:
        if not is_id(run_id):
            return []
        values = {"run": run_id, "step": step, "first": first, "limit": limit}
        return self.jobs.views(self.transactions.sql["of_step"], values)

    def answer(self, run_id: JobId, step: str, approved: bool, by: str, note: str | None = None) -> bool:
        if not is_id(run_id):
            return False
        said = run_lifecycle.said(approved, by, note)
        return self.changes.advance(lambda run_tx: run_lifecycle.answer(run_tx, run_id, step, *said))

    def list_assets(self) -> list[AssetView]:
        rows = self.transactions.run("assets")
        return [AssetView(name, utc(made), JobId(by)) for name, made, by in rows]

    def waiting_approvals(self, limit: int) -> list[PendingApproval]:
        rows = self.transactions.run("waiting_approvals", limit=limit)
        return [PendingApproval(run, dag, step, text, utc(since)) for run, dag, step, text, since in rows]

    def answer_overdue(self, limit: int) -> int:
        overdue = self.transactions.run("overdue_steps", limit=limit)
        for run, step in overdue:
            self.changes.advance(lambda run_tx, run=run, step=step: run_lifecycle.answer_by_default(run_tx, run, step))  # type: ignore[misc]
        return len(overdue)
