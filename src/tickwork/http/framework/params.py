"""Parameters that several handlers take: texts, instants, durations, job filters, and the pagination of lists."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from tickwork.core.ids import JobId
from tickwork.core.job import JobFilter, JobState, QueuedReason
from tickwork.core.text.duration import format_duration, parse_duration, parse_spacing
from tickwork.errors import InvalidOption
from tickwork.http.framework.problems import Problem, ProblemDetail
from tickwork.http.framework.route import Struct

Span = str | float
_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,9})?", re.ASCII)


def read_seconds(value: Span, what: str, low: float, high: float) -> float:
    """Return a number of seconds. Raises InvalidOption unless it is from `low` to `high`."""
    seconds = parse_duration(value, what=what).total_seconds() if isinstance(value, str) else float(value)
    if not low <= seconds <= high:
        raise InvalidOption(f"{what} must be from {_said(low)} to {_said(high)}, not {value!r}. Nothing was done.")
    return seconds


def _said(seconds: float) -> str:
    return format_duration(parse_duration(f"{seconds:g}s", what="a bound"))


def duration(what: str, given: Span) -> timedelta:
    """Return a duration of at least zero. A text of digits counts as seconds, as in a URL. Raises InvalidOption."""
    if isinstance(given, str) and _NUMBER.fullmatch(given) is None:
        return parse_duration(given, what=what)
    try:
        return parse_duration(timedelta(seconds=float(given)), what=what)
    except OverflowError:
        raise InvalidOption(f"{what}: {given} seconds is too long.") from None


def spacing(rate: str | None) -> timedelta:
    """Return the interval between two jobs at a rate. Raises InvalidOption."""
    return timedelta(0) if rate is None else parse_spacing(rate)


Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]


class PageQuery(Struct):
    """The page of a list to return: its size, and the `next_cursor` of the previous page."""

    limit: Limit = 50
    cursor: str | None = None


def is_storable_name(text: str) -> bool:
    """Return whether a text can be a stored name. Some texts cannot even be used in a query of the store."""
    return 0 < len(text) <= 200 and text.isprintable()


def name_after(query: PageQuery) -> str:
    """Return the name after which a page of a list by names begins."""
    if query.cursor is None:
        return ""
    if not is_storable_name(query.cursor):
        raise bad_cursor()
    return query.cursor


def bad_cursor() -> Problem:
    said = "it is not a next_cursor of this list"
    return Problem(422, "invalid", f"cursor: {said}.", faults=[ProblemDetail(said, parameter="cursor")])


Text = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\u0000]*$")]


class StateWord(StrEnum):
    """A state of jobs, or why a queued job waits: due, delayed (before its first attempt), or retrying."""

    WAITING = "waiting"
    QUEUED = "queued"
    DUE = "due"
    DELAYED = "delayed"
    RETRYING = "retrying"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DROPPED = "dropped"
    EXPIRED = "expired"

    @property
    def waits(self) -> QueuedReason | None:
        return next((one for one in QueuedReason if one.value == self.value), None)

    @property
    def state(self) -> JobState:
        return JobState.QUEUED if self.waits is not None else JobState(self.value)


class AnyStateFilter(Struct):
    """A filter of jobs by everything except their state. Fields that are left out do not restrict it.

    A `task` that ends in a star matches all tasks with that prefix. `error` is words in the error of the last
    attempt, and `worker` the worker of that attempt. `dead` means failed and not discarded.
    """

    task: Text | None = None
    queue: Text | None = None
    key: Text | None = None
    collection: Text | None = None
    label: Text | None = None
    parent_id: Text | None = None
    creator: Text | None = None
    run_id: Text | None = None
    dead: bool = False
    created_after: datetime | None = None
    created_before: datetime | None = None
    tenant: Text | None = None
    error: Text | None = None
    worker: Text | None = None

    @property
    def is_empty(self) -> bool:
        return self.which() == JobFilter()

    def which(self, ids: list[JobId] | None = None, *, dead: bool = False) -> JobFilter:
        """Return the filter as a `JobFilter` of the store."""
        return JobFilter(
            ids=None if ids is None else tuple(ids),
            task=None if self.tasks is not None else self.task,
            tasks=self.tasks,
            queue=self.queue,
            key=self.key,
            collection=self.collection,
            label=self.label,
            parent=self.parent_id,
            creator=self.creator,
            run=self.run_id,
            dead=self.dead or dead,
            since=instant("created_after", self.created_after),
            until=instant("created_before", self.created_before),
            tenant=self.tenant,
            error=self.error,
            worker=self.worker,
        )

    @property
    def tasks(self) -> str | None:
        """The prefix of a `task` that ends in a star, or None for any other task."""
        return self.task[:-1] if self.task is not None and self.task.endswith("*") else None


class FilterBody(AnyStateFilter):
    """A filter of jobs, also by their state. `queued` covers `due`, `delayed` and `retrying`."""

    state: StateWord | None = None

    def which(self, ids: list[JobId] | None = None, *, dead: bool = False) -> JobFilter:
        which = super().which(ids, dead=dead)
        return which if self.state is None else replace(which, state=self.state.state, waits=self.state.waits)


def shown_filter(which: JobFilter) -> FilterBody:
    """Return a filter of the store as the API shows it."""
    word = which.waits or which.state
    return FilterBody(
        state=None if word is None else StateWord(word.value),
        task=which.task if which.tasks is None else f"{which.tasks}*",
        queue=which.queue,
        key=which.key,
        collection=which.collection,
        label=which.label,
        parent_id=which.parent,
        creator=which.creator,
        run_id=which.run,
        dead=which.dead,
        created_after=which.since,
        created_before=which.until,
        tenant=which.tenant,
        error=which.error,
        worker=which.worker,
    )


def instant(what: str, given: datetime | None) -> datetime | None:
    """Return an instant that has a UTC offset. Raises Problem if it has none."""
    if given is not None and given.tzinfo is None:
        raise Problem(422, "invalid", f"{what} does not say its offset; write 2026-11-01T12:00:00Z. Nothing was done.")
    return given
