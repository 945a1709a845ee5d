"""Decide which candidates of a claim may start now, and which limit holds each of the others.

The claim has locked the limit states that the candidates use and read the live leases under each key, so an admission
stays valid until the transaction commits. A refusal may become stale, because a finish takes no lock. A candidate takes
all of its limit uses or none of them, so no job waits while it holds part of its limits. A refused candidate closes the
limit that it waits for, also for candidates behind it: light jobs cannot starve a heavy one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tickwork.core.ids import JobId
from tickwork.core.limits import rate_counters
from tickwork.core.limits.job_limits import LimitKey, LimitUse
from tickwork.core.limits.limits import Bound, Concurrency, Rate


class AdmitRequest(NamedTuple):
    """A candidate of a claim: a job that is next in the order of its queue."""

    id: JobId
    uses: tuple[LimitUse, ...]
    run_at_us: int = 0


class LimitSnapshot(NamedTuple):
    """The state of a limit for one key, read under its lock.

    `live` is the weight held by live leases, and `arrival_us` the stored arrival of a rate. For a sequence, `first`
    is the (run_at, id) of the first waiting job of the key, parked or not; None if the claim saw all of them. `head`
    is a job that has started, waits for its next attempt, and goes before all others.
    """

    bound: Bound
    live: int = 0
    arrival_us: int = 0
    first: tuple[int, JobId] | None = None
    head: JobId | None = None

    def room(self, now_us: int) -> int:
        """Return how much weight may start now, which is also how much parked weight to return to the queue."""
        if isinstance(self.bound, Concurrency):
            return max(0, self.bound.capacity - self.live)
        return rate_counters.room(self.arrival_us, self.bound.interval_us, self.bound.burst, now_us)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The limit key that holds a candidate.

    If `opens_at_us` is None, it opens when a lease ends. `never`: the candidate is too heavy and can start only after
    the limit is raised.
    """

    id: JobId
    held_by: LimitKey
    opens_at_us: int | None
    never: bool = False


@dataclass(frozen=True, slots=True)
class Admission:
    """The jobs that may start, in order, the refused jobs, and the arrivals of rates to store."""

    admitted: tuple[JobId, ...]
    refused: tuple[Refusal, ...]
    arrivals: dict[LimitKey, int]


def admit(
    candidates: Sequence[AdmitRequest],
    limit_snapshots: Mapping[LimitKey, LimitSnapshot],
    now_us: int,
    takes: Callable[[AdmitRequest], bool] = lambda candidate: True,
) -> Admission:
    """Decide on candidates in their order. A limit that is not in `limit_snapshots` was removed, and holds no job.

    `takes` decides whether a candidate that may start is wanted; if not, it is neither admitted nor refused.
    """
    keepers = {name: _LimitAdmission(name, limit_snapshot, now_us) for name, limit_snapshot in limit_snapshots.items()}
    wants = [(candidate, _wanted(candidate.uses, keepers)) for candidate in candidates]
    if any(keeper.is_in_order for keeper in keepers.values()):
        _line_up(wants)
    admitted: list[JobId] = []
    refused: list[Refusal] = []
    for candidate, wanted in wants:
        holds = [(hold, keeper) for keeper, weight in wanted if (hold := keeper.hold(candidate, weight))]
        if holds:
            refusal, keeper = max(holds, key=lambda found: _lasts(found[0]))
            keeper.close(refusal, candidate)
            refused.append(refusal)
            continue
        if not takes(candidate):
            continue
        admitted.append(candidate.id)
        for keeper, weight in wanted:
            keeper.take(weight)
    arrivals = {keeper.name: keeper.arrival_us for keeper in keepers.values() if keeper.moved}
    return Admission(tuple(admitted), tuple(refused), arrivals)


