"""Combine bounded counts of lanes into the counts of queues; shared by both stores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tickwork.core.job import COUNTED, QueueView
from tickwork.core.limits.lanes import lane_range, read_lane


@dataclass(slots=True)
class _Counts:
    due: int = 0
    later: int = 0
    running: int = 0
    held: int = 0
    flowing: int = 0
    oldest: Any = None

    def seen(self, oldest: Any) -> None:
        """Note the run_at of the oldest job of a lane."""
        if oldest is not None:
            self.oldest = oldest if self.oldest is None else min(oldest, self.oldest)


class QueueCounts:
    """The counts of queues by name. Lanes of one queue are added; held jobs are counted over all queues."""

    def __init__(self) -> None:
        self._queues: dict[str, _Counts] = {}
        self._held = 0

    def count(self, queue: str, due: int, later: int, flowing: int, oldest: Any) -> None:
        """Set the counts of a queue, `flowing` of them in lanes of limited jobs, up to COUNTED of each kind."""
        counts = self._of(queue)
        counts.due, counts.later, counts.flowing = due, later, flowing
        counts.seen(oldest)

    def hold(self, lane: str, due: int, later: int, oldest: Any) -> None:
        """Add held jobs that belong to this lane."""
        counts = self._of(read_lane(lane).queue)
        counts.held += due
        counts.later += later
        counts.seen(oldest)
        self._held += due + later

    def run(self, lane: str, count: int) -> None:
        """Add running jobs that came from this lane."""
        self._of(read_lane(lane).queue).running += count

    def _of(self, queue: str) -> _Counts:
        return self._queues.setdefault(queue, _Counts())

    def views(self, instant: Callable[[Any], datetime]) -> list[QueueView]:
        """Return each queue by name. A count that was cut short is named as such."""
        return [self._view(name, counts, instant) for name, counts in sorted(self._queues.items())]

    def _view(self, name: str, counts: _Counts, instant: Callable[[Any], datetime]) -> QueueView:
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
    """Return the range of lane names of a queue's limited jobs."""
    return lane_range(f"{queue}:")
