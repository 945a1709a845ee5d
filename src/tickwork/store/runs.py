"""How runs of dags move, the same for both stores.

Whoever ends a job that is a step calls `advance` in the transaction that ends it. A run is locked from the moment that
`Ground.going` has given it: what is read of it afterwards stays as it is until the commit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial
from random import Random
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import Raw

from tickwork.blobs import Results
from tickwork.core.blob import NULL, Load, Unfillable
from tickwork.core.dag.advance import OPEN, SKIPPED, Advance, Run, Some, Standing, StepJob, failed_steps
from tickwork.core.dag.graph import Graph, Step, decode_graph
from tickwork.core.dag.inputs import decode_holes, fill, read, value_of, wanted_by
from tickwork.core.flow.flow import Flow
from tickwork.core.flow.limits import Concurrency, Slot
from tickwork.core.flow.stamp import Stamp, decode_task_flow, stamp_of
from tickwork.core.ids import IdMaker, JobId
from tickwork.core.job import RUN, Claimed, JobState, NewJob, Part, Policy
from tickwork.core.outcome import Cancelled, Failed, Succeeded, decide
from tickwork.core.why import gist
from tickwork.errors import BlobError, InvalidPayload
from tickwork.store.base import Finish
from tickwork.store.codec import duration_us

_INSTANCE = re.compile(r"\[(\d+)\]$")
_GRAPHS_KEPT, _RUNS_KEPT = 64, 10_000
FILLED_LIMIT = 512 * 1024 * 1024  # of arguments with results in them: a frame to a child takes twice as much
_TOLD = 3  # failed steps that the error of a run names


class Going(NamedTuple):
    """A run that has begun and not ended, with what its steps have from it."""

    run: Run
    attempt: int
    priority: int
    collection: str | None
    labels: tuple[str, ...]
    tenant: str | None
    policy: Policy
    failures: int


class Ended(NamedTuple):
    """An instance of a step that has ended."""

    run: str
    step: str
    state: JobState


class ResultRow(NamedTuple):
    """A step with one of its instances. `answer` is the result of an approval."""

    run: str
    step: str
    state: str
    mapped: bool
    answer: str | None
    idx: int | None
    job_state: str | None
    result: str | None


class Ground(Protocol):
    """The rows of runs inside a transaction, and their large results."""

    now_us: int
    results: Results

    def going(self, run_ids: Sequence[str]) -> list[Going]:
        """Lock runs, in the order of their ids, and return those that have begun and not ended."""

    def graph(self, dag: str, version: int) -> Graph: ...

    def steps(self, run: str, names: Sequence[str] | None) -> list[Standing]:
        """The rows of these steps; None: of all."""

    def result_rows(self, pairs: Collection[tuple[str, str]]) -> list[ResultRow]:
        """Steps, by run and name, with their instances in order."""

    def failures(self, run: str, limit: int) -> list[tuple[str, str]]:
        """Some steps that failed, and with what error."""

    def instances(self, run: str, steps: Collection[str]) -> dict[tuple[str, int], tuple[JobId, str]]:
        """The jobs that these steps have already, by step and number, with their state."""

    def put_steps(self, run: str, standings: Sequence[Standing], approvals: Mapping[str, Step], new: bool) -> None: ...

    def put_run(self, run: Run) -> None: ...

    def insert(self, jobs: Sequence[NewJob]) -> None: ...

    def insert_again(self, jobs: Sequence[NewJob]) -> None:
        """Queue ended jobs again, with these arguments."""

    def end_run(self, finish: Finish) -> None: ...


class Rows:
    """How one run stands, for `Advance`."""

    def __init__(self, ground: Ground, run: str) -> None:
        self._ground = ground
        self._run = run
        self.load: Load = cache(ground.results.load)  # many steps may look at one result

    def steps(self, names: Sequence[str]) -> list[Standing]:
        return self._ground.steps(self._run, names)

    def results(self, names: Iterable[str], touched: Mapping[str, Standing]) -> dict[str, Raw]:
        found = self._ground.result_rows({(self._run, name) for name in names})
        rows = [_as_touched(row, touched[row.step]) if row.step in touched else row for row in found]
        return {step: value for (_, step), value in results_of(rows).items()}


def _as_touched(row: ResultRow, one: Standing) -> ResultRow:
    return row._replace(state=one.state, answer=one.result)


# -- moves


def advance(ground: Ground, endings: Iterable[Ended]) -> bool:
    """Move runs on whose steps have ended. True: jobs were released."""
    by_run: dict[str, list[tuple[str, JobState]]] = {}
    for one in endings:
        by_run.setdefault(one.run, []).append((one.step, one.state))
    released = False
    for going in ground.going(sorted(by_run)):
        move = _move(ground, going)
        move.end(by_run[going.run.id])
        released |= _store(ground, going, move)
    return released


def begin(ground: Ground, going: Going, again: Sequence[str] | None, *, first: bool) -> bool:
    """Start a run, or start it again: with these steps or instances, or with what failed. True: jobs were released."""
    move = _move(ground, going)
    if first:
        move.begin()
    else:
        standings = ground.steps(going.run.id, None)
        named = failed_steps(standings) if again is None else again
        names = {step_of(name, move.graph) for name in named}
        move.begin_again(standings, names, _instances_anew(ground, going.run.id, move.graph, again, names))
    return _store(ground, going, move, new=first)


def step_of(name: str, graph: Graph) -> str:
    """The step that an instance is of: "transform" for "transform[3]"."""
    return name if name in graph.by_name else _INSTANCE.sub("", name)


def _instances_anew(
    ground: Ground, run: str, graph: Graph, again: Sequence[str] | None, names: set[str]
) -> dict[str, Some]:
    """Which instances of mapped steps start anew, where that is not all of them: those named, or those that failed."""
    if again is None:
        some = {name for name in names if graph.by_name[name].map is not None}
    else:
        some = names - {name for name in again if name in graph.by_name}
    if not some:
        return {}
    bad: dict[str, set[int]] = {name: set() for name in some}
    for (step, idx), (_, state) in ground.instances(run, some).items():
        if state != JobState.SUCCEEDED:
            bad[step].add(idx)
    anew = bad
    if again is not None:
        named = [(step_of(name, graph), found) for name in again if (found := _INSTANCE.search(name))]
        anew = {name: {int(found[1]) for step, found in named if step == name} for name in some}
    return {name: Some(anew[name], len(bad[name] - anew[name])) for name in some}


def answer(ground: Ground, run: str, step: str, state: JobState, result: str | None, reason: str | None) -> bool | None:
    """End an approval. None: it does not wait for an answer. True: jobs were released."""
    for going in ground.going([run]):
        move = _move(ground, going)
        if step in move.graph.by_name and move.answer(step, state, result, reason):
            return _store(ground, going, move)
    return None


def cancel_approvals(ground: Ground, run: str) -> bool:
    """End the approvals for which a cancelled run waits. True: jobs were released."""
    released = False
    for one in ground.steps(run, None):
        if one.state == OPEN:
            released |= bool(answer(ground, run, one.step, JobState.CANCELLED, None, "the run was cancelled"))
    return released


def _move(ground: Ground, going: Going) -> Advance:
    run = going.run
    return Advance(ground.graph(run.dag, run.version), run, Rows(ground, run.id))


def _store(ground: Ground, going: Going, move: Advance, *, new: bool = False) -> bool:
    run = going.run
    approvals = {step.name: step for step in move.approvals}
    ground.put_steps(run.id, list(move.touched.values()), approvals, new)
    jobs = _new_jobs(ground, going, move.jobs)
    if going.attempt > 1 and jobs:
        jobs = _not_there(ground, run.id, jobs)
    ground.insert(jobs)
    ground.put_run(run)
    if move.is_over:
        ground.end_run(_end_of(ground, going, move))
    return bool(move.jobs)


def _not_there(ground: Ground, run: str, jobs: list[NewJob]) -> list[NewJob]:
    """Queue again what an earlier generation has left; return the rest."""
    known = ground.instances(run, {job.part.step for job in jobs if job.part})
    places = [(job.part.step, job.part.idx) for job in jobs if job.part]
    again = [
        msgspec.structs.replace(job, id=known[place][0])
        for job, place in zip(jobs, places, strict=True)
        if place in known
    ]
    ground.insert_again(again)
    return [job for job, place in zip(jobs, places, strict=True) if place not in known]


def _end_of(ground: Ground, going: Going, move: Advance) -> Finish:
    run = going.run
    ending: Cancelled | Failed | Succeeded
    if run.is_cancelled:
        ending = Cancelled("cancelled while it ran")
    elif run.failed:
        told = [f"{step}: {gist(error)}" for step, error in ground.failures(run.id, _TOLD)]
        more = f"\n... and {run.failed - len(told)} more" if run.failed > len(told) else ""
        ending = Failed(f"{_count(run.failed, 'step')} failed.\n" + "\n".join(told) + more)
    else:
        ending = _succeeded(ground, going, move)
    transition = decide(going.policy, going.failures, 0, False, ending, Random(run.id))
    return Finish(JobId(run.id), going.attempt, transition)


def _succeeded(ground: Ground, going: Going, move: Advance) -> Succeeded | Failed:
    run = going.run
    try:
        what = f"the result of dag {run.dag!r}"
        return Succeeded(ground.results.keep(move.result(), run.id, going.attempt, what))
    except (Unfillable, InvalidPayload, BlobError) as error:
        told = str(error).removesuffix(".")
        return Failed(f"every step succeeded, but the run has no result: {told}.", fatal=True)


def _count(number: int, thing: str) -> str:
    return f"1 {thing}" if number == 1 else f"{number:,} {thing}s"


# -- jobs of steps


def _new_jobs(ground: Ground, going: Going, wanted: Sequence[StepJob]) -> list[NewJob]:
    """Jobs for instances, in their order. Nothing is left to chance, so that a simulation repeats itself."""
    bits = Random(f"{going.run.id} {ground.now_us}").getrandbits if wanted else None
    ids = [] if bits is None else IdMaker(lambda: ground.now_us // 1000, bits).new_ids(len(wanted))
    return [_new_job(ground, going, one, JobId(id)) for one, id in zip(wanted, ids, strict=True)]


def _new_job(ground: Ground, going: Going, one: StepJob, id: JobId) -> NewJob:
    template, run = one.step.job, going.run
    if template is None:
        raise TypeError(f"step {one.step.name!r} has no job")
    job = NewJob(
        id,
        template.task,
        one.args,
        template.queue,
        going.priority if template.priority is None else template.priority,
        policy=template.policy,
        collection=going.collection,
        labels=template.labels or going.labels,
        parent=run.id,
        part=Part(run.id, one.step.name, one.idx, one.inputs),
    )
    where = (template.task, template.flow, template.queue, template.tenant or going.tenant)
    stamp = _stamp(*where, job.labels, template.needs)
    stamped = job
    if stamp is not None:
        known = _filled(ground, run.id, one) if stamp.reads_arguments else one.args
        stamped = msgspec.structs.replace(stamp.on(msgspec.structs.replace(job, args=known)), args=one.args)
    if one.step.map is None or one.step.map.max_parallel is None:
        return stamped
    flow = stamped.flow or Flow()
    slot = Slot(_parallel(run.dag, run.version, one.step.name), run.id, 1)
    return msgspec.structs.replace(stamped, flow=msgspec.structs.replace(flow, slots=(*flow.slots, slot)))


def limits_of(graph: Graph, version: int) -> dict[str, Concurrency]:
    """The limits that a version of a dag brings: how many instances of a step may run at once, for each run."""
    mapped = [(step.name, step.map) for step in graph.steps if step.map is not None]
    return {
        _parallel(graph.name, version, name): Concurrency(capacity=map.max_parallel)
        for name, map in mapped
        if map.max_parallel is not None
    }


def _parallel(dag: str, version: int, step: str) -> str:
    return f"dag:{dag}@{version}/{step}"


@lru_cache(maxsize=1024)
def _stamp(
    task: str, flow: str | None, queue: str, tenant: str | None, labels: tuple[str, ...], needs: str
) -> Stamp | None:
    return stamp_of(task, decode_task_flow(flow), queue, tenant, labels, needs)


# -- arguments of claimed steps


def _filled(ground: Ground, run: str, one: StepJob) -> bytes:
    """Arguments as they will be, for limits that go by them. What cannot be filled fails when it is claimed."""
    holes, load = decode_holes(one.inputs or b"[]"), ground.results.load
    wanted = {(run, step) for step in wanted_by(holes)}
    results = results_of(ground.result_rows(wanted)) if wanted else {}
    known = {step: value for (_, step), value in results.items()}
    try:
        args = fill(one.args, holes, partial(value_of, params={}, items={}, results=known, load=load))
        return bytes(read(Raw(args), load))
    except Unfillable:
        return one.args


def with_inputs(jobs: Sequence[Claimed], rows: Iterable[ResultRow], load: Load) -> list[Claimed]:
    """Claimed jobs with the results in their arguments that they asked for; those that are in blobs, by reference."""
    results, load = results_of(rows), cache(load)
    return [one if one.inputs is None else _with_inputs(one, results, load) for one in jobs]


def _with_inputs(one: Claimed, results: Mapping[tuple[str, str], Raw], load: Load) -> Claimed:
    known = {step: value for (run, step), value in results.items() if run == one.run}
    try:
        holes = decode_holes(one.inputs or "[]")
        args = fill(one.args, holes, partial(value_of, params={}, items={}, results=known, load=load))
    except Unfillable as error:
        return msgspec.structs.replace(one, flaw=f"{error}.")
    if len(args) > FILLED_LIMIT:
        flaw = f"its arguments are {len(args):,} bytes with the results in them, and {FILLED_LIMIT:,} are the most."
        return msgspec.structs.replace(one, flaw=flaw)
    return msgspec.structs.replace(one, args=args)


def wanted_results(jobs: Iterable[Claimed]) -> set[tuple[str, str]]:
    """The steps, by run and name, whose results claimed jobs ask for."""
    return {(one.run, step) for one in jobs if one.run and one.inputs for step in wanted_by(decode_holes(one.inputs))}


def results_of(rows: Iterable[ResultRow]) -> dict[tuple[str, str], Raw]:
    """Results by run and step. Null where a step did not succeed, and in lists in the place of what did not."""
    found: dict[tuple[str, str], Raw] = {}
    lists: dict[tuple[str, str], list[Raw]] = {}
    for row in rows:
        place = (row.run, row.step)
        succeeded = row.job_state == JobState.SUCCEEDED and row.result is not None
        value = Raw((row.result or "null").encode()) if succeeded else NULL
        if not row.mapped:
            answered = None if row.answer is None else Raw(row.answer.encode())
            found[place] = (answered or value) if row.state == JobState.SUCCEEDED else NULL
        elif row.state == SKIPPED:
            found[place] = NULL
        else:
            lists.setdefault(place, []).extend([] if row.idx is None else [value])
    encode = msgspec.json.encode
    return {**found, **{place: Raw(encode(values)) for place, values in lists.items()}}


def is_run(one: Claimed) -> bool:
    return one.task == RUN


class Graphs:
    """What a store moves runs with, beside their rows: graphs that it has read, and results that are in blobs.

    Graphs are known by dag and version, and which of them a run has; neither ever changes.
    """

    def __init__(self, results: Results) -> None:
        self.results = results
        self._known: dict[tuple[str, int], Graph] = {}
        self._of_runs: dict[str, tuple[str, int]] = {}

    def get(self, dag: str, version: int) -> Graph | None:
        return self._known.get((dag, version))

    def of_run(self, run: str) -> Graph | None:
        place = self._of_runs.get(run)
        return None if place is None else self._known.get(place)

    def put(self, dag: str, version: int, text: str) -> Graph:
        _make_room(self._known, _GRAPHS_KEPT)
        graph = self._known[dag, version] = decode_graph(text)
        return graph

    def note(self, run: str, dag: str, version: int) -> None:
        _make_room(self._of_runs, _RUNS_KEPT)
        self._of_runs[run] = (dag, version)


def _make_room(known: dict[Any, Any], most: int) -> None:
    while len(known) >= most:
        known.pop(next(iter(known)))


# -- approvals


def wake_at_us(one: Standing, approval: Step | None, now_us: int) -> int | None:
    """When an approval that was opened just now is answered by its default."""
    if approval is None or approval.approval is None or approval.approval.timeout is None or one.state != OPEN:
        return None
    return now_us + duration_us(approval.approval.timeout)


def said(approved: bool, by: str, note: str | None) -> tuple[JobState, str | None, str | None]:
    """How an approval ends when somebody has answered: its state, result and reason."""
    told = f"{'approved' if approved else 'rejected'} by {by}" + (f": {note}" if note else "")
    result = msgspec.json.encode({"approved": approved, "by": by, "note": note}).decode()
    return JobState.SUCCEEDED if approved else JobState.FAILED, result, told


def answer_by_default(ground: Ground, run: str, step: str) -> bool:
    """Answer an approval whose time is up. True: jobs were released."""
    for going in ground.going([run]):
        approval = ground.graph(going.run.dag, going.run.version).by_name[step].approval
        approves = approval is not None and approval.default == "approve"
        return bool(answer(ground, run, step, *said(approves, "its time limit", None)))
    return False
