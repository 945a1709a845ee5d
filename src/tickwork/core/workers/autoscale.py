"""Autoscaling: how many child processes a worker needs, and how many workers a queue needs.

The numbers follow from the work: each running job has its slot, and waiting jobs get as many slots as it takes to start
all of them within a target time. A worker grows at once, because jobs are waiting. It shrinks after fewer children,
with a reserve, would have been enough for the whole `calm` time, so a constant load changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from tickwork.core.job import RUN, QueueView, WorkerView
from tickwork.core.option_parsing import read_whole, shown, to_us
from tickwork.core.placement import needs_of, taken_of
from tickwork.errors import InvalidOption

USUAL_SLOTS = 10  # of a worker that does not set the number
_CHILDREN_LIMIT = 256
_RANGE = re.compile(r"([0-9]{1,4})\.\.([0-9]{1,4})")
_SPARE = 4  # a quarter of the busy slots stays free before a worker shrinks


class AutoscaleRange(msgspec.Struct, frozen=True, kw_only=True):
    """The range of children, how long a due job may wait (`target`), and the time before a worker shrinks (`calm`)."""

    low: int = 1
    high: int = 8
    target: timedelta = timedelta(seconds=1)
    calm: timedelta = timedelta(minutes=1)

    def __post_init__(self) -> None:
        read_whole("the most processes", self.high, 1, _CHILDREN_LIMIT)
        read_whole("the fewest processes", self.low, 1, self.high)


class PoolLoad(NamedTuple):
    """The load of a worker or queue: waiting jobs that are due, busy slots, and the average duration of a job.

    Parked jobs do not wait for a slot, and are not counted. `waited_us` is how long the longest-waiting job has been
    due.
    """

    waiting: int
    busy: int
    duration_us: int
    waited_us: int = 0


class PoolSize(msgspec.Struct, frozen=True):
    """The number of children, since when fewer would be enough, and the highest number needed since then."""

    count: int
    calm_since_us: int
    peak: int = 0


def read_processes(value: Any) -> AutoscaleRange:
    """Return the range of `--processes 1..8`; a single number is a fixed count. Raises InvalidOption."""
    text = str(value).strip()
    found = _RANGE.fullmatch(text)
    if found is None and not (text.isdecimal() and text.isascii()):
        raise InvalidOption(f"processes: {shown(value)} is not a number or a range; say 4, or 1..8.")
    low, high = found.groups() if found else (text, text)
    return AutoscaleRange(low=int(low), high=int(high))


def wanted_slots(load: PoolLoad, target: timedelta) -> int:
    """Return how many slots the load needs, at most one for each job."""
    quick = -(-load.waiting * load.duration_us // to_us(target))
    return load.busy + min(load.waiting, max(quick, min(load.waiting, 1)))


def wanted_children(rule: AutoscaleRange, load: PoolLoad, slots: int, count: int) -> int:
    """Return how many children, of `slots` each, a worker with `count` of them needs now.

    If a job has waited longer than the target, this is at least one more than there are, whatever the durations
    suggest.
    """
    wanted = -(-wanted_slots(load, rule.target) // slots)
    if load.waiting and load.waited_us > to_us(rule.target):
        wanted = max(wanted, count + 1)
    return min(max(wanted, rule.low), rule.high)


def resize(rule: AutoscaleRange, size: PoolSize, load: PoolLoad, slots: int, now_us: int) -> PoolSize:
    """Return the number of children to run from now on. Surplus children drain and are not killed."""
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
    """Return how many workers of `slots` each a queue needs, for external autoscalers; 0 without work."""
    return -(-wanted_slots(load, target) // slots)


class WaitingKind(NamedTuple):
    """Due jobs in a queue that share a task and needs, and that nothing holds."""

    task: str
    needs: str
    jobs: int


class QueueLoad(NamedTuple):
    """The load of a queue: how many workers serve it, and how many it needs. Held jobs need none.

    `unplaced` is the number of due jobs that no live worker can run.
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

    Jobs of `waiting` that no serving worker can run need further workers.
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
    """Return how many of these jobs no worker can run, because it lacks their task, labels or resources."""
    return sum(one.jobs for one in waiting if not any(_can_run(worker, one) for worker in serving))


def _can_run(worker: WorkerView, kind: WaitingKind) -> bool:
    knows = kind.task == RUN or worker.knows(kind.task)
    return knows and (not kind.needs or taken_of(worker.offer, needs_of(kind.needs)) is not None)
