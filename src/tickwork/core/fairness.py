"""Fairness of claims: turns between tenants by weight (stride scheduling), and protection from starvation.

Each tenant has a *position*. The tenant with the lowest position takes the next turn and advances by a stride, which
is shorter for a larger weight. Over any time in which two tenants wait, their shares follow their weights, to within
one job. The *clock* of the turns is the position of the last turn. A tenant that returns after a pause starts there,
so no tenant saves up turns while it has nothing to do, and a tenant with 100,000 jobs is served no sooner or later
than a tenant with one.

Every due job starts in bounded time, and urgent jobs keep at least half of the claims. A job that has been due for
longer than AGE is *aged*. While a worker finds aged jobs, every second claim takes aged jobs before all others: first
those of the priority whose turn it is, then those of the next priorities, each in the order in which they were due. A
job therefore waits for AGE, and then for the jobs of its own priority that were due before it. Each priority gets at
least a twentieth of the claims (half of them over ten priorities), whatever load the others have. If no job is aged,
the only cost is one claim per second that checks for aged jobs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from heapq import heapify, heappop, heapreplace

from tickwork.core.job import LOWEST_PRIORITY
from tickwork.core.option_parsing import read_whole, to_us

HEAVIEST = 100
# Divisible by 1 to 16: turns of these weights are exact, those of other weights to one in 7,000. 64 bits last for 10^13
# turns.
_STRIDE = 720_720


@dataclass(frozen=True, slots=True)
class TenantTurns:
    """The state of a tenant: its weight, how many of its jobs wait, and its position (0: it has none yet)."""

    name: str
    waiting: int
    weight: int = 1
    position: int = 0


@dataclass(frozen=True, slots=True)
class TurnPlan:
    """The number of turns of each tenant, the new positions of the tenants that took turns, and the new clock.

    A position that is not beyond the clock has no further effect, and its row can be deleted. `order` names the
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
    """Give `count` turns to the tenants with waiting jobs, or as many as there are jobs."""
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
    """Give all turns to the only tenant that waits."""
    taken, stride = min(count, tenant.waiting), _STRIDE // tenant.weight
    if not taken:
        return TurnPlan({}, {}, position)
    return TurnPlan({name: taken}, {name: position + taken * stride}, position + (taken - 1) * stride, (name,) * taken)


AGE = timedelta(minutes=5)
LOOK_S = 1.0
_PRIORITIES = LOWEST_PRIORITY + 1


def aged_before_us(now_us: int) -> int:
    """Return the instant before which a job must have been due to be aged now."""
    return now_us - to_us(AGE)


class StarvationGuard:
    """The state of ageing that a worker keeps between its claims."""

    def __init__(self) -> None:
        self._look_at = 0.0
        self._was_last = False
        self._priority = LOWEST_PRIORITY

    def turn(self, now: float) -> list[int] | None:
        """Return the priorities in the order in which this claim takes aged jobs; None if it claims by urgency."""
        if self._was_last or now < self._look_at:
            self._was_last = False
            return None
        return [(self._priority - step) % _PRIORITIES for step in range(_PRIORITIES)]

    def took(self, first: int | None, now: float) -> None:
        """Record what a claim of aged jobs found: the priority of its first job; None if there were no aged jobs."""
        self._was_last = True
        if first is None:
            self._look_at = now + LOOK_S
        else:
            self._priority = (first - 1) % _PRIORITIES
