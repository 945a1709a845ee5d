"""Masses of jobs that are held: how they leave the way, and how what stands behind them is found meanwhile.

A gate comes, or a limit fills up, and tens of thousands of jobs may not start. A round picks some of them and has the
store put aside those behind them that are alike, which takes a second or more for all of them. So that others do not
wait for that, a worker looks ahead: from where it met the mass on, and from the end of the line on, it walks on a bit
in each round, and picks what is of another kind. Nothing depends on it: what it passes by is met in its turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tickwork.core.flow.flow import read_lane
from tickwork.store.rounds import Applicant, Ground, Park, Scout, Verdict

MANY = 64  # so many of a kind that are held make a mass
_MASSES = 4  # in a round
_LATE_US = 30_000  # a job may be stored so much later than its time says
_AGAIN_US = 1_000_000  # how often to set out anew for those that were stored later than that


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
class Masses:
    """The masses that a worker has met in its last round, and how far it has looked behind them."""

    _scouts: list[Scout] = field(default_factory=list)
    _waits: bool = False

    def __bool__(self) -> bool:
        return bool(self._scouts)

    def to_move(self, verdict: Verdict) -> list[Park]:
        """Which masses to put aside in a round. What starts in it waits for that at most every other time."""
        self._waits = bool(verdict.starts and self._scouts) and not self._waits
        return [] if self._waits else _masses_of(verdict.parks)

    def moved(self, masses: Sequence[Park], count: int, now_us: int) -> None:
        """So many were put aside with these. Where it was few they are all gone, or were no masses."""
        if not self._waits:
            self._met(masses if count >= MANY else (), now_us)

    def _met(self, masses: Sequence[Park], now_us: int) -> None:
        kinds: dict[tuple[str, int], tuple[Applicant, ...]] = {}
        for applicant, _ in masses:
            kinds[applicant.place] = (*kinds.get(applicant.place, ()), applicant)
        scouts = {(one.place, one.until_us is None): one for one in self._scouts if one.place in kinds}
        self._scouts = []
        for place, alike in kinds.items():
            last, end_us = alike[-1], now_us - _LATE_US
            ahead = scouts.get((place, True)) or Scout(*place, alike, (end_us, ""), None)
            behind = scouts.get((place, False))
            if behind is None or (behind.after[0] >= (behind.until_us or 0) and end_us - behind.after[0] > _AGAIN_US):
                behind = Scout(*place, alike, (last.run_at_us, last.job_id), end_us)
            self._scouts += [ahead._replace(kinds=alike), behind._replace(kinds=alike)]

    def look_behind(self, ground: Ground, now_us: int) -> list[Applicant]:
        """Pick what is of another kind, a bit further on than the last time."""
        found: list[Applicant] = []
        scouts: list[Scout] = []
        for scout in self._scouts:
            if scout.until_us is not None and scout.after[0] >= scout.until_us:
                scouts.append(scout)  # it has arrived
                continue
            applicants, reached = ground.scout(scout)
            found += applicants
            if reached == scout.after and scout.until_us is not None:
                reached = (scout.until_us, "")
            scouts.append(scout._replace(after=max(scout.after, min(reached, (now_us - _LATE_US, "")))))
        self._scouts = scouts
        return found
