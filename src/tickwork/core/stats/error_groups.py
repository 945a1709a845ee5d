"""Error groups: failed jobs grouped by task and error message, or by task or queue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from tickwork.core.ids import JobId


class FailedJob(NamedTuple):
    """The facts of a failed job that grouping needs."""

    id: JobId
    task: str
    error: str | None
    ended_at: datetime
    queue: str = ""


class FailedEnd(NamedTuple):
    """An unsuccessful end of a job, or of an attempt. `error` is the last part of its error text.

    `is_run`: the job is a run of a dag. `is_dead`: it is a dead letter now.
    """

    id: JobId
    task: str
    queue: str
    state: str
    error: str | None
    ended_at: datetime
    is_run: bool
    is_dead: bool


class FailurePage(msgspec.Struct, frozen=True):
    """A page of failed jobs, possibly empty, and the cursor of the next page; None if it is the last."""

    failures: list[FailedJob]
    next: JobId | None


By = Literal["error", "task", "queue"]


@dataclass
class ErrorGroup:
    """A group of failed jobs. Task, queue and error message are those of its newest job."""

    task: str
    error: str
    count: int
    newest_id: str
    newest_at: datetime
    oldest_at: datetime
    queue: str = ""


class ErrorGroups:
    """Groups failed jobs by task and error message (`by="error"`), by task, or by queue."""

    def __init__(self, by: By = "error") -> None:
        self._by = by
        self._found: dict[tuple[str, ...], ErrorGroup] = {}

    def add(self, failures: Iterable[FailedJob]) -> None:
        """Add failed jobs to their groups."""
        for one in failures:
            error = last_line(one.error)
            key = {"error": (one.task, error), "task": (one.task,), "queue": (one.queue,)}[self._by]
            cause = self._found.get(key)
            if cause is None:
                cause = ErrorGroup(one.task, error, 0, one.id, one.ended_at, one.ended_at, one.queue)
                self._found[key] = cause
            cause.count += 1
            if one.ended_at > cause.newest_at:
                cause.task, cause.error, cause.queue = one.task, error, one.queue
                cause.newest_id, cause.newest_at = one.id, one.ended_at
            cause.oldest_at = min(cause.oldest_at, one.ended_at)

    def most_frequent_first(self) -> list[ErrorGroup]:
        return sorted(self._found.values(), key=lambda cause: -cause.count)


def last_line(text: str | None) -> str:
    """Return the last line of an error text, which is its message."""
    lines = (text or "").strip().splitlines()
    return lines[-1].strip() if lines else ""
