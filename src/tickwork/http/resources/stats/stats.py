"""A summary of the whole store."""

from __future__ import annotations

from datetime import datetime

from tickwork.core.job import JobFilter
from tickwork.http.framework.route import Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.http.resources.jobs.dead_letters import ErrorGroupBody, cause_body
from tickwork.http.resources.jobs.queues import QueueBody, all_queues

routes = Routes("stats")
CAUSES = 20
READ_LIMIT = 500  # failed jobs that are grouped


class StatsBody(Struct):
    """A summary of the store. Counts of jobs are summed over the queues; `is_bounded`: some are lower bounds.

    `causes` are the errors of the newest dead letters, the most frequent first. `is_partial`: there are more dead
    letters.
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
    causes: list[ErrorGroupBody]
    is_partial: bool


@routes.get("/stats", Scope.READ)
def stats(call: Call) -> StatsBody:
    """Return a summary of the store: waiting, running and failed jobs. `/stats/series` has them over time."""
    store = call.app.store
    workers = call.parts.registrations.workers()
    queues, now = all_queues(call), store.now()
    working = [one for one in workers if one.serves]
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