class _LimitAdmission:
    """The state of a limit key while candidates are admitted."""

    __slots__ = (
        "_bound",
        "_closed_until_us",
        "_interval_us",
        "_is_closed",
        "_live",
        "_now_us",
        "arrival_us",
        "first",
        "head",
        "is_in_order",
        "moved",
        "name",
    )

    def __init__(self, name: LimitKey, limit_snapshot: LimitSnapshot, now_us: int) -> None:
        self.name = name
        self.first = limit_snapshot.first
        self.head = limit_snapshot.head
        self.arrival_us = limit_snapshot.arrival_us
        self._bound = limit_snapshot.bound
        self.is_in_order = isinstance(limit_snapshot.bound, Concurrency) and limit_snapshot.bound.in_order
        self._interval_us = 0
        if isinstance(limit_snapshot.bound, Rate):
            self._interval_us = limit_snapshot.bound.interval_us
            self.arrival_us = rate_counters.settled(
                self.arrival_us, self._interval_us, limit_snapshot.bound.burst, now_us
            )
        self.moved = self.arrival_us != limit_snapshot.arrival_us
        self._live = limit_snapshot.live
        self._now_us = now_us
        self._is_closed = False
        self._closed_until_us = now_us

    def hold(self, candidate: AdmitRequest, weight: int) -> Refusal | None:
        """Return the refusal of a candidate under this limit; None if nothing holds it."""
        if weight > self._bound.heaviest:
            return Refusal(candidate.id, self.name, None, never=True)
        if isinstance(self._bound, Concurrency):
            opens_at_us = None
            fits = self._live + weight <= self._bound.capacity and self._is_first(candidate)
        else:
            opens_at_us = rate_counters.opens_at_us(self.arrival_us, weight, self._interval_us, self._bound.burst)
            opens_at_us = max(opens_at_us, self._closed_until_us)
            fits = opens_at_us <= self._now_us
        return None if fits and not self._is_closed else Refusal(candidate.id, self.name, opens_at_us)

    def close(self, refusal: Refusal, candidate: AdmitRequest) -> None:
        """Make a refused candidate block later ones, unless it is out of sequence or too heavy ever to start."""
        if not refusal.never and self._is_first(candidate):
            self._is_closed = True
            self._closed_until_us = max(refusal.opens_at_us or 0, self._closed_until_us)

    def take(self, weight: int) -> None:
        if isinstance(self._bound, Concurrency):
            self._live += weight
        else:
            self.arrival_us = rate_counters.arrival_after(self.arrival_us, weight, self._interval_us, self._now_us)
            self.moved = True

    def _is_first(self, candidate: AdmitRequest) -> bool:
        if self.head is not None:
            return candidate.id == self.head
        return self.first is None or (candidate.run_at_us, candidate.id) <= self.first


_Wanted = list[tuple[_LimitAdmission, int]]


def _wanted(uses: Sequence[LimitUse], keepers: Mapping[LimitKey, _LimitAdmission]) -> _Wanted:
    """Return each limit once, with the total weight that a candidate uses of it."""
    if len(uses) == 1:
        keeper = keepers.get(uses[0].limit_key)
        return [] if keeper is None else [(keeper, uses[0].weight)]
    weights: dict[LimitKey, int] = {}
    for use in uses:
        weights[use.limit_key] = weights.get(use.limit_key, 0) + use.weight
    return [(keepers[name], weight) for name, weight in weights.items() if name in keepers]


def _line_up(wants: Iterable[tuple[AdmitRequest, _Wanted]]) -> None:
    """Set the first job of each sequence to the earliest by (run_at, id), whatever the priorities of candidates."""
    for candidate, wanted in wants:
        for keeper, _ in wanted:
            if keeper.is_in_order:
                place = (candidate.run_at_us, candidate.id)
                keeper.first = place if keeper.first is None else min(keeper.first, place)


def _lasts(refusal: Refusal) -> tuple[int, int]:
    """Return a sort key of a refusal by how long it may last: until the limit is raised, a lease ends, an instant."""
    if refusal.never:
        return 2, 0
    return (1, 0) if refusal.opens_at_us is None else (0, refusal.opens_at_us)
