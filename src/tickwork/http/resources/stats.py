"""The whole store at a glance, and a search over everything that has a name."""

from __future__ import annotations

from datetime import datetime

from tickwork.core.job import JobFilter
from tickwork.http.call import Call
from tickwork.http.lists import Limit
from tickwork.http.reading import Text
from tickwork.http.resources.dead import CauseBody, cause_body
from tickwork.http.resources.job_shapes import JobItem, item_of
from tickwork.http.resources.queues import QueueBody, all_queues
from tickwork.http.route import Routes, Scope, Struct

routes = Routes("stats")
CAUSES = 20
READ_LIMIT = 500  # failed jobs that are put together
NAMES = 20  # schedules and dags that a search tells


class StatsBody(Struct):
    """The store at a glance. What waits and runs is summed over the queues; `is_bounded`: some count stopped early.

    `causes` are the errors of the newest dead letters, the most frequent first.
    """

    at: datetime
    due: int
    later: int
    held: int
    running: int
    is_bounded: bool
    queues: list[QueueBody]
    workers: int
    slots: int
    dead: int
    causes: list[CauseBody]
    is_partial: bool


class SearchQuery(Struct):
    """`q`: the beginning of a task, a key, a schedule or a dag, an id, or words of an error."""

    q: Text
    limit: Limit = 20


class SearchBody(Struct):
    """What was found. `is_partial`: there is more; look further in `/jobs?q=`, or say more."""

    jobs: list[JobItem]
    schedules: list[str]
    dags: list[str]
    is_partial: bool


@routes.get("/stats", Scope.READ)
def stats(call: Call) -> StatsBody:
    """Return the store at a glance: what waits, runs and failed. `/stats/series` has it over time."""
    store = call.app.store
    queues, now = all_queues(call), store.now()
    working = [one for one in store.workers() if one.serves]
    causes, is_all = call.app.client.causes(JobFilter(dead=True), READ_LIMIT)
    return StatsBody(
        at=now,
        due=sum(one.due for one in queues),
        later=sum(one.later for one in queues),
        held=sum(one.held for one in queues),
        running=sum(one.running for one in queues),
        is_bounded=any(one.at_least for one in queues),
        queues=queues,
        workers=len(working),
        slots=sum(one.slots for one in working),
        dead=sum(one.count for one in causes),
        causes=[cause_body(one) for one in causes[:CAUSES]],
        is_partial=not is_all,
    )


@routes.get("/search", Scope.READ)
def search(call: Call, query: SearchQuery) -> SearchBody:
    """Find jobs by task, key, id and error, and schedules and dags by name."""
    store = call.app.store
    hits = store.search_jobs(query.q, query.limit)
    page = store.find_jobs(JobFilter(ids=tuple(hits.ids)), query.limit) if hits.ids else None
    schedules = _schedules(call, query.q)
    dags = [one.name for one in store.dags() if one.name.startswith(query.q)]
    is_partial = hits.is_partial or hits.next is not None or max(len(schedules), len(dags)) > NAMES
    jobs = [item_of(view) for view in page.jobs] if page else []
    return SearchBody(jobs, schedules[:NAMES], dags[:NAMES], is_partial)


def _schedules(call: Call, text: str) -> list[str]:
    """The names of schedules that begin with a text, one more than are told. They come by name, after one."""
    store = call.app.store
    exact = list(store.get_schedules([text]))
    after = store.list_schedules(NAMES + 1, text)
    return exact + [one.name for one in after if one.name.startswith(text)]
