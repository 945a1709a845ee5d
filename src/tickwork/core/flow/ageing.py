"""Ageing: what is least urgent starts too, in bounded time, and what is urgent keeps at least half of the room.

A job that has been due for longer than AGE is *aged*. Aged jobs may take up to half of each claim before the others.
The priorities that have some take turns at it, each with the job that was due first; the rest goes by priority as ever.
So a job waits for AGE, and then for what was due before it of its own priority, which has at least a twentieth of the
workers (half of them over ten priorities), however much comes in of the others. Where nothing is aged nothing changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import NamedTuple

from tickwork.core.flow.reading import to_us
from tickwork.core.ids import JobId
from tickwork.core.job import LOWEST_PRIORITY

AGE = timedelta(minutes=5)


class Due(NamedTuple):
    """A job that is due, as its queue orders it."""

    priority: int
    run_at_us: int
    id: JobId


class Turn(NamedTuple):
    """What a worker remembers from one claim to the next: half a place that is left, and whose turn is next."""

    carry: int = 0
    priority: int = LOWEST_PRIORITY


FIRST_TURN = Turn()


def aged_before_us(now_us: int) -> int:
    """Return the instant before which a job must have been due to be aged now."""
    return now_us - to_us(AGE)


def aged_places(count: int, aged: Mapping[int, int], turn: Turn) -> tuple[dict[int, int], Turn]:
    """Return how many places of a claim go to the oldest of each priority, and the next turn.

    `aged` says how many aged jobs wait of each priority: counted up to `count` is enough.
    """
    places, carry = divmod(count + turn.carry, 2)
    given: Counter[int] = Counter()
    priority = turn.priority
    for _ in range(min(places, sum(aged.values()))):
        while given[priority] >= aged.get(priority, 0):
            priority = (priority - 1) % (LOWEST_PRIORITY + 1)
        given[priority] += 1
        priority = (priority - 1) % (LOWEST_PRIORITY + 1)
    return {some: number for some, number in given.items() if number}, Turn(carry, priority)


def choose(due: Iterable[Due], count: int, now_us: int, turn: Turn = FIRST_TURN) -> tuple[list[Due], Turn]:
    """Return the jobs that a claim takes, and the next turn: what the stores' statements select, told without SQL."""
    waiting = sorted(due)
    before_us = aged_before_us(now_us)
    aged = Counter(job.priority for job in waiting if job.run_at_us < before_us)
    places, turn = aged_places(count, aged, turn)
    first: list[Due] = []
    for job in waiting:
        if places.get(job.priority, 0) > 0:
            places[job.priority] -= 1
            first.append(job)
    taken = set(first)
    rest = [job for job in waiting if job not in taken]
    return first + rest[: count - len(first)], turn
