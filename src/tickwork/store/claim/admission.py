"""Decide which picked jobs of a claim round may start, and what happens to the others (see limited.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tickwork.core.ids import JobId
from tickwork.core.limits.admit import AdmitRequest, admit
from tickwork.core.limits.breaker import Breaker, BreakerState
from tickwork.core.limits.breaker import start as start_breaker
from tickwork.core.limits.gates import Gate, JobFacts, gate_for
from tickwork.core.limits.lanes import Flow, Lane, held_lane, read_lane
from tickwork.core.limits.limits import Concurrency, LimitKey, LimitUse
from tickwork.core.placement.needs import take_in_order
from tickwork.store.claim.types import (
    Candidate,
    ClaimPlan,
    ClaimRequest,
    ClaimTx,
    LimitState,
    Snapshot,
    Wanting,
    gate_passage,
)
from tickwork.store.limits import LimitedCapacity


def judge(
    ground: ClaimTx, look: Snapshot, asked: ClaimRequest, applicants: Sequence[Candidate]
) -> tuple[ClaimPlan, list[JobId]]:
    """Lock the limits of the picked jobs and decide what the round does with each job. Also return the jobs to drop.

    A gate is checked first: it drops, diverts or pauses a job, or adds a use of its own rate limit. The limits of the
    other jobs are then locked in one call, so that they are all read under their locks and in the same order
    everywhere. Jobs of a sequence that a gate takes out of the order are locked too, because `_mark` stores a marker in
    their limits.
    """
    verdict = ClaimPlan()
    dropped: list[JobId] = []
    paused: list[tuple[Candidate, Gate]] = []
    wanting: list[Wanting] = []
    gates: dict[LimitKey, Gate] = {}
    for applicant in applicants:
        gate = gate_for(facts_of(applicant), look.gates, look.now_us) if look.gates else None
        slots = applicant.flow.slots if applicant.flow else ()
        if gate is None:
            wanting.append((applicant, slots))
        elif gate.kind == "drop":
            dropped.append(applicant.job_id)
            _passes_on(verdict, gate)
        elif gate.kind == "divert":
            verdict.diverts.append((applicant, gate.to or ""))
            _passes_on(verdict, gate)
        else:
            gates[gate_passage(gate)] = gate
            if gate.kind == "pause":
                paused.append((applicant, gate))
            else:
                wanting.append((applicant, (*slots, LimitUse(*gate_passage(gate), 1))))
    held = [_lane(one).held_by for one in applicants if one.lane.startswith(":")]
    picked = Counter(passage for passage in held if passage is not None)
    # Open keys that hold nothing are locked, too, so that `_close` can close them.
    picked.update(dict.fromkeys(look.empty, 0))
    aside = [one for one, _ in [*paused, *verdict.diverts] if one.flow and one.flow.sequence]
    in_order = [slot for one in aside if one.flow for slot in one.flow.slots]
    asked_of = [*in_order, *(slot for _, slots in wanting for slot in slots)]
    passages = {slot.passage for slot in asked_of}
    stiles = ground.lock({*passages, *picked, *gates}, picked, gates)
    for applicant, gate in paused:
        # A gate that is missing here was lifted before it was locked; its jobs stay queued for the next round.
        if gate_passage(gate) in stiles:
            _park(verdict, applicant, gate_passage(gate), gate.until_us, stiles)
    # These jobs leave their sequence for another reason; later jobs must not start before them.
    for applicant in aside:
        _mark(verdict, applicant, None, stiles)
    room = _WorkerRoom(asked, _fitting(wanting, asked.reach), stiles, ground.now_us)
    if asked.reach.prefetch:
        room.share_prefetch(_others_due(look, applicants))
    _admit(verdict, ground.now_us, room, stiles)
    _close(verdict, picked, stiles)
    return verdict, dropped


def _others_due(look: Snapshot, applicants: Sequence[Candidate]) -> int:
    """Return how many lanes of held jobs that may start now were not picked from."""
    picked = {one.lane for one in applicants}
    held = {head.lane for head in look.heads if head.lane.startswith(":") and head.run_at_us <= look.now_us}
    return len(held - picked)


def _admit(verdict: ClaimPlan, now_us: int, room: _WorkerRoom, stiles: dict[LimitKey, LimitState]) -> None:
    """Start jobs that limits, breakers and the worker's capacity permit; park jobs that a limit or breaker refuses.

    A job that only the worker has no slot for is neither started nor parked.
    """
    turnstiles = {name: one for name, stile in stiles.items() if (one := stile.turnstile) is not None}
    by_id = room.by_id
    candidates = [AdmitRequest(applicant.job_id, slots, applicant.run_at_us) for applicant, slots in by_id.values()]
    admission = admit(candidates, turnstiles, now_us, room.takes)
    for job_id in admission.admitted:
        applicant, _ = by_id[job_id]
        # A job uses a key also where no limit exists now, because one may be declared before the job ends.
        verdict.starts.append((applicant, _once(applicant.flow.slots) if applicant.flow else ()))
    verdict.on_retry = {name: how for name, stile in stiles.items() if (how := stile.on_retry) is not None}
    verdict.probes |= room.breakers.probes
    verdict.states |= {**admission.arrivals, **room.breakers.changed}
    for applicant, held in room.broken:
        _park(verdict, applicant, *held, stiles)
    live = _live_after(verdict, stiles) if admission.refused else Counter()
    for refusal in admission.refused:
        _park(verdict, by_id[refusal.id][0], refusal.held_by, refusal.opens_at_us, stiles)
        if live.get(refusal.held_by):
            verdict.full[refusal.held_by] = live[refusal.held_by]


def _once(slots: tuple[LimitUse, ...]) -> tuple[LimitUse, ...]:
    """Return the uses with each limit key once. A task and its queue may name the same limit; the weights are added."""
    if len(slots) < 2:
        return slots
    weights: dict[LimitKey, int] = {}
    for slot in slots:
        weights[slot.passage] = weights.get(slot.passage, 0) + slot.weight
    return slots if len(weights) == len(slots) else tuple(LimitUse(*passage, w) for passage, w in weights.items())


def _live_after(verdict: ClaimPlan, stiles: Mapping[LimitKey, LimitState]) -> Counter[LimitKey]:
    """Return the live weight under each limit key once the round has started its jobs.

    A job of a sequence that returns for another attempt is already counted in `live`.
    """
    live = Counter({name: stile.live for name, stile in stiles.items() if stile.live})
    for applicant, slots in verdict.starts:
        for slot in slots:
            stile = stiles.get(slot.passage)
            if stile is None or not any(job_id == applicant.job_id for _, job_id in stile.returned):
                live[slot.passage] += slot.weight
    return live


class _WorkerRoom:
    """The capacity of the claiming worker, while jobs are admitted one after the other.

    A worker may ask for more jobs than it has free slots. Beyond its free slots, jobs with a flow are admitted only
    where that takes little from other workers: under keys where nothing runs or that stay at most half full, and not
    under a rate limit or with needs. Jobs of a tenant are admitted early only as part of `prefetch`. With a `prefetch`
    (the jobs are long), half of the limited jobs that could start is left to other workers. Once a job needed a free
    slot and found none, nothing more is prefetched, because the next free slot belongs to that job.
    """

    def __init__(
        self, asked: ClaimRequest, wanting: Sequence[Wanting], stiles: Mapping[LimitKey, LimitState], now_us: int
    ) -> None:
        self.by_id = {applicant.job_id: (applicant, slots) for applicant, slots in wanting}
        self._left = asked.room
        self._slots = asked.reach.slots
        self._prefetch = asked.reach.prefetch
        self._stiles = stiles
        self._taken: dict[LimitKey, int] = {}
        self._limited_prefetch = 0
        self.breakers = _BreakerAdmission(stiles, now_us)
        self.broken: list[tuple[Candidate, tuple[LimitKey, int]]] = []

    def takes(self, candidate: AdmitRequest) -> bool:
        """Return whether the worker takes a job that the limits admit; if so, count it against the worker's capacity.

        A job that a breaker holds is added to `broken`. When a prefetching worker has no free slot left for a job that
        needs one, it takes no further job in this round.
        """
        applicant, slots = self.by_id[candidate.id]
        flow = applicant.flow
        if (held := self.breakers.holds(slots)) is not None:
            self.broken.append((applicant, held))
            return False
        if self._left <= 0:
            return False
        if flow is not None and self._slots <= 0 and not self._may_be_early(flow, slots):
            if self._prefetch:
                self._left = 0
            return False
        self.breakers.start(candidate.id, slots)
        self._left -= 1
        if flow is not None:
            self._slots -= 1
            for slot in slots:
                passage = slot.passage
                self._taken[passage] = self._taken.get(passage, 0) + slot.weight
        return True

    def _may_be_early(self, flow: Flow, slots: Sequence[LimitUse]) -> bool:
        """Return whether a job with a flow may be taken although no slot is free."""
        if flow.needs or (flow.tenant is not None and self._slots + self._prefetch <= 0):
            return False
        if self._prefetch and flow.slots and self._slots + self._limited_prefetch <= 0:
            return False
        return self._leaves_room(slots, self._taken)

    def _leaves_room(self, slots: Sequence[LimitUse], taken: Mapping[LimitKey, int]) -> bool:
        """Return whether all these keys are unused, or at most half full, once these uses are added to `taken`.

        A key under a rate limit never qualifies.
        """
        for slot in slots:
            passage = slot.passage
            stile = self._stiles.get(passage)
            if stile is None or stile.rule is None:
                continue
            if not isinstance(stile.rule, Concurrency):
                return False
            before = stile.live + taken.get(passage, 0)
            if before and 2 * (before + slot.weight) > stile.rule.capacity:
                return False
        return True

    def share_prefetch(self, others: int) -> None:
        """Limit the prefetch to half of the limited jobs that could start beyond the free slots.

        These are the jobs that this round picked, and one for each of the `others` lanes that it did not pick from.
        """
        startable = others
        taken: dict[LimitKey, int] = {}
        for applicant, slots in self.by_id.values():
            if applicant.flow is not None and applicant.flow.slots and self._leaves_room(slots, taken):
                startable += 1
                for slot in slots:
                    taken[slot.passage] = taken.get(slot.passage, 0) + slot.weight
        self._limited_prefetch = min(self._prefetch, max(0, startable - max(0, self._slots)) // 2)


class _BreakerAdmission:
    """The states of the breakers that the picked jobs pass, updated while jobs are admitted."""

    def __init__(self, stiles: Mapping[LimitKey, LimitState], now_us: int) -> None:
        self._now_us = now_us
        self._rules = {name: stile.rule for name, stile in stiles.items() if isinstance(stile.rule, Breaker)}
        self._states = {name: stiles[name].breaker for name in self._rules}
        self.changed: dict[LimitKey, BreakerState] = {}
        self.probes: set[JobId] = set()

    def holds(self, slots: Sequence[LimitUse]) -> tuple[LimitKey, int] | None:
        """Return the first breaker that refuses these uses, and when it next permits a start; None: none refuses."""
        if not self._rules:
            return None
        for passage in self._on_the_way(slots):
            opens_at_us = self._states[passage].opens_at_us(self._now_us)
            if opens_at_us is not None:
                return passage, opens_at_us
        return None

    def start(self, job_id: JobId, slots: Sequence[LimitUse]) -> None:
        """Record the start of a job that no breaker refuses. A half-open breaker admits one job, its probe."""
        if not self._rules:
            return
        for passage in self._on_the_way(slots):
            state = start_breaker(self._rules[passage], self._states[passage], job_id, self._now_us)
            if state is not None and state is not self._states[passage]:
                self._states[passage] = self.changed[passage] = state
                self.probes.add(job_id)

    def _on_the_way(self, slots: Sequence[LimitUse]) -> list[LimitKey]:
        """Return the keys among these uses that are breakers."""
        return [one for slot in slots if (one := slot.passage) in self._rules]


def _fitting(
    wanting: Sequence[tuple[Candidate, tuple[LimitUse, ...]]], reach: LimitedCapacity
) -> Sequence[tuple[Candidate, tuple[LimitUse, ...]]]:
    """Return the jobs whose needs the worker can meet together. The others stay queued where they are."""
    needs = [applicant.flow.needs if applicant.flow else "" for applicant, _ in wanting]
    if not any(needs):
        return wanting
    fits = take_in_order(reach.offer, needs)
    return [one for one, does in zip(wanting, fits, strict=True) if does]


def _park(
    verdict: ClaimPlan,
    applicant: Candidate,
    held_by: LimitKey,
    opens_at_us: int | None,
    stiles: dict[LimitKey, LimitState],
) -> None:
    """Plan to move a job to the lane of the limit that holds it, and record when that limit opens next.

    None as the time means that it opens when a lease ends, and takes precedence. If the job belongs to a sequence, a
    marker is stored in its other limits, so that later jobs of the sequence do not start before it.
    """
    lane = held_lane(held_by, applicant.home)
    if lane != applicant.lane:
        verdict.parks.append((applicant, lane))
    known = verdict.opens.get(held_by, opens_at_us)
    verdict.opens[held_by] = None if known is None or opens_at_us is None else min(known, opens_at_us)
    if applicant.flow is not None and applicant.flow.sequence:
        _mark(verdict, applicant, held_by, stiles)


def _mark(
    verdict: ClaimPlan, applicant: Candidate, held_by: LimitKey | None, stiles: dict[LimitKey, LimitState]
) -> None:
    """Store a marker for a job of a sequence that is set aside by something other than the sequence.

    The marker is the smallest (run_at, id) that must start first; it keeps later jobs of the sequence from overtaking
    it.
    """
    place = (applicant.run_at_us, applicant.job_id)
    for slot in applicant.flow.slots if applicant.flow is not None else ():
        stile = stiles.get(slot.passage)
        if slot.passage == held_by or stile is None or not stile.is_in_order:
            continue
        first = place if stile.marker is None else min(stile.marker, place)
        verdict.states[slot.passage] = first
        stiles[slot.passage] = stile._replace(marker=first)


def _close(verdict: ClaimPlan, picked: Mapping[LimitKey, int], stiles: Mapping[LimitKey, LimitState]) -> None:
    """Close open limit keys that were picked from and now hold nothing, or are full, so that later claims skip them.

    An attempt may finish before this round commits and find the key still open. `full` makes the caller check the keys
    again after the commit.
    """
    gone = Counter(_lane(one).held_by for one, _ in [*verdict.starts, *verdict.parks, *verdict.diverts])
    live = _live_after(verdict, stiles) if picked else Counter()
    for passage in picked:
        if passage in verdict.opens or passage not in stiles:
            continue
        stile = stiles[passage]
        if stile.waiting <= gone[passage]:
            verdict.emptied.add(passage)
        elif isinstance(stile.rule, Concurrency) and live[passage] >= stile.rule.capacity:
            verdict.opens[passage] = None
            if stile.live:
                verdict.full[passage] = live[passage]


def _passes_on(verdict: ClaimPlan, gate: Gate) -> None:
    """Count a job that a gate has dropped or diverted."""
    verdict.passed_on[gate.name] = verdict.passed_on.get(gate.name, 0) + 1


def facts_of(applicant: Candidate) -> JobFacts:
    """Return what gates see of a job."""
    flow = applicant.flow or Flow()
    return JobFacts(applicant.task, applicant.queue, flow.tenant, applicant.collection, applicant.labels, flow.diverted)


def _lane(applicant: Candidate) -> Lane:
    """Return the parts of a job's lane name."""
    return read_lane(applicant.lane)
