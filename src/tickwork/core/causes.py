"""Failed jobs by their cause: the task, and the line of the error that says what happened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from tickwork.core.job import JobView


@dataclass
class Cause:
    """Jobs of one task with the same last line of error. The newest of them stands for all."""

    task: str
    error: str
    count: int
    newest_id: str
    newest_at: datetime
    oldest_at: datetime


class Causes:
    """Jobs that were put together by their cause."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Cause] = {}

    def add(self, views: Iterable[JobView]) -> None:
        for view in views:
            error, at = last_line(view.error), view.ended_at or view.created_at
            cause = self._found.setdefault((view.task, error), Cause(view.task, error, 0, view.id, at, at))
            cause.count += 1
            if at > cause.newest_at:
                cause.newest_id, cause.newest_at = view.id, at
            cause.oldest_at = min(cause.oldest_at, at)

    def most_frequent_first(self) -> list[Cause]:
        return sorted(self._found.values(), key=lambda cause: -cause.count)


def last_line(text: str | None) -> str:
    """The line of an error that says what happened."""
    lines = (text or "").strip().splitlines()
    return lines[-1].strip() if lines else ""
