"""List the lanes and priorities in which a queue's jobs wait that no limit holds, and sum up what waits there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from tickwork.core.job import LOWEST_PRIORITY
from tickwork.core.limits.lanes import lane_range, read_lane
from tickwork.core.workers.autoscale import WaitingKind


class Backlog(msgspec.Struct, frozen=True):
    """Due jobs with the same needs that no limit holds: how many, and the run_at of the oldest."""

    needs: str
    count: int
    oldest_at: datetime


def places_of(queues: Sequence[str]) -> list[tuple[str, int]]:
    """Return the (lane, priority) pairs of plain jobs: every priority of each queue's own lane."""
    return [(queue, priority) for queue in queues for priority in range(LOWEST_PRIORITY + 1)]


def ranges_of(queues: Sequence[str]) -> list[tuple[str, str]]:
    """Return the ranges of lane names in which the limited jobs of these queues are."""
    return [lane_range(f"{queue}:") for queue in queues]


def by_kind(lanes: Iterable[tuple[str, str, int]]) -> list[WaitingKind]:
    """Sum the counts of waiting jobs by task and needs."""
    found: dict[tuple[str, str], int] = {}
    for lane, task, count in lanes:
        kind = task, read_lane(lane).needs
        found[kind] = found.get(kind, 0) + count
    return [WaitingKind(*kind, count) for kind, count in found.items()]


def by_needs(lanes: Iterable[tuple[str, int, datetime]]) -> list[Backlog]:
    """Sum the counts of waiting jobs by needs, and keep the oldest instant of each."""
    found: dict[str, Backlog] = {}
    for lane, count, oldest_at in lanes:
        needs = read_lane(lane).needs
        other = found.get(needs, Backlog(needs, 0, oldest_at))
        found[needs] = Backlog(needs, other.count + count, min(other.oldest_at, oldest_at))
    return list(found.values())
