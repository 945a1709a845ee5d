"""Counts of jobs by state over REST, for a filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from tickwork.core.job import JobState, JobView, QueuedReason
from tickwork.http.framework.params import AnyStateFilter, StateWord, Text
from tickwork.http.framework.route import Routes, Scope, Struct
from tickwork.http.request import Call

routes = Routes("jobs")
MOST = 10_000  # of each state
SEARCHED = 1_000  # jobs that match the words of `q`


class CountQuery(AnyStateFilter):
    """A filter of jobs to count. `q`: the beginning of a task or a key, an id, or words of an error."""

    q: Text | None = None


class StateCountBody(Struct):
    """The number of jobs in a state; queued jobs are counted as `due`, `delayed` and `retrying`.

    `is_bounded`: counting stopped at this number, and there may be more.
    """

    state: StateWord
    count: int
    is_bounded: bool


class StateCounts(Struct):
    """The number of jobs in each state."""

    items: list[StateCountBody]
    next_cursor: str | None


@routes.get("/jobs/counts", Scope.READ)
def count_jobs(call: Call, query: CountQuery) -> StateCounts:
    """Count jobs by state, up to 10,000 in each, among a bounded number of rows."""
    if query.q is not None:
        return _searched(call, query, query.q)
    counted = call.app.store.reads.count_jobs(query.which(), MOST)
    bounded = {one.state.value for one in counted if one.is_bounded}
    return _shown({one.state.value: one.count for one in counted}, bounded)


def _searched(call: Call, query: CountQuery, text: str) -> StateCounts:
    """Count the newest of the jobs that match the words of a text."""
    store = call.app.store
    hits = store.reads.search_jobs(text, SEARCHED)
    views = store.reads.find_jobs(query.which(hits.ids), SEARCHED).jobs if hits.ids else []
    now = store.now()
    counts = Counter(_word(view, now) for view in views)
    return _shown(counts, set(_WORDS) if hits.is_partial or hits.next is not None else set())


def _word(view: JobView, now: datetime) -> str:
    if view.state is not JobState.QUEUED:
        return view.state.value
    if view.failures:
        return QueuedReason.RETRYING.value
    return (QueuedReason.DUE if view.run_at <= now else QueuedReason.DELAYED).value


def _shown(counts: Mapping[str, int], bounded: set[str]) -> StateCounts:
    return StateCounts([StateCountBody(word, counts.get(word, 0), word in bounded) for word in _WORDS], None)


_WORDS = tuple(word for word in StateWord if word not in (StateWord.WAITING, StateWord.QUEUED))
