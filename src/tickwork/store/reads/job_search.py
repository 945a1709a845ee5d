"""What a store promises of finding: jobs by any filter and by words, at a bounded cost.

A list that an index answers is read to its end. Where none does, a page walks at most WALK jobs and says where it
stopped, so that it costs the same however many jobs there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec

from tickwork.core.ids import JobId, first_id
from tickwork.core.job import JobFilter, JobPage, JobState, JobView, QueuedReason
from tickwork.core.stats.error_groups import FailedEnd, FailedJob, FailurePage
from tickwork.store.reads.query_plan import ReadPath, state_of, ways

WALK = 5_000  # so many jobs a page looks at, where no index finds what is wanted
SCATTERED = 1_500  # so many, where they stand far apart
ERRORS = 2_500  # and so many errors
NAMES = 20  # so many tasks that begin with what is looked for
KEYS = 1_000  # and so many keys
# Those that a job can be in, as they are told.
STATES = tuple(state for state in JobState if state is not JobState.WAITING)


class SearchHits(msgspec.Struct, frozen=True):
    """Jobs that words were found in, the newest first; `next`: from where on to look for more.

    `is_partial`: so many tasks or keys begin with the words that not all of them were looked at.
    """

    ids: list[JobId]
    next: JobId | None
    is_partial: bool


class StateCount(msgspec.Struct, frozen=True):
    """How many jobs are in a state, or wait in a way; `is_bounded`: there may be more."""

    state: JobState | QueuedReason
    count: int
    is_bounded: bool


class SearchVerbs(Protocol):
    """The verbs of finding. They only read."""

    def find_jobs(self, which: JobFilter, limit: int, before: JobId | None = None) -> JobPage:
        """As list_jobs, at a bounded cost: a page may be short, or empty, and still have a next one.

        The jobs come without their arguments and results, which may be large.
        """

    def count_jobs(self, which: JobFilter, most: int) -> list[StateCount]:
        """Count what a filter means in each state it may be in, up to `most` and at a bounded cost.

        What is queued is counted by how it waits.
        """

    def find_failures(self, which: JobFilter, limit: int, before: JobId | None = None) -> FailurePage:
        """As find_jobs, of dead letters alone, and only what their causes are told by."""

    def failed_lately(self, since: datetime, limit: int) -> list[FailedEnd]:
        """Return jobs that ended since then and did not succeed, the latest first; so many of them are looked at."""

    def retried_lately(self, since: datetime, limit: int) -> list[FailedEnd]:
        """Return attempts that ended since then and after which their job was queued again, the latest first."""

    def ended_among(self, ids: Sequence[JobId]) -> set[JobId]:
        """Return those of the jobs that have ended."""

    def search_jobs(self, text: str, limit: int, before: JobId | None = None) -> SearchHits:
        """Return jobs whose task or key begins with a text, or that failed with it somewhere in their error."""

    def queue_names(self) -> list[str]:
        """Return the names of queues that jobs wait in."""


Floor = Callable[[ReadPath], JobId | None]
"""The job to which a page may walk by a way; None: the way ends before that."""


class ListWalk(NamedTuple):
    """By which way to read a page, and down to which job."""

    way: ReadPath
    floor: JobId | None


def choose(which: JobFilter, floor_of: Floor) -> ListWalk:
    """The way that finds everything there is within a page's walk, else the one that comes furthest."""
    known = ways(which)
    for way in known:
        if way.finds_all:
            return ListWalk(way, None)
    walks: list[ListWalk] = []
    for way in known:
        walks.append(ListWalk(way, floor_of(way)))
        if walks[-1].floor is None:
            return walks[-1]
    return min(walks, key=lambda walk: walk.floor or "")


def walk_of(way: ReadPath) -> int:
    """How many jobs a page may walk."""
    return SCATTERED if way.is_scattered else WALK


def by_state(which: JobFilter) -> Iterator[tuple[JobState, JobFilter]]:
    """What a filter means, split by states. Of what is queued, an index leads to the jobs that are tried again."""
    for state in STATES:
        if state_of(which) in (None, state):
            yield state, replace(which, state=which.state or state)
            if state is JobState.QUEUED and which.waits is None:
                yield state, replace(which, state=which.state or state, waits=QueuedReason.RETRYING)


def counts_of(which: JobFilter, counts: dict[str, int], most: int, floor: JobId | None) -> list[StateCount]:
    """What was counted of one state, by how it waits where it is queued, on a walk that may have ended at a job."""
    is_bounded = floor is not None or sum(counts.values()) >= most
    return [StateCount(word, counts.get(word.value, 0), is_bounded) for word in _words(which)]


def _words(which: JobFilter) -> list[JobState | QueuedReason]:
    state = state_of(which)
    if state is not JobState.QUEUED:
        return [] if state is None else [state]
    return [which.waits] if which.waits is not None else [QueuedReason.DUE, QueuedReason.DELAYED]


def page_of(views: list[JobView], limit: int, which: JobFilter, floor: JobId | None) -> JobPage:
    """What was read, and where to go on."""
    return JobPage(views, _next(views, limit, which, floor))


def failures_of(found: list[FailedJob], limit: int, which: JobFilter, floor: JobId | None) -> FailurePage:
    """The same of failures."""
    return FailurePage(found, _next(found, limit, which, floor))


def _next(
    found: Sequence[JobView] | Sequence[FailedJob], limit: int, which: JobFilter, floor: JobId | None
) -> JobId | None:
    """Where the next page begins: after the last of a full one, else where the walk ended."""
    if len(found) == limit:
        return found[-1].id
    is_over = floor is not None and which.since is not None and floor <= first_id(which.since)
    return None if is_over else floor


def hits_of(found: Sequence[Sequence[str]], limit: int, floor: JobId | None, *, is_partial: bool) -> SearchHits:
    """The newest of what several lists of up to `limit` ids have found, and nothing below `floor`."""
    ids = sorted({one for ids in found for one in ids if floor is None or one >= floor}, reverse=True)
    full = len(ids) >= limit
    return SearchHits([JobId(one) for one in ids[:limit]], JobId(ids[limit - 1]) if full else floor, is_partial)


def like(text: str) -> str:
    """What LIKE takes to find a text anywhere, as it is."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
