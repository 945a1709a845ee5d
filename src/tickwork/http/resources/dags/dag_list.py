"""The list of dags over REST: the newest runs of each, and when it is due next, in one request."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tickwork.core.job import JobState
from tickwork.core.schedule.upcoming import upcoming
from tickwork.http.framework.pagination import PageQuery, name_after
from tickwork.http.framework.route import Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.http.resources.dags.dags import DagItem, item_fields
from tickwork.store.dags import DagView
from tickwork.store.reads.page_queries import RunBrief

routes = Routes("dags")
RECENT = 10  # runs of each dag in a list
SCHEDULES = 1_000  # that start the dags of a page and are read


class RecentRun(Struct):
    """A recent run: its state, and how long it took if it has ended."""

    id: str
    state: str
    created_at: datetime
    duration_s: float | None


class DagLine(DagItem):
    """The newest version of a dag, with its newest runs, the newest first.

    `success_rate` is the share of ended runs that succeeded, `average_s` the average duration of those. `next_due_at`
    is when one of its schedules starts it next.
    """

    recent: list[RecentRun]
    success_rate: float | None
    average_s: float | None
    schedules: list[str]
    next_due_at: datetime | None


class DagPage(Struct):
    """Some dags, by name."""

    items: list[DagLine]
    next_cursor: str | None


@routes.get("/dags", Scope.READ)
def list_dags(call: Call, query: PageQuery) -> DagPage:
    """List dags by name, each in its newest version, with its newest runs and when it is due next."""
    store = call.app.store
    views = store.reads.newest_dags(query.limit, name_after(query))
    names = [view.name for view in views]
    recent: dict[str, list[RunBrief]] = {name: [] for name in names}
    for run in store.reads.newest_runs(names, RECENT):
        recent[run.dag].append(run)
    starting = _starting(call, names)
    lines = [_line(view, recent[view.name], starting.get(view.name, {})) for view in views]
    return DagPage(lines, names[-1] if len(names) == query.limit else None)


def _starting(call: Call, names: list[str]) -> dict[str, dict[str, datetime | None]]:
    """Return the schedules that start each dag, and when each is due next; None if it is paused or has ended."""
    store = call.app.store
    views = store.reads.schedules_of(names, SCHEDULES) if names else []
    now, calendars = store.now(), store.schedules.calendars() if views else {}
    found: dict[str, dict[str, datetime | None]] = {}
    for view in views:
        dues = [] if view.standing.paused else upcoming(view.spec, view.standing, 1, now, calendars)
        found.setdefault(view.spec.target, {})[view.name] = dues[0] if dues else None
    return found


def _line(view: DagView, runs: list[RunBrief], starting: Mapping[str, datetime | None]) -> DagLine:
    """Return the body of a dag, with statistics of its newest runs."""
    ended = [run.state == JobState.SUCCEEDED for run in runs if run.ended_at is not None]
    recent = [RecentRun(run.id, run.state, run.created_at, _took_s(run)) for run in runs]
    took = [one.duration_s for one in recent if one.state == JobState.SUCCEEDED and one.duration_s is not None]
    return DagLine(
        **item_fields(view),
        recent=recent,
        success_rate=sum(ended) / len(ended) if ended else None,
        average_s=round(sum(took) / len(took), 3) if took else None,
        schedules=list(starting),
        next_due_at=min((due for due in starting.values() if due is not None), default=None),
    )


def _took_s(run: RunBrief) -> float | None:
    if run.started_at is None or run.ended_at is None:
        return None
    return round(max(0.0, (run.ended_at - run.started_at).total_seconds()), 3)
