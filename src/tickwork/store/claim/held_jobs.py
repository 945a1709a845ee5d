"""Read held jobs outside of claims: drop those that a new gate matches, and forecast which limit would hold a job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from tickwork.core.ids import JobId
from tickwork.core.limits.gates import Gate, JobFacts, gate_for
from tickwork.core.limits.job_limits import JobLimits, LimitKey
from tickwork.core.limits.lanes import read_lane
from tickwork.core.placement import Offer, needs_of
from tickwork.store.claim.admission import admit_candidates, job_facts
from tickwork.store.claim.choose import PickBounds, in_turn, plan_picks
from tickwork.store.claim.memory import ClaimMemory
from tickwork.store.claim.types import Candidate, ClaimRequest, ClaimTx, LaneHead, Snapshot
from tickwork.store.limits import LimitedCapacity
from tickwork.store.rows.jobs import decode_job_limits, decode_labels

PAGE = 1000
_FORESEEN = 2000


class HeldPlace(NamedTuple):
    """The position of a held job in the queue table."""

    lane: str = ":"
    priority: int = -1
    run_at: int = 0
    job_id: str = "00000000-0000-0000-0000-000000000000"


class HeldPage(NamedTuple):
    """A page of held jobs with the fields that gates select by, and the position of the last job.

    None: there are no more.
    """

    jobs: Sequence[tuple[JobId, JobFacts]]
    last: HeldPlace | None

    @classmethod
    def of(cls, rows: Sequence[Any]) -> HeldPage:
        """Build a page from the rows of the statement `held_page`."""
        jobs = []
        last = HeldPlace()
        for id, lane, priority, run_at, task, queue, collection, labels, text in rows:
            job_limits = decode_job_limits(text) or JobLimits()
            facts = JobFacts(task, queue, job_limits.tenant, collection, decode_labels(labels), job_limits.diverted)
            jobs.append((JobId(id), facts))
            last = HeldPlace(lane, priority, run_at, id)
        return cls(jobs, last if len(rows) == PAGE else None)


def sweep(gate: Gate, read: Callable[[HeldPlace], HeldPage], drop: Callable[[Sequence[JobId]], None]) -> None:
    """Drop all held jobs that a new drop gate matches, page by page. A claim does not read them while they are held."""
    last: HeldPlace | None = HeldPlace()
    while last is not None:
        page = read(last)
        doomed = [job_id for job_id, facts in page.jobs if gate.matches(facts)]
        if doomed:
            drop(doomed)
        last = page.last


class ClaimForecast(NamedTuple):
    """The limit that would hold a job after a claim, and when that limit opens (None: when a lease ends)."""

    held_by: LimitKey
    opens_at_us: int | None


def foresee(claim_tx: ClaimTx, queues: Sequence[str], job_id: JobId, held_by: LimitKey | None) -> ClaimForecast | None:
    """Return which limit would hold a due job if a new worker claimed all due jobs now; None if none would. Apply
    nothing.

    `held_by` is the limit that holds the job now. The forecast is one round that picks up to _FORESEEN jobs, the first
    in order; a job beyond these is reported as held by `held_by`, if that is given.
    """
    snapshot = claim_tx.snapshot()
    slows = any(gate.kind == "slow" for gate in snapshot.gates)
    due = [head for head in snapshot.heads if head.run_at_us <= snapshot.now_us and (slows or ":" in head.lane)]
    request = ClaimRequest(queues, (), _FORESEEN, LimitedCapacity(_FORESEEN, _all_that_is_needed(due)))
    picks = plan_picks(due, snapshot, request, ClaimMemory(), PickBounds(_FORESEEN, _FORESEEN))
    picked = in_turn(claim_tx.pick([one._replace(most=one.of_group) for one in picks.in_turn]), picks.order)
    # A diverted job applies again in the next round, after the other jobs.
    pairs = [(candidate, _diverted(candidate, snapshot)) for candidate in picked]
    candidates = [one for one, after in pairs if one is after] + [after for one, after in pairs if one is not after]
    plan = admit_candidates(claim_tx, snapshot, request, candidates)
    for candidate, lane in plan.parks:
        if candidate.job_id == job_id and (held := read_lane(lane).held_by) is not None:
            return ClaimForecast(held, plan.opens.get(held))
    gone = {*plan.drops, *(one.job_id for one in plan.started)}
    return None if held_by is None or job_id in gone else ClaimForecast(held_by, plan.opens.get(held_by))


def _diverted(candidate: Candidate, snapshot: Snapshot) -> Candidate:
    """Return the job as it is queued again after a divert gate has moved it; the same job if no gate does."""
    gate = gate_for(job_facts(candidate), snapshot.gates, snapshot.now_us)
    if gate is None or gate.kind != "divert":
        return candidate
    job_limits = msgspec.structs.replace(candidate.job_limits or JobLimits(), diverted=True)
    return candidate._replace(queue=gate.to or "", job_limits=job_limits)


def _all_that_is_needed(heads: Iterable[LaneHead]) -> Offer:
    """Return the resources of a worker that could run the jobs of all these lanes at once."""
    needs = [needs_of(read_lane(head.lane).needs) for head in heads]
    things = frozenset(thing for one in needs for thing in one.things)
    return Offer(things, {name: 10**30 for one in needs for name, _ in one.amounts})
