"""The memory of a worker from one claim to the next: turns of tenants, bulk parks, scans, workers of sticky jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tickwork.core.fairness import TenantTurns, take_turns
from tickwork.core.limits.lanes import read_lane
from tickwork.core.placement import ClaimingWorkers
from tickwork.store.claim.bulk_park import BulkPark
from tickwork.store.claim.sparse_scan import PLACES, SparseScan
from tickwork.store.claim.types import Candidate, ClaimRequest, ClaimTx

PLACE_MOST = 1000  # Jobs that a round picks from one place at most.
_PICK_AHEAD = 8  # Limited jobs picked beyond the free slots, until `learn` finds a better number.
_HOMES_KEPT_US = 1_000_000  # How long the list of claiming workers is cached.
_NO_TENANT = ""


@dataclass(slots=True)
class ClaimMemory:
    """The state that a worker keeps between claims. It is only a hint: a claim with a new memory is correct, too.

    `positions` and `clock` are those of fair turns; `by_age` alternates: in every other round, jobs that have waited
    long go first. `pick_ahead` is how many limited jobs are picked beyond the free slots: as many as could lately be
    prefetched. `is_guarded`: the last snapshot found limits or gates, for which plain claims do nothing, so the next
    claim is a limited one, too. `bulk_parks` and `sparse_scans` are kept by the set of tasks that the worker claims
    together. `homes` are the workers to which jobs stick, as read at `homes_at_us`.
    """

    positions: dict[str, int] = field(default_factory=dict)
    clock: int = 0
    by_age: bool = False
    pick_ahead: int = _PICK_AHEAD
    is_guarded: bool = False
    bulk_parks: dict[Sequence[str], BulkPark] = field(default_factory=dict)
    sparse_scans: dict[Sequence[str], SparseScan] = field(default_factory=dict)
    homes: ClaimingWorkers = field(default_factory=lambda: ClaimingWorkers([]))
    homes_at_us: int | None = None

    def sparse_scan_for(self, request: ClaimRequest, places: int) -> SparseScan | None:
        """Return the sparse scan for the tasks of a request, or None if none is requested or there are more than PLACES
        places.

        With None, an earlier scan for these tasks is discarded.
        """
        if request.capacity.search and places <= PLACES:
            return self.sparse_scans.setdefault(request.tasks, SparseScan())
        self.sparse_scans.pop(request.tasks, None)
        return None

    def read_homes(self, claim_tx: ClaimTx, now_us: int) -> ClaimingWorkers:
        """Return the workers that claim jobs, read from the store at most once a second."""
        if self.homes_at_us is None or now_us - self.homes_at_us > _HOMES_KEPT_US:
            self.homes, self.homes_at_us = ClaimingWorkers(claim_tx.claiming_workers()), now_us
        return self.homes

    def charge_turns(self, started: Sequence[Candidate], weights: Mapping[str, int], slots: int) -> None:
        """Advance the positions of tenants in the fair turns by the jobs that were started for them.

        Jobs started beyond the free slots are not charged. They never belong to a tenant: to count them would advance
        the clock, and tenants would lose turns that they are owed.
        """
        counts: Counter[str] = Counter()
        for lane, count in Counter(candidate.lane for candidate in started).items():
            counts[read_lane(lane).tenant] += count
        counts[_NO_TENANT] -= max(0, len(started) - max(0, slots))
        tenants = [
            TenantTurns(name, count, weights.get(name, 1), self.positions.get(name, 0))
            for name, count in counts.items()
        ]
        taken = take_turns(tenants, len(started), self.clock)
        self.clock = taken.clock
        self.positions = {name: at for name, at in (self.positions | taken.positions).items() if at > self.clock}

    def learn(self, request: ClaimRequest, started: Sequence[Candidate], *, is_full: bool) -> None:
        """Adapt the number of limited jobs that are picked beyond the free slots.

        The number doubles while all of them start, and is reset to the number that started once the worker is full.
        """
        ahead = sum(one.job_limits is not None for one in started) - max(0, request.capacity.slots)
        if is_full:
            self.pick_ahead = max(_PICK_AHEAD, ahead)
        elif ahead >= self.pick_ahead:
            self.pick_ahead = min(PLACE_MOST, 2 * self.pick_ahead)
