"""Begin, advance, cancel and end runs on SQLite (see `store.runs.run_lifecycle`). The SQL is in sql/runs.sql.

A writer excludes all others, so rows need no locks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tickwork.core.dag.advance import RunState, StepState
from tickwork.core.dag.graph import Graph, Step
from tickwork.core.ids import JobId
from tickwork.core.job import Claimed, JobState, NewJob
from tickwork.errors import check
from tickwork.store.attempt_types import Finish
from tickwork.store.rows.jobs import encode_policy, read_task_definition
from tickwork.store.runs import run_lifecycle, step_jobs
from tickwork.store.runs.graph_cache import GraphCache
from tickwork.store.runs.run_lifecycle import EndedStep
from tickwork.store.runs.step_jobs import LiveRun, ResultRow
from tickwork.store.sqlite import insert_jobs, job_transitions
from tickwork.store.sqlite.transactions import Transaction, as_json


class SqliteRunTx:
    """The reads and writes of runs inside a transaction."""

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
        return self._graphs.put(dag, version, self._transaction.value("dag_graph", (dag, version)))

    def steps(self, run: str, names: Sequence[str] | None) -> list[StepState]:
        return [row.state for row in step_rows(self._transaction, run, names)]

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
        insert_jobs.insert(self._transaction, jobs, known=False)

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
                insert_jobs.stamp(self._transaction, job)
            job_transitions.queue_again(self._transaction, job.id, self.now_us)

    def end_run(self, finish: Finish) -> None:
        job_transitions.finish(self._transaction, [finish], "current_attempts")

    def produce(self, assets: Sequence[str], by: str) -> None:
        produce(self._transaction, assets, by)


def advance(transaction: Transaction, graphs: GraphCache, job_ids: Iterable[str]) -> None:
    """For each of these jobs that is an ended step, advance its run."""
    parts = transaction.run("parts", (as_json(list(job_ids)),))
    endings = [EndedStep(run, step, JobState(state)) for run, step, state in parts]
    if endings:
        run_lifecycle.advance(SqliteRunTx(transaction, graphs), endings)


def produce(transaction: Transaction, assets: Iterable[str], by: str) -> None:
    """Record that assets were updated, and start the dags that wait for them."""
    for name in assets:
        transaction.run("made_anew", {"name": name, "now": transaction.now, "by": by})
        transaction.run("freshen", (name,))
        for dag, group in transaction.run("ready_groups", (name,)):
            transaction.run("use_up", (dag, group))
            definition = read_task_definition(transaction.first("task_definition", (dag,)))
            insert_jobs.insert(
                transaction, [step_jobs.triggered(definition, name, group, by, transaction.now)], known=False
            )
            transaction.opened = True


def produce_all(transaction: Transaction, endings: Iterable[Finish]) -> None:
    """Record the assets that ended jobs have updated, if the jobs succeeded."""
    making = {one.job_id: one.produce for one in endings}
    for job_id in transaction.column("succeeded_of", (as_json(list(making)),)):
        produce(transaction, making[job_id], job_id)


def begin(transaction: Transaction, graphs: GraphCache, claimed: Sequence[Claimed]) -> None:
    """Begin runs that a worker has claimed."""
    run_tx = SqliteRunTx(transaction, graphs)
    for one in claimed:
        transaction.run("hold_run", (one.job_id, one.claim))
        begun = transaction.run("begun_run", (one.job_id,))
        if not begun:
            transaction.run("insert_run", (one.job_id,))
        (going,) = run_tx.going([one.job_id])
        again = next((steps for (steps,) in begun if steps is not None), None)
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
    """Cancel jobs, for runs also their live steps and approvals; return the jobs that had not ended."""
    cancelled = [job_id for job_id in dict.fromkeys(job_ids) if job_transitions.cancel(transaction, job_id)]
    if cancelled:
        advance(transaction, graphs, cancelled)
        for run in transaction.column("run_ids", (as_json(cancelled),)):
            _cancel_run(transaction, graphs, run)
    return cancelled


def _cancel_run(transaction: Transaction, graphs: GraphCache, run: JobId) -> None:
    """Cancel the live jobs and the waiting approvals of a run, and advance it."""
    run_tx = SqliteRunTx(transaction, graphs)
    approvals = run_lifecycle.open_approvals(run_tx, run)
    live = transaction.column("live_instances", (run,))
    for job_id in live:
        job_transitions.cancel(transaction, job_id)
    advance(transaction, graphs, live)
    run_lifecycle.cancel_approvals(run_tx, run, approvals)


def rerun(transaction: Transaction, run: JobId, steps: Sequence[str] | None, run_at: int) -> bool:
    """Queue an ended run again, from these steps (None: the failed ones).

    Return False if it is no run or has not ended.
    """
    if not transaction.run("run_ids", (as_json([run]),)) or not job_transitions.queue_again(transaction, run, run_at):
        return False
    transaction.run("set_again", (None if steps is None else as_json(list(steps)), run))
    return True


def retry_steps(transaction: Transaction, job_ids: Sequence[JobId], run_at: int) -> dict[JobId, bool]:
    """Rerun the runs of those jobs that are failed steps; return for each of these whether its run was queued."""
    places = {JobId(job_id): (run, name) for job_id, run, name in transaction.run("failed_parts", (as_json(job_ids),))}
    again: dict[str, list[str]] = {}
    for run, name in places.values():
        again.setdefault(run, []).append(name)
    begun = {run: rerun(transaction, JobId(run), names, run_at) for run, names in again.items()}
    return {job_id: begun[run] for job_id, (run, _) in places.items()}


def result_rows(transaction: Transaction, pairs: Collection[tuple[str, str]]) -> list[ResultRow]:
    """Return the result rows of steps, given as (run, step)."""
    return [ResultRow(*row) for row in transaction.run("result_rows", (as_json(sorted(pairs)),))]


class StepRow(NamedTuple):
    """The row of a step: its state, when it changed, and when its approval is answered by default."""

    state: StepState
    changed_at: int
    wake_at: int | None


def step_rows(transaction: Transaction, run: str, names: Sequence[str] | None) -> list[StepRow]:
    """Return the rows of these steps of a run; None: of all steps."""
    rows = (
        transaction.run("all_steps", {"run": run})
        if names is None
        else transaction.run("some_steps", {"run": run, "names": as_json(list(names))})
    )
    return [StepRow(_step_state(*state), changed_at, wake_at) for *state, changed_at, wake_at in rows]


def _step_state(*columns: Any) -> StepState:
    """Return the state of a step from its columns; SQLite stores truth values as numbers."""
    state = StepState(*columns)
    state.mapped, state.blocked = bool(state.mapped), bool(state.blocked)
    return state


def _step_row(run: str, one: StepState, approval: Step | None, now: int) -> tuple[Any, ...]:
    counts = (one.pending, one.succeeded, one.failed, one.skipped, one.total, one.ended, one.bad)
    wake_at = run_lifecycle.wake_at_us(one, approval, now)
    return (run, one.step, one.state, *counts, int(one.mapped), int(one.blocked), one.reason, one.result, now, wake_at)
