"""Explain why a job is not running, in one sentence, by the same rules that a claim follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec

from tickwork.core.job import JobState, JobView, WorkerView
from tickwork.core.limits.breaker import Breaker
from tickwork.core.limits.gates import Gate, Hold, JobFacts, gate_for
from tickwork.core.limits.job_limits import JobLimits
from tickwork.core.limits.limits import Concurrency, Rate
from tickwork.core.option_parsing import to_us
from tickwork.core.placement import GRACE_US, ClaimingWorker, ClaimingWorkers, Needs, group_of, needs_of, taken_of
from tickwork.core.recurrence.zones import EPOCH
from tickwork.core.text.duration import format_duration

RUNNABLE = "it can run now"
_GIST_LIMIT = 300


def explain(
    job: JobView, workers: Sequence[WorkerView], now: datetime, hold: Hold | None = None, gates: Sequence[Gate] = ()
) -> str:
    """Return what a job does or waits for. The text starts with RUNNABLE if and only if a claim would take the job.

    `hold` is its hold in the queue, and `gates` are the gates in force.
    """
    match job.state:
        case JobState.QUEUED:
            live = [worker for worker in workers if worker.serves]
            job, where = _sent_on(job, now, gates)
            told = _kept(job, now, hold, gates) or f"{RUNNABLE}{where}, but {_nobody(job, live, now)}"
            return f"{told}{_alone(job)}"
        case JobState.RUNNING:
            return _running(job, workers, now)
        case _:
            return _ended(job)


def gist(error: str) -> str:
    """Return the most useful line of an error: the line below a traceback's frames, or a group's last exception."""
    below = error.rpartition("Traceback (most recent call last):\n")[2]
    lines = [line for line in below.splitlines() if line.strip(" |+-\t")]
    if "+---" in error:  # a group is drawn as a tree, with its last exception at the bottom
        told = "".join(lines[-1:]).strip(" |+-\t")
    else:
        told = next((line.strip() for line in lines if not line.startswith("  ")), "")
    return told if len(told) <= _GIST_LIMIT else f"{told[: _GIST_LIMIT - 3]}..."


def _sent_on(job: JobView, now: datetime, gates: Sequence[Gate]) -> tuple[JobView, str]:
    """Return the job as a diverting gate would change it when it starts, and a sentence that describes the move."""
    gate = gate_for(_facts(job), gates, to_us(now - EPOCH))
    if gate is None or gate.kind != "divert" or gate.to is None:
        return job, ""
    job_limits = msgspec.structs.replace(job.job_limits or JobLimits(), diverted=True)
    return replace(
        job, queue=gate.to, job_limits=job_limits
    ), f" in the queue {gate.to!r}, where {_order(gate)} sends it"


def _kept(job: JobView, now: datetime, hold: Hold | None, gates: Sequence[Gate]) -> str | None:
    """Return what keeps a queued job from being claimed; None if nothing does."""
    if _expired(job, now):
        return "its deadline has passed; it is about to end as expired"
    if job.run_at > now:
        cause = f"its retry after failure {job.failures}" if job.failures else "its time"
        return f"it waits for {cause}: due {_soon(job.run_at, now)}"
    if hold is not None and hold.gate is None:
        return _held(job, hold, now)
    gate = hold.gate if hold is not None else gate_for(_facts(job), gates, to_us(now - EPOCH))
    if gate is None or (gate.kind == "slow" and hold is None):
        return None
    return _gated(gate, hold, now)


def _held(job: JobView, hold: Hold, now: datetime) -> str:
    """Return what a job waits for when a limit or a breaker holds it."""
    limit, key = hold.held_by
    under = f" for {key!r}" if key else ""
    ahead = _ahead(hold)
    if hold.rule is None:
        return f"it waited for the limit {limit!r}, which is gone; it is about to be let through"
    what = f"{'breaker' if isinstance(hold.rule, Breaker) else 'limit'} {limit!r}, {hold.rule.said}{under}"
    weight = (
        sum(slot.weight for slot in job.job_limits.uses if slot[:2] == hold.held_by)
        if job.job_limits is not None
        else 0
    )
    if not isinstance(hold.rule, Breaker) and weight > hold.rule.heaviest:
        return f"it weighs {weight:,}, which is more than the {what}, ever lets through; raise the limit, or cancel it"
    match hold.rule:
        case Concurrency():
            return f"it waits for the {what}: {_taken(hold, now)}{ahead}"
        case Rate():
            return f"it waits for the {what}: it opens {_opens(hold, now)}{ahead}"
        case Breaker():
            return f"it waits for the {what}: one job tries {_opens(hold, now)}{ahead}"


def _taken(hold: Hold, now: datetime) -> str:
    """Return which jobs use a concurrency limit at present, or go first."""
    if not hold.live and hold.head is not None and hold.head_due is not None:
        due = _soon(hold.head_due, now) if hold.head_due > now else "now"
        return f"job {hold.head}, which comes before it, waits for its next attempt: due {due}"
    if not hold.live:
        return "others go first"
    some = ", ".join(hold.holders)
    return f"{hold.live:,} taken{f', by {some}' if some else ''}"


def _gated(gate: Gate, hold: Hold | None, now: datetime) -> str:
    """Return what a gate does to a job."""
    order = _order(gate)
    ahead = "" if hold is None else _ahead(hold)
    match gate.kind:
        case "drop":
            return f"{order} drops it; it is about to end as dropped"
        case "divert":
            return f"{order} has sent it to the queue {gate.to!r}"
        case "slow":
            pace = "" if gate.pace is None else f" to {gate.pace.said}"
            opens = "" if hold is None else f": it opens {_opens(hold, now)}"
            return f"{order} slows it down{pace}{opens}{ahead}"
        case "pause":
            until = None if gate.until_us is None else EPOCH + timedelta(microseconds=gate.until_us)
            ends = "until it is resumed" if until is None else f"until {_time(until)}"
            return f"{order} pauses it {ends}{ahead}"


def _ahead(hold: Hold) -> str:
    if hold.ahead <= 1:
        return "; 1 job waits ahead of it" if hold.ahead else ""
    return f"; {hold.ahead:,} jobs wait ahead of it"


def _order(gate: Gate) -> str:
    told = ", ".join(part for part in (f"by {gate.by}" if gate.by else "", gate.reason) if part)
    return f"the gate {gate.name!r}{f' ({told})' if told else ''}"


def _opens(hold: Hold, now: datetime) -> str:
    if hold.opens_at is None:
        return "when a job that holds it has ended"
    return "now" if hold.opens_at <= now else _soon(hold.opens_at, now)


def _facts(job: JobView) -> JobFacts:
    tenant, diverted = (None, False) if job.job_limits is None else (job.job_limits.tenant, job.job_limits.diverted)
    return JobFacts(job.task, job.queue, tenant, job.collection, job.labels, diverted)


def _nobody(job: JobView, live: Sequence[WorkerView], now: datetime) -> str:
    """Return why no worker has taken a job that is due."""
    if not live:
        return "no worker is running; start one: tickwork worker MODULE_OR_FILE"
    serving = [worker for worker in live if job.queue in worker.queues]
    if not serving:
        served = ", ".join(sorted({queue for worker in live for queue in worker.queues}))
        return f"no worker serves its queue {job.queue!r} (they serve: {served}); start one with -q {job.queue}"
    knowing = [worker for worker in serving if job.version is not None or worker.knows(job.task)]
    if not knowing:
        how = "with --allow-shell" if job.task in ("shell", "@sleep") else "that imports it"
        return f"no worker of queue {job.queue!r} knows the task {job.task!r}; start one {how}"
    needs = needs_of("" if job.job_limits is None else job.job_limits.needs)
    able = [worker for worker in knowing if taken_of(worker.offer, needs) is not None]
    if not able:
        return f"no worker that knows its task has what it needs ({needs.text}); start one {_offering(needs)}"
    if (home := _left_to(job, serving, now)) is not None:
        return f"it is left to {home} for a moment, where jobs of its key run; then any worker takes it"
    busy = sum(worker.running for worker in able)
    slots = sum(worker.slots for worker in able)
    if busy >= slots:
        return f"all {slots} slots of the {len(able)} worker(s) that can run it are taken"
    return "no worker has taken it yet"


def _left_to(job: JobView, serving: Sequence[WorkerView], now: datetime) -> str | None:
    """Return the worker to which other workers leave a sticky job now; None if there is none."""
    job_limits = job.job_limits
    if job_limits is None or job_limits.spot is None or job_limits.sequence or to_us(now - job.run_at) >= GRACE_US:
        return None
    claiming = [one for one in serving if one.state == "running" and one.slots > 0 and one.asked is None]
    around = ClaimingWorkers([ClaimingWorker(one.id, one.queues, one.offer) for one in claiming])
    home = around.home(group_of(job_limits.spot), job.queue, job_limits.needs) if len(claiming) > 1 else None
    return next((one.name for one in claiming if one.id == home), None)


def _offering(needs: Needs) -> str:
    """Return the options with which to start a worker that meets these needs."""
    labels = [f"--label {thing}" for thing in needs.things]
    amounts = " ".join(part for part in needs.text.split() if "=" in part).replace(" ", ",")
    return " ".join(["with", *labels, *([f"--resource {amounts}"] if amounts else [])])


def _running(job: JobView, workers: Sequence[WorkerView], now: datetime) -> str:
    """Return where a job runs, or that its worker is lost."""
    worker = next((worker for worker in workers if worker.id == job.worker), None)
    where = f"worker {job.worker}" if worker is None else worker.name
    if worker is not None and worker.state == "lost":
        silent = format_duration(now - worker.lease_until)
        return f"its worker {where} fell silent and its lease ran out {silent} ago; it is about to be queued again"
    since = "" if job.started_at is None else f" for {format_duration(now - job.started_at)}"
    stopping = "; it was asked to stop" if job.cancel_requested else ""
    return f"it is running: attempt {job.attempt} on {where}{since}{stopping}{_alone(job)}"


def _alone(job: JobView) -> str:
    """Return the note on a job that runs alone because its workers died."""
    if not job.is_exclusive:
        return ""
    return f"; the workers of its last {job.losses} attempts died, so it runs alone in its worker"


def _ended(job: JobView) -> str:
    told = gist(job.error or "")
    cause = f": {told}" if told else ""
    when = "" if job.ended_at is None else f" at {_time(job.ended_at)}"
    return f"it ended as {job.state}{when} after {job.attempt} attempt(s){cause}"


def _expired(job: JobView, now: datetime) -> bool:
    return job.expires_at is not None and job.expires_at <= now


def _soon(instant: datetime, now: datetime) -> str:
    return f"in {format_duration(instant - now)}, at {_time(instant)}"


def _time(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%d %H:%M:%S UTC")
