"""Failed jobs by their cause: the task, and the line of the error that says what happened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from tickwork.core.ids import JobId


class FailedJob(NamedTuple):
    """What is to be known of a failed job to put it with others."""

    id: JobId
    task: str
    error: str | None
    ended_at: datetime
    queue: str = ""


class FailedEnd(NamedTuple):
    """An end that was no success: of a job, or of an attempt of one. `error` is the end of what it failed with.

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
    """Some failed jobs, and from where on to look for more; None: there are no more. There may be none in a page."""

    failures: list[FailedJob]
    next: JobId | None


By = Literal["error", "task", "queue"]


@dataclass
class ErrorGroup:
    """Jobs that were put together. The newest of them stands for all: its task, queue and last line of error."""

    task: str
    error: str
    count: int
    newest_id: str
    newest_at: datetime
    oldest_at: datetime
    queue: str = ""


class ErrorGroups:
    """Jobs that were put together: by their task and error, which is their cause, or by task or queue alone."""

    def __init__(self, by: By = "error") -> None:
        self._by = by
        self._found: dict[tuple[str, ...], ErrorGroup] = {}

    def add(self, failures: Iterable[FailedJob]) -> None:
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
    """The line of an error that says what happened."""
    lines = (text or "").strip().splitlines()
    return lines[-1].strip() if lines else ""
