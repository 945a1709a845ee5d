"""The second step of a round: choose the candidates, that is from which places jobs are picked, how many, in what
order.

A place is a lane and a priority (see types.py). Tenants take turns; the places of a tenant are ordered by urgency. A
sparse scan replaces the pick where due jobs are rare; scan cursors add jobs from behind a bulk park. The choice only
orders jobs; admission.py decides which of them start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tickwork.core.fairness import AGE, TenantTurns, aged_before_us, take_turns
from tickwork.core.limits.breaker import Breaker
from tickwork.core.limits.lanes import read_lane
from tickwork.core.placement import PATIENCE_US, servable
from tickwork.store.claim.bulk_park import MANY, BulkPark
from tickwork.store.claim.memory import PLACE_MOST, ClaimMemory
from tickwork.store.claim.sparse_scan import SparseScan
from tickwork.store.claim.types import Candidate, ClaimRequest, ClaimTx, LaneHead, PickRequest, Snapshot
from tickwork.store.rows.instants import duration_us


class Choice(NamedTuple):
    """The candidates of a round in the order in which they are admitted, and the scans that found some of them."""

    candidates: list[Candidate]
    bulk_park: BulkPark
    sparse_scan: SparseScan | None


class PickBounds(NamedTuple):
    """How many jobs a round picks in all (`total`), and how many limited jobs from one place (`limited`).

    `evenly`: the jobs of a tenant are picked from all its places in equal parts, so that jobs of one lane that will
    only be parked do not use up the whole round.
    """

    total: int
    limited: int
    evenly: bool = False


class PickPlan(NamedTuple):
    """The requests for jobs of the tenants whose turn it is, and a function that returns requests for the other
    tenants.

    The others are used if the first are too few. `order` names the tenant of each turn, in order.
    """

    in_turn: list[PickRequest]
    others: Callable[[], list[PickRequest]] = list
    order: Sequence[str] = ()


def choose(
    claim_tx: ClaimTx,
    request: ClaimRequest,
    memory: ClaimMemory,
    snapshot: Snapshot,
    due: Sequence[LaneHead],
    *,
    after_parking: bool,
) -> Choice:
    """Pick due jobs and return them in the order of turns, each once.

    Invariant: on PostgreSQL the rows of all candidates are locked, so what the round decides about them stays true.
    """
    bulk_park = memory.bulk_parks.setdefault(request.tasks, BulkPark())
    bounds = _bounds(request, memory.pick_ahead, bulk_park, due, after_parking=after_parking)
    plan = plan_picks(due, snapshot, request, memory, bounds)
    sparse_scan = memory.sparse_scan_for(request, len(due))
    if sparse_scan is None:
        candidates = _pick(claim_tx, plan, bounds.total)
    else:
        wanted = [one for one in (*plan.in_turn, *plan.others()) if one.most > 0]
        ends_only = request.capacity.search == "ends"
        candidates = sparse_scan.pick(claim_tx, wanted, bounds.total, snapshot.now_us, ends_only=ends_only)
    if bulk_park:
        behind = bulk_park.look_behind(claim_tx, snapshot.now_us)
        # A cursor may pick a job that the plain pick has picked, too.
        candidates = list({one.job_id: one for one in (*candidates, *behind)}.values())
    candidates = in_turn(candidates, plan.order)
    if not candidates:
        memory.bulk_parks.pop(request.tasks)
    return Choice(candidates, bulk_park, sparse_scan)


def _bounds(
    request: ClaimRequest, pick_ahead: int, bulk_park: BulkPark, due: Sequence[LaneHead], *, after_parking: bool
) -> PickBounds:
    """Return the bounds of the pick: what the worker can take, or more while many jobs are being parked."""
    if bulk_park:
        return PickBounds(2 * MANY, 2 * MANY, evenly=True)
    if after_parking:
        total = max(request.most, PLACE_MOST)
        return PickBounds(total, total, evenly=True)
    total = _total_to_pick(request, due)
    return PickBounds(total, min(total, max(0, request.capacity.slots + 2 * request.capacity.prefetch) + pick_ahead))


def _total_to_pick(request: ClaimRequest, due: Sequence[LaneHead]) -> int:
    """Return how many jobs to pick in all: usually as many as are requested.

    With a prefetch and limits, half of the limited jobs that could start is left to other workers (see admission.py).
    Where all due jobs are held, the number of their lanes tells how many could start, and to pick more would hide them
    from other workers. Where none is held, the prefetch is picked in addition.
    """
    slots, prefetch = max(0, request.capacity.slots), request.capacity.prefetch
    if not prefetch or not any(":" in head.lane for head in due):
        return request.most
    held = sum(head.lane.startswith(":") for head in due)
    if held == 0:
        return request.most + prefetch
    return request.most if held < len(due) else min(request.most, slots + max(0, held - slots) // 2)


def _pick(claim_tx: ClaimTx, plan: PickPlan, total: int) -> list[Candidate]:
    """Pick up to `total` jobs of the tenants whose turn it is.

    If these are too few, pick the rest from the other tenants.
    """
    picked = claim_tx.pick(plan.in_turn) if plan.in_turn else []
    if len(picked) < total and (others := plan.others()):
        picked += claim_tx.pick(others)[: total - len(picked)]
    return picked


class _PlacePick(NamedTuple):
    """Jobs of one place that are picked together; `order` ranks them among the picks of the same tenant.

    In every other round a place is split in two: its jobs older than the aging limit, which come first, and the others.
    """

    order: tuple[Any, ...]
    head: LaneHead
    grace_us: int
    after_us: int


def plan_picks(
    due: Sequence[LaneHead], snapshot: Snapshot, request: ClaimRequest, memory: ClaimMemory, bounds: PickBounds
) -> PickPlan:
    """Return how many jobs to pick from each place: tenants by fair turns, and the places of a tenant by urgency.

    In every other round, jobs older than the aging limit come first, so that none waits forever.
    """
    if not due:
        return PickPlan([])
    memory.by_age = not memory.by_age
    places = _places_of_tenants(due, snapshot, request, by_age=memory.by_age)
    tenants = [
        TenantTurns(name, bounds.total, snapshot.weights.get(name, 1), memory.positions.get(name, 0)) for name in places
    ]
    taken = take_turns(tenants, bounds.total, memory.clock)

    def others() -> list[PickRequest]:
        # One job of each tenant, in the order of their positions in fair turns.
        behind = sorted((one.position, one.name) for one in tenants if one.name not in taken.counts)
        return _pick_requests(places, {name: 1 for _, name in behind}, bounds, len(taken.counts))

    return PickPlan(_pick_requests(places, taken.counts, bounds, 0), others, taken.order)


def _places_of_tenants(
    due: Sequence[LaneHead], snapshot: Snapshot, request: ClaimRequest, *, by_age: bool
) -> dict[str, list[_PlacePick]]:
    """Return the places of each tenant with their order of urgency.

    Urgency is the order of the queues, the priority, how well the needs fit the worker, whether the jobs stick to
    another worker, and run_at.
    """
    ranks = {queue: rank for rank, queue in enumerate(request.queues)}
    needs = {read_lane(head.lane).needs for head in due}
    fits = {text: fit for fit, text in enumerate(servable(request.capacity.offer, needs))} if needs != {""} else {"": 0}
    aged_us = aged_before_us(snapshot.now_us)
    places: dict[str, list[_PlacePick]] = {}
    for head in due:
        lane = read_lane(head.lane)
        parts = places.setdefault(lane.tenant, [])
        is_anothers = head.grace_us > 0 and snapshot.now_us - head.run_at_us < PATIENCE_US
        urgency = (ranks[lane.queue], head.priority, fits[lane.needs], is_anothers, head.run_at_us)
        is_aged = by_age and head.run_at_us <= aged_us
        # The aged jobs of the place come first, by age; the jobs behind them go by urgency.
        if is_aged:
            parts.append(_PlacePick((False, head.run_at_us), head, max(head.grace_us, duration_us(AGE)), 0))
        parts.append(_PlacePick((True, *urgency), head, head.grace_us, aged_us if is_aged else 0))
    return places


def _pick_requests(
    places: Mapping[str, list[_PlacePick]], counts: Mapping[str, int], bounds: PickBounds, first_group: int
) -> list[PickRequest]:
    """Return the requests to pick `counts` jobs of each tenant. The requests of one tenant are a group."""
    shares = {name: -(-count // len(places[name])) if bounds.evenly else count for name, count in counts.items()}
    return [
        PickRequest(group, count, *head.place, min(shares[name], _most(head, bounds.limited)), grace_us, after_us)
        for group, (name, count) in enumerate(counts.items(), first_group)
        for _, head, grace_us, after_us in sorted(places[name], key=lambda part: part.order)
    ]


def _most(head: LaneHead, limited: int) -> int:
    """Return how many jobs of a place could start: one behind a breaker, else as many as the limit permits."""
    if isinstance(head.rule, Breaker):
        return 1
    most = PLACE_MOST if head.rule is None else head.rule.heaviest
    return min(most, limited) if ":" in head.lane else most


def in_turn(candidates: list[Candidate], order: Sequence[str]) -> list[Candidate]:
    """Sort the picked jobs into the order of turns, because the worker may start only the first of them.

    Jobs of one tenant keep their order. Jobs beyond the planned turns come last.
    """
    tenants = [read_lane(one.lane).tenant for one in candidates]
    if len(set(tenants)) < 2:
        return candidates
    waiting: dict[str, deque[Candidate]] = {}
    for tenant, candidate in zip(tenants, candidates, strict=True):
        waiting.setdefault(tenant, deque()).append(candidate)
    sorted_ones = [waiting[tenant].popleft() for tenant in order if waiting.get(tenant)]
    taken = {one.job_id for one in sorted_ones}
    return [*sorted_ones, *(one for one in candidates if one.job_id not in taken)]
