"""How many children a worker wants, and how many workers a queue wants.

What is wanted follows from the work: each job that runs has its slot, and those that wait have so many slots that they
would all have begun within a target time. A worker grows at once, since somebody waits, and shrinks when for a calm
while fewer would have been enough with room to spare; so a constant load changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from tickwork.core.job import RUN, QueueView, WorkerView
from tickwork.core.option_parsing import read_whole, shown, to_us
from tickwork.core.placement.needs import needs_of, taken_of
from tickwork.errors import InvalidOption

USUAL_SLOTS = 10  # of a worker that says nothing else
_CHILDREN_LIMIT = 256
_RANGE = re.compile(r"([0-9]{1,4})\.\.([0-9]{1,4})")
_SPARE = 4  # a quarter of what runs stays free before a worker shrinks


class AutoscaleRange(msgspec.Struct, frozen=True, kw_only=True):
    """Between how many children, how long a due job may wait, and how long calm lasts before one shrinks."""

    low: int = 1
    high: int = 8
    target: timedelta = timedelta(seconds=1)
    calm: timedelta = timedelta(minutes=1)

    def __post_init__(self) -> None:
        read_whole("the most processes", self.high, 1, _CHILDREN_LIMIT)
        read_whole("the fewest processes", self.low, 1, self.high)


class PoolLoad(NamedTuple):
    """What is to be done: jobs that are due and wait, slots that are taken, and how long a job takes on average.

    Jobs that are parked do not wait for a slot, and are not counted. `waited_us` is how long the one that waits longest
    has been due.
    """

    waiting: int
    busy: int
    duration_us: int
    waited_us: int = 0


class PoolSize(msgspec.Struct, frozen=True):
    """How many children there are, since when fewer would do, and the most that were wanted since then."""

    count: int
    calm_since_us: int
    peak: int = 0


def read_processes(value: Any) -> AutoscaleRange:
    """Return what `--processes 1..8` says; one number is a fixed count. Raises InvalidOption."""
    text = str(value).strip()
    found = _RANGE.fullmatch(text)
    if found is None and not (text.isdecimal() and text.isascii()):
        raise InvalidOption(f"processes: {shown(value)} is not a number or a range; say 4, or 1..8.")
    low, high = found.groups() if found else (text, text)
    return AutoscaleRange(low=int(low), high=int(high))


def wanted_slots(load: PoolLoad, target: timedelta) -> int:
    """Return how many slots the work wants: never more than there are jobs."""
    quick = -(-load.waiting * load.duration_us // to_us(target))
    return load.busy + min(load.waiting, max(quick, min(load.waiting, 1)))


def wanted_children(rule: AutoscaleRange, load: PoolLoad, slots: int, count: int) -> int:
    """Return how many children, of `slots` each, a worker with `count` of them wants now.

    One more than there are when a job has waited longer than the target, whatever the durations promised.
    """
    wanted = -(-wanted_slots(load, rule.target) // slots)
    if load.waiting and load.waited_us > to_us(rule.target):
        wanted = max(wanted, count + 1)
    return min(max(wanted, rule.low), rule.high)


def resize(rule: AutoscaleRange, size: PoolSize, load: PoolLoad, slots: int, now_us: int) -> PoolSize:
    """Return how many children there shall be from now on. Those that are too many drain, and are not killed."""
    wanted = wanted_children(rule, load, slots, size.count)
    if wanted > size.count:
        return PoolSize(wanted, now_us)
    roomy = load._replace(busy=load.busy + -(-load.busy // _SPARE))
    peak = max(size.peak, wanted_children(rule, roomy, slots, size.count))
    if peak >= size.count:
        return PoolSize(size.count, now_us)
    if now_us - size.calm_since_us >= to_us(rule.calm):
        return PoolSize(peak, now_us)
    return PoolSize(size.count, size.calm_since_us, peak)


def wanted_workers(load: PoolLoad, slots: int, target: timedelta = timedelta(seconds=30)) -> int:
    """Return how many workers, of `slots` each, a queue wants; 0 when it has nothing to do. For outside autoscalers."""
    return -(-wanted_slots(load, target) // slots)


class WaitingKind(NamedTuple):
    """Jobs of one task with the same needs that are due in a queue and that nothing holds."""

    task: str
    needs: str
    jobs: int


class QueueLoad(NamedTuple):
    """What stands in a queue, how many workers serve it, and how many it wants. What is held wants none.

    `unplaced`: so many of the jobs that are due cannot be run by any worker that lives.
    """

    queue: QueueView
    workers: int
    wanted: int
    unplaced: int = 0


def queue_load(
    queue: QueueView,
    workers: Iterable[WorkerView],
    duration: timedelta | None,
    usual_slots: int = USUAL_SLOTS,
    waiting: Iterable[WaitingKind] = (),
) -> QueueLoad:
    """Return how many workers like those that serve a queue would do its work in good time.

    Jobs of `waiting` that none of them can run want workers besides all that serve the queue.
    """
    serving = [one for one in workers if one.serves and queue.name in one.queues]
    each = -(-sum(one.slots for one in serving) // len(serving)) if serving else usual_slots
    unplaced = min(queue.due, _unplaced(waiting, serving))
    took_us = to_us(duration or timedelta(0))
    wanted = wanted_workers(PoolLoad(queue.due - unplaced, queue.running, took_us), each)
    if unplaced:
        wanted = max(wanted, len(serving)) + wanted_workers(PoolLoad(unplaced, 0, took_us), usual_slots)
    return QueueLoad(queue, len(serving), wanted, unplaced)


def _unplaced(waiting: Iterable[WaitingKind], serving: Sequence[WorkerView]) -> int:
    """How many of these jobs no worker can run: none has their task, their labels or so much of a resource."""
    return sum(one.jobs for one in waiting if not any(_can_run(worker, one) for worker in serving))


def _can_run(worker: WorkerView, kind: WaitingKind) -> bool:
    knows = kind.task == RUN or worker.knows(kind.task)
    return knows and (not kind.needs or taken_of(worker.offer, needs_of(kind.needs)) is not None)
