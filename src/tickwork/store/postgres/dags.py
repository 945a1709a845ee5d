"""The verbs of dags and runs on PostgreSQL (see `store.dags`). Changes to their rows are in runs.py."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from tickwork.core.dag.graph import Graph, decode_graph, definition_of, digest, encode_graph
from tickwork.core.dag.overview import StepTimes, counted
from tickwork.core.ids import JobId, WorkerId, is_id
from tickwork.core.job import Claimed, JobView, MapIndex
from tickwork.core.stats.findings import PendingApproval
from tickwork.store.dags import AssetView, DagView, InstanceView, StepView
from tickwork.store.postgres import params
from tickwork.store.postgres.connection.session import Session
from tickwork.store.postgres.connection.verb_pool import VerbPool
from tickwork.store.postgres.connection.wake_notify import WakeNotifier
from tickwork.store.postgres.params import array, text_array
from tickwork.store.postgres.rows import id_document, instant, utc
from tickwork.store.postgres.runs import PostgresRuns, RunMembership, pairs_of, place_of, standing_of
from tickwork.store.rows.jobs import limit_keys_of
from tickwork.store.rows.limits import encode_rule
from tickwork.store.rows.schedules import dag_in_use
from tickwork.store.runs import run_lifecycle, step_jobs
from tickwork.store.runs.graph_cache import GraphCache
from tickwork.store.runs.step_jobs import ResultRow

T = TypeVar("T")


class PostgresDags:
    """A part of PostgresStore. It needs from the rest the transactions, and a way to wake workers."""

    _sql: dict[str, str]
    _notifier: WakeNotifier
    _graphs: GraphCache

    def _perform(self, work: Callable[[Session], T], *, pool: VerbPool | None = None, single: bool = True) -> T:
        raise NotImplementedError

    def _open_freed(self, names: Sequence[str]) -> bool:
        raise NotImplementedError

    def _move_runs(self, work: Callable[[PostgresRuns], T], pool: VerbPool | None = None) -> T:
        """Run `work` as a transaction that advances runs; afterwards open freed limits and wake workers."""

        def inside(session: Session) -> tuple[T, PostgresRuns]:
            run_tx = PostgresRuns(session.run_together, self._sql, self._graphs, session.now)
            result = work(run_tx)
            run_tx.finish(session.run_last)
            return result, run_tx

        result, run_tx = self._perform(inside, pool=pool, single=False)
        if run_tx.freed:
            self._open_freed(run_tx.freed)
        if run_tx.released:
            self._notifier.call()
        return result

    def _places(self, ids: Collection[str]) -> list[RunMembership]:
        """Return how jobs belong to runs; plain jobs are left out."""
        known = array([one for one in ids if is_id(one)])
        return [place_of(row) for row in self._perform(lambda session: session.run("parts", ids=known))]

    def _end_steps(self, ids: Collection[str], state: str, error: str) -> int:
        """End steps that wait in the queue, and advance their runs; return how many ended."""
        locks = [str(one.run) for one in self._places(ids) if one.run]

        def end(run_tx: PostgresRuns) -> int:
            run_tx.lock(locks)
            # Steps that another transaction has not ended meanwhile.
            waiting = [one.job_id for one in run_tx.places(ids) if one.state is None]
            wanted = {"ids": id_document([JobId(one) for one in waiting]), "state": state, "error": error}
            (((count, texts),),) = run_tx.together(("drop_jobs", wanted))
            run_tx.freed += [name for text in texts for name in limit_keys_of(text)]
            run_tx.advance(waiting)
            return int(count)

        return self._move_runs(end)

    def _arranged(self, worker: WorkerId, claimed: list[Claimed]) -> list[Claimed]:
        """Begin the claimed runs; return the other claimed jobs, with results filled into the arguments of steps."""
        begins = [one for one in claimed if step_jobs.is_run(one)]
        if begins:
            self._move_runs(lambda run_tx: run_tx.begin(worker, begins))
        jobs = [one for one in claimed if not step_jobs.is_run(one)]
        pairs = step_jobs.wanted_results(jobs)
        if not pairs:
            return jobs
        rows = self._perform(lambda session: session.run("result_rows", **pairs_of(pairs)))
        return step_jobs.with_inputs(jobs, [ResultRow(*row) for row in rows], self._graphs.large_results.load)

    def put_dag(self, graph: Graph) -> int:
        """Store a definition with its task, limits and triggers, under a lock on its name."""
        found = digest(graph)

        def put(session: Session) -> int:
            session.run("lock_dag", name=graph.name)
            newest = session.run("newest_dag", name=graph.name)
            is_known = bool(newest) and newest[0][1] == found
            if is_known and session.run("task_definition", name=graph.name):
                return int(newest[0][0])
            version = newest[0][0] + (not is_known) if newest else 1
            if not is_known:
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
            return int(version)

        return self._perform(put, single=False)

    def delete_dag(self, name: str) -> bool:
        def delete(session: Session) -> bool:
            session.run("lock_dag", name=name)
            starts = session.run("starts_dag", name=name)
            if starts:
                raise dag_in_use(name, starts[0][0])
            session.run("forget_triggers", dag=name)
            return bool(session.run("undefine_dag", name=name))

        return self._perform(delete, single=False)

    def list_dags(self, name: str | None = None) -> list[DagView]:
        wanted, values = ("newest_dags", {}) if name is None else ("versions_of_dag", {"name": name})
        rows = self._perform(lambda session: session.run(wanted, **values))
        return [DagView(name, version, decode_graph(text), utc(created)) for name, version, text, created in rows]

    def rerun(self, run_id: JobId, steps: Sequence[str] | None = None, args: bytes | None = None) -> bool:
        def begin_again(run_tx: PostgresRuns) -> bool:
            if not run_tx.rerun(run_id, steps, 0):
                return False
            if args is not None:
                run_tx.together(("set_args", {"id": run_id, "args": args.decode()}))
            return True

        return is_id(run_id) and self._move_runs(begin_again)

    def _retry_steps(self, ids: Sequence[JobId], first_us: int) -> dict[JobId, bool]:
        """Rerun the runs of the jobs among these that are failed steps; return for each whether its run was queued."""
        known = array([one for one in ids if is_id(one)])
        rows = self._perform(lambda session: session.run("failed_parts", ids=known))
        again: dict[str, list[str]] = {}
        for _, run, name in rows:
            again.setdefault(run, []).append(name)
        begun = {
            run: self._move_runs(lambda run_tx, run=run, names=names: run_tx.rerun(run, names, first_us))  # type: ignore[misc]
            for run, names in again.items()
        }
        return {JobId(job_id): begun[run] for job_id, run, _ in rows}

    def run_steps(self, run_id: JobId, names: Sequence[str] | None = None) -> list[StepView]:
        if not is_id(run_id):
            return []
        wanted = None if names is None else text_array(names)
        rows = self._perform(lambda session: session.run("steps", run=run_id, names=wanted))
        return [StepView(standing_of(row), utc(row[13]), instant(row[14])) for row in rows]

    def step_times(self, run_id: JobId) -> list[StepTimes]:
        if not is_id(run_id):
            return []
        rows = self._perform(lambda session: session.run("step_times", run=run_id))
        return [
            StepTimes(
                step, queued, running, instant(start), instant(end), counted(*ends), job_id, attempt, utc(changed)
            )
            for step, queued, running, start, end, job_id, attempt, changed, *ends in rows
        ]

    def run_instances(self, run_id: JobId, limit: int, after: tuple[str, int] = ("", -1)) -> list[InstanceView]:
        if not is_id(run_id):
            return []
        values = {"run": run_id, "step": after[0], "idx": after[1], "limit": limit}
        rows = self._perform(lambda session: session.run("run_instances", **values))
        return [
            InstanceView(step, idx, JobId(job_id), state, attempt, instant(start), instant(end))
            for step, idx, job_id, state, attempt, start, end in rows
        ]

    def map_places(self, ids: Sequence[JobId]) -> dict[JobId, MapIndex]:
        rows = self._perform(lambda session: session.run("map_places", ids=array([one for one in ids if is_id(one)])))
        return {JobId(job_id): MapIndex(index, count) for job_id, index, count in rows}

    def run_failures(self, run_id: JobId, limit: int) -> list[tuple[str, str]]:
        if not is_id(run_id):
            return []
        return self._perform(lambda session: session.run("failed_steps", run=run_id, limit=limit))

    def step_jobs(self, run_id: JobId, step: str, first: int, limit: int) -> list[JobView]:
        if not is_id(run_id):
            return []
        return self._views(self._sql["of_step"], {"run": run_id, "step": step, "first": first, "limit": limit})

    def _views(self, where: str, values: dict[str, Any], begins: str = "from_jobs") -> list[JobView]:
        raise NotImplementedError

    def answer(self, run_id: JobId, step: str, approved: bool, by: str, note: str | None = None) -> bool:
        if not is_id(run_id):
            return False
        said = run_lifecycle.said(approved, by, note)
        return self._move_runs(lambda run_tx: run_lifecycle.answer(run_tx, run_id, step, *said))

    def list_assets(self) -> list[AssetView]:
        rows = self._perform(lambda session: session.run("assets"))
        return [AssetView(name, utc(made), JobId(by)) for name, made, by in rows]

    def waiting_approvals(self, limit: int) -> list[PendingApproval]:
        rows = self._perform(lambda session: session.run("waiting_approvals", limit=limit))
        return [PendingApproval(run, dag, step, text, utc(since)) for run, dag, step, text, since in rows]

    def answer_overdue(self, limit: int) -> int:
        overdue = self._perform(lambda session: session.run("overdue_steps", limit=limit))
        for run, step in overdue:
            self._move_runs(lambda run_tx, run=run, step=step: run_lifecycle.answer_by_default(run_tx, run, step))  # type: ignore[misc]
        return len(overdue)
