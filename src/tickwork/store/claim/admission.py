"""The third step of a round: decide which candidates start, and what happens to the others (see limited.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tickwork.core.ids import JobId
from tickwork.core.limits.admit import AdmitRequest, admit
from tickwork.core.limits.breaker import Breaker, BreakerState
from tickwork.core.limits.breaker import start as start_breaker
from tickwork.core.limits.gates import Gate, JobFacts, gate_for
from tickwork.core.limits.job_limits import JobLimits, LimitKey, LimitUse
from tickwork.core.limits.lanes import Lane, held_lane, read_lane
from tickwork.core.limits.limits import Concurrency
from tickwork.core.placement import take_in_order
from tickwork.store.claim.types import (
    Candidate,
    ClaimPlan,
    ClaimRequest,
    ClaimTx,
    LimitState,
    Snapshot,
    Start,
    gate_key,
)
from tickwork.store.limits import LimitedCapacity


def admit_candidates(
    claim_tx: ClaimTx, snapshot: Snapshot, request: ClaimRequest, candidates: Sequence[Candidate]
) -> ClaimPlan:
    """Lock the limits that the picked jobs use, and return the plan: what the round does with each job.

    Invariant: all limits are locked in one call, in the same order everywhere, and their states are read under the
    locks. So claims cannot deadlock, and no limit is exceeded.
    """
    plan = ClaimPlan()
    gated = _pass_gates(plan, snapshot, candidates)
    held = [_lane(one).held_by for one in candidates if one.lane.startswith(":")]
    picked = Counter(limit_key for limit_key in held if limit_key is not None)
    # Open keys that hold nothing are locked, too, so that `_close` can close them.
    picked.update(dict.fromkeys(snapshot.empty, 0))
    # Jobs of a sequence that a gate takes out of the order: `_mark` stores a marker in their limits.
    out_of_order = [one for one in gated.aside if one.job_limits and one.job_limits.sequence]
    used = [slot for one in out_of_order if one.job_limits for slot in one.job_limits.uses]
    used += [slot for _, slots in gated.starts for slot in slots]
    locked_limits = claim_tx.lock({*(slot.limit_key for slot in used), *picked, *gated.gates}, picked, gated.gates)
    for candidate, gate in gated.paused:
        # A gate that is missing here was lifted before it was locked; its jobs stay queued for the next round.
        if gate_key(gate) in locked_limits:
            _park(plan, candidate, gate_key(gate), gate.until_us, locked_limits)
    # These jobs leave their sequence for another reason; later jobs must not start before them.
    for candidate in out_of_order:
        _mark(plan, candidate, None, locked_limits)
    starts = _fitting(gated.starts, request.capacity)
    capacity = _WorkerCapacity(request, starts, locked_limits, claim_tx.now_us)
    if request.capacity.prefetch:
        capacity.share_prefetch(_others_due(snapshot, candidates))
    _start(plan, claim_tx.now_us, capacity, locked_limits)
    _close(plan, picked, locked_limits)
    return plan


class _Gated(NamedTuple):
    """The picked jobs, divided by what gates do with them.

    `starts` pass the gates, with the limits that they use; `paused` are paused by a gate. `aside` are the jobs that a
    gate pauses or diverts. `gates` are the gates to lock.
    """

    starts: list[Start]
    paused: list[tuple[Candidate, Gate]]
    aside: list[Candidate]
    gates: dict[LimitKey, Gate]


def _pass_gates(plan: ClaimPlan, snapshot: Snapshot, candidates: Sequence[Candidate]) -> _Gated:
    """Apply the gates to the picked jobs: plan drops and diverts, and return which jobs may start and which are paused.

    A gate that slows jobs adds a use of its own rate limit.
    """
    gated = _Gated([], [], [], {})
    for candidate in candidates:
        gate = gate_for(job_facts(candidate), snapshot.gates, snapshot.now_us) if snapshot.gates else None
        slots = candidate.job_limits.uses if candidate.job_limits else ()
        if gate is None:
            gated.starts.append((candidate, slots))
        elif gate.kind in ("drop", "divert"):
            plan.passed_on[gate.name] = plan.passed_on.get(gate.name, 0) + 1
            if gate.kind == "drop":
                plan.drops.append(candidate.job_id)
            else:
                plan.diverts.append((candidate, gate.to or ""))
                gated.aside.append(candidate)
        else:
            gated.gates[gate_key(gate)] = gate
            if gate.kind == "pause":
                gated.paused.append((candidate, gate))
                gated.aside.append(candidate)
            else:
                gated.starts.append((candidate, (*slots, LimitUse(*gate_key(gate), 1))))
    return gated


def _others_due(snapshot: Snapshot, candidates: Sequence[Candidate]) -> int:
    """Return the number of lanes of held jobs that may start now and from which no candidate was picked."""
    picked = {one.lane for one in candidates}
    held = {head.lane for head in snapshot.heads if head.lane.startswith(":") and head.run_at_us <= snapshot.now_us}
    return len(held - picked)


def _start(plan: ClaimPlan, now_us: int, capacity: _WorkerCapacity, locked_limits: dict[LimitKey, LimitState]) -> None:
    """Plan the start of jobs that limits, breakers and the worker's capacity permit; park jobs that a limit or breaker
    refuses.

    A job for which only the worker has no slot is neither started nor parked.
    """
    limit_snapshots = {
        name: one for name, locked_limit in locked_limits.items() if (one := locked_limit.limit_snapshot) is not None
    }
    by_id = capacity.by_id
    requests = [AdmitRequest(candidate.job_id, slots, candidate.run_at_us) for candidate, slots in by_id.values()]
    admission = admit(requests, limit_snapshots, now_us, capacity.takes)
    for job_id in admission.admitted:
        candidate, _ = by_id[job_id]
        # A job uses a key also where no limit exists now, because one may be declared before the job ends.
        plan.starts.append((candidate, _once(candidate.job_limits.uses) if candidate.job_limits else ()))
    plan.on_retry = {
        name: how for name, locked_limit in locked_limits.items() if (how := locked_limit.on_retry) is not None
    }
    plan.probes |= capacity.breakers.probes
    plan.states |= {**admission.arrivals, **capacity.breakers.changed}
    for candidate, held in capacity.broken:
        _park(plan, candidate, *held, locked_limits)
    live = _live_after(plan, locked_limits) if admission.refused else Counter()
    for refusal in admission.refused:
        _park(plan, by_id[refusal.id][0], refusal.held_by, refusal.opens_at_us, locked_limits)
        if live.get(refusal.held_by):
            plan.full[refusal.held_by] = live[refusal.held_by]


def _once(slots: tuple[LimitUse, ...]) -> tuple[LimitUse, ...]:
    """Return the uses with each limit key once, with the sum of its weights.

    A task and its queue may name the same limit.
    """
    if len(slots) < 2:
        return slots
    weights: dict[LimitKey, int] = {}
    for slot in slots:
        weights[slot.limit_key] = weights.get(slot.limit_key, 0) + slot.weight
    return slots if len(weights) == len(slots) else tuple(LimitUse(*limit_key, w) for limit_key, w in weights.items())


def _live_after(plan: ClaimPlan, locked_limits: Mapping[LimitKey, LimitState]) -> Counter[LimitKey]:
    """Return the live weight of each limit key after the round has started its jobs.

    A job of a sequence that returns for another attempt is already counted in `live`.
    """
    live = Counter({name: locked_limit.live for name, locked_limit in locked_limits.items() if locked_limit.live})
    for candidate, slots in plan.starts:
        for slot in slots:
            locked_limit = locked_limits.get(slot.limit_key)
            if locked_limit is None or not any(job_id == candidate.job_id for _, job_id in locked_limit.returned):
                live[slot.limit_key] += slot.weight
    return live


class _WorkerCapacity:
    """The capacity of the claiming worker, while jobs are admitted one after the other.

    A worker may ask for more jobs than it has free slots. Beyond its free slots, limited jobs are admitted only
    where that takes little from other workers: under keys where nothing runs or that stay at most half full, and not
    under a rate limit or with needs. Jobs of a tenant are prefetched only as part of `prefetch`. With a `prefetch`
    (the jobs are long), half of the limited jobs that could start is left to other workers. Once a job needed a free
    slot and found none, nothing more is prefetched, because the next free slot belongs to that job.
    """

    def __init__(
        self, request: ClaimRequest, starts: Sequence[Start], locked_limits: Mapping[LimitKey, LimitState], now_us: int
    ) -> None:
        self.by_id = {candidate.job_id: (candidate, slots) for candidate, slots in starts}
        self._left = request.most
        self._slots = request.capacity.slots
        self._prefetch = request.capacity.prefetch
        self._locked_limits = locked_limits
        self._taken: dict[LimitKey, int] = {}
        self._limited_prefetch = 0
        self.breakers = _BreakerAdmission(locked_limits, now_us)
        self.broken: list[tuple[Candidate, tuple[LimitKey, int]]] = []

    def takes(self, request: AdmitRequest) -> bool:
        """Return whether the worker takes a job that the limits admit; if so, count it against the worker's capacity.

        A job that a breaker holds is added to `broken`. When a worker that prefetches has no free slot left for a job
        that needs one, it takes no further job in this round.
        """
        candidate, slots = self.by_id[request.id]
        job_limits = candidate.job_limits
        if (held := self.breakers.holds(slots)) is not None:
            self.broken.append((candidate, held))
            return False
        if self._left <= 0:
            return False
        if job_limits is not None and self._slots <= 0 and not self._may_be_prefetched(job_limits, slots):
            if self._prefetch:
                self._left = 0
            return False
        self.breakers.start(request.id, slots)
        self._left -= 1
        if job_limits is not None:
            self._slots -= 1
            for slot in slots:
                limit_key = slot.limit_key
                self._taken[limit_key] = self._taken.get(limit_key, 0) + slot.weight
        return True

    def _may_be_prefetched(self, job_limits: JobLimits, slots: Sequence[LimitUse]) -> bool:
        """Return whether a limited job may be taken although no slot is free."""
        if job_limits.needs or (job_limits.tenant is not None and self._slots + self._prefetch <= 0):
            return False
        if self._prefetch and job_limits.uses and self._slots + self._limited_prefetch <= 0:
            return False
        return self._leaves_half(slots, self._taken)

    def _leaves_half(self, slots: Sequence[LimitUse], taken: Mapping[LimitKey, int]) -> bool:
        """Return whether all these keys are unused, or at most half full, once these uses are added to `taken`.

        A key under a rate limit never qualifies.
        """
        for slot in slots:
            limit_key = slot.limit_key
            locked_limit = self._locked_limits.get(limit_key)
            if locked_limit is None or locked_limit.rule is None:
                continue
            if not isinstance(locked_limit.rule, Concurrency):
                return False
            before = locked_limit.live + taken.get(limit_key, 0)
            if before and 2 * (before + slot.weight) > locked_limit.rule.capacity:
                return False
        return True

    def share_prefetch(self, others: int) -> None:
        """Limit the prefetch to half of the limited jobs that could start beyond the free slots.

        These are the jobs that this round picked, and one for each of `others`, the number of lanes from which it
        picked none.
        """
        startable = others
        taken: dict[LimitKey, int] = {}
        for candidate, slots in self.by_id.values():
            if candidate.job_limits is not None and candidate.job_limits.uses and self._leaves_half(slots, taken):
                startable += 1
                for slot in slots:
                    taken[slot.limit_key] = taken.get(slot.limit_key, 0) + slot.weight
        self._limited_prefetch = min(self._prefetch, max(0, startable - max(0, self._slots)) // 2)


class _BreakerAdmission:
    """The states of the breakers that apply to the picked jobs, updated while jobs are admitted."""

    def __init__(self, locked_limits: Mapping[LimitKey, LimitState], now_us: int) -> None:
        self._now_us = now_us
        self._rules = {
            name: locked_limit.rule
            for name, locked_limit in locked_limits.items()
            if isinstance(locked_limit.rule, Breaker)
        }
        self._states = {name: locked_limits[name].breaker for name in self._rules}
        self.changed: dict[LimitKey, BreakerState] = {}
        self.probes: set[JobId] = set()

    def holds(self, slots: Sequence[LimitUse]) -> tuple[LimitKey, int] | None:
        """Return the first breaker that refuses these uses, and when it next permits a start; None if none refuses."""
        if not self._rules:
            return None
        for limit_key in self._on_the_way(slots):
            opens_at_us = self._states[limit_key].opens_at_us(self._now_us)
            if opens_at_us is not None:
                return limit_key, opens_at_us
        return None

    def start(self, job_id: JobId, slots: Sequence[LimitUse]) -> None:
        """Record the start of a job that no breaker refuses. A half-open breaker admits one job, its probe."""
        if not self._rules:
            return
        for limit_key in self._on_the_way(slots):
            state = start_breaker(self._rules[limit_key], self._states[limit_key], job_id, self._now_us)
            if state is not None and state is not self._states[limit_key]:
                self._states[limit_key] = self.changed[limit_key] = state
                self.probes.add(job_id)

    def _on_the_way(self, slots: Sequence[LimitUse]) -> list[LimitKey]:
        """Return the keys among these uses that are breakers."""
        return [one for slot in slots if (one := slot.limit_key) in self._rules]


def _fitting(starts: Sequence[Start], capacity: LimitedCapacity) -> Sequence[Start]:
    """Return the jobs whose needs the worker can meet together. The others stay queued where they are."""
    needs = [candidate.job_limits.needs if candidate.job_limits else "" for candidate, _ in starts]
    if not any(needs):
        return starts
    fits = take_in_order(capacity.offer, needs)
    return [one for one, does in zip(starts, fits, strict=True) if does]


def _park(
    plan: ClaimPlan,
    candidate: Candidate,
    held_by: LimitKey,
    opens_at_us: int | None,
    locked_limits: dict[LimitKey, LimitState],
) -> None:
    """Plan to move a job to the lane of the limit key that holds it, and record when that key opens next.

    None as the time means that it opens when an attempt ends, and takes precedence. If the job belongs to a sequence, a
    marker is stored in its other limits, so that later jobs of the sequence do not start before it.
    """
    lane = held_lane(held_by, candidate.home)
    if lane != candidate.lane:
        plan.parks.append((candidate, lane))
    known = plan.opens.get(held_by, opens_at_us)
    plan.opens[held_by] = None if known is None or opens_at_us is None else min(known, opens_at_us)
    if candidate.job_limits is not None and candidate.job_limits.sequence:
        _mark(plan, candidate, held_by, locked_limits)


def _mark(
    plan: ClaimPlan, candidate: Candidate, held_by: LimitKey | None, locked_limits: dict[LimitKey, LimitState]
) -> None:
    """Store a marker in the sequences of a job that a gate or another limit keeps from starting.

    The marker is the smallest (run_at, id) that must start first; it keeps later jobs of the sequence from overtaking
    the job.
    """
    place = (candidate.run_at_us, candidate.job_id)
    for slot in candidate.job_limits.uses if candidate.job_limits is not None else ():
        locked_limit = locked_limits.get(slot.limit_key)
        if slot.limit_key == held_by or locked_limit is None or not locked_limit.is_in_order:
            continue
        first = place if locked_limit.marker is None else min(locked_limit.marker, place)
        plan.states[slot.limit_key] = first
        locked_limits[slot.limit_key] = locked_limit._replace(marker=first)


def _close(plan: ClaimPlan, picked: Mapping[LimitKey, int], locked_limits: Mapping[LimitKey, LimitState]) -> None:
    """Close open limit keys whose held jobs were picked and that now hold no job, or are full, so that later claims
    skip them.

    An attempt may finish before this round commits and find the key still open. `full` makes the caller check the keys
    again after the commit.
    """
    gone = Counter(_lane(one).held_by for one, _ in [*plan.starts, *plan.parks, *plan.diverts])
    live = _live_after(plan, locked_limits) if picked else Counter()
    for limit_key in picked:
        if limit_key in plan.opens or limit_key not in locked_limits:
            continue
        locked_limit = locked_limits[limit_key]
        if locked_limit.waiting <= gone[limit_key]:
            plan.emptied.add(limit_key)
        elif isinstance(locked_limit.rule, Concurrency) and live[limit_key] >= locked_limit.rule.capacity:
            plan.opens[limit_key] = None
            if locked_limit.live:
                plan.full[limit_key] = live[limit_key]


def job_facts(candidate: Candidate) -> JobFacts:
    """Return the fields of a job that gates select by."""
    job_limits = candidate.job_limits or JobLimits()
    return JobFacts(
        candidate.task, candidate.queue, job_limits.tenant, candidate.collection, candidate.labels, job_limits.diverted
    )


def _lane(candidate: Candidate) -> Lane:
    """Return the parts of a job's lane name."""
    return read_lane(candidate.lane)
