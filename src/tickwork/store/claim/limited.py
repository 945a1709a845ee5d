"""Claim jobs that limits or gates may hold. The algorithm is the same for both stores.

A claim is a series of rounds. A round has four steps:

1. snapshot: read where jobs are due, which gates are in force and which limit keys are open (`_due_heads`)
2. choose: pick some of the due jobs, in the order of fair turns and urgency (choose.py)
3. admit: lock the limits that they use, and decide which of them start and which a limit holds (admission.py)
4. apply: write the decision (`_apply`)

On PostgreSQL each round is a transaction of its own; on SQLite all rounds of a claim share one, since only one writer
can hold the file. A job that may not start is parked: it moves to a lane of the limit that holds it, until that limit
opens. Rounds follow each other until the worker has enough jobs or nothing more can start.

A limit is never exceeded, because an admission holds the lock of the limit, and only admissions add to what it counts.
A finish takes no lock, so a finish and a refusal can race. Both look again after their commit: the finish for jobs that
its limit holds, the refusal for capacity that was freed meanwhile. Each commits before it looks, so at least one of
them sees the other. A finish inside a round may look while the round holds the lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tickwork.core.ids import JobId
from tickwork.core.limits.job_limits import LimitKey
from tickwork.core.limits.lanes import Lane, read_lane
from tickwork.core.placement import GRACE_US, ClaimingWorkers, needs_of, taken_of
from tickwork.store.claim.admission import admit_candidates
from tickwork.store.claim.choose import Choice, choose
from tickwork.store.claim.memory import ClaimMemory
from tickwork.store.claim.types import Candidate, ClaimPlan, ClaimRequest, ClaimTx, LaneHead, Snapshot

_ROUNDS = 10
_LONG_S = 0.02  # A claim that took longer returns what it has, even if more jobs are left to park.


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The result of one round of a claim.

    `dropped` are jobs that the caller ends. `wants_more`: another round may start jobs. `next_us` is the earliest
    instant at which more jobs may be due, or a limit opens; it is compared with `now_us`. `full` are limit keys that
    refused a job until an attempt ends, with their live weight, to be checked again after the commit. `parked_most`:
    more than half of the picked jobs were parked, diverted or dropped, so the next round picks more. `is_near`: a plain
    read of the queue finds jobs quickly, so no sparse scan is needed.
    """

    started: Sequence[Candidate] = ()
    dropped: Sequence[JobId] = ()
    wants_more: bool = False
    next_us: int | None = None
    now_us: int = 0
    full: Mapping[LimitKey, int] = field(default_factory=dict)
    parked_most: bool = False
    is_near: bool = False


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The result of all rounds of a claim.

    Another claim may find something in `again_s` seconds; None: no time is known.
    """

    again_s: float | None
    is_near: bool = False


def run_rounds(
    run_one: Callable[[ClaimRequest, bool], RoundResult], request: ClaimRequest, monotonic: Callable[[], float]
) -> ClaimResult:
    """Run rounds until the worker has what it asked for, or no more jobs can start; return when another claim may find
    more.

    At most _ROUNDS rounds run, and none begins after _LONG_S.
    """
    until = monotonic() + _LONG_S
    after_parking = False
    for _ in range(_ROUNDS):
        result = run_one(request, after_parking)
        after_parking = result.parked_most
        request = request.after(result.started)
        if request.most <= 0:
            return ClaimResult(None, result.is_near)
        if not result.wants_more:
            again_s = None if result.next_us is None else max(0.0, (result.next_us - result.now_us) / 1e6)
            return ClaimResult(again_s, result.is_near)
        if monotonic() > until:
            break
    return ClaimResult(0.0, result.is_near)


def run_round(claim_tx: ClaimTx, request: ClaimRequest, memory: ClaimMemory, *, after_parking: bool) -> RoundResult:
    """Run one round of a claim (snapshot, choose, admit, apply) and return its result.

    `after_parking`: the last round parked most of the jobs that it picked, so this one picks more. The caller ends the
    dropped jobs.
    """
    snapshot = claim_tx.snapshot()
    memory.is_guarded = snapshot.is_guarded
    heads = _servable_heads(claim_tx, snapshot, request, memory)
    due = [head for head in heads if head.from_us <= snapshot.now_us]
    choice = choose(claim_tx, request, memory, snapshot, due, after_parking=after_parking)
    next_us = _next_us(snapshot, heads, choice)
    if not choice.candidates and not snapshot.empty:
        if due:  # Due jobs there are of other tasks; behind them may be jobs that are not due yet.
            next_us = _earliest(next_us, claim_tx.next_due_us([head.place for head in due]))
        is_near, lags = _scan_state(request, choice)
        return RoundResult(wants_more=lags, next_us=next_us, now_us=snapshot.now_us, is_near=is_near)
    plan = admit_candidates(claim_tx, snapshot, request, choice.candidates)
    _apply(claim_tx, plan, choice, snapshot.now_us, {head.place: head.grace_us for head in due})
    memory.charge_turns(plan.started, snapshot.weights, request.capacity.slots + request.capacity.prefetch)
    return _result(plan, choice, request, memory, next_us=next_us, now_us=snapshot.now_us)


# -- snapshot


def _servable_heads(
    claim_tx: ClaimTx, snapshot: Snapshot, request: ClaimRequest, memory: ClaimMemory
) -> list[LaneHead]:
    """Return the heads of the places whose jobs the worker could run.

    Heads of sticky jobs that belong to another worker get a grace time, in which only that worker takes them. Held jobs
    get none: once their limit opens, the first worker that claims takes them.
    """
    heads = [head for head in snapshot.heads if _is_servable(head, request)]
    lanes = [read_lane(head.lane) for head in heads]
    if all(lane.group is None for lane in lanes):
        return heads
    homes = memory.read_homes(claim_tx, snapshot.now_us)
    return [
        head._replace(grace_us=GRACE_US) if _is_anothers(lane, claim_tx.worker, homes) else head
        for head, lane in zip(heads, lanes, strict=True)
    ]


def _is_servable(head: LaneHead, request: ClaimRequest) -> bool:
    """Return whether the worker could run jobs of this lane: it has the resources, and a slot if the jobs are held."""
    lane = read_lane(head.lane)
    if lane.held_by is not None and request.capacity.slots + request.capacity.prefetch <= 0:
        return False  # Held jobs are not claimed ahead of free slots that short jobs will use.
    return not lane.needs or taken_of(request.capacity.offer, needs_of(lane.needs)) is not None


def _is_anothers(lane: Lane, worker: str, homes: ClaimingWorkers) -> bool:
    """Return whether jobs of this lane stick to another live worker."""
    if lane.group is None or lane.held_by is not None:
        return False
    return homes.is_anothers(worker, lane.group, lane.queue, lane.needs)


def _next_us(snapshot: Snapshot, heads: Sequence[LaneHead], choice: Choice) -> int | None:
    """Return the earliest instant at which more jobs may be due, or a limit opens; None if none is known."""
    now_us = snapshot.now_us
    later = [head.from_us for head in heads if head.from_us > now_us]
    # Behind a place that is left to another worker there may be jobs whose grace ends later.
    if any(head.grace_us and head.from_us <= now_us for head in heads):
        later.append(now_us + GRACE_US)
    if choice.sparse_scan is not None:
        later.append(choice.sparse_scan.next_us(now_us))
    return _earliest(snapshot.opens_at_us, *later)


# -- apply


def _apply(
    claim_tx: ClaimTx, plan: ClaimPlan, choice: Choice, now_us: int, graces_us: Mapping[tuple[str, int], int]
) -> None:
    """Write the plan as the last step of the round, and note in the scans which jobs have left their places.

    Invariant: jobs count as taken, and tenants are charged, only after the write, so a round that fails is repeated by
    the next claim.
    """
    plan.bulk_parks = choice.bulk_park.to_move(plan)
    choice.bulk_park.moved(plan.bulk_parks, claim_tx.apply(plan), graces_us, now_us)
    if choice.sparse_scan is not None:
        choice.sparse_scan.took({*(one.job_id for one in (*plan.started, *plan.put_aside)), *plan.drops})


def _result(
    plan: ClaimPlan, choice: Choice, request: ClaimRequest, memory: ClaimMemory, *, next_us: int | None, now_us: int
) -> RoundResult:
    """Return the result of a round that was written, and adapt how many jobs the next round picks."""
    picked, started, aside = len(choice.candidates), plan.started, len(plan.put_aside) + len(plan.drops)
    # Jobs that could start are left, and the worker has no free slot for them.
    is_full = picked > len(started) + aside and request.after(started).capacity.slots <= 0
    memory.learn(request, started, is_full=is_full)
    # A round that changed nothing ends the claim: the next round would find the same.
    changed = bool(started or aside or plan.opens or plan.emptied)
    is_near, lags = _scan_state(request, choice)
    return RoundResult(
        started=started,
        dropped=plan.drops,
        wants_more=(changed or lags) and not is_full,
        next_us=next_us,
        now_us=now_us,
        full=plan.full,
        parked_most=2 * aside > picked,
        is_near=is_near,
    )


def _scan_state(request: ClaimRequest, choice: Choice) -> tuple[bool, bool]:
    """Return whether jobs are found quickly without a sparse scan, and whether the sparse scan has more to read."""
    scan = choice.sparse_scan
    if scan is None:
        return request.capacity.search is not None, False
    return scan.is_near, scan.lags


def _earliest(*instants: int | None) -> int | None:
    """Return the earliest of these instants, ignoring None; None if there is no other."""
    return min((one for one in instants if one is not None), default=None)
