"""Build the parameters that tell claim statements which places to read, and from which position (see claim_cursor.py).

A place is a lane and a priority (store/claim/types.py). The places of plain jobs are known: each priority of a queue's
own lane. The lanes of limited jobs are found by their names, in ranges of names (first, until); up to _LANES of them
that were read before are read one by one, each from its own position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tickwork.core.limits.lanes import read_lane
from tickwork.store.claim.types import OPEN_KEYS, LaneHead, PickRequest, Place
from tickwork.store.postgres.claim.claim_cursor import FRONT, CursorPosition
from tickwork.store.postgres.params import array, text_array
from tickwork.store.reads.queue_counts import places_of, ranges_of

LATE_US = 250_000  # A job may be stored this much later than its run_at without being missed.
_LANES = 8  # Lanes that are read one by one; each costs ten index lookups.
_LAST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff"
_NOTHING: Mapping[Place, CursorPosition] = MappingProxyType({})


def asked_for(queues: Sequence[str], reached: Mapping[Place, CursorPosition] = _NOTHING) -> dict[str, str]:
    """Return the parameters of the statements that read gates and limits, and the first job of each place of these
    queues.

    `reached` are the positions from which known places are read.
    """
    lanes = _lanes(queues, reached)
    places = places_of([*queues, *lanes])
    about = {"queues": text_array(queues), "limit": str(OPEN_KEYS)}
    return {**about, **placed(places, reached), **_spans(queues, lanes)}


def placed(places: Sequence[Place], reached: Mapping[Place, CursorPosition]) -> dict[str, str]:
    """Return these places, and the position from which each is read, as parameters."""
    return {
        "places": text_array([lane for lane, _ in places]),
        "priorities": array([priority for _, priority in places]),
        **_after([reached.get(place, FRONT) for place in places]),
    }


def after_wishes(reached: Mapping[Place, CursorPosition], pick_requests: Sequence[PickRequest]) -> dict[str, str]:
    """Return for each pick request the position from which its place is read, as parameters."""
    asked = [CursorPosition(one.after_us, _LAST_ID) if one.after_us else FRONT for one in pick_requests]
    return _after(
        [
            max(reached.get(pick_request.place, FRONT), bound)
            for pick_request, bound in zip(pick_requests, asked, strict=True)
        ]
    )


def _after(bounds: Sequence[CursorPosition]) -> dict[str, str]:
    """Return positions as parameters."""
    return {"after_us": array([one.run_at_us for one in bounds]), "after_ids": array([one.job_id for one in bounds])}


def guards(queues: Sequence[str], reached: Mapping[Place, CursorPosition]) -> dict[str, str]:
    """Return the parameters with which a plain claim checks whether there are limited jobs, in which case it
    takes nothing.
    """
    lanes = _lanes(queues, reached)
    behind = placed(places_of(lanes), reached)
    return {
        **_spans(queues, lanes),
        "lanes": behind["places"],
        "lane_priorities": behind["priorities"],
        "lane_us": behind["after_us"],
        "lane_ids": behind["after_ids"],
    }


def read_up_to(
    before: Mapping[Place, CursorPosition], heads: Sequence[LaneHead], queues: Sequence[str], now_us: int
) -> dict[Place, CursorPosition]:
    """Return, for each known place, the position before which no jobs remain.

    That is the position of its first job, or LATE_US before now, whichever is earlier. Places that are empty now were
    known `before`.
    """
    sure_us = now_us - LATE_US
    found = {head.place: min(head.run_at_us, sure_us) for head in heads if not read_lane(head.lane).is_strict}
    empty = {place: sure_us for place in before if place not in found and read_lane(place[0]).queue in queues}
    return {place: CursorPosition(until_us - 1, _LAST_ID) for place, until_us in (empty | found).items()}


def read_limited_lanes(
    reached: Mapping[Place, CursorPosition], queues: Sequence[str], now_us: int
) -> dict[Place, CursorPosition]:
    """Return, for each known place of limited jobs, the position before which no jobs remain, if all of them are
    empty.
    """
    lanes = {place: bound for place, bound in reached.items() if ":" in place[0]}
    return read_up_to(lanes, [], queues, now_us)


def _lanes(queues: Sequence[str], reached: Mapping[Place, CursorPosition]) -> list[str]:
    """Return the names of the lanes of limited jobs that are read one by one, sorted."""
    read = dict.fromkeys(lane for lane, _ in reached if ":" in lane and read_lane(lane).queue in queues)
    return sorted(list(read)[-_LANES:])


def _spans(queues: Sequence[str], lanes: Sequence[str]) -> dict[str, str]:
    """Return, as parameters, the ranges of lane names that contain the other lanes of limited jobs of these queues.

    `lanes`, which are read one by one, are the borders of the ranges.
    """
    firsts: list[str] = []
    untils: list[str] = []
    for first, until in ranges_of(queues):
        ends = [lane for lane in lanes if first <= lane < until]
        firsts += [first, *ends]
        untils += [*ends, until]
    return {"firsts": text_array(firsts), "untils": text_array(untils)}
