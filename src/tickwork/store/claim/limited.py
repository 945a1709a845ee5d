"""Claim jobs that limits or gates may hold. The algorithm is the same for both stores.

A claim is a series of rounds. A round reads where jobs are due, picks some of them in the order of fair turns and
urgency, locks the limits that they use, decides which of them may start, and writes the decision. On PostgreSQL each
round is a transaction of its own; on SQLite all rounds of a claim share one, since only one writer can hold the file. A
job that may not start is parked: it moves to a lane of the limit that holds it, until that limit opens. Rounds follow
each other until the worker has enough jobs or nothing more can start.

A limit is never exceeded, because an admission holds the lock of the limit, and only admissions add to what it counts.
A finish takes no lock, so a finish and a refusal can race. Both look again after their commit: the finish for jobs that
its limit holds, the refusal for capacity that was freed meanwhile. Each commits before it looks, so at least one of
them sees the other. A finish inside a round may look while the round holds the lock.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from tickwork.core.fairness.fair_turns import TenantTurns, take_turns
from tickwork.core.fairness.starvation import AGE, aged_before_us
from tickwork.core.ids import JobId
from tickwork.core.limits.breaker import Breaker
from tickwork.core.limits.gates import Gate, JobFacts, gate_for
from tickwork.core.limits.lanes import JobLimits, Lane, read_lane
from tickwork.core.limits.limits import LimitKey
from tickwork.core.placement.needs import Offer, needs_of, servable, taken_of
from tickwork.core.placement.sticky import GRACE_US, PATIENCE_US, ClaimingWorkers
from tickwork.store import row_codec
from tickwork.store.claim.admission import job_facts, plan_round
from tickwork.store.claim.bulk_park import MANY, BulkPark
from tickwork.store.claim.sparse_scan import PLACES, SparseScan
from tickwork.store.claim.types import Candidate, ClaimRequest, ClaimTx, LaneHead, PickRequest, Snapshot
from tickwork.store.limits import LimitedCapacity

PAGE = 1000
OPEN_LIMIT = 256  # Open limit keys that a round reads.
ROUNDS = 10
_FORESEEN = 2000
_EARLY = 8  # Limited jobs picked beyond the free slots, until `_learn` finds a better number.
# A round that follows one that parked most of its jobs picks up to this many, so that held jobs are parked soon.
_MOST = 1000
_KNOWN_US = 1_000_000  # How long the list of claiming workers is cached.
_NO_TENANT = ""
_LONG_S = 0.02  # A claim that took longer returns what it has, even if more jobs are left to park.


@dataclass(slots=True)
class ClaimMemory:
    """The state that a worker keeps between claims: the tenants' positions in fair turns, bulk parks and scans.

    `positions` and `clock` are those of fair turns; `by_age` alternates: in every other round, jobs that have waited
    long go first. `early` is how many limited jobs are picked beyond the free slots: as many as could lately be
    started ahead. `is_guarded`: the last snapshot found limits or gates, for which plain claims do nothing, so the next
    claim is a limited one, too. `masses` are the bulk parks and `searches` the sparse scans, each by the set of tasks
    that the worker claims together. `homes` are the workers to which jobs stick, as read at `homes_at_us`.
    """

    positions: dict[str, int] = field(default_factory=dict)
    clock: int = 0
    by_age: bool = False
    early: int = _EARLY
    is_guarded: bool = False
    masses: dict[Sequence[str], BulkPark] = field(default_factory=dict)
    searches: dict[Sequence[str], SparseScan] = field(default_factory=dict)
    homes: ClaimingWorkers = field(default_factory=lambda: ClaimingWorkers([]))
    homes_at_us: int | None = None

    def search_for(self, asked: ClaimRequest, places: int) -> SparseScan | None:
        """Return the sparse scan for these tasks, if it is asked for and the places are few; otherwise forget it."""
        if asked.reach.search and places <= PLACES:
            return self.searches.setdefault(asked.tasks, SparseScan())
        self.searches.pop(asked.tasks, None)
        return None


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The result of one round of a claim.

    `dropped` are jobs that the caller ends. `wants_more`: another round may find something. `next_us` is the earliest
    time at which more may be due, or a limit opens; it is compared with `now_us`. `full` are limit keys that refused a
    job until a lease ends, with their live weight, to be checked again after the commit. `put_aside`: more than half of
    the picked jobs were parked, diverted or dropped, so the next round picks more. `is_near`: no sparse scan is needed.
    """

    started: Sequence[Candidate] = ()
    dropped: Sequence[JobId] = ()
    wants_more: bool = False
    next_us: int | None = None
    now_us: int = 0
    full: Mapping[LimitKey, int] = field(default_factory=dict)
    put_aside: bool = False
    is_near: bool = False


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The result of all rounds of a claim.

    Another claim may find something in `again_s` seconds; None: no time is known.
    """

    again_s: float | None
    is_near: bool = False

    @classmethod
    def to_its_end(cls, last: RoundResult) -> ClaimResult:
        """Return the result of a claim whose last round found nothing more to start for now."""
        again_s = None if last.next_us is None else max(0.0, (last.next_us - last.now_us) / 1e6)
        return cls(again_s, last.is_near)


def run_rounds(
    run_one: Callable[[ClaimRequest, bool], RoundResult], asked: ClaimRequest, monotonic: Callable[[], float]
) -> ClaimResult:
    """Run rounds until the worker has what it asked for, no more can start, ROUNDS have run, or _LONG_S has passed."""
    hurry = False
    until = monotonic() + _LONG_S
    for _ in range(ROUNDS):
        played = run_one(asked, hurry)
        hurry = played.put_aside
        asked = asked.after(played.started)
        if asked.room <= 0:
            return ClaimResult(None, played.is_near)
        if not played.wants_more:
            return ClaimResult.to_its_end(played)
        if monotonic() > until:
            break
    return ClaimResult(0.0, played.is_near)


def run_round(claim_tx: ClaimTx, asked: ClaimRequest, turns: ClaimMemory, *, hurry: bool) -> RoundResult:
    """Run one round of a claim: snapshot, pick, admit, apply.

    `hurry`: the last round set aside most of the jobs that it picked, so pick more. `ground.apply` is the last write of
    the round; `turns` is updated after it. The caller ends the dropped jobs.
    """
    snapshot = claim_tx.snapshot()
    turns.is_guarded = snapshot.is_guarded
    heads = _left_to_others(
        [head for head in snapshot.heads if _is_servable(head, asked)], claim_tx, turns, snapshot.now_us
    )
    due = [head for head in heads if head.from_us <= snapshot.now_us]
    next_us = _earliest(snapshot.opens_at_us, *(head.from_us for head in heads if head.from_us > snapshot.now_us))
    # Behind a place that is left to another worker there may be jobs whose grace ends later.
    if any(head.grace_us for head in due):
        next_us = _earliest(next_us, snapshot.now_us + GRACE_US)
    masses = turns.masses.setdefault(asked.tasks, BulkPark())
    scope = _scope(asked, turns.early, masses, due, hurry=hurry)
    pick_requests = _wishes(due, snapshot, asked, turns, scope)
    search = turns.search_for(asked, len(due))
    if search is None:
        candidates = _pick(claim_tx, pick_requests, scope.room)
    else:
        candidates = _search(search, claim_tx, pick_requests, scope.room, snapshot.now_us, asked)
        next_us = _earliest(next_us, search.next_us(snapshot.now_us))
    if masses:
        scouted = masses.look_behind(claim_tx, snapshot.now_us)
        # A cursor may pick a job that the plain pick has picked, too.
        candidates = list({one.job_id: one for one in (*candidates, *scouted)}.values())
    candidates = _in_turn(candidates, pick_requests.order)
    if not candidates:
        turns.masses.pop(asked.tasks)
    is_near = asked.reach.search is not None and (search is None or search.is_near)
    lags = search is not None and search.lags
    if not candidates and not snapshot.empty:
        if due:  # Due jobs there are of other tasks; behind them may be jobs that are not due yet.
            next_us = _earliest(next_us, claim_tx.next_due_us([head.place for head in due]))
        return RoundResult(wants_more=lags, next_us=next_us, now_us=snapshot.now_us, is_near=is_near)
    plan, dropped = plan_round(claim_tx, snapshot, asked, candidates)
    plan.masses = masses.to_move(plan)
    masses.moved(plan.masses, claim_tx.apply(plan), {head.place: head.grace_us for head in due}, snapshot.now_us)
    started = [candidate for candidate, _ in plan.starts]
    if search is not None:
        search.took({*(one.job_id for one in (*started, *plan.put_aside)), *dropped})
    _took_turns(turns, started, snapshot.weights, asked.reach.slots + asked.reach.prefetch)
    aside = len(plan.put_aside) + len(dropped)
    # A round that changed nothing ends the claim: the next round would find the same.
    did = bool(started or aside or plan.opens or plan.emptied)
    # Jobs that could start are left, and the worker has no free slot for them.
    is_full = len(candidates) > len(started) + aside and asked.after(started).reach.slots <= 0
    _learn(turns, asked, started, is_full=is_full)
    puts_aside = 2 * aside > len(candidates)
    wants_more = (did or lags) and not is_full
    return RoundResult(started, dropped, wants_more, next_us, snapshot.now_us, plan.full, puts_aside, is_near)


class _PickBounds(NamedTuple):
    """How many jobs a round picks in all (`room`), and how many limited jobs from one place (`limited`).

    `evenly`: the jobs of a tenant are picked from all its places in equal parts, so that jobs of one lane that will
    only be parked do not use up the whole round.
    """

    room: int
    limited: int
    evenly: bool = False


def _scope(asked: ClaimRequest, early: int, masses: BulkPark, due: Sequence[LaneHead], *, hurry: bool) -> _PickBounds:
    """Return how many jobs to pick: as many as the worker needs, or more while many jobs are being parked."""
    if not hurry and not masses:
        room = _room_to_pick(due, asked)
        return _PickBounds(room, min(room, max(0, asked.reach.slots + 2 * asked.reach.prefetch) + early))
    room = 2 * MANY if masses else max(asked.room, _MOST)
    return _PickBounds(room, room, evenly=True)


def _room_to_pick(due: Sequence[LaneHead], asked: ClaimRequest) -> int:
    """Return how many jobs to pick: as many as are asked for, unless jobs are prefetched and there are limits.

    Half of the limited jobs that could start is left to other workers (see admission.py). Where all due jobs are held,
    the heads of their lanes tell how many could start, and picking more would hide them from other workers. Where none
    is held, the prefetch is picked in addition.
    """
    slots, prefetch = max(0, asked.reach.slots), asked.reach.prefetch
    if not prefetch or not any(":" in head.lane for head in due):
        return asked.room
    held = sum(head.lane.startswith(":") for head in due)
    if held == 0:
        return asked.room + prefetch
    return asked.room if held < len(due) else min(asked.room, slots + max(0, held - slots) // 2)


def _learn(turns: ClaimMemory, asked: ClaimRequest, started: Sequence[Candidate], *, is_full: bool) -> None:
    """Adapt how many limited jobs are picked beyond the free slots.

    The number doubles while all of them start, and is reset to what started once the worker is full.
    """
    early = sum(one.job_limits is not None for one in started) - max(0, asked.reach.slots)
    if is_full:
        turns.early = max(_EARLY, early)
    elif early >= turns.early:
        turns.early = min(_MOST, 2 * turns.early)


# The position of a held job in the queue table: its lane, priority, run_at and id.
HeldPlace = tuple[str, int, int, str]
_FIRST: HeldPlace = (":", -1, 0, "00000000-0000-0000-0000-000000000000")


class HeldPage(NamedTuple):
    """A page of held jobs with what gates see of them, and the position of the last; None: there are no more."""

    jobs: Sequence[tuple[JobId, JobFacts]]
    last: HeldPlace | None

    @classmethod
    def of(cls, rows: Sequence[Any]) -> HeldPage:
        """Build a page from the rows of the statement `held_page`."""
        jobs = []
        for id, _, _, _, task, queue, collection, labels, text in rows:
            job_limits = row_codec.decode_job_limits(text) or JobLimits()
            facts = JobFacts(
                task, queue, job_limits.tenant, collection, row_codec.decode_labels(labels), job_limits.diverted
            )
            jobs.append((JobId(id), facts))
        return cls(jobs, (rows[-1][1], rows[-1][2], rows[-1][3], rows[-1][0]) if len(rows) == PAGE else None)


def sweep(gate: Gate, read: Callable[[HeldPlace], HeldPage], drop: Callable[[Sequence[JobId]], None]) -> None:
    """Drop all held jobs that a new drop gate matches, page by page, because claims do not read held jobs."""
    last: HeldPlace | None = _FIRST
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
    """Return what would hold a due job if a new worker claimed all due jobs now; None if nothing would. Apply nothing.

    `held_by` is the limit that holds the job now. The forecast is one round that picks up to _FORESEEN jobs, the first
    in order; a job beyond these is reported as held by `held_by`, if that is given.
    """
    snapshot = claim_tx.snapshot()
    slows = any(gate.kind == "slow" for gate in snapshot.gates)
    due = [head for head in snapshot.heads if head.run_at_us <= snapshot.now_us and (slows or ":" in head.lane)]
    asked = ClaimRequest(queues, (), _FORESEEN, LimitedCapacity(_FORESEEN, _all_that_is_needed(due)))
    pick_requests = _wishes(due, snapshot, asked, ClaimMemory(), _PickBounds(_FORESEEN, _FORESEEN))
    picked = _in_turn(
        claim_tx.pick([pick_request._replace(most=pick_request.of_group) for pick_request in pick_requests.in_turn]),
        pick_requests.order,
    )
    sent = [_diverted(candidate, snapshot) for candidate in picked]
    # A diverted job applies again in the next round, after the other jobs.
    pairs = list(zip(picked, sent, strict=True))
    candidates = [one for one, after in pairs if one is after] + [after for one, after in pairs if one is not after]
    plan, dropped = plan_round(claim_tx, snapshot, asked, candidates)
    for candidate, lane in plan.parks:
        if candidate.job_id == job_id and (held := read_lane(lane).held_by) is not None:
            return ClaimForecast(held, plan.opens.get(held))
    gone = {*dropped, *(one.job_id for one, _ in plan.starts)}
    return None if held_by is None or job_id in gone else ClaimForecast(held_by, plan.opens.get(held_by))


def _diverted(candidate: Candidate, snapshot: Snapshot) -> Candidate:
    """Return the job as it applies again after a divert gate has moved it; the same job if no gate does."""
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


# -- what to pick


def _is_servable(head: LaneHead, asked: ClaimRequest) -> bool:
    """Return whether the worker could run jobs of this lane: it has the resources, and a slot if the jobs are held."""
    lane = read_lane(head.lane)
    if lane.held_by is not None and asked.reach.slots + asked.reach.prefetch <= 0:
        return False  # Held jobs are not claimed ahead of free slots that short jobs will use.
    return not lane.needs or taken_of(asked.reach.offer, needs_of(lane.needs)) is not None


def _left_to_others(heads: list[LaneHead], claim_tx: ClaimTx, turns: ClaimMemory, now_us: int) -> list[LaneHead]:
    """Give lanes of sticky jobs that belong to another worker a grace time, in which only that worker takes them.

    Held jobs get none: once their limit opens, the first worker that claims takes them.
    """
    lanes = [read_lane(head.lane) for head in heads]
    if all(lane.group is None for lane in lanes):
        return heads
    if turns.homes_at_us is None or now_us - turns.homes_at_us > _KNOWN_US:
        turns.homes, turns.homes_at_us = ClaimingWorkers(claim_tx.neighbours()), now_us
    return [
        head._replace(grace_us=GRACE_US) if _is_anothers(lane, claim_tx.worker, turns.homes) else head
        for head, lane in zip(heads, lanes, strict=True)
    ]


def _is_anothers(lane: Lane, worker: str, homes: ClaimingWorkers) -> bool:
    """Return whether jobs of this lane stick to another live worker."""
    if lane.group is None or lane.held_by is not None:
        return False
    return homes.is_anothers(worker, lane.group, lane.queue, lane.needs)


class _PlacePick(NamedTuple):
    """The jobs of one place that are picked together; `order` ranks it among the places of its tenant.

    In a round by age a place is split in two: its aged jobs, which come first, and the others, which go by urgency.
    """

    order: tuple[Any, ...]
    head: LaneHead
    grace_us: int
    after_us: int


class _PickRequests(NamedTuple):
    """The jobs to pick from tenants whose turn it is, and a function for other tenants if these do not fill the room.

    `order` names the tenant of each turn, in order.
    """

    in_turn: list[PickRequest]
    others: Callable[[], list[PickRequest]] = list
    order: Sequence[str] = ()


def _pick(claim_tx: ClaimTx, pick_requests: _PickRequests, room: int) -> list[Candidate]:
    """Pick jobs of the tenants whose turn it is; fill what is left from the other tenants."""
    picked = claim_tx.pick(pick_requests.in_turn) if pick_requests.in_turn else []
    if len(picked) < room and (others := pick_requests.others()):
        picked += claim_tx.pick(others)[: room - len(picked)]
    return picked


def _search(
    search: SparseScan, claim_tx: ClaimTx, pick_requests: _PickRequests, room: int, now_us: int, asked: ClaimRequest
) -> list[Candidate]:
    """Pick jobs with the sparse scan, from all tenants at once."""
    wanted = [
        pick_request for pick_request in (*pick_requests.in_turn, *pick_requests.others()) if pick_request.most > 0
    ]
    return search.pick(claim_tx, wanted, room, now_us, ends_only=asked.reach.search == "ends")


def _wishes(
    due: Sequence[LaneHead], snapshot: Snapshot, asked: ClaimRequest, turns: ClaimMemory, scope: _PickBounds
) -> _PickRequests:
    """Return what to pick from each place: tenants by fair turns, and the places of a tenant by urgency.

    Urgency is the order of the queues, the priority, how well the needs fit the worker, whether the jobs stick to
    another worker, and run_at. In every other round, jobs older than the aging limit come first, so that none waits
    forever.
    """
    if not due:
        return _PickRequests([])
    ranks = {queue: rank for rank, queue in enumerate(asked.queues)}
    needs = {read_lane(head.lane).needs for head in due}
    fits = {text: fit for fit, text in enumerate(servable(asked.reach.offer, needs))} if needs != {""} else {"": 0}
    places: dict[str, list[_PlacePick]] = {}
    turns.by_age = not turns.by_age
    aged_us = aged_before_us(snapshot.now_us)
    for head in due:
        lane = read_lane(head.lane)
        parts = places.setdefault(lane.tenant, [])
        is_anothers = head.grace_us > 0 and snapshot.now_us - head.run_at_us < PATIENCE_US
        urgency = (ranks[lane.queue], head.priority, fits[lane.needs], is_anothers, head.run_at_us)
        is_aged = turns.by_age and head.run_at_us <= aged_us
        # The aged jobs of the place come first, by age; the jobs behind them go by urgency.
        if is_aged:
            parts.append(_PlacePick((False, head.run_at_us), head, max(head.grace_us, row_codec.duration_us(AGE)), 0))
        parts.append(_PlacePick((True, *urgency), head, head.grace_us, aged_us if is_aged else 0))
    line = [
        TenantTurns(name, scope.room, snapshot.weights.get(name, 1), turns.positions.get(name, 0)) for name in places
    ]
    taken = take_turns(line, scope.room, turns.clock)
    counts = taken.counts

    def pick_requests(counts: Mapping[str, int], first: int) -> list[PickRequest]:
        shares = {name: -(-count // len(places[name])) if scope.evenly else count for name, count in counts.items()}
        return [
            PickRequest(group, count, *head.place, min(shares[name], _most(head, scope.limited)), grace_us, after_us)
            for group, (name, count) in enumerate(counts.items(), first)
            for _, head, grace_us, after_us in sorted(places[name], key=lambda part: part.order)
        ]

    def others() -> list[PickRequest]:
        # One job of each tenant, in the order of their positions in fair turns.
        behind = sorted((tenant.position, tenant.name) for tenant in line if tenant.name not in counts)
        return pick_requests({name: 1 for _, name in behind}, len(counts))

    return _PickRequests(pick_requests(counts, 0), others, taken.order)


def _in_turn(candidates: list[Candidate], order: Sequence[str]) -> list[Candidate]:
    """Sort the picked jobs into the order of turns, because the worker may start only the first of them.

    Jobs of one tenant keep their order. Jobs beyond the planned turns come last.
    """
    tenants = [read_lane(one.lane).tenant for one in candidates]
    if len(set(tenants)) < 2:
        return candidates
    waiting: dict[str, deque[Candidate]] = {}
    for tenant, candidate in zip(tenants, candidates, strict=True):
        waiting.setdefault(tenant, deque()).append(candidate)
    in_turn = [waiting[tenant].popleft() for tenant in order if waiting.get(tenant)]
    taken = {one.job_id for one in in_turn}
    return [*in_turn, *(one for one in candidates if one.job_id not in taken)]


def _most(head: LaneHead, limited: int) -> int:
    """Return how many jobs of a place could start at most: one behind a breaker, else what the limit permits."""
    if isinstance(head.rule, Breaker):
        return 1
    most = _MOST if head.rule is None else head.rule.heaviest
    return min(most, limited) if ":" in head.lane else most


def _took_turns(turns: ClaimMemory, started: Sequence[Candidate], weights: Mapping[str, int], slots: int) -> None:
    """Charge tenants for the turns that their started jobs took.

    Jobs started ahead of free slots are not charged. They never belong to a tenant: counting them would advance the
    clock, and tenants would lose the turns that they are owed.
    """
    counts: Counter[str] = Counter()
    for lane, count in Counter(candidate.lane for candidate in started).items():
        counts[read_lane(lane).tenant] += count
    counts[_NO_TENANT] -= max(0, len(started) - max(0, slots))
    tenants = [
        TenantTurns(name, count, weights.get(name, 1), turns.positions.get(name, 0)) for name, count in counts.items()
    ]
    taken = take_turns(tenants, len(started), turns.clock)
    turns.clock = taken.clock
    turns.positions = {name: at for name, at in (turns.positions | taken.positions).items() if at > turns.clock}


def _earliest(*instants: int | None) -> int | None:
    """Return the earliest of these instants, without the Nones; None if there is none."""
    return min((one for one in instants if one is not None), default=None)
