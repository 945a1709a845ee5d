"""Helpers of both stores for attempts over REST (see `store.remote_leases`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from tickwork.core.job import WorkerView
from tickwork.core.limits.lanes import read_lane
from tickwork.store.claim.types import LaneHead


class DueHeads(NamedTuple):
    """The places with due jobs, as (queue, lane, priority), and the seconds until there may be more."""

    due: list[tuple[str, str, int]]
    next_s: float | None


def due_heads(heads: Iterable[LaneHead], now_us: int, opens_at_us: int | None) -> DueHeads:
    """Split the first jobs of places into those that are due and those that will be."""
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
    """Return as much of an attempt's new lines as the limit leaves; the last piece ends with a notice of truncation."""
    room = limit - held
    if len(text) <= room:
        return text
    notice = f"\n... more than {limit:,} characters: the rest is not kept\n"
    return text[:room] + notice if room > 0 else ""
