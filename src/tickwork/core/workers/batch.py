"""Batches: handlers that take the arguments of many jobs in one call, with an outcome for each job.

A batch forms from due jobs in the queue's order. It starts when it is full, or when one of its jobs has waited for
`wait`. An idle queue delays a job by at most `wait`, and a busy queue not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import msgspec

from tickwork.core.option_parsing import read_span, read_whole, to_us

_LONGEST = timedelta(hours=1)
_LARGEST = 10_000


def batch(max: int = 100, wait: str | timedelta = "500ms") -> Batch:
    """Return a batch rule: the handler is called with up to `max` jobs; no job waits longer than `wait`."""
    return Batch(size=max, wait=read_span("wait", wait, timedelta(0), _LONGEST))


class Batch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a batch: how large it may grow, and how long a job may wait for others."""

    size: int
    wait: timedelta

    def __post_init__(self) -> None:
        read_whole("max", self.size, 1, _LARGEST)
        read_span("wait", self.wait, timedelta(0), _LONGEST)


@dataclass(frozen=True, slots=True)
class FormedBatch:
    """How many jobs to take now, in how many calls, and when to check again; None means when another job arrives."""

    sizes: tuple[int, ...]
    look_at_us: int | None


def form(rule: Batch, due_us: list[int], now_us: int) -> FormedBatch:
    """Return which batches start now. `due_us` are the instants since which jobs wait, in the queue's order.

    Full batches start at once. The last one, which is not full, starts when one of its jobs has waited long enough.
    """
    full, left = divmod(len(due_us), rule.size)
    sizes = (rule.size,) * full
    if not left:
        return FormedBatch(sizes, None)
    look_at_us = min(due_us[-left:]) + to_us(rule.wait)
    return FormedBatch((*sizes, left), None) if look_at_us <= now_us else FormedBatch(sizes, look_at_us)
