"""Batches: a handler that takes the arguments of many jobs in one call, each with an outcome of its own.

A batch forms from what is due, in the queue's order. It starts when it is full, or when its first job has waited for as
long as it may; so an idle queue costs a job at most the wait, and a busy one nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import msgspec

from tickwork.core.option_parsing import read_span, read_whole, to_us
from tickwork.core.versioned_json import VersionedJson

_LONGEST = timedelta(hours=1)
_LARGEST = 10_000


def batch(max: int = 100, wait: str | timedelta = "500ms") -> Batch:
    """Call the handler with up to `max` jobs at once, of which none waits for others longer than `wait`."""
    return Batch(size=max, wait=read_span("wait", wait, timedelta(0), _LONGEST))


class Batch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How large a batch may grow, and how long its first job may wait for the others."""

    size: int
    wait: timedelta

    def __post_init__(self) -> None:
        read_whole("max", self.size, 1, _LARGEST)
        read_span("wait", self.wait, timedelta(0), _LONGEST)


BATCHES = VersionedJson("batch", msgspec.json.Decoder(Batch))


@dataclass(frozen=True, slots=True)
class FormedBatch:
    """How many jobs to take now, in how many calls, and when to look again; None: when another job comes."""

    sizes: tuple[int, ...]
    look_at_us: int | None


def form(rule: Batch, due_us: list[int], now_us: int) -> FormedBatch:
    """Say which batches start now. `due_us` are the instants since which jobs wait, in the queue's order.

    Full batches start at once. The last one, which is not full, starts when one of its jobs has waited long enough.
    """
    full, left = divmod(len(due_us), rule.size)
    sizes = (rule.size,) * full
    if not left:
        return FormedBatch(sizes, None)
    look_at_us = min(due_us[-left:]) + to_us(rule.wait)
    return FormedBatch((*sizes, left), None) if look_at_us <= now_us else FormedBatch(sizes, look_at_us)
