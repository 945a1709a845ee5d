"""How handlers read what several of them take: texts, instants, and filters of jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from tickwork.core.ids import JobId
from tickwork.core.job import JobFilter, JobState
from tickwork.http.problems import Problem
from tickwork.http.route import Struct

Text = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\u0000]*$")]


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
