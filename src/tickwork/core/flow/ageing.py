"""Ageing: what is least urgent starts too, in bounded time, and what is urgent keeps at least half of the room.

A job that has been due for longer than AGE is *aged*. Aged jobs may take up to half of each claim, the one that was due
first before the others and whatever their priority; the rest goes by priority as ever. So a job of the lowest priority
waits for AGE, and then for as long as half of the workers need for what was due before it, however much urgent work
comes in. Where nothing is aged nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from tickwork.core.flow.reading import to_us
from tickwork.core.ids import JobId

AGE = timedelta(minutes=5)


class Due(NamedTuple):
    """A job that is due, as its queue orders it."""

    priority: int
    run_at_us: int
    id: JobId


@dataclass(frozen=True, slots=True)
class Share:
    """How many of a claim aged jobs may take before the others, and what is left of a half for the next claim."""

    aged: int
    carry: int


def aged_share(count: int, carry: int = 0) -> Share:
    """Return the half of a claim of `count` jobs. The carry, 0 or 1, makes the halves of odd claims come out even."""
    return Share(*divmod(count + carry, 2)) if count else Share(0, carry)


def aged_before_us(now_us: int, age: timedelta = AGE) -> int:
    """Return the instant before which a job must have been due to be aged now."""
    return now_us - to_us(age)


def choose(due: Iterable[Due], count: int, now_us: int, *, carry: int = 0, age: timedelta = AGE) -> list[Due]:
    """Return the jobs that a claim takes: what the stores' statements select, told without SQL."""
    waiting = sorted(due)
    before_us = aged_before_us(now_us, age)
    by_age = sorted((job for job in waiting if job.run_at_us < before_us), key=lambda job: (job.run_at_us, job.id))
    first = by_age[: aged_share(count, carry).aged]
    taken = set(first)
    rest = [job for job in waiting if job not in taken]
    return first + rest[: max(0, count - len(first))]
