"""Dags and their runs on SQLite (see `store.dags` and `store.runs.run_lifecycle`). The SQL is in sql/runs.sql.

A writer excludes all others, so rows need no locks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

import msgspec

from tickwork.core.dag.advance import RunState, StepState
from tickwork.core.dag.graph import Graph, Step, decode_graph, definition_of, digest, encode_graph
from tickwork.core.dag.overview import StepTimes, counted
from tickwork.core.ids import JobId
from tickwork.core.job import Claimed, JobState, JobView, MapIndex, NewJob
from tickwork.core.stats.findings import PendingApproval
from tickwork.errors import check
from tickwork.store.attempts import Finish
from tickwork.store.dags import AssetView, DagView, InstanceView, StepView
from tickwork.store.rows.instants import from_us
from tickwork.store.rows.jobs import encode_policy, job_view, read_task_definition
from tickwork.store.rows.limits import encode_rule
from tickwork.store.rows.schedules import dag_in_use
from tickwork.store.runs import run_lifecycle, step_jobs
from tickwork.store.runs.graph_cache import GraphCache
from tickwork.store.runs.run_lifecycle import EndedStep
from tickwork.store.runs.step_jobs import LiveRun, ResultRow
from tickwork.store.sqlite import transitions
from tickwork.store.sqlite.transitions import SQL, Transaction, as_json


class SqliteRuns:
    """The rows of runs inside a transaction."""

    def __init__(self, transaction: Transaction, graphs: GraphCache) -> None:
        self._transaction = transaction
        self._graphs = graphs
        self.now_us = transaction.now
        self.large_results = graphs.large_results

    def going(self, run_ids: Sequence[str]) -> list[LiveRun]:
        return [step_jobs.going_of(row) for row in self._transaction.run("going", (as_json(run_ids),))]

    def graph(self, dag: str, version: int) -> Graph:
        known = self._graphs.get(dag, version)
        if known is not None:
            return known
        ((text,),) = self._transaction.run("dag_graph", (dag, version))
        return self._graphs.put(dag, version, text)

    def steps(self, run: str, names: Sequence[str] | None) -> list[StepState]:
        return [_standing(row) for row in _step_rows(self._transaction, run, names)]

    def result_rows(self, pairs: Collection[tuple[str, str]]) -> list[ResultRow]:
        return result_rows(self._transaction, pairs)

    def failures(self, run: str, limit: int) -> list[tuple[str, str]]:
        return self._transaction.run("failed_steps", (run, limit))

    def instances(self, run: str, steps: Collection[str]) -> dict[tuple[str, int], tuple[JobId, str]]:
        rows = self._transaction.run("instances", {"run": run, "steps": as_json(sorted(steps))})
        return {(step, idx): (JobId(job_id), state) for step, idx, job_id, state in rows}

    def put_steps(self, run: str, standings: Sequence[StepState], approvals: Mapping[str, Step]) -> None:
        now = self.now_us
        self._transaction.run_many("put_step", [_step_row(run, one, approvals.get(one.step), now) for one in standings])

    def put_run(self, run: RunState) -> None:
        self._transaction.run("put_run", (run.open, run.failed, run.id))

    def insert(self, jobs: Sequence[NewJob]) -> None:
        self._transaction.opened |= bool(jobs)
        transitions.insert(self._transaction, jobs, known=False)

    def insert_again(self, jobs: Sequence[NewJob]) -> None:
        """Queue ended instances again with new arguments; their attempts are kept."""
        self._transaction.opened |= bool(jobs)
        for job in jobs:
            check(job.part is not None, f"Job {job.id} is no step.")
            inputs = job.part.inputs if job.part else None
            what = (job.args.decode(), None if inputs is None else inputs.decode())
            rules = (job.queue, job.priority, encode_policy(job.policy))
            self._transaction.run("renew_step_job", (*what, *rules, job.id))
            if job.job_limits is not None:
                transitions.stamp(self._transaction, job)
            transitions.queue_again(self._transaction, job.id, self.now_us)

    def end_run(self, finish: Finish) -> None:
        transitions.finish(self._transaction, [finish], "current_attempts")

    def produce(self, assets: Sequence[str], by: str) -> None:
        produce(self._transaction, assets, by)


def advance(transaction: Transaction, graphs: GraphCache, job_ids: Iterable[str]) -> None:
    """Advance the runs of the jobs among these that are steps and have ended."""
    parts = transaction.run("parts", (as_json(list(job_ids)),))
    endings = [EndedStep(run, step, JobState(state)) for run, step, state in parts]
    if endings:
        run_lifecycle.advance(SqliteRuns(transaction, graphs), endings)


def produce(transaction: Transaction, assets: Iterable[str], by: str) -> None:
    """Record that assets were updated, and start the dags that wait for them."""
    for name in assets:
        transaction.run("made_anew", {"name": name, "now": transaction.now, "by": by})
        transaction.run("freshen", (name,))
        for dag, group in transaction.run("ready_groups", (name,)):
            transaction.run("use_up", (dag, group))
            definition = read_task_definition(transaction.run("task_definition", (dag,))[0])
            transitions.insert(
                transaction, [step_jobs.triggered(definition, name, group, by, transaction.now)], known=False
            )
            transaction.opened = True


def produce_all(transaction: Transaction, endings: Iterable[Finish]) -> None:
    """Record the assets that ended jobs have updated, if the jobs succeeded."""
    making = {one.job_id: one.produce for one in endings}
    for (job_id,) in transaction.run("succeeded_of", (as_json(list(making)),)):
        produce(transaction, making[job_id], job_id)


def begin(transaction: Transaction, graphs: GraphCache, claimed: Sequence[Claimed]) -> None:
    """Begin runs that were claimed."""
    run_tx = SqliteRuns(transaction, graphs)
    for one in claimed:
        transaction.run("hold_run", (one.job_id, one.claim))
        begun = transaction.run("begun_run", (one.job_id,))
        if not begun:
            transaction.run("insert_run", (one.job_id,))
        again = begun[0][0] if begun else None
        (going,) = run_tx.going([one.job_id])
        steps = None if again is None else msgspec.json.decode(again, type=list[str])
        run_lifecycle.begin(run_tx, going, steps, first=not begun)


def arranged(transaction: Transaction, graphs: GraphCache, claimed: list[Claimed]) -> list[Claimed]:
    """Begin the claimed runs; return the other claimed jobs, with results filled into the arguments of steps."""
    if any(map(step_jobs.is_run, claimed)):
        begin(transaction, graphs, [one for one in claimed if step_jobs.is_run(one)])
        claimed = [one for one in claimed if not step_jobs.is_run(one)]
    pairs = step_jobs.wanted_results(claimed)
    return (
        step_jobs.with_inputs(claimed, result_rows(transaction, pairs), graphs.large_results.load) if pairs else claimed
    )


def cancel(transaction: Transaction, graphs: GraphCache, job_ids: Iterable[JobId]) -> list[JobId]:
    """Cancel jobs, and for runs their live steps, too. Return the jobs that had not ended."""
    cancelled = [job_id for job_id in dict.fromkeys(job_ids) if transitions.cancel(transaction, job_id)]
    if cancelled:
        advance(transaction, graphs, cancelled)
        for (run,) in transaction.run("run_ids", (as_json(cancelled),)):
            _cancel_run(transaction, graphs, run)
    return cancelled


def _cancel_run(transaction: Transaction, graphs: GraphCache, run: JobId) -> None:
    """Cancel all live instances and approvals of a run; steps that run even then follow."""
    run_tx = SqliteRuns(transaction, graphs)
    approvals = run_lifecycle.open_approvals(run_tx, run)
    live = [JobId(job_id) for (job_id,) in transaction.run("live_instances", (run,))]
    for job_id in live:
        transitions.cancel(transaction, job_id)
    advance(transaction, graphs, live)
    run_lifecycle.cancel_approvals(run_tx, run, approvals)


def rerun(transaction: Transaction, run: JobId, steps: Sequence[str] | None, run_at: int) -> bool:
    """Queue an ended run again, from these steps or from the failed ones; False when it is not an ended run."""
    if not transaction.run("run_ids", (as_json([run]),)) or not transitions.queue_again(transaction, run, run_at):
        return False
    transaction.run("set_again", (None if steps is None else as_json(list(steps)), run))
    return True


def retry_steps(transaction: Transaction, job_ids: Sequence[JobId], run_at: int) -> dict[JobId, bool]:
    """Rerun the runs of the jobs among these that are failed steps; return for each whether its run was queued."""
    places = {JobId(job_id): (run, name) for job_id, run, name in transaction.run("failed_parts", (as_json(job_ids),))}
    again: dict[str, list[str]] = {}
    for run, name in places.values():
        again.setdefault(run, []).append(name)
    begun = {run: rerun(transaction, JobId(run), names, run_at) for run, names in again.items()}
    return {job_id: begun[run] for job_id, (run, _) in places.items()}


def result_rows(transaction: Transaction, pairs: Collection[tuple[str, str]]) -> list[ResultRow]:
    return [ResultRow(*row) for row in transaction.run("result_rows", (as_json(sorted(pairs)),))]


class SqliteDags:
    """A part of SqliteStore. It needs from the rest the transactions, and a way to wake workers."""

    _graphs: GraphCache

    def _write(self, tx: Any = None) -> AbstractContextManager[Transaction]:
        raise NotImplementedError

    def _read(self) -> AbstractContextManager[Transaction]:
        raise NotImplementedError

    def _wake(self) -> None:
        raise NotImplementedError

    def put_dag(self, graph: Graph) -> int:
        """Store a definition with its task, limits and triggers; a definition equal to the newest changes nothing."""
        found = digest(graph)
        with self._write() as transaction:
            newest = transaction.run("newest_dag", (graph.name,))
            is_known = bool(newest) and newest[0][1] == found
            if is_known and transaction.run("task_definition", (graph.name,)):
                return int(newest[0][0])
            version = newest[0][0] + (not is_known) if newest else 1
            if not is_known:
                text = encode_graph(graph).decode()
                transaction.run("insert_dag", (graph.name, version, found, text, transaction.now))
            transaction.run("define_task", transitions.task_row(definition_of(graph, version)))
            transaction.run("forget_triggers", (graph.name,))
            transaction.run_many(
                "insert_trigger", [(asset, graph.name, grp) for asset, grp in step_jobs.triggers_of(graph)]
            )
            for name, rule in step_jobs.limits_of(graph, version).items():
                transaction.run("declare_limit", {"name": name, "rule": encode_rule(rule)})
        return int(version)

    def delete_dag(self, name: str) -> bool:
        with self._write() as transaction:
            starts = transaction.run("starts_dag", (name,))
            if starts:
                raise dag_in_use(name, starts[0][0])
            transaction.run("forget_triggers", (name,))
            return bool(transaction.run("undefine_dag", (name,)))

    def list_dags(self, name: str | None = None) -> list[DagView]:
        with self._read() as transaction:
            rows = transaction.run("newest_dags") if name is None else transaction.run("versions_of_dag", (name,))
        return [DagView(name, version, decode_graph(text), from_us(created)) for name, version, text, created in rows]

    def rerun(self, run_id: JobId, steps: Sequence[str] | None = None, args: bytes | None = None) -> bool:
        with self._write() as transaction:
            queued = rerun(transaction, run_id, steps, transaction.now)
            if queued and args is not None:
                transaction.run("set_args", (args.decode(), run_id))
        self._wake()
        return queued

    def run_steps(self, run_id: JobId, names: Sequence[str] | None = None) -> list[StepView]:
        with self._read() as transaction:
            rows = _step_rows(transaction, run_id, names)
        return [StepView(_standing(row), from_us(row[13]), _at(row[14])) for row in rows]

    def step_times(self, run_id: JobId) -> list[StepTimes]:
        with self._read() as transaction:
            rows = transaction.run("step_times", {"run": run_id, "now": transaction.now})
        return [
            StepTimes(step, queued, running, _at(start), _at(end), counted(*ends), job_id, attempt, from_us(changed))
            for step, queued, running, start, end, job_id, attempt, changed, *ends in rows
        ]

    def run_instances(self, run_id: JobId, limit: int, after: tuple[str, int] = ("", -1)) -> list[InstanceView]:
        with self._read() as transaction:
            rows = transaction.run("run_instances", {"run": run_id, "step": after[0], "idx": after[1], "limit": limit})
        return [
            InstanceView(step, idx, JobId(job_id), state, attempt, _at(start), _at(end))
            for step, idx, job_id, state, attempt, start, end in rows
        ]

    def map_places(self, ids: Sequence[JobId]) -> dict[JobId, MapIndex]:
        with self._read() as transaction:
            rows = transaction.run("map_places", (as_json(list(ids)),))
        return {JobId(job_id): MapIndex(index, count) for job_id, index, count in rows}

    def run_failures(self, run_id: JobId, limit: int) -> list[tuple[str, str]]:
        with self._read() as transaction:
            return transaction.run("failed_steps", (run_id, limit))

    def step_jobs(self, run_id: JobId, step: str, first: int, limit: int) -> list[JobView]:
        sql = f"{SQL['job_columns']} {SQL['from_jobs']} {SQL['of_step']}"
        with self._read() as transaction:
            rows = transaction.connection.rows(sql, (run_id, step, first, limit))
        return [job_view(row, from_us) for row in rows]

    def answer(self, run_id: JobId, step: str, approved: bool, by: str, note: str | None = None) -> bool:
        with self._write() as transaction:
            answered = run_lifecycle.answer(
                SqliteRuns(transaction, self._graphs), run_id, step, *run_lifecycle.said(approved, by, note)
            )
        self._wake()
        return answered

    def list_assets(self) -> list[AssetView]:
        with self._read() as transaction:
            rows = transaction.run("assets")
        return [AssetView(name, from_us(made), JobId(by)) for name, made, by in rows]

    def waiting_approvals(self, limit: int) -> list[PendingApproval]:
        with self._read() as transaction:
            rows = transaction.run("waiting_approvals", (limit,))
        return [PendingApproval(run, dag, step, text, from_us(since)) for run, dag, step, text, since in rows]

    def answer_overdue(self, limit: int) -> int:
        with self._write() as transaction:
            overdue = transaction.run("overdue_steps", (transaction.now, limit))
            for run, step in overdue:
                run_lifecycle.answer_by_default(SqliteRuns(transaction, self._graphs), run, step)
        if overdue:
            self._wake()
        return len(overdue)


def _at(us: int | None) -> datetime | None:
    return None if us is None else from_us(us)


def _step_rows(transaction: Transaction, run: str, names: Sequence[str] | None) -> list[Any]:
    if names is None:
        return transaction.run("all_steps", {"run": run})
    return transaction.run("some_steps", {"run": run, "names": as_json(list(names))})


def _standing(row: Any) -> StepState:
    step, state, pending, succeeded, failed, skipped, total, ended, bad, mapped, blocked, reason, result, *_ = row
    counts = (pending, succeeded, failed, skipped, total, ended, bad)
    return StepState(step, state, *counts, bool(mapped), bool(blocked), reason, result)


def _step_row(run: str, one: StepState, approval: Step | None, now: int) -> tuple[Any, ...]:
    counts = (one.pending, one.succeeded, one.failed, one.skipped, one.total, one.ended, one.bad)
    wake_at = run_lifecycle.wake_at_us(one, approval, now)
    return (run, one.step, one.state, *counts, int(one.mapped), int(one.blocked), one.reason, one.result, now, wake_at)
