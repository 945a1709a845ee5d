"""Search over everything that has a name, for the search box of the web UI."""

from __future__ import annotations

from collections.abc import Iterable

from tickwork.core.ids import JobId, is_id
from tickwork.core.job import JobFilter, JobState, JobView
from tickwork.http.framework.params import Limit, Text
from tickwork.http.framework.route import Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.http.resources.jobs.job_bodies import JobItem, item_of
from tickwork.store.base import Store

routes = Routes("stats")
NAMES = 20  # of each kind in an answer
WALK = 1_000  # names of a kind that are read
ID_PART = 6  # characters of an id; shorter texts are not searched as ids
_LAST_ID = "ffffffff-ffff-7fff-bfff-ffffffffffff"


class SearchQuery(Struct):
    """`q`: a part of a name, the beginning of a task or a key, an id, or words of an error."""

    q: Text
    limit: Limit = 20


class WorkerHit(Struct):
    """A worker, found by its id or its host."""

    id: str
    host: str


class RunHit(Struct):
    """A run of a dag."""

    id: str
    dag: str
    state: JobState
    key: str | None


class SearchBody(Struct):
    """The matches. `is_partial`: there are more; search in `/jobs?q=`, or with a longer text.

    Schedules match by the beginning of their name, jobs and runs by the beginning of a task or a key and by their
    ids, and all other objects by any part of their name.
    """

    jobs: list[JobItem]
    schedules: list[str]
    dags: list[str]
    queues: list[str]
    tasks: list[str]
    workers: list[WorkerHit]
    runs: list[RunHit]
    hooks: list[str]
    is_partial: bool


@routes.get("/search", Scope.READ)
def search(call: Call, query: SearchQuery) -> SearchBody:
    """Find jobs and runs by task, key, id and error; and schedules, dags, queues, tasks, workers and hooks by name."""
    store, text = call.app.store, query.q
    hits = store.reads.search_jobs(text, query.limit)
    views = _views(store, text, hits.ids, query.limit)
    known = store.reads.task_definitions(WALK)
    names = {
        "schedules": _schedules(store, text),
        "dags": _with(text, (one.name for one in known if one.version is not None)),
        "queues": _with(text, sorted({*store.reads.queue_names(), *(one.queue for one in known)})),
        "tasks": _with(text, (one.name for one in known if one.version is None)),
        "hooks": _with(text, (one.hook.name for one in store.hooks.list_hooks(WALK))),
    }
    workers = [
        WorkerHit(one.id, one.host) for one in call.parts.registrations.workers() if _with(text, (one.id, one.host))
    ]
    is_cut = len(workers) > NAMES or len(known) == WALK or any(len(found) > NAMES for found in names.values())
    return SearchBody(
        jobs=[item_of(view) for view in views if view.version is None],
        **{kind: found[:NAMES] for kind, found in names.items()},
        workers=workers[:NAMES],
        runs=[RunHit(view.id, view.task, view.state, view.key) for view in views if view.version is not None],
        is_partial=is_cut or hits.is_partial or hits.next is not None,
    )


def _views(store: Store, text: str, ids: list[JobId], limit: int) -> list[JobView]:
    """Return jobs that match the text, then runs with that key even if many jobs are newer, then jobs with that id."""
    pages = [
        store.reads.find_jobs(JobFilter(ids=tuple(ids)), limit).jobs if ids else [],
        store.reads.find_jobs(JobFilter(runs=True, key=text), NAMES).jobs,
        _with_id(store, text),
    ]
    return list({view.id: view for page in pages for view in page}.values())


def _with_id(store: Store, text: str) -> list[JobView]:
    """Return jobs whose ids begin with a text, if it is long enough."""
    last = JobId(text + _LAST_ID[len(text) :])
    if len(text) < ID_PART or not is_id(last):
        return []
    return [view for view in store.reads.find_jobs(JobFilter(), NAMES, last).jobs if view.id.startswith(text)]


def _with(text: str, names: Iterable[str]) -> list[str]:
    """Return the names that contain a text, ignoring case."""
    wanted = text.casefold()
    return [name for name in names if wanted in name.casefold()]


def _schedules(store: Store, text: str) -> list[str]:
    """Return the names of schedules that begin with a text, at least one more than are shown if there are more."""
    exact = list(store.schedules.get_schedules([text]))
    after = store.schedules.list_schedules(NAMES + 1, text)
    return exact + [one.name for one in after if one.name.startswith(text)]
