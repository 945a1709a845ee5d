"""How handlers read what several of them take: texts, durations, filters of jobs, and pages of a list."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Meta

from tickwork.core.duration import parse_duration, parse_rate
from tickwork.core.ids import JobId
from tickwork.core.job import JobFilter, JobState
from tickwork.errors import InvalidOption
from tickwork.http.problems import Problem
from tickwork.http.route import Struct

Text = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\u0000]*$")]
Limit = Annotated[int, Meta(ge=1, le=1000)]
_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,9})?", re.ASCII)
Span = str | float
"""A duration: a text such as "1h30m", or a number of seconds."""


class FilterBody(Struct):
    """Which jobs are meant. Fields that are left out do not restrict. `dead`: failed, and not dealt with."""

    state: JobState | None = None
    task: Text | None = None
    queue: Text | None = None
    key: Text | None = None
    collection: Text | None = None
    label: Text | None = None
    parent_id: Text | None = None
    run_id: Text | None = None
    dead: bool = False
    created_after: datetime | None = None
    created_before: datetime | None = None

    @property
    def is_empty(self) -> bool:
        return self.which() == JobFilter()

    def which(self, ids: list[JobId] | None = None, *, dead: bool = False) -> JobFilter:
        """The filter as stores take it."""
        return JobFilter(
            ids=None if ids is None else tuple(ids),
            state=self.state,
            task=self.task,
            queue=self.queue,
            key=self.key,
            collection=self.collection,
            label=self.label,
            parent=self.parent_id,
            run=self.run_id,
            dead=self.dead or dead,
            since=instant("created_after", self.created_after),
            until=instant("created_before", self.created_before),
        )


def shown_filter(which: JobFilter) -> FilterBody:
    """A filter as it is said."""
    return FilterBody(
        state=which.state,
        task=which.task,
        queue=which.queue,
        key=which.key,
        collection=which.collection,
        label=which.label,
        parent_id=which.parent,
        run_id=which.run,
        dead=which.dead,
        created_after=which.since,
        created_before=which.until,
    )


def instant(what: str, given: datetime | None) -> datetime | None:
    """An instant that says in which zone it is. Raises Problem."""
    if given is not None and given.tzinfo is None:
        raise Problem(422, "invalid", f"{what} does not say its offset; write 2026-11-01T12:00:00Z. Nothing was done.")
    return given


def duration(what: str, given: Span) -> timedelta:
    """A duration that is not below zero. A number of seconds may be a text, as in an address. Raises InvalidOption."""
    if isinstance(given, str) and _NUMBER.fullmatch(given) is None:
        return parse_duration(given, what=what)
    try:
        return parse_duration(timedelta(seconds=float(given)), what=what)
    except OverflowError:
        raise InvalidOption(f"{what}: {given} seconds is too long.") from None


def spacing(rate: str | None) -> timedelta:
    """The time between two jobs at a rate. Raises InvalidOption."""
    return timedelta(0) if rate is None else timedelta(seconds=1 / parse_rate(rate))
