"""Park large numbers of held jobs in bulk, and scan behind them for jobs that may start.

When a gate is set or a limit fills up, tens of thousands of queued jobs may not start. A round picks some of them, and
the store parks the jobs behind them that have the same kind (`Candidate.kind`), which takes a second or more for all of
them. Meanwhile a worker uses scan cursors: from where it met the held jobs, and from the end of the lane, it reads a
bounded number of rows in each round and picks jobs of other kinds. This only reduces latency: jobs that the cursors
miss are picked in their normal order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tickwork.core.limits.lanes import read_lane
from tickwork.store.claim.scan_cursor import ScanCursors, ScanTask
from tickwork.store.claim.types import Candidate, ClaimPlan, ClaimTx, Park, Place

MANY = 64  # At least this many parked jobs of one kind in a round start a bulk park.
_KINDS = 4  # Kinds parked in bulk in one round.
WALK = 4000  # Rows that a scan cursor reads in one round.
FOUND_MOST = 64  # Jobs that a scan cursor picks in one round.


def _kinds_to_park(parks: Sequence[Park]) -> list[Park]:
    """Return the last parked job of each of the _KINDS most frequent kinds that were parked at least MANY times.

    Jobs of a sequence are left out, because each has its own position in the order, and so are jobs that were already
    held.
    """
    if len(parks) < MANY:
        return []
    last: dict[Any, Park] = {}
    counts: Counter[Any] = Counter()
    for park in parks:
        candidate = park[0]
        if read_lane(candidate.lane).held_by is None and not (candidate.job_limits and candidate.job_limits.sequence):
            kind = candidate.kind
            counts[kind] += 1
            last[kind] = park
    return [last[kind] for kind, count in counts.most_common(_KINDS) if count >= MANY]


@dataclass(slots=True)
class BulkPark:
    """The bulk parks of a worker's last round, and the scan cursors that read behind the parked jobs."""

    _cursors: ScanCursors = field(default_factory=ScanCursors)
    _waits: bool = False

    def __bool__(self) -> bool:
        return bool(self._cursors)

    def to_move(self, plan: ClaimPlan) -> list[Park]:
        """Return a parked job of each kind that the store is to park in bulk in this round.

        If jobs start in the round while cursors are active, every other round skips the bulk park, so that those starts
        do not wait for it.
        """
        self._waits = bool(plan.starts and self._cursors) and not self._waits
        return [] if self._waits else _kinds_to_park(plan.parks)

    def moved(self, parked: Sequence[Park], count: int, graces_us: Mapping[Place, int], now_us: int) -> None:
        """Note that the store has parked `count` jobs in bulk, and send scan cursors behind them.

        With fewer than MANY, no jobs of these kinds are left, and the scan ends.
        """
        if not self._waits:
            self._send_cursors(parked if count >= MANY else (), graces_us, now_us)

    def _send_cursors(self, parked: Sequence[Park], graces_us: Mapping[Place, int], now_us: int) -> None:
        """Send scan cursors behind the last parked job of each place, to find jobs of other kinds than those parked."""
        kinds: dict[Place, tuple[Candidate, ...]] = {}
        for candidate, _ in parked:
            kinds[candidate.place] = (*kinds.get(candidate.place, ()), candidate)
        scan_tasks = {
            place: ScanTask((alike[-1].run_at_us, alike[-1].job_id), alike, graces_us.get(place, 0), FOUND_MOST, WALK)
            for place, alike in kinds.items()
        }
        self._cursors.send(scan_tasks, now_us)

    def look_behind(self, claim_tx: ClaimTx, now_us: int) -> list[Candidate]:
        """Advance the scan cursors by one step and return the jobs of other kinds that they find."""
        return self._cursors.walk(claim_tx, now_us)
