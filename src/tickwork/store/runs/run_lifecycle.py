"""Begin, advance, answer and end runs of dags; the same for both stores.

To advance a run is to make its next steps ready once earlier steps have ended. Every transaction that ends a step's job
calls `advance`. A live run (begun and not ended) is locked once `RunTx.going` has returned it: rows of it that are read
afterwards do not change before the commit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, partial
from random import Random
from typing import NamedTuple, Protocol

import msgspec
from msgspec import Raw

from tickwork.blobs import LargeResults
from tickwork.core.blob_ref import Load, Unfillable
from tickwork.core.dag.advance import OPEN, Advance, RunState, StepJob, StepState, failed_steps
from tickwork.core.dag.graph import Graph, Step
from tickwork.core.dag.step_inputs import NO_RESULTS, OF_RUN, StepResults, decode_holes, fill, read, value_of, wanted_by
from tickwork.core.ids import IdMaker, JobId
from tickwork.core.job import JobState, NewJob
from tickwork.core.outcome import Cancelled, Failed, JobCounts, Succeeded, decide
from tickwork.core.why import gist
from tickwork.errors import BlobError, InvalidArguments, InvalidPayload
from tickwork.store.attempt_types import Finish
from tickwork.store.rows.instants import duration_us
from tickwork.store.runs.step_jobs import LiveRun, ResultRow, new_job, results_of

_INSTANCE = re.compile(r"\[(\d+)\]$")
_TOLD = 3  # Failed steps that the error of a run names.


class EndedStep(NamedTuple):
    """The end of the job of a step, or of one of its instances."""

    run: str
    step: str
    state: JobState


class RunTx(Protocol):
    """The reads and writes of runs inside a transaction of a store."""

    now_us: int
    large_results: LargeResults

    def going(self, run_ids: Sequence[str]) -> list[LiveRun]:
        """Lock runs in the order of their ids, and return those that are live (begun and not ended)."""

    def graph(self, dag: str, version: int) -> Graph: ...

    def steps(self, run: str, names: Sequence[str] | None) -> list[StepState]:
        """Return the states of these steps of a run; None: of all its steps."""

    def result_rows(self, pairs: Collection[tuple[str, str]]) -> list[ResultRow]:
        """Return the result rows of these steps, given as (run, step); a step has one row per instance, in order."""

    def failures(self, run: str, limit: int) -> list[tuple[str, str]]:
        """Return up to `limit` failed steps of a run, as (step, error)."""

    def instances(self, run: str, steps: Collection[str]) -> dict[tuple[str, int], tuple[JobId, str]]:
        """Return the existing jobs of these steps, with their state, by (step, number)."""

    def put_steps(self, run: str, standings: Sequence[StepState], approvals: Mapping[str, Step]) -> None: ...

    def put_run(self, run: RunState) -> None: ...

    def insert(self, jobs: Sequence[NewJob]) -> None: ...

    def insert_again(self, jobs: Sequence[NewJob]) -> None:
        """Queue ended jobs of an earlier generation again, with new arguments."""

    def end_run(self, finish: Finish) -> None: ...

    def produce(self, assets: Sequence[str], by: str) -> None:
        """Record that a job or a run updated assets, and start the dags that wait for them."""


class RunRows:
    """The reads that `Advance` makes for one run. Job ids derive from the run, so that a simulation is repeatable."""

    def __init__(self, run_tx: RunTx, going: LiveRun) -> None:
        self._ground = run_tx
        self._going = going
        self._run = going.run.id
        self._ids: IdMaker | None = None
        self._known: dict[str, StepResults] = {}
        self.load: Load = cache(run_tx.large_results.load)  # Cached, because many steps may read one result.

    def steps(self, names: Sequence[str]) -> list[StepState]:
        """Return the states of these steps."""
        return self._ground.steps(self._run, names)

    def results(self, names: Iterable[str], touched: Mapping[str, StepState]) -> StepResults:
        """Return the results of these steps. Steps in `touched` are taken as they will be stored."""
        wanted = set(names)
        found = self._ground.result_rows({(self._run, name) for name in wanted})
        rows = [row for row in found if row.step not in touched]
        for name in wanted & touched.keys():
            rows += _as_touched(self._run, touched[name], [row for row in found if row.step == name])
        return results_of(rows, self.load).get(self._run, NO_RESULTS)

    def job(self, one: StepJob, touched: Mapping[str, StepState]) -> NewJob:
        """Return the new job of a step. Raise Unfillable if its arguments cannot be filled in."""
        try:
            return new_job(self._going, one, self._new_id(one), lambda: self._filled(one, touched))
        except InvalidArguments as error:
            raise Unfillable(str(error).rstrip(".")) from None

    def _new_id(self, first: StepJob) -> JobId:
        """Return the next job id of this advance of the run.

        The sequence of ids is determined by the run, its attempt, `first` and the time, so an advance that is
        repeated makes the same ids.
        """
        if self._ids is None:
            now_us = self._ground.now_us
            chance = Random(f"{self._run} {self._going.attempt} {first.step.name} {first.idx} {now_us}")
            self._ids = IdMaker(lambda: now_us // 1000, chance.getrandbits)
        return JobId(self._ids.new_id())

    def _filled(self, one: StepJob, touched: Mapping[str, StepState]) -> bytes:
        """Return the arguments of a step with results filled in now, for limits that read them."""
        holes = decode_holes(one.inputs or b"[]")
        if holes and one.step.name not in self._known:
            self._known[one.step.name] = self.results(wanted_by(holes), touched)
        results = self._known.get(one.step.name, NO_RESULTS)
        args = fill(one.args, holes, partial(value_of, params={}, items={}, results=results))
        return bytes(read(Raw(args), self.load))


def _as_touched(run: str, one: StepState, rows: Iterable[ResultRow]) -> list[ResultRow]:
    """Return the result rows of a step with the state that will be stored, without instances of an earlier
    generation.
    """
    current = [row._replace(state=one.state, answer=one.result) for row in rows if (row.idx or 0) < one.total]
    return current or [
        ResultRow(run, one.step, one.state, one.mapped, answer=one.result, idx=None, job_state=None, result=None)
    ]


# -- moves


def advance(run_tx: RunTx, endings: Iterable[EndedStep]) -> None:
    """Advance the runs whose steps have ended. Runs that are not live are skipped."""
    by_run: dict[str, list[tuple[str, JobState]]] = {}
    for one in endings:
        by_run.setdefault(one.run, []).append((one.step, one.state))
    for going in run_tx.going(sorted(by_run)):
        move = _move(run_tx, going)
        move.end(by_run[going.run.id])
        _store(run_tx, going, move)


def begin(run_tx: RunTx, going: LiveRun, again: Sequence[str] | None, *, first: bool) -> None:
    """Start a run for the `first` time, or again from the steps or instances `again` (None.

    From the steps that failed).
    """
    move = _move(run_tx, going)
    if first:
        move.begin()
    else:
        standings = run_tx.steps(going.run.id, None)
        named = failed_steps(standings) if again is None else again
        names = {step_of(name, move.graph) for name in named} & move.graph.by_name.keys()
        some = [one for one in standings if one.mapped and one.step in names and one.step not in (again or ())]
        move.begin_again(standings, names, _kept(run_tx, going.run.id, some, again))
    _store(run_tx, going, move)


def step_of(name: str, graph: Graph) -> str:
    """Return the step to which a name belongs: "transform" for the instance "transform[3]"."""
    return name if name in graph.by_name else _INSTANCE.sub("", name)


def _kept(
    run_tx: RunTx, run: str, mapped: Sequence[StepState], again: Sequence[str] | None
) -> dict[str, dict[int, bool]]:
    """Return, by step and number, the instances of mapped steps that are not run again, and whether they succeeded.

    These are the succeeded instances or, with `again`, all that it does not name. Instances of an earlier generation
    beyond `total` are ignored.
    """
    kept: dict[str, dict[int, bool]] = {one.step: {} for one in mapped}
    totals = {one.step: one.total for one in mapped}
    for (step, idx), (_, state) in run_tx.instances(run, totals.keys()).items() if totals else ():
        succeeded = state == JobState.SUCCEEDED
        stays = succeeded if again is None else f"{step}[{idx}]" not in again
        if stays and idx < totals[step]:
            kept[step][idx] = succeeded
    return kept


def answer(run_tx: RunTx, run: str, step: str, state: JobState, result: str | None, reason: str | None) -> bool:
    """End an approval with this state, result and reason; return False if it does not wait for an answer."""
    for going in run_tx.going([run]):
        move = _move(run_tx, going)
        if step in move.graph.by_name and move.answer(step, state, result, reason):
            _store(run_tx, going, move)
            return True
    return False


def open_approvals(run_tx: RunTx, run: str) -> list[str]:
    """Return the names of a run's approvals that wait for an answer."""
    open_steps = [one.step for one in run_tx.steps(run, None) if one.state == OPEN]
    by_name = {name: step for going in run_tx.going([run]) for name, step in _graph(run_tx, going).by_name.items()}
    return [name for name in open_steps if name in by_name and by_name[name].approval is not None]


