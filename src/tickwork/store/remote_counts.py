"""What both stores do alike for attempts over REST (see `store.remote_leases`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from tickwork.core.job import WorkerView
from tickwork.core.limits.lanes import read_lane
from tickwork.store.claim.types import LaneHead


class DueHeads(NamedTuple):
    """Where something is due, as (queue, lane, priority), and in how many seconds there may be more."""

    due: list[tuple[str, str, int]]
    next_s: float | None


def due_heads(heads: Iterable[LaneHead], now_us: int, opens_at_us: int | None) -> DueHeads:
    """Tell the first jobs of places that are due from those that will be."""
    due: list[tuple[str, str, int]] = []
    later = [] if opens_at_us is None else [opens_at_us]
    for head in heads:
        if head.run_at_us <= now_us:
            due.append((read_lane(head.lane).queue, head.lane, head.priority))
        else:
            later.append(head.run_at_us)
    return DueHeads(due, (min(later) - now_us) / 1e6 if later else None)


def with_held(workers: Iterable[WorkerView], counts: Mapping[str, int]) -> list[WorkerView]:
    """Return workers with the number of jobs that each of them runs."""
    return [replace(one, running=counts.get(one.id, 0)) for one in workers]


def within(text: str, held: int, limit: int) -> str:
    """What is kept of some more lines of an attempt; the last piece says that the rest is not."""
    room = limit - held
    if len(text) <= room:
        return text
    notice = f"\n... more than {limit:,} characters: the rest is not kept\n"
    return text[:room] + notice if room > 0 else ""
