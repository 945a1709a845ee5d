"""How jobs are found of which few stand among very many of other tasks.

A claim walks over whatever stands before the jobs that it may take. Where that takes long, a worker searches: each of
its claims has scouts walk on a bit, so that neither its other jobs nor anybody else waits for it. In lanes in which
order counts, and in those of jobs that were held, it picks as always.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from tickwork.core.ids import JobId
from tickwork.core.limits.lanes import read_lane
from tickwork.store.claim.scan_cursor import ScanCursors, ScanTask
from tickwork.store.claim.types import Candidate, ClaimTx, PickRequest, Place, Position

PLACES = 32  # where there are more, each of them takes its time, and a search would take more
WALK = 2000  # so many are looked at in a round, in all places together: in one or two milliseconds
LEAST = 100  # but so many in each
_FRONT: Position = (0, "")


class SparseScan:
    """How far one worker has come for one set of tasks."""

    def __init__(self) -> None:
        self._scouts = ScanCursors()
        self._found: list[Candidate] = []

    @property
    def is_near(self) -> bool:
        """Whether what it is after can be had without a search."""
        return self._scouts.is_near

    @property
    def lags(self) -> bool:
        """Whether it has not seen all that has just come."""
        return self._scouts.lags

    def pick(
        self, ground: ClaimTx, wishes: Sequence[PickRequest], room: int, now_us: int, *, ends_only: bool
    ) -> list[Candidate]:
        """As `Ground.pick`, of what it has not seen yet, and up to so many. `ends_only`: of what has just come."""
        self.took(set())  # of a round that was not stored
        far = [wish for wish in wishes if not read_lane(wish.lane).is_strict]
        near = [wish for wish in wishes if read_lane(wish.lane).is_strict]
        picked = ground.pick(near) if near else []
        walk = max(LEAST, WALK // max(1, len(far)))
        # Of two wishes for a place the second one is for all that is younger: its grace is the one that counts.
        errands = {one.place: ScanTask(_FRONT, (), one.grace_us, min(one.most, room), walk) for one in far}
        self._scouts.send(errands, now_us)
        self._found = self._scouts.walk(ground, now_us, ends_only=ends_only)
        return _wanted([*picked, *self._found], wishes, now_us)[:room]

    def next_us(self, now_us: int) -> int:
        """When another step may find something."""
        return self._scouts.next_us(now_us)

    def took(self, gone: Set[JobId]) -> None:
        """Of those that were picked these have gone; the others are to be found again."""
        self._scouts.hold_back(one for one in self._found if one.job_id not in gone)
        self._found = []


def _wanted(found: Sequence[Candidate], wishes: Sequence[PickRequest], now_us: int) -> list[Candidate]:
    """Those that wishes have room for, in their order."""
    by_place: dict[Place, list[int]] = {}
    for rank, wish in enumerate(wishes):
        by_place.setdefault(wish.place, []).append(rank)

    def rank_of(one: Candidate) -> int:
        ranks = by_place[one.place]
        return next((rank for rank in ranks if wishes[rank].covers(one.run_at_us, now_us)), ranks[-1])

    left = {wish.group: wish.of_group for wish in wishes}
    wanted = []
    ranked = sorted((rank_of(one), one.run_at_us, one.job_id, one) for one in found)
    for rank, _, _, one in ranked:
        group = wishes[rank].group
        if left[group] > 0:
            left[group] -= 1
            wanted.append(one)
    return wanted