def cancel_approvals(run_tx: RunTx, run: str, names: Iterable[str]) -> None:
    """End the open approvals of a run that was cancelled."""
    for name in names:
        answer(run_tx, run, name, JobState.CANCELLED, None, "the run was cancelled")


def _graph(run_tx: RunTx, going: LiveRun) -> Graph:
    return run_tx.graph(going.run.dag, going.run.version)


def _move(run_tx: RunTx, going: LiveRun) -> Advance:
    """Build the `Advance` of a run, with its parameters and defaults."""
    run, graph = going.run, _graph(run_tx, going)
    run.params = {**graph.defaults, **run.params, OF_RUN: going.values}
    return Advance(graph, run, RunRows(run_tx, going))


def _store(run_tx: RunTx, going: LiveRun, move: Advance) -> None:
    """Write the changes of an advanced run, and finish the run if all its steps have ended."""
    run = going.run
    approvals = {step.name: step for step in move.approvals}
    run_tx.put_steps(run.id, list(move.touched.values()), approvals)
    jobs = _not_there(run_tx, run.id, move.jobs) if going.attempt > 1 and move.jobs else move.jobs
    run_tx.insert(jobs)
    run_tx.put_run(run)
    produced = move.produced
    if move.is_over:
        finish = _end_of(run_tx, going, move)
        run_tx.end_run(finish)
        produced = [*produced, *(move.graph.produce if finish.transition.job is JobState.SUCCEEDED else ())]
    if produced:
        run_tx.produce(produced, run.id)


