"""What stands in the queues, put together from bounded counts; shared by both stores."""

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
        if oldest is not None:
            self.oldest = oldest if self.oldest is None else min(oldest, self.oldest)


class QueueCounts:
    """The counts of queues by their names. Lanes of one queue add up; what is held is counted over all queues."""

    def __init__(self) -> None:
        self._queues: dict[str, _Counts] = {}
        self._held = 0

    def count(self, queue: str, due: int, later: int, flowing: int, oldest: Any) -> None:
        """So many were found in a queue, `flowing` of them in lanes of jobs with a flow, up to COUNTED of each kind."""
        counts = self._of(queue)
        counts.due, counts.later, counts.flowing = due, later, flowing
        counts.seen(oldest)

    def hold(self, lane: str, due: int, later: int, oldest: Any) -> None:
        """So many are held that belong into this lane."""
        counts = self._of(read_lane(lane).queue)
        counts.held += due
        counts.later += later
        counts.seen(oldest)
        self._held += due + later

    def run(self, lane: str, count: int) -> None:
        """So many run that came from this lane."""
        self._of(read_lane(lane).queue).running += count

    def _of(self, queue: str) -> _Counts:
        return self._queues.setdefault(queue, _Counts())

    def views(self, instant: Callable[[Any], datetime]) -> list[QueueView]:
        """Each queue by name. A count that was cut short says so."""
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
    """From where to before where the lanes of a queue's jobs with a flow lie."""
    return lane_range(f"{queue}:")
