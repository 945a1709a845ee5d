"""Choose the index by which the jobs of a filter are read; shared by both stores.

A read path is a way to read jobs, the newest first: by an index of the jobs table, or of the table for a state. See
job_search.py for how many rows are read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tickwork.core.ids import JobId, first_id
from tickwork.core.job import JobFilter, JobState, QueuedReason
from tickwork.store.rows.jobs import checked_id


class ReadPath(NamedTuple):
    """A way to read jobs, the newest first: an index, and the conditions that remain to be evaluated for each row.

    `begins` and `walks` name the SQL sections with which a page begins and its rows are counted. The index is on a
    `column` of jobs and their ids, or answers the conditions `by`, or is on the `id` alone. `conditions` are evaluated
    for each job; `finds_all`: there are none, so each row read is a match. `is_scattered`: the rows that are read are
    far apart on disk. In the conditions, `{name}` is replaced by a value, and `{now}` by the store's time.
    """

    begins: str
    walks: str
    id: str
    column: str | None
    by: tuple[str, ...]
    conditions: tuple[str, ...]
    values: dict[str, Any]
    finds_all: bool
    is_scattered: bool


class IdRange(NamedTuple):
    """A range of ids: less than `below`, and at least `floor`. None: no bound."""

    below: JobId | None
    floor: JobId | None


def bounds(which: JobFilter, before: JobId | None, floor: JobId | None = None) -> IdRange:
    """Return the range of ids of a page that follows `before` and ends at `floor`, within the times of the filter.

    Raise InvalidInput if `before` is not an id.
    """
    if before is not None:
        checked_id(before)
    tops = [before, None if which.until is None else first_id(which.until)]
    ends = [floor, None if which.since is None else first_id(which.since)]
    below, end = min(filter(None, tops), default=None), max(filter(None, ends), default=None)
    return IdRange(None if below is None else JobId(below), None if end is None else JobId(end))


def ways(which: JobFilter) -> list[ReadPath]:
    """Return the read paths for a filter, the best guess first. Table aliases: j(obs), q(ueue), r(unning), f(inished).

    A state is written into the SQL, not passed as a value: a partial index is only used by a statement that names the
    states.
    """
    state = state_of(which)
    by = next((name for name in _BY if _is_asked(which, name)), None)
    of_jobs = _by_jobs(which, state, by)
    if state is None or which.ids is not None or by == "run":
        return [of_jobs]
    of_state = _by_state(which, state)
    if by in {"key", "collection", "parent"} or (by == "runs" and state in {JobState.QUEUED, JobState.SUCCEEDED}):
        return [of_jobs, of_state]
    return [of_state] if by is None else [of_state, of_jobs]


def state_of(which: JobFilter) -> JobState | None:
    """Return the state that all jobs of a filter have; None if the filter matches several states."""
    if which.dead:
        return JobState.FAILED
    return which.state if which.waits is None else JobState.QUEUED


def _by_jobs(which: JobFilter, state: JobState | None, by: str | None) -> ReadPath:
    """Return the read path through the jobs table, by the index on the column `by` or by id."""
    column = by if by in _COLUMNS else None
    indexed = () if by is None or column else (_INDEXED[by],)
    rest = (*_beside(which, by), *_state_conditions(which, state))
    is_alone = not rest and not _looks_further(which) and (column is None or which.since is None)
    finds_all = is_alone or by == "run" or which.ids is not None
    is_scattered = which.error is not None
    return ReadPath(
        begins="from_jobs",
        walks="walk_jobs",
        id="j.id",
        column=column,
        by=indexed,
        conditions=rest,
        values=_values(which),
        finds_all=finds_all,
        is_scattered=is_scattered,
    )


def _by_state(which: JobFilter, state: JobState) -> ReadPath:
    """Return the read path through the table that has the jobs of this state."""
    table, id = {JobState.QUEUED: ("queue", "q.job_id"), JobState.RUNNING: ("running", "r.job_id")}.get(
        state, ("finished", "f.job_id")
    )
    of_state = _state_conditions(which, state)
    indexed = of_state[:2] if _has_index(which, state) else ()
    rest = (*_beside(which, None), *of_state[len(indexed) :])
    finds_all = not _looks_further(which) and all(condition.endswith("IS NOT NULL") for condition in rest)
    # Failed jobs are few among many, and the error of a job that is retried is stored with its attempt.
    is_scattered = bool(indexed) or which.error is not None
    return ReadPath(
        begins=f"from_{table}",
        walks=f"walk_{table}",
        id=id,
        column=None,
        by=indexed,
        conditions=rest,
        values=_values(which),
        finds_all=finds_all,
        is_scattered=is_scattered,
    )


def _has_index(which: JobFilter, state: JobState) -> bool:
    """Return whether the table for a state also has an index for exactly this state or reason."""
    if state is JobState.QUEUED:
        return which.waits is QueuedReason.RETRYING
    return state not in (JobState.RUNNING, JobState.SUCCEEDED)


def _state_conditions(which: JobFilter, state: JobState | None) -> tuple[str, ...]:
    """Return the SQL conditions of a state; those that an index answers come first."""
    match state:
        case None:
            return ()
        case JobState.QUEUED:
            found = ["q.job_id IS NOT NULL", *_WAITS.get(which.waits, ())]
        case JobState.RUNNING:
            found = ["r.job_id IS NOT NULL"]
        case JobState.SUCCEEDED:
            found = ["f.state = 'succeeded'"]
        case _:
            # The second condition is the index's; SQLite does not see that it follows from the first.
            found = [f"f.state = '{state.value}'", "f.state <> 'succeeded'"]
    if which.dead:
        found.append("f.discarded_at IS NULL")
        if which.state not in (None, state) or which.waits is not None:
            found.append("false")  # Dead and in another state: there is no such job.
    return tuple(found)


def _beside(which: JobFilter, by: str | None) -> list[str]:
    """Return the conditions on columns of jobs, except `by`, written so that the planner uses no other index for them.

    Otherwise the planner could choose an index that reads more rows than were counted.
    """
    return [sql for name, sql in _BESIDE.items() if name != by and _is_asked(which, name)]


def _looks_further(which: JobFilter) -> bool:
    """Return whether the filter needs the contents of jobs (label, tenant, error), whose SQL differs between the
    stores.
    """
    return which.label is not None or which.tenant is not None or which.error is not None


def _values(which: JobFilter) -> dict[str, Any]:
    """Return the values of the filter's conditions, by name."""
    values = {name: getattr(which, name) for name in _VALUES if _is_asked(which, name)}
    if which.tasks is not None:
        values["tasks"], values["tasks_end"] = prefix_range(which.tasks)
    return values


