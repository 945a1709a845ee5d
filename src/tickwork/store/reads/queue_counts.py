"""Count the waiting jobs of queues, from bounded counts of their lanes, and compute the load; shared by both stores.

A lane is a range of the order of a queue (docs/glossary.md); a queue has one for plain and several for limited jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tickwork.core.job import COUNTED, LOWEST_PRIORITY, QueueView, WorkerView
from tickwork.core.limits.lanes import lane_range, read_lane
from tickwork.core.workers.autoscale import QueueLoad, WaitingKind, queue_load
from tickwork.store.reads.verbs import Backlog, ReadVerbs

# Due jobs of a queue, plain and limited, whose tasks and needs are compared with workers.
LOOKED_AT = 1_000


@dataclass(slots=True)
class _Counts:
    """The counts of one queue.

    `flowing` are waiting limited jobs, `oldest` is the earliest run_at, in the store's format.
    """

    due: int = 0
    later: int = 0
    running: int = 0
    held: int = 0
    flowing: int = 0
    oldest: Any = None

    def seen(self, oldest: Any) -> None:
        """Take the run_at of the oldest job of a lane into account; None: the lane is empty."""
        if oldest is not None:
            self.oldest = oldest if self.oldest is None else min(oldest, self.oldest)


class QueueCounts:
    """The counts of queues by name. The counts of the lanes of a queue are added.

    Held jobs are bounded over all queues.
    """

    def __init__(self) -> None:
        self._queues: dict[str, _Counts] = {}
        self._held = 0

    def count(self, queue: str, due: int, later: int, flowing: int, oldest: Any) -> None:
        """Set the counts of a queue's waiting jobs, each up to COUNTED; `flowing` of them are limited jobs."""
        counts = self._of(queue)
        counts.due, counts.later, counts.flowing = due, later, flowing
        counts.seen(oldest)

    def hold(self, lane: str, due: int, later: int, oldest: Any) -> None:
        """Add held jobs to the queue to which their home lane belongs."""
        counts = self._of(read_lane(lane).queue)
        counts.held += due
        counts.later += later
        counts.seen(oldest)
        self._held += due + later

    def run(self, lane: str, count: int) -> None:
        """Add running jobs to the queue of the lane from which they were claimed."""
        self._of(read_lane(lane).queue).running += count

    def _of(self, queue: str) -> _Counts:
        return self._queues.setdefault(queue, _Counts())

    def views(self, instant: Callable[[Any], datetime]) -> list[QueueView]:
        """Return a view of each queue, sorted by name.

        It names the counts that may be too low because they are bounded.
        """
        return [self._view(name, counts, instant) for name, counts in sorted(self._queues.items())]

    def _view(self, name: str, counts: _Counts, instant: Callable[[Any], datetime]) -> QueueView:
        """Build the view of a queue; each count is limited to COUNTED, and the counts that may be too low are named."""
        walked_out = counts.flowing >= COUNTED
        short = {
            "due": counts.due >= COUNTED or walked_out,
            "later": counts.later >= COUNTED or walked_out,
            "held": self._held >= COUNTED,
        }
        oldest = None if counts.oldest is None else instant(counts.oldest)
        what = (min(counts.due, COUNTED), min(counts.later, COUNTED), counts.running, min(counts.held, COUNTED))
        return QueueView(name, *what, oldest, tuple(count for count, is_short in short.items() if is_short))


def lanes_of(queue: str) -> tuple[str, str]:
    """Return the range of lane names (first, end) of a queue's limited jobs."""
    return lane_range(f"{queue}:")


def places_of(queues: Sequence[str]) -> list[tuple[str, int]]:
    """Return the (lane, priority) pairs of plain jobs: every priority of each queue's own lane."""
    return [(queue, priority) for queue in queues for priority in range(LOWEST_PRIORITY + 1)]


def ranges_of(queues: Sequence[str]) -> list[tuple[str, str]]:
    """Return for each queue the range of lane names (first, end) of its limited jobs."""
    return [lanes_of(queue) for queue in queues]


def by_kind(lanes: Iterable[tuple[str, str, int]]) -> list[WaitingKind]:
    """Sum the counts of (lane, task, count) by task and needs."""
    found: dict[tuple[str, str], int] = {}
    for lane, task, count in lanes:
        kind = task, read_lane(lane).needs
        found[kind] = found.get(kind, 0) + count
    return [WaitingKind(*kind, count) for kind, count in found.items()]


def by_needs(lanes: Iterable[tuple[str, int, datetime]]) -> list[Backlog]:
    """Sum the counts of (lane, count, oldest run_at) by needs, with the earliest run_at of each."""
    found: dict[str, Backlog] = {}
    for lane, count, oldest_at in lanes:
        needs = read_lane(lane).needs
        other = found.get(needs, Backlog(needs, 0, oldest_at))
        found[needs] = Backlog(needs, other.count + count, min(other.oldest_at, oldest_at))
    return list(found.values())


def queue_loads(reads: ReadVerbs, queues: Sequence[QueueView], workers: Sequence[WorkerView]) -> list[QueueLoad]:
    """Return the load of each queue: its waiting jobs, how many of the workers serve it, and how many it needs."""
    durations = reads.durations()
    return [
        queue_load(
            queue,
            workers,
            durations.get(queue.name),
            waiting=reads.waiting_kinds(queue.name, LOOKED_AT) if queue.due else (),
        )
        for queue in queues
    ]
