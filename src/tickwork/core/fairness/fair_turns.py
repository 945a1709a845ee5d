"""Fair turns between tenants, by weight (stride scheduling).

Each tenant stands at a *position*, and whoever stands furthest back takes the next turn and moves on by a stride, which
is shorter for a larger weight. So over any time in which two tenants wait, what they get is as their weights, to within
one job. The *clock* of the turns is the position of the last turn: a tenant that comes back from a pause starts there,
so nobody saves up turns while there is nothing to do, and one with 100,000 jobs is as far away as one with a single
job.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from tickwork.core.option_parsing import read_whole

HEAVIEST = 100
# Divisible by 1 to 16: their turns are exact, those of other weights to one in 7,000. 64 bits last for 10^13 turns.
_STRIDE = 720_720


@dataclass(frozen=True, slots=True)
class TenantTurns:
    """How a tenant stands: its weight, how many of its jobs wait, and its position (0: it was not here before)."""

    name: str
    waiting: int
    weight: int = 1
    position: int = 0


@dataclass(frozen=True, slots=True)
class TurnPlan:
    """How many jobs of each tenant are next, the new positions of those who took a turn, and the new clock.

    A position that is not beyond the clock says nothing any more, and its row can be forgotten. `order` names the
    tenant of each turn.
    """

    counts: dict[str, int]
    positions: dict[str, int]
    clock: int
    order: tuple[str, ...] = ()


def read_weight(value: object) -> int:
    """Return the weight of a tenant after checking it. Raises InvalidOption."""
    return read_whole("the weight of a tenant", value, 1, HEAVIEST)


def take_turns(tenants: Iterable[TenantTurns], count: int, clock: int = 0) -> TurnPlan:
    """Give `count` turns to the tenants that wait, or as many as there are jobs."""
    line = [(max(tenant.position, clock), tenant.name, tenant) for tenant in tenants if tenant.waiting > 0]
    if len(line) == 1:
        return _alone(*line[0], count)
    heapify(line)
    counts: dict[str, int] = {}
    positions: dict[str, int] = {}
    order: list[str] = []
    for _ in range(count):
        if not line:
            break
        clock, name, tenant = line[0]
        order.append(name)
        counts[name] = counts.get(name, 0) + 1
        positions[name] = clock + _STRIDE // tenant.weight
        if counts[name] < tenant.waiting:
            heapreplace(line, (positions[name], name, tenant))
        else:
            heappop(line)
    return TurnPlan(counts, positions, clock, tuple(order))


def _alone(position: int, name: str, tenant: TenantTurns, count: int) -> TurnPlan:
    """All turns go to the only one who waits."""
    taken, stride = min(count, tenant.waiting), _STRIDE // tenant.weight
    if not taken:
        return TurnPlan({}, {}, position)
    return TurnPlan({name: taken}, {name: position + taken * stride}, position + (taken - 1) * stride, (name,) * taken)
