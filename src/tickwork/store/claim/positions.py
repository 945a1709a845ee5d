"""Where the jobs of a queue stand that nothing holds, and what waits there; shared by both stores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from tickwork.core.autoscale import WaitingKind
from tickwork.core.job import LOWEST_PRIORITY
from tickwork.core.limits.lanes import lane_range, read_lane


class Backlog(msgspec.Struct, frozen=True):
    """Jobs with the same needs that are due and that nothing holds: how many, and since when the first."""

    needs: str
    count: int
    oldest_at: datetime


def places_of(queues: Sequence[str]) -> list[tuple[str, int]]:
    """Return the places of plain jobs: the priorities of each queue's own lane."""
    return [(queue, priority) for queue in queues for priority in range(LOWEST_PRIORITY + 1)]


def ranges_of(queues: Sequence[str]) -> list[tuple[str, str]]:
    """Return between which names the lanes of jobs with a flow lie."""
    return [lane_range(f"{queue}:") for queue in queues]


def by_kind(lanes: Iterable[tuple[str, str, int]]) -> list[WaitingKind]:
    """Put together what waits in lanes, by its task and what it needs."""
    found: dict[tuple[str, str], int] = {}
    for lane, task, count in lanes:
        kind = task, read_lane(lane).needs
        found[kind] = found.get(kind, 0) + count
    return [WaitingKind(*kind, count) for kind, count in found.items()]


def by_needs(lanes: Iterable[tuple[str, int, datetime]]) -> list[Backlog]:
    """Put together what waits in lanes, by what it needs."""
    found: dict[str, Backlog] = {}
    for lane, count, oldest_at in lanes:
        needs = read_lane(lane).needs
        other = found.get(needs, Backlog(needs, 0, oldest_at))
        found[needs] = Backlog(needs, other.count + count, min(other.oldest_at, oldest_at))
    return list(found.values())
