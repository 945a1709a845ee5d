"""Failed jobs by their cause: the task, and the line of the error that says what happened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import msgspec

from tickwork.core.ids import JobId


class Failure(NamedTuple):
    """What is to be known of a failed job to put it with others."""

    id: JobId
    task: str
    error: str | None
    ended_at: datetime


class Trouble(NamedTuple):
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

    failures: list[Failure]
    next: JobId | None


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

    def add(self, failures: Iterable[Failure]) -> None:
        for id, task, text, at in failures:
            error = last_line(text)
            cause = self._found.setdefault((task, error), Cause(task, error, 0, id, at, at))
            cause.count += 1
            if at > cause.newest_at:
                cause.newest_id, cause.newest_at = id, at
            cause.oldest_at = min(cause.oldest_at, at)

    def most_frequent_first(self) -> list[Cause]:
        return sorted(self._found.values(), key=lambda cause: -cause.count)


def last_line(text: str | None) -> str:
    """The line of an error that says what happened."""
    lines = (text or "").strip().splitlines()
    return lines[-1].strip() if lines else ""