def prefix_range(text: str) -> tuple[str, str]:
    """Return the range of texts with this prefix, compared byte by byte: its start, and the end that it excludes."""
    return text, text + "\U0010ffff"


def _is_asked(which: JobFilter, name: str) -> bool:
    """Return whether the filter has a condition on this field."""
    return getattr(which, name) not in (None, False)


# Indexed columns; where a job has several, the first one finds the fewest jobs.
_BY = ("key", "run", "collection", "parent", "task", "runs")
_COLUMNS = ("key", "collection", "parent", "task")
_VALUES = (*_COLUMNS, "queue", "run", "worker", "creator")
_INDEXED = {"run": "j.run = {run}", "runs": "j.version IS NOT NULL"}
_BESIDE = {
    **{name: f"coalesce(j.{name}, '') = {{{name}}}" for name in _COLUMNS},
    "queue": "j.queue = {queue}",
    "run": "j.run = {run}",
    "runs": "coalesce(j.version, -1) >= 0",
    "tasks": "coalesce(j.task, '') >= {tasks} AND coalesce(j.task, '') < {tasks_end}",
    "creator": "j.creator = {creator}",
    "worker": "coalesce(r.worker, f.worker) = {worker}",
}
_WAITS: dict[QueuedReason | None, tuple[str, ...]] = {
    QueuedReason.RETRYING: ("q.failures > 0",),
    QueuedReason.DELAYED: ("q.failures = 0", "q.run_at > {now}"),
    QueuedReason.DUE: ("q.failures = 0", "q.run_at <= {now}"),
}
