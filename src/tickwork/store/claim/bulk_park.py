"""Masses of jobs that are held: how they leave the way, and how what stands behind them is found meanwhile.

A gate comes, or a limit fills up, and tens of thousands of jobs may not start. A round picks some of them and has the
store put aside those behind them that are alike, which takes a second or more for all of them. So that others do not
wait for that, a worker looks ahead: from where it met the mass on, and from the end of the line on, it walks on a bit
in each round, and picks what is of another kind. Nothing depends on it: what it passes by is met in its turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tickwork.core.limits.lanes import read_lane
from tickwork.store.claim.scan_cursor import ScanCursors, ScanTask
from tickwork.store.claim.types import Candidate, ClaimPlan, ClaimTx, Park, Place

MANY = 64  # so many of a kind that are held make a mass
_MASSES = 4  # in a round
WALK = 4000  # a scout looks at so many in a round
SCOUTED = 64  # and picks so many of them


def _masses_of(parks: Sequence[Park]) -> list[Park]:
    """The last one of each kind of which many are put aside. In a sequence each job has a place of its own."""
    if len(parks) < MANY:
        return []
    last: dict[Any, Park] = {}
    counts: Counter[Any] = Counter()
    for park in parks:
        applicant = park[0]
        if read_lane(applicant.lane).held_by is None and not (applicant.flow and applicant.flow.sequence):
            kind = applicant.kind
            counts[kind] += 1
            last[kind] = park
    return [last[kind] for kind, count in counts.most_common(_MASSES) if count >= MANY]


@dataclass(slots=True)
class BulkPark:
    """The masses that a worker has met in its last round, and who looks behind them."""

    _scouts: ScanCursors = field(default_factory=ScanCursors)
    _waits: bool = False

    def __bool__(self) -> bool:
        return bool(self._scouts)

    def to_move(self, verdict: ClaimPlan) -> list[Park]:
        """Which masses to put aside in a round. What starts in it waits for that at most every other time."""
        self._waits = bool(verdict.starts and self._scouts) and not self._waits
        return [] if self._waits else _masses_of(verdict.parks)

    def moved(self, masses: Sequence[Park], count: int, graces_us: Mapping[Place, int], now_us: int) -> None:
        """So many were put aside with these. Where it was few they are all gone, or were no masses."""
        if not self._waits:
            self._met(masses if count >= MANY else (), graces_us, now_us)

    def _met(self, masses: Sequence[Park], graces_us: Mapping[Place, int], now_us: int) -> None:
        kinds: dict[Place, tuple[Candidate, ...]] = {}
        for applicant, _ in masses:
            kinds[applicant.place] = (*kinds.get(applicant.place, ()), applicant)
        errands = {
            place: ScanTask((alike[-1].run_at_us, alike[-1].job_id), alike, graces_us.get(place, 0), SCOUTED, WALK)
            for place, alike in kinds.items()
        }
        self._scouts.send(errands, now_us)

    def look_behind(self, ground: ClaimTx, now_us: int) -> list[Candidate]:
        """Pick what is of another kind, a bit further on than the last time."""
        return self._scouts.walk(ground, now_us)