def _not_there(run_tx: RunTx, run: str, jobs: list[NewJob]) -> list[NewJob]:
    """Queue the jobs that an earlier generation has left again; return the jobs that do not exist yet."""
    known = run_tx.instances(run, {job.part.step for job in jobs if job.part})
    places = [(job.part.step, job.part.idx) for job in jobs if job.part]
    again = [
        msgspec.structs.replace(job, id=known[place][0])
        for job, place in zip(jobs, places, strict=True)
        if place in known
    ]
    run_tx.insert_again(again)
    return [job for job, place in zip(jobs, places, strict=True) if place not in known]


def _end_of(run_tx: RunTx, going: LiveRun, move: Advance) -> Finish:
    """Return the finish of a run: cancelled, failed with the errors of some steps, or succeeded with its result."""
    run = going.run
    ending: Cancelled | Failed | Succeeded
    if run.is_cancelled:
        ending = Cancelled("cancelled while it ran")
    elif run.failed:
        told = [f"{step}: {gist(error)}" for step, error in _failures(run_tx, going, move.graph)]
        more = f"\n... and {run.failed - len(told)} more" if run.failed > len(told) else ""
        ending = Failed(f"{_count(run.failed, 'step')} failed.\n" + "\n".join(told) + more)
    else:
        ending = _succeeded(run_tx, going, move)
    transition = decide(JobCounts(going.policy, going.failures), ending, Random(run.id))
    return Finish(JobId(run.id), going.attempt, going.claim, transition)


def _failures(run_tx: RunTx, going: LiveRun, graph: Graph) -> list[tuple[str, str]]:
    """Return up to _TOLD failed steps with their errors; steps that may fail are left out."""
    ignored = {step.name for step in graph.steps if step.may_fail}
    found = run_tx.failures(going.run.id, _TOLD + len(ignored))
    return [(step, error) for step, error in found if step not in ignored][:_TOLD]


def _succeeded(run_tx: RunTx, going: LiveRun, move: Advance) -> Succeeded | Failed:
    """Return the success of a run with its result, or a failure if the result cannot be built or stored."""
    run = going.run
    try:
        what = f"the result of dag {run.dag!r}"
        return Succeeded(run_tx.large_results.keep(move.result(), run.id, going.attempt, what))
    except (Unfillable, InvalidPayload, BlobError) as error:
        told = str(error).removesuffix(".")
        return Failed(f"every step succeeded, but the run has no result: {told}.", fatal=True)


def _count(number: int, thing: str) -> str:
    return f"1 {thing}" if number == 1 else f"{number:,} {thing}s"


# -- approvals


def wake_at_us(one: StepState, approval: Step | None, now_us: int) -> int | None:
    """Return when an approval that waits is answered by its default; None: never, or the step is no approval."""
    if approval is None or approval.approval is None or approval.approval.timeout is None or one.state != OPEN:
        return None
    return now_us + duration_us(approval.approval.timeout)


def said(approved: bool, by: str, note: str | None) -> tuple[JobState, str | None, str | None]:
    """Return the state, the result and the reason with which an answered approval ends."""
    told = f"{'approved' if approved else 'rejected'} by {by}" + (f": {note}" if note else "")
    result = msgspec.json.encode({"approved": approved, "by": by, "note": note}).decode()
    return JobState.SUCCEEDED if approved else JobState.FAILED, result, told


def answer_by_default(run_tx: RunTx, run: str, step: str) -> None:
    """Answer an approval whose time limit has passed with its default."""
    for going in run_tx.going([run]):
        approval = _graph(run_tx, going).by_name[step].approval
        approves = approval is not None and approval.default == "approve"
        answer(run_tx, run, step, *said(approves, "its time limit", None))
