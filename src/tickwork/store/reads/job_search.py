"""Job search: find jobs by any filter and by text, at a bounded cost.

A list for which an index finds exactly the matching jobs is read to its end. Otherwise a page walks, that is reads and
filters, at most WALK jobs, the newest first. The job at which the walk ends is its floor; the next page continues
there. So the cost does not depend on how many jobs there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from tickwork.core.ids import JobId, first_id
from tickwork.core.job import JobFilter, JobPage, JobState, JobView, QueuedReason
from tickwork.core.stats.error_groups import FailedJob, FailurePage
from tickwork.store.reads.query_plan import ReadPath, state_of, ways

WALK = 5_000  # Jobs that a page reads where no index finds all matches.
SCATTERED = 1_500  # The same, where the rows are far apart.
ERRORS = 2_500  # Errors that a text search reads.
NAMES = 20  # Tasks with the prefix that a text search follows.
KEYS = 1_000  # Keys with the prefix that a text search follows.
# The states that a job is shown in.
STATES = tuple(state for state in JobState if state is not JobState.WAITING)


class SearchHits(msgspec.Struct, frozen=True):
    """The ids that a text search found, the newest first. The next page begins below `next`; None: there is none.

    `is_partial`: more tasks or keys begin with the text than were read.
    """

    ids: list[JobId]
    next: JobId | None
    is_partial: bool


class StateCount(msgspec.Struct, frozen=True):
    """The number of jobs in a state, or of queued jobs by reason. `is_bounded`: there may be more than `count`."""

    state: JobState | QueuedReason
    count: int
    is_bounded: bool


Floor = Callable[[ReadPath], JobId | None]
"""Returns the job to which a page may walk on a read path; None: the path ends before that."""


class ListWalk(NamedTuple):
    """The read path of a page, and its floor: the id at which the walk ends; None: it reads to the end."""

    way: ReadPath
    floor: JobId | None


def choose(which: JobFilter, floor_of: Floor) -> ListWalk:
    """Return a read path that finds all matching jobs in one walk; if there is none, the path that reaches the oldest
    job.

    `floor_of` returns the floor of a path.
    """
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
    """Return how many jobs a page may read on this path."""
    return SCATTERED if way.is_scattered else WALK


def by_state(which: JobFilter) -> Iterator[tuple[JobState, JobFilter]]:
    """Yield each state that a filter may match, with the filter limited to that state.

    Queued jobs appear twice, because a separate index leads to jobs that wait for a retry.
    """
    for state in STATES:
        if state_of(which) in (None, state):
            yield state, replace(which, state=which.state or state)
            if state is JobState.QUEUED and which.waits is None:
                yield state, replace(which, state=which.state or state, waits=QueuedReason.RETRYING)


def counts_of(which: JobFilter, counts: dict[str, int], most: int, floor: JobId | None) -> list[StateCount]:
    """Return the counts of one state, or of queued jobs by reason.

    `floor` is the job at which the walk ended, if any.
    """
    is_bounded = floor is not None or sum(counts.values()) >= most
    return [StateCount(word, counts.get(word.value, 0), is_bounded) for word in _words(which)]


def _words(which: JobFilter) -> list[JobState | QueuedReason]:
    """Return the states or reasons under which the jobs of this filter are counted."""
    state = state_of(which)
    if state is not JobState.QUEUED:
        return [] if state is None else [state]
    return [which.waits] if which.waits is not None else [QueuedReason.DUE, QueuedReason.DELAYED]


def page_of(views: list[JobView], limit: int, which: JobFilter, floor: JobId | None) -> JobPage:
    """Return a page of jobs, with the id after which the next page begins."""
    return JobPage(views, _next(views, limit, which, floor))


def failures_of(found: list[FailedJob], limit: int, which: JobFilter, floor: JobId | None) -> FailurePage:
    """Return a page of failures, with the id after which the next page begins."""
    return FailurePage(found, _next(found, limit, which, floor))


def _next(
    found: Sequence[JobView] | Sequence[FailedJob], limit: int, which: JobFilter, floor: JobId | None
) -> JobId | None:
    """Return the id after which the next page begins: the last job of a full page, else the floor.

    None: there is no more.
    """
    if len(found) == limit:
        return found[-1].id
    is_over = floor is not None and which.since is not None and floor <= first_id(which.since)
    return None if is_over else floor


def hits_of(found: Sequence[Sequence[str]], limit: int, floor: JobId | None, *, is_partial: bool) -> SearchHits:
    """Merge several lists of up to `limit` ids and return the newest, without ids below `floor`."""
    ids = sorted({one for ids in found for one in ids if floor is None or one >= floor}, reverse=True)
    full = len(ids) >= limit
    return SearchHits([JobId(one) for one in ids[:limit]], JobId(ids[limit - 1]) if full else floor, is_partial)


def like(text: str) -> str:
    """Return a LIKE pattern that finds a text anywhere, with its special characters escaped."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
