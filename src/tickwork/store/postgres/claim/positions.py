"""Where claims look for jobs, behind what was read before (see cursor.py), as statements are asked for it.

A place is a priority of a lane. Those of plain jobs are known. The lanes of jobs with a flow are found between names,
save for some that were read before, which are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tickwork.core.limits.lanes import read_lane
from tickwork.store.claim.limited import OPEN_LIMIT
from tickwork.store.claim.positions import places_of, ranges_of
from tickwork.store.claim.types import LaneHead, PickRequest, Place
from tickwork.store.postgres.claim.cursor import FRONT, CursorPosition
from tickwork.store.postgres.params import array, text_array

LATE_US = 250_000  # a job may be stored so much later than its time says and is not passed by
_LANES = 8  # so many are looked at one by one: each costs ten looks
_LAST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff"
_NOTHING: Mapping[Place, CursorPosition] = MappingProxyType({})


def asked_for(queues: Sequence[str], reached: Mapping[Place, CursorPosition] = _NOTHING) -> dict[str, str]:
    """What `surroundings` and `heads` are asked, and behind which jobs."""
    lanes = _lanes(queues, reached)
    places = places_of([*queues, *lanes])
    about = {"queues": text_array(queues), "limit": str(OPEN_LIMIT)}
    return {**about, **placed(places, reached), **_spans(queues, lanes)}


def placed(places: Sequence[Place], reached: Mapping[Place, CursorPosition]) -> dict[str, str]:
    """Some places, and behind which jobs to begin there."""
    return {
        "places": text_array([lane for lane, _ in places]),
        "priorities": array([priority for _, priority in places]),
        **_after([reached.get(place, FRONT) for place in places]),
    }


def after_wishes(reached: Mapping[Place, CursorPosition], wishes: Sequence[PickRequest]) -> dict[str, str]:
    """Behind which jobs to begin for each wish."""
    asked = [CursorPosition(one.after_us, _LAST_ID) if one.after_us else FRONT for one in wishes]
    return _after([max(reached.get(wish.place, FRONT), bound) for wish, bound in zip(wishes, asked, strict=True)])


def _after(bounds: Sequence[CursorPosition]) -> dict[str, str]:
    return {"after_us": array([one.run_at_us for one in bounds]), "after_ids": array([one.job_id for one in bounds])}


def guards(queues: Sequence[str], reached: Mapping[Place, CursorPosition]) -> dict[str, str]:
    """Where plain claims look for jobs with a flow, for which they stand back."""
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
    """Up to where nothing stands in each place that is known: up to its first job, and to what may still come in."""
    sure_us = now_us - LATE_US
    found = {head.place: min(head.run_at_us, sure_us) for head in heads if not read_lane(head.lane).is_strict}
    empty = {place: sure_us for place in before if place not in found and read_lane(place[0]).queue in queues}
    return {place: CursorPosition(until_us - 1, _LAST_ID) for place, until_us in (empty | found).items()}


def read_without_flow(
    reached: Mapping[Place, CursorPosition], queues: Sequence[str], now_us: int
) -> dict[Place, CursorPosition]:
    """The same of lanes of jobs with a flow, where none stands in them."""
    lanes = {place: bound for place, bound in reached.items() if ":" in place[0]}
    return read_up_to(lanes, [], queues, now_us)


def _lanes(queues: Sequence[str], reached: Mapping[Place, CursorPosition]) -> list[str]:
    """The lanes of jobs with a flow that are looked at one by one."""
    read = dict.fromkeys(lane for lane, _ in reached if ":" in lane and read_lane(lane).queue in queues)
    return sorted(list(read)[-_LANES:])


def _spans(queues: Sequence[str], lanes: Sequence[str]) -> dict[str, str]:
    """Between which names other lanes of jobs with a flow lie than these."""
    firsts: list[str] = []
    untils: list[str] = []
    for first, until in ranges_of(queues):
        ends = [lane for lane in lanes if first <= lane < until]
        firsts += [first, *ends]
        untils += [*ends, until]
    return {"firsts": text_array(firsts), "untils": text_array(untils)}
