"""Begin, advance, cancel and end runs on PostgreSQL (see `store.runs.run_lifecycle`). The SQL is in sql/runs.sql.

A run's row is its lock. A transaction that ends a step takes it before anything else, and advances the run in the same
transaction, so that two transactions that end parents of one step run one after the other. Writes are put off: they are
collected and sent with the next reads, in one round trip.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from tickwork.core.dag.advance import RunState, StepState
from tickwork.core.dag.graph import Graph, Step
from tickwork.core.ids import JobId, WorkerId, is_id
from tickwork.core.job import Claimed, JobState, NewJob
from tickwork.core.limits.lanes import home_lane
from tickwork.store.attempt_types import Finish, NewLog
from tickwork.store.postgres import params
from tickwork.store.postgres.connection.libpq_connection import Rows, Statement
from tickwork.store.postgres.params import array, id_document, text_array
from tickwork.store.rows.jobs import encode_job_limits, limit_keys_of, read_task_definition
from tickwork.store.rows.new_jobs import group_alike
from tickwork.store.runs import run_lifecycle, step_jobs
from tickwork.store.runs.graph_cache import GraphCache
from tickwork.store.runs.run_lifecycle import EndedStep
from tickwork.store.runs.step_jobs import LiveRun, ResultRow

RunAll = Callable[[Sequence[Statement]], list[Rows]]

_PASSES = 20  # Attempts to cancel steps that move between queue and running meanwhile.


class RunMembership(NamedTuple):
    """How a job belongs to a run: as a step of `run`, or as a run itself.

    `state` is its end state, None: it has not ended.
    """

    job_id: str
    run: str | None
    step: str | None
    is_run: bool
    state: str | None


class PostgresRunTx:
    """The reads and writes of runs inside a transaction.

    `freed` are limit keys that the ends of jobs have freed. `released`: jobs were queued that can be claimed.
    """

    def __init__(self, run_all: RunAll, sql: Mapping[str, str], graphs: GraphCache, now: datetime | None) -> None:
        self._run_all = run_all
        self._sql = sql
        self._graphs = graphs
        self._now = now
        self._waiting: list[Statement] = []
        self._ending: list[int] = []
        self._going: dict[str, LiveRun] = {}  # Read ahead, as are the steps.
        self._standings: dict[tuple[str, str], StepState] = {}
        self.now_us = 0
        self.large_results = graphs.large_results
        self.freed: list[str] = []
        self.released = False

    def together(self, *wanted: tuple[str, dict[str, Any]]) -> list[Rows]:
        """Run named statements in one round trip, after the writes that were put off; return the rows of each."""
        statements = [(self._sql[name], {"now": self._now, **values}) for name, values in wanted]
        put_off = self._take_put_off()
        rows = self._run_all([*put_off, *statements]) if put_off or statements else []
        self._note_freed(rows)
        return rows[len(put_off) :]

    def finish(self, run_last: RunAll) -> None:
        """Run the writes that were put off as the last statements of the transaction. Do nothing if there are none."""
        put_off = self._take_put_off()
        if put_off:
            self._note_freed(run_last(put_off))

    def _take_put_off(self) -> list[Statement]:
        """Return the writes that were put off, and forget them."""
        put_off, self._waiting = self._waiting, []
        return put_off

    def _note_freed(self, rows: Sequence[Rows]) -> None:
        """Add to `freed` the limit keys that the finishes of runs among these statements have freed."""
        ending, self._ending = self._ending, []
        self.freed += [name for place in ending for job_id, name in rows[place] if job_id is None]

    def _put_off(self, name: str, **values: Any) -> None:
        """Put off a write until the next round trip."""
        self._waiting.append((self._sql[name], {"now": self._now, **values}))

    def lock(self, run_ids: Iterable[str], unbegun: Collection[str] = ()) -> None:
        """Lock the rows of runs. A run in `unbegun` may have no row yet, so its job is locked first."""
        ids = sorted(set(run_ids))
        first = [("lock_jobs", {"ids": array(sorted(unbegun))})] if unbegun else []
        if ids:
            self.together(*first, ("lock_runs", {"ids": array(ids)}))

    def going(self, run_ids: Sequence[str]) -> list[LiveRun]:
        known = [self._going.pop(run) for run in run_ids if run in self._going]
        unknown = [run for run in run_ids if run not in {one.run.id for one in known}]
        if not unknown:
            return known
        ids = {"ids": array(unknown)}
        _, rows = self.together(("lock_runs", ids), ("going", ids))
        return [*known, *self._read_going(rows)]

    def _read_going(self, rows: Rows) -> list[LiveRun]:
        """Build live runs from their rows, and remember their dag versions and the store's time."""
        self.now_us = max((now_us for now_us, *_ in rows), default=self.now_us)
        found = [step_jobs.going_of(row) for _, *row in rows]
        for one in found:
            self._graphs.note(one.run.id, one.run.dag, one.run.version)
        return found

    def graph(self, dag: str, version: int) -> Graph:
        known = self._graphs.get(dag, version)
        if known is not None:
            return known
        (((text,),),) = self.together(("dag_graph", {"name": dag, "version": version}))
        return self._graphs.put(dag, version, text)

    def steps(self, run: str, names: Sequence[str] | None) -> list[StepState]:
        known = [self._standings.pop((run, name)) for name in names or () if (run, name) in self._standings]
        if names is not None and len(known) == len(names):
            return known
        read = {one.step for one in known}
        wanted = None if names is None else text_array([name for name in names if name not in read])
        (rows,) = self.together(("steps", {"run": run, "names": wanted}))
        return [*known, *(StepState(*state) for _, _, *state in rows)]

    def result_rows(self, pairs: Collection[tuple[str, str]]) -> list[ResultRow]:
        (rows,) = self.together(("result_rows", pairs_of(pairs)))
        return [ResultRow(*row) for row in rows]

    def failures(self, run: str, limit: int) -> list[tuple[str, str]]:
        return self.together(("failed_steps", {"run": run, "limit": limit}))[0]

    def instances(self, run: str, steps: Collection[str]) -> dict[tuple[str, int], tuple[JobId, str]]:
        (rows,) = self.together(("instances", {"run": run, "steps": text_array(sorted(steps))}))
        return {(step, idx): (JobId(job_id), state) for step, idx, job_id, state in rows}

    def put_steps(self, run: str, standings: Sequence[StepState], approvals: Mapping[str, Step]) -> None:
        """Put off a write of the states of steps, and of when their approvals are answered by default."""
        wakes = [run_lifecycle.wake_at_us(one, approvals.get(one.step), self.now_us) for one in standings]
        self._put_off(
            "put_steps",
            run=run,
            now_us=str(self.now_us),
            steps=text_array([one.step for one in standings]),
            states=array([one.state for one in standings]),
            pending=array([one.pending for one in standings]),
            succeeded=array([one.succeeded for one in standings]),
            failed=array([one.failed for one in standings]),
            skipped=array([one.skipped for one in standings]),
            total=array([one.total for one in standings]),
            ended=array([one.ended for one in standings]),
            bad=array([one.bad for one in standings]),
            mapped=array([one.mapped for one in standings]),
            blocked=array([one.blocked for one in standings]),
            reasons=text_array([one.reason for one in standings]),
            results=text_array([one.result for one in standings]),
            wakes_us=array(wakes),
        )

    def put_run(self, run: RunState) -> None:
        self._put_off("put_run", open=run.open, failed=run.failed, id=run.id)

    def insert(self, jobs: Sequence[NewJob]) -> None:
        self.released |= bool(jobs)
        for group in group_alike(jobs) if jobs else ():
            parts = [one.part for one in group if one.part]
            where = {"steps": text_array([one.step for one in parts]), "idxs": array([one.idx for one in parts])}
            shared = {**params.new_job(group[0]), **_instances(group)}
            self._put_off("insert_step_jobs", **{**shared, **where, "run": parts[0].run})

    def insert_again(self, jobs: Sequence[NewJob]) -> None:
        self.released |= bool(jobs)
        for group in group_alike(jobs) if jobs else ():
            self._put_off("renew_step_jobs", **{**params.new_job(group[0]), **_instances(group)})

    def end_run(self, finish: Finish) -> None:
        self._ending.append(len(self._waiting))
        self._put_off("finish_attempts", **params.endings([finish]))

    def produce(self, assets: Sequence[str], by: str) -> None:
        """Record that the job `by` updated assets, and start the dags whose assets were all updated, one asset at
        a time.
        """
        for name in assets:
            made = {"name": name, "by": by}
            steps = ("lock_assets", "made_anew", "freshen", "use_up_ready")
            _, ((self.now_us,),), _, dags = self.together(*((step, made) for step in steps))
            for dag, group in dags:
                (rows,) = self.together(("task_definition", {"name": dag}))
                (row,) = rows
                job = step_jobs.triggered(read_task_definition(row), name, group, by, self.now_us)
                (values,) = params.new_jobs([job])
                self._put_off("insert_guarded_jobs", **values)
                self.released = True

    # -- what the verbs do with it

    def close(self, verb: str, endings: Sequence[Finish], logs: Sequence[NewLog] = ()) -> Rows:
        """Close attempts, some of them steps, and advance their runs; return the rows of the statement `verb`.

        The runs are locked first. The rows needed to advance them are read in the same round trip, if the graph is
        cached.
        """
        steps = [one for one in endings if one.run is not None]
        ids = {"ids": array(sorted({str(one.run) for one in steps}))}
        writing = [("append_logs", {"logs": params.new_logs(logs)})] if logs else []
        _, *_, rows, parts, going, standings = self.together(
            ("lock_runs", ids),
            *writing,
            (verb, params.endings(endings)),
            ("parts", {"ids": array(sorted({one.job_id for one in steps}))}),
            ("going", ids),
            ("steps_of", pairs_of(self._touched_by(steps))),
        )
        self._going = {one.run.id: one for one in self._read_going(going)}
        self._standings = {(run, step): StepState(step, *state) for run, step, *state in standings}
        closed = {job_id for job_id, _ in rows}
        self._advance([one for one in itertools.starmap(RunMembership, parts) if one.job_id in closed])
        self._produce_all([one for one in endings if one.produce and one.job_id in closed])
        return rows

    def _produce_all(self, endings: Sequence[Finish]) -> None:
        """Record the assets that ended jobs have updated, if the jobs succeeded."""
        making = {str(one.job_id): one.produce for one in endings}
        (rows,) = self.together(("succeeded_of", {"ids": array(making)})) if making else ([],)
        for (job_id,) in rows:
            self.produce(making[job_id], job_id)

    def _touched_by(self, endings: Iterable[Finish]) -> set[tuple[str, str]]:
        """Return the steps, as (run, step), that these finishes affect: their own steps, and the children of these."""
        touched = set()
        for one in endings:
            run, step = str(one.run), str(one.step)
            graph = self._graphs.of_run(run)
            touched |= {(run, name) for name in (step, *(graph.children[step] if graph else ()))}
        return touched

    def advance(self, job_ids: Collection[str]) -> None:
        """For each of these jobs that is an ended step, advance its run."""
        self._advance(self.places(job_ids))

    def _advance(self, places: Iterable[RunMembership]) -> None:
        """Advance the runs of these steps; jobs that are no step or have not ended are ignored."""
        endings = [EndedStep(one.run, one.step or "", JobState(one.state)) for one in places if one.run and one.state]
        if endings:
            run_lifecycle.advance(self, endings)

    def places(self, job_ids: Collection[str]) -> list[RunMembership]:
        """Return how these jobs belong to runs; jobs that are neither runs nor steps are left out."""
        (rows,) = self.together(("parts", {"ids": array([one for one in job_ids if is_id(one)])}))
        return [RunMembership(*row) for row in rows]

    def begin(self, worker: WorkerId, claimed: Sequence[Claimed]) -> None:
        """Begin runs that a worker has claimed; skip runs whose claim the worker has lost since."""
        ids = {"ids": array(sorted(one.job_id for one in claimed))}
        _, before, taken, _, rows = self.together(
            ("lock_jobs", ids),
            ("lock_runs", ids),
            ("hold_runs", {**ids, "worker": worker}),
            ("insert_runs", ids),
            ("going", ids),
        )
        begun, ours = dict(before), {run for (run,) in taken}
        for going in self._read_going(rows):
            if going.run.id in ours:
                again = begun.get(going.run.id)
                steps = None if again is None else msgspec.json.decode(again, type=list[str])
                run_lifecycle.begin(self, going, steps, first=going.run.id not in begun)

    def rerun(self, run: str, steps: Sequence[str] | None, first_us: int) -> bool:
        """Queue an ended run again, from these steps (None: the failed ones).

        Return False if it is no run or has not ended.
        """
        self.together(("lock_ended", {"id": run}))  # The same lock that prune takes.
        self.lock([run])
        values = {"ids": id_document([JobId(run)]), "spacing_us": 0, "first_us": first_us, "any_end": True}
        if not any(one.is_run for one in self.places([run])) or not self.together(("retry_jobs", values))[0]:
            return False
        self._put_off("set_again", id=run, again=None if steps is None else params.document(steps))
        self.released = True
        return True

    def cancel(self, ids: Collection[str]) -> dict[str, str]:
        """Cancel jobs, for runs also their live steps and approvals; return "done", "ended" or "unknown" for each job.

        "done" includes running jobs whose cancellation was requested. A job that moved in every pass is "moved".
        """
        places = self.places(ids) if ids else []
        begins = [one.job_id for one in places if one.is_run]
        self.lock([one.job_id if one.is_run else str(one.run) for one in places], begins)
        became = self._cancel(ids) if ids else {}
        if places:
            self.advance([job_id for job_id, what in became.items() if what == "done"])
        for one in self.places(ids) if places else ():
            if one.is_run and became.get(one.job_id) == "done" and one.state is None:
                approvals = run_lifecycle.open_approvals(self, one.job_id)
                (rows,) = self.together(("live_instances", {"run": one.job_id}))
                live = [job_id for (job_id,) in rows]
                if live:
                    self._cancel(live)
                    self.advance(live)
                run_lifecycle.cancel_approvals(self, one.job_id, approvals)
        return became

    def _cancel(self, ids: Collection[str]) -> dict[str, str]:
        """Cancel jobs, and try again for jobs that moved between queue and running meanwhile.

        Return the outcome for each.
        """
        became: dict[str, str] = {}
        wanted = list(ids)
        for _ in range(_PASSES):
            (rows,) = self.together(("cancel_jobs", {"ids": id_document([JobId(one) for one in wanted])}))
            became.update((job_id, what) for job_id, what, _ in rows)
            self.freed += [name for _, _, job_limits in rows for name in limit_keys_of(job_limits)]
            wanted = [job_id for job_id, what, _ in rows if what == "moved"]
            if not wanted:
                break
        return became


def pairs_of(pairs: Collection[tuple[str, str]]) -> dict[str, str]:
    """Return (run, step) pairs as the parameters of a statement."""
    ordered = sorted(pairs)
    return {"runs": array([run for run, _ in ordered]), "steps": text_array([step for _, step in ordered])}


def _instances(group: Sequence[NewJob]) -> dict[str, str]:
    """Return, as parameters, the columns in which similar jobs of steps differ."""
    inputs = [one.part.inputs if one.part else None for one in group]
    return {
        "ids": array([one.id for one in group]),
        "args": text_array([one.args.decode() for one in group]),
        "lanes": text_array(
            [None if one.job_limits is None else home_lane(one.queue, one.job_limits) for one in group]
        ),
        "job_limits": text_array([encode_job_limits(one.job_limits) for one in group]),
        "inputs": text_array([None if one is None else one.decode() for one in inputs]),
    }
