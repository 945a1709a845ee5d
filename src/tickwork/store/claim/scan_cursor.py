"""Scan cursors: read through places (lane and priority) of the queue in bounded steps, across several claims.

Each place has two cursors. The end cursor stays at the end of the place, where new jobs arrive. The other one reads
from the start position to the end, and then starts again, at most once a second, to find jobs that were stored later
than their run_at says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from tickwork.store.claim.types import Candidate, ClaimTx, LaneScan, Place, Position

_LATE_US = 30_000  # A job may be stored this much later than its run_at.
_AGAIN_US = 1_000_000  # The interval at which a scan starts again, for jobs that were stored even later than that.
_BEHIND_US = 250_000  # An end cursor that lags by more jumps to the end of the place.


class ScanTask(NamedTuple):
    """What to scan for in a place: jobs of other kinds than `kinds`, after the position `start`.

    The other fields are those of `LaneScan`.
    """

    start: Position
    kinds: tuple[Candidate, ...]
    grace_us: int
    most: int
    walk: int


class _CursorPair(NamedTuple):
    """The two cursors of a place: `at_end` at its end, and `on_way`, which reads from the start position to the end.

    `went_far`: `on_way` has read a whole step without finding enough since it started; None: no step yet. `lags`:
    `at_end` has not reached the end of the place.
    """

    at_end: LaneScan
    on_way: LaneScan
    went_far: bool | None = None
    lags: bool = False

    @property
    def arrived(self) -> bool:
        """Return whether `on_way` has read up to the end."""
        return self.on_way.after[0] >= (self.on_way.until_us or 0)

    @property
    def again_us(self) -> int:
        """Return the instant at which `on_way` starts again, once it has read up to the end."""
        return self.on_way.after[0] + _delay_us(self.on_way) + _AGAIN_US

    def sent(self, anew: _CursorPair, now_us: int) -> _CursorPair:
        """Return the pair for the next step: the positions of this pair with the task of the new one.

        `on_way` starts again if it arrived long enough ago.
        """
        if max(self.at_end.after[0], self.on_way.until_us or 0) > now_us - _LATE_US:
            return anew  # The store's clock was set back.
        # A cursor that lags far jumps to the end at once; `on_way` then covers what it skipped.
        leaps = self.lags and anew.at_end.after[0] - self.at_end.after[0] > _BEHIND_US
        at_end = anew.at_end if leaps else anew.at_end._replace(after=self.at_end.after)
        if self.arrived and now_us >= self.again_us:
            return anew._replace(at_end=at_end)
        until_us = anew.on_way.until_us if leaps else self.on_way.until_us
        on_way = anew.on_way._replace(after=self.on_way.after, until_us=until_us)
        return self._replace(at_end=at_end, on_way=on_way)


class ScanCursors:
    """The scan cursors of one worker for one purpose, by place."""

    def __init__(self) -> None:
        self._pairs: dict[Place, _CursorPair] = {}

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def send(self, scan_tasks: Mapping[Place, ScanTask], now_us: int) -> None:
        """Scan exactly these places from now on.

        Cursors in places that were scanned before continue from their positions.
        """
        pairs: dict[Place, _CursorPair] = {}
        for place, (start, kinds, grace_us, most, walk) in scan_tasks.items():
            on_way = LaneScan(*place, kinds, start, None, grace_us, most, walk)
            end_us = now_us - _delay_us(on_way)
            anew = _CursorPair(on_way._replace(after=(end_us, "")), on_way._replace(until_us=end_us))
            pairs[place] = self._pairs[place].sent(anew, now_us) if place in self._pairs else anew
        self._pairs = pairs

    def walk(self, claim_tx: ClaimTx, now_us: int, *, ends_only: bool = False) -> list[Candidate]:
        """Advance the cursors by one step and return the jobs that they pick.

        `ends_only`: advance only the end cursors.
        """
        ends = [pair.at_end for pair in self._pairs.values()]
        ways = [pair.on_way for pair in self._pairs.values() if not (ends_only or pair.arrived)]
        reports = claim_tx.lane_scan([*ends, *ways]) if ends else []
        for lane_scan, (_, reached) in zip(ends, reports, strict=False):
            pair = self._pairs[lane_scan.place]._replace(
                at_end=_moved(lane_scan, reached, now_us), lags=reached is not None
            )
            self._pairs[lane_scan.place] = pair
        for lane_scan, (found, reached) in zip(ways, reports[len(ends) :], strict=True):
            pair = self._pairs[lane_scan.place]
            in_vain = reached is not None and len(found) < lane_scan.most
            moved = pair._replace(on_way=_moved(lane_scan, reached, now_us), went_far=pair.went_far or in_vain)
            self._pairs[lane_scan.place] = moved
        return list({one.job_id: one for found, _ in reports for one in found}.values())

    def hold_back(self, passed_by: Iterable[Candidate]) -> None:
        """Move cursors back to before jobs that were found but not taken, so that the next step finds them again."""
        for one in passed_by:
            # The position just below the job, because a cursor starts after its position.
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
        """Return whether each scan read its whole place, or found as many jobs as were wanted, within one step."""
        return all(pair.went_far is False for pair in self._pairs.values())

    @property
    def lags(self) -> bool:
        """Return whether an end cursor has not reached the end of its place."""
        return any(pair.lags for pair in self._pairs.values())

    def next_us(self, now_us: int) -> int:
        """Return the instant at which a further step may find other jobs.

        `now_us`, unless all cursors have read to the end.
        """
        if not all(pair.arrived for pair in self._pairs.values()):
            return now_us
        return min((pair.again_us for pair in self._pairs.values()), default=now_us + _AGAIN_US)


def _delay_us(lane_scan: LaneScan) -> int:
    """Return the time after a job's run_at from which on a cursor is certain to see the job."""
    return max(_LATE_US, lane_scan.grace_us)


def _moved(lane_scan: LaneScan, reached: Position | None, now_us: int) -> LaneScan:
    """Return the cursor advanced to `reached` (None: to its limit), but not past jobs that may still be stored late."""
    reached = (lane_scan.limit_us(now_us), "") if reached is None else reached
    return lane_scan._replace(after=max(lane_scan.after, min(reached, (now_us - _delay_us(lane_scan), ""))))
