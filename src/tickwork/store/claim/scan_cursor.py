"""Scouts: they go through places of the queue a bit at a time, and remember how far they came.

Two go through each place. One stays at the end of the line, where new jobs come. The other goes there from further up,
and then sets out again, though not within a second, for jobs that were stored later than their time says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from tickwork.store.claim.types import Candidate, ClaimTx, LaneScan, Place, Position

_LATE_US = 30_000  # a job may be stored so much later than its time says
_AGAIN_US = 1_000_000  # how often to set out anew for those that were stored later than that
_BEHIND_US = 250_000  # who lags by more leaps to the end of the line


class ScanTask(NamedTuple):
    """What to look for in a place: jobs of other kinds than these, behind a position; the rest as for `LaneScan`."""

    start: Position
    kinds: tuple[Candidate, ...]
    grace_us: int
    most: int
    walk: int


class _CursorPair(NamedTuple):
    """The scouts of a place. `went_far`: the second one has walked in vain since it set out; None: not at all yet.

    `lags`: the first one has not come to the end of the line.
    """

    at_end: LaneScan
    on_way: LaneScan
    went_far: bool | None = None
    lags: bool = False

    @property
    def arrived(self) -> bool:
        return self.on_way.after[0] >= (self.on_way.until_us or 0)

    @property
    def again_us(self) -> int:
        """When the second one sets out again, if it has arrived."""
        return self.on_way.after[0] + _delay_us(self.on_way) + _AGAIN_US

    def sent(self, anew: _CursorPair, now_us: int) -> _CursorPair:
        """The pair as it goes on when it is told what a new one is told."""
        if max(self.at_end.after[0], self.on_way.until_us or 0) > now_us - _LATE_US:
            return anew  # the store's clock was set back
        # One that lags far behind goes to the end at once; what it leaves out the other one will come to.
        leaps = self.lags and anew.at_end.after[0] - self.at_end.after[0] > _BEHIND_US
        at_end = anew.at_end if leaps else anew.at_end._replace(after=self.at_end.after)
        if self.arrived and now_us >= self.again_us:
            return anew._replace(at_end=at_end)
        until_us = anew.on_way.until_us if leaps else self.on_way.until_us
        on_way = anew.on_way._replace(after=self.on_way.after, until_us=until_us)
        return self._replace(at_end=at_end, on_way=on_way)


class ScanCursors:
    """The scouts of one worker, out for one thing."""

    def __init__(self) -> None:
        self._pairs: dict[Place, _CursorPair] = {}

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def send(self, errands: Mapping[Place, ScanTask], now_us: int) -> None:
        """Have two scouts in each of these places, and none in others. Those that are on their way go on."""
        pairs: dict[Place, _CursorPair] = {}
        for place, (start, kinds, grace_us, most, walk) in errands.items():
            on_way = LaneScan(*place, kinds, start, None, grace_us, most, walk)
            end_us = now_us - _delay_us(on_way)
            anew = _CursorPair(on_way._replace(after=(end_us, "")), on_way._replace(until_us=end_us))
            pairs[place] = self._pairs[place].sent(anew, now_us) if place in self._pairs else anew
        self._pairs = pairs

    def walk(self, ground: ClaimTx, now_us: int, *, ends_only: bool = False) -> list[Candidate]:
        """Pick what they are out for, a bit further on than the last time. `ends_only`: who is on its way rests."""
        ends = [pair.at_end for pair in self._pairs.values()]
        ways = [pair.on_way for pair in self._pairs.values() if not (ends_only or pair.arrived)]
        reports = ground.scout([*ends, *ways]) if ends else []
        for scout, (_, reached) in zip(ends, reports, strict=False):
            pair = self._pairs[scout.place]._replace(at_end=_moved(scout, reached, now_us), lags=reached is not None)
            self._pairs[scout.place] = pair
        for scout, (found, reached) in zip(ways, reports[len(ends) :], strict=True):
            pair = self._pairs[scout.place]
            in_vain = reached is not None and len(found) < scout.most
            moved = pair._replace(on_way=_moved(scout, reached, now_us), went_far=pair.went_far or in_vain)
            self._pairs[scout.place] = moved
        return list({one.job_id: one for found, _ in reports for one in found}.values())

    def hold_back(self, passed_by: Iterable[Candidate]) -> None:
        """Have these found again, which were found and left where they stand."""
        for one in passed_by:
            pair, before = self._pairs.get(one.place), (one.run_at_us, str(UUID(int=UUID(one.job_id).int - 1)))
            if pair is None:
                continue
            if one.run_at_us <= (pair.on_way.until_us or 0):
                pair = pair._replace(on_way=pair.on_way._replace(after=min(pair.on_way.after, before)))
            else:
                pair = pair._replace(at_end=pair.at_end._replace(after=min(pair.at_end.after, before)))
            self._pairs[one.place] = pair

    @property
    def is_near(self) -> bool:
        """Whether no long way was gone in any place, to see all of it or to find all that is wanted."""
        return all(pair.went_far is False for pair in self._pairs.values())

    @property
    def lags(self) -> bool:
        """Whether more stands at the end of some line than was looked at."""
        return any(pair.lags for pair in self._pairs.values())

    def next_us(self, now_us: int) -> int:
        """When they may find something that they did not: at once, unless all have arrived."""
        if not all(pair.arrived for pair in self._pairs.values()):
            return now_us
        return min((pair.again_us for pair in self._pairs.values()), default=now_us + _AGAIN_US)


def _delay_us(scout: LaneScan) -> int:
    """How long after its time a job is sure to be seen."""
    return max(_LATE_US, scout.grace_us)


def _moved(scout: LaneScan, reached: Position | None, now_us: int) -> LaneScan:
    reached = (scout.limit_us(now_us), "") if reached is None else reached
    return scout._replace(after=max(scout.after, min(reached, (now_us - _delay_us(scout), ""))))
