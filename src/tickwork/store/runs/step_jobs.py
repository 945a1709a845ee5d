"""Make the jobs of steps, fill results into their arguments at a claim, and start the dags that wait for assets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache, partial
from random import Random
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from tickwork.core.arguments.encode_by_schema import defaults_of
from tickwork.core.blob_ref import NULL, Load, Unfillable
from tickwork.core.dag.advance import RunState, StepJob
from tickwork.core.dag.graph import Graph
from tickwork.core.dag.step_inputs import NO_RESULTS, StepResults, decode_holes, fill, run_values, value_of, wanted_by
from tickwork.core.ids import ClaimId, IdMaker, JobId
from tickwork.core.job import RUN, Claimed, JobState, NewJob, Policy, StepInstance, TaskDefinition
from tickwork.core.job_stamper import JobStamper, stamp_of
from tickwork.core.limits.breaker import Rule
from tickwork.core.limits.job_limits import JobLimits, LimitUse
from tickwork.core.limits.limits import Concurrency
from tickwork.core.limits.task_limits import decode_task_limits, rules_of
from tickwork.core.schedule.spec import ScheduledJobOptions, job_template
from tickwork.store.rows.instants import from_us
from tickwork.store.rows.jobs import decode_job_limits, decode_labels, decode_policy

# Bytes of arguments with results in them; a frame to a child process takes twice as much.
FILLED_LIMIT = 512 * 1024 * 1024
_PARAMS = msgspec.json.Decoder(dict[str, Raw])


class LiveRun(NamedTuple):
    """A run that has begun and not ended, with the options that its steps inherit.

    `values` are the values that `RunValue`s refer to.
    """

    run: RunState
    attempt: int
    priority: int
    collection: str | None
    labels: tuple[str, ...]
    tenant: str | None
    policy: Policy
    failures: int
    trace: str | None
    creator: str | None
    claim: ClaimId
    values: Raw


def going_of(row: Any) -> LiveRun:
    """Build a LiveRun from its row, which both stores read with the same columns."""
    id, dag, version, args, open, failed, cancelled, attempt, priority, collection, labels, *rest = row
    job_limits, policy, failures, trace, creator, claim, occurrence, due_us = rest
    run = RunState(id, dag, version, _PARAMS.decode(args), open, failed, bool(cancelled))
    stamped = decode_job_limits(job_limits)
    tenant = None if stamped is None else stamped.tenant
    return LiveRun(
        run=run,
        attempt=attempt,
        priority=priority,
        collection=collection,
        labels=decode_labels(labels),
        tenant=tenant,
        policy=decode_policy(policy),
        failures=failures,
        trace=trace,
        creator=creator,
        claim=claim,
        values=run_values(occurrence, from_us(due_us)),
    )


class ResultRow(NamedTuple):
    """The result of one instance of a step, or of a step without instances. `answer` is the result of an approval."""

    run: str
    step: str
    state: str
    mapped: bool
    answer: str | None
    idx: int | None
    job_state: str | None
    result: str | None


# -- jobs of steps


def new_job(going: LiveRun, one: StepJob, id: JobId, filled: Callable[[], bytes]) -> NewJob:
    """Return the new job of a step or of one of its instances. Raise InvalidArguments if its limits cannot read them.

    `filled` returns the arguments with results filled in, for limits that read them.
    """
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
        trace=going.trace,
        creator=going.creator,
        part=StepInstance(run.id, one.step.name, one.idx, one.inputs),
    )
    where = (template.task, template.task_limits, template.queue, template.tenant or going.tenant)
    stamp = _stamp(*where, job.labels, template.needs)
    stamped = job
    if stamp is not None:
        known = filled() if stamp.reads_arguments else one.args
        stamped = msgspec.structs.replace(stamp.on(msgspec.structs.replace(job, args=known)), args=one.args)
    if one.step.map is None or one.step.map.max_parallel is None:
        return stamped
    job_limits = stamped.job_limits or JobLimits()
    use = LimitUse(_parallel(run.dag, run.version, one.step.name), run.id, 1)
    return msgspec.structs.replace(
        stamped, job_limits=msgspec.structs.replace(job_limits, uses=(*job_limits.uses, use))
    )


def limits_of(graph: Graph, version: int) -> dict[str, Rule]:
    """Return the limits that a version of a dag defines: those of its runs, and the parallelism of its mapped steps."""
    mapped = [(step.name, step.map) for step in graph.steps if step.map is not None]
    parallel = {
        _parallel(graph.name, version, name): Concurrency(capacity=map.max_parallel)
        for name, map in mapped
        if map.max_parallel is not None
    }
    return {**dict(rules_of(graph.name, decode_task_limits(graph.run.task_limits))), **parallel}


def _parallel(dag: str, version: int, step: str) -> str:
    """Return the name of the limit for the parallelism of a mapped step."""
    return f"dag:{dag}@{version}/{step}"


@lru_cache(maxsize=1024)
def _stamp(
    task: str, task_limits: str | None, queue: str, tenant: str | None, labels: tuple[str, ...], needs: str
) -> JobStamper | None:
    """Return the function that adds limits, tenant and needs to a job; None for plain jobs."""
    limits = decode_task_limits(task_limits)
    return stamp_of(task, limits, queue=queue, tenant=tenant, labels=labels, needs=needs)


# -- arguments of claimed steps


def with_inputs(jobs: Sequence[Claimed], rows: Iterable[ResultRow], load: Load) -> list[Claimed]:
    """Return claimed jobs with the results of earlier steps filled into their arguments.

    Results in blobs stay references.
    """
    results = results_of(rows, cache(load))
    return [one if one.inputs is None else _with_inputs(one, results.get(str(one.run), NO_RESULTS)) for one in jobs]


def _with_inputs(one: Claimed, results: StepResults) -> Claimed:
    """Return a job with results filled into its arguments; if that fails, with the reason as its `flaw`."""
    try:
        args = fill(one.args, decode_holes(one.inputs or "[]"), partial(value_of, params={}, items={}, results=results))
    except Unfillable as error:
        return msgspec.structs.replace(one, flaw=f"{error}.")
    if len(args) > FILLED_LIMIT:
        flaw = f"its arguments are {len(args):,} bytes with the results in them, and {FILLED_LIMIT:,} are the most."
        return msgspec.structs.replace(one, flaw=flaw)
    return msgspec.structs.replace(one, args=args)


def wanted_results(jobs: Iterable[Claimed]) -> set[tuple[str, str]]:
    """Return the steps, as (run, step), whose results the arguments of these jobs refer to."""
    return {(one.run, step) for one in jobs if one.run and one.inputs for step in wanted_by(decode_holes(one.inputs))}


def results_of(rows: Iterable[ResultRow], load: Load) -> dict[str, StepResults]:
    """Return the results of steps, by run. In the list of a mapped step, an instance that did not succeed is null."""
    values: dict[str, dict[str, Raw]] = {}
    succeeded: dict[str, set[str]] = {}
    lists: dict[tuple[str, str], list[Raw]] = {}
    for row in rows:
        is_well = row.state == JobState.SUCCEEDED
        known = values.setdefault(row.run, {})
        succeeded.setdefault(row.run, set()).update([row.step] if is_well else [])
        value = _value(row.result if row.job_state == JobState.SUCCEEDED else None)
        if not row.mapped and is_well:
            known[row.step] = value if row.answer is None else _value(row.answer)
        elif row.mapped and (is_well or row.idx is not None):
            lists.setdefault((row.run, row.step), []).extend([] if row.idx is None else [value])
    for (run, step), all_of in lists.items():
        values[run][step] = Raw(msgspec.json.encode(all_of))
    return {run: StepResults(known, succeeded[run], load) for run, known in values.items()}


def _value(text: str | None) -> Raw:
    return NULL if text is None else Raw(text.encode())


def is_run(one: Claimed) -> bool:
    """Return whether a claimed job is a run, which the store begins itself instead of handing it to the worker."""
    return one.task == RUN


# -- assets


def triggers_of(graph: Graph) -> list[tuple[str, int]]:
    """Return the assets that start a dag, each with the number of its group.

    A dag starts once all assets of a group were updated.
    """
    return [(asset, number) for number, group in enumerate(graph.on) for asset in group]


def triggered(definition: TaskDefinition, asset: str, group: int, by: str, now_us: int) -> NewJob:
    """Return the run that an update of an asset by the job `by` starts, with default parameters.

    The id derives from all arguments, because several assets may start a dag at one instant.
    """
    args = msgspec.json.encode(defaults_of(msgspec.json.decode(definition.schema)))
    made = job_template(definition.name, args.decode(), ScheduledJobOptions(), definition)
    (id,) = IdMaker(
        lambda: now_us // 1000, Random(f"{by} {definition.name} {asset} {group} {now_us}").getrandbits
    ).new_ids(1)
    return msgspec.structs.replace(made, id=JobId(id), parent=by, creator=f"job:{by}")
