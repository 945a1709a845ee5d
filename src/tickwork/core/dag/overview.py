"""Summarize the steps of a run, one line per step, from the stored step states and the times of their jobs.

The timeline has the times at which jobs ran, and the critical path that determined when the run ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tickwork.core.dag.advance import OPEN, SKIPPED, WAITING, StepState
from tickwork.core.dag.graph import Graph, Step
from tickwork.core.job import JobState


class LastAttempt(NamedTuple):
    """The last attempt of a step instance. `ended_at` is None while it runs."""

    step: str
    idx: int
    started_at: datetime
    ended_at: datetime | None = None


def timeline(graph: Graph, ran: Iterable[LastAttempt], *, began_at: datetime, now: datetime) -> dict[str, Any]:
    """Return a bar for each instance, ordered by start, and the critical path. Running instances extend to `now`."""
    rows = sorted(ran, key=lambda one: (one.started_at, one.step, one.idx))
    path = critical_path(graph, rows, now)
    critical = {(one.step, one.idx) for one in path}
    ended_at = max((_end(one, now) for one in rows), default=began_at)
    bars = [{**_bar(one, began_at, now), "is_critical": (one.step, one.idx) in critical} for one in rows]
    return {
        "began_at": began_at.isoformat(),
        "ended_at": ended_at.isoformat(),
        "duration_s": (ended_at - began_at).total_seconds(),
        "bars": bars,
        "critical_path": _links(path, began_at, now),
    }


def critical_path(graph: Graph, ran: Iterable[LastAttempt], now: datetime) -> list[LastAttempt]:
    """Return the chain of instances that ends last: before each instance, its parent instance that ended last."""
    latest: dict[str, LastAttempt] = {}
    for one in ran:
        known = latest.get(one.step)
        if known is None or _end(one, now) > _end(known, now):
            latest[one.step] = one
    path: list[LastAttempt] = []
    last = max(latest.values(), key=lambda one: _end(one, now), default=None)
    while last is not None:
        path.append(last)
        before = [latest[name] for name in _parents_that_ran(graph, last.step, latest)]
        last = max(before, key=lambda one: _end(one, now), default=None)
    return path[::-1]


def _parents_that_ran(graph: Graph, step: str, latest: Mapping[str, LastAttempt]) -> set[str]:
    """Return the nearest steps upstream that have run. The parents of a step that did not run are searched instead."""
    found: set[str] = set()
    seen: set[str] = set()
    above = list(graph.by_name[step].parents)
    while above:
        name = above.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in latest:
            found.add(name)
        else:
            above.extend(graph.by_name[name].parents)
    return found


def _links(path: Iterable[LastAttempt], began_at: datetime, now: datetime) -> list[dict[str, Any]]:
    """Return each instance of the path with how long it waited after the previous one had ended."""
    links, free_at = [], began_at
    for one in path:
        waited_s = max(0.0, (one.started_at - free_at).total_seconds())
        links.append({**_bar(one, began_at, now), "waited_s": waited_s})
        free_at = _end(one, now)
    return links


def _bar(one: LastAttempt, began_at: datetime, now: datetime) -> dict[str, Any]:
    return {
        "step": one.step,
        "idx": one.idx,
        "started_at": one.started_at.isoformat(),
        "ended_at": None if one.ended_at is None else one.ended_at.isoformat(),
        "offset_s": (one.started_at - began_at).total_seconds(),
        "duration_s": (_end(one, now) - one.started_at).total_seconds(),
    }


def _end(one: LastAttempt, now: datetime) -> datetime:
    return now if one.ended_at is None else one.ended_at


class StepTimes(NamedTuple):
    """Counts and times of the jobs of a step: how many are queued and running, the first start, and the last end.

    `ends` counts the ended jobs by state. `job_id` is the first job, and `attempt` the highest number of attempts of
    any job. `changed_at`: no job has changed since; for a job that waits for a retry this is not known, and it is now.
    """

    step: str
    queued: int
    running: int
    started_at: datetime | None
    ended_at: datetime | None
    ends: Mapping[str, int] = {}
    job_id: str | None = None
    attempt: int = 0
    changed_at: datetime | None = None


_NEVER: Mapping[str, datetime] = {}
ENDS = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.DROPPED, JobState.EXPIRED)


def counted(*counts: int) -> dict[str, int]:
    """Return the counts by state, without zeros, from counts in the order of ENDS."""
    return {state.value: count for state, count in zip(ENDS, counts, strict=True) if count}


class GridCell(NamedTuple):
    """A step of one run in a grid of runs and steps: its row, and a summary of its first instances.

    `standing` is its stored state and `since` when that last changed. `jobs` is the number of its instances that were
    examined, `running` how many of those run, and `attempt` the highest number of attempts of any of them.
    """

    run: str
    step: str
    standing: str
    mapped: bool
    total: int
    ended: int
    bad: int
    since: datetime
    jobs: int
    running: int
    attempt: int
    started_at: datetime | None

    @property
    def state(self) -> str:
        """The state to show. An open step without a job is an approval, and counts as waiting."""
        if self.standing != OPEN:
            return self.standing
        if not self.jobs:
            return WAITING
        return JobState.RUNNING.value if self.running or (self.mapped and self.ended) else JobState.QUEUED.value

    def took(self, now: datetime) -> timedelta | None:
        """Return how long the step has run, until now if it has not ended; None if it has not started."""
        if self.started_at is None or self.standing in (WAITING, SKIPPED):
            return None
        return max(timedelta(0), (now if self.standing == OPEN else self.since) - self.started_at)


@dataclass(frozen=True, slots=True)
class StepLine:
    """A step of a run, as shown to users. `state` is waiting, queued, running, or how it ended.

    For a mapped step, `total` is the number of its instances, `ended` how many have ended, and `bad` how many of those
    ended without success. `counts` are its jobs by state; `changed_at` is as in StepTimes.
    """

    name: str
    task: str | None
    state: str
    is_mapped: bool
    is_approval: bool
    total: int
    ended: int
    bad: int
    started_at: datetime | None
    ended_at: datetime | None
    reason: str | None
    counts: Mapping[str, int] = field(default_factory=dict)
    job_id: str | None = None
    attempt: int = 0
    changed_at: datetime | None = None

    @property
    def is_over(self) -> bool:
        return self.state not in (WAITING, JobState.QUEUED, JobState.RUNNING)

    @property
    def is_asking(self) -> bool:
        """Whether this is an approval that now waits only for its answer."""
        return self.is_approval and self.state == WAITING and self.total > 0

    def took(self, now: datetime) -> timedelta | None:
        """Return how long the step has run, until now if it has not ended; None if it has not started."""
        if self.started_at is None:
            return None
        return max(timedelta(0), ((self.ended_at if self.is_over else None) or now) - self.started_at)


def overview(
    graph: Graph, standings: Iterable[StepState], times: Iterable[StepTimes], since: Mapping[str, datetime] = _NEVER
) -> list[StepLine]:
    """Return a line for each step, in the order of the graph. Before a run has begun, all steps are waiting.

    `since` is when the state of each step last changed.
    """
    known = {one.step: one for one in standings}
    timed = {one.step: one for one in times}
    return [
        _line(
            step,
            known.get(step.name) or StepState(step.name, mapped=step.map is not None),
            timed.get(step.name) or StepTimes(step.name, 0, 0, None, None),
            since.get(step.name),
        )
        for step in graph.steps
    ]


def state_of(step: Step, one: StepState, times: StepTimes) -> str:
    """Return the state of a step in the terms of job states.

    A mapped step runs from its first start to its last end.
    """
    if one.state != OPEN:
        return one.state
    if step.approval is not None:
        return WAITING
    if times.running or (one.mapped and one.ended):
        return JobState.RUNNING.value
    return JobState.QUEUED.value


def _line(step: Step, one: StepState, times: StepTimes, since: datetime | None) -> StepLine:
    has_run = one.state not in (WAITING, SKIPPED)
    return StepLine(
        name=step.name,
        task=None if step.job is None else step.job.task,
        state=state_of(step, one, times),
        is_mapped=one.mapped,
        is_approval=step.approval is not None,
        total=one.total,
        ended=one.ended,
        bad=one.bad,
        started_at=times.started_at if has_run else None,
        ended_at=times.ended_at if has_run and one.is_over else None,
        reason=one.reason,
        counts=_counts(times),
        job_id=times.job_id,
        attempt=times.attempt,
        changed_at=max(filter(None, (since, times.changed_at)), default=None),
    )


def _counts(times: StepTimes) -> dict[str, int]:
    live = {JobState.QUEUED.value: times.queued, JobState.RUNNING.value: times.running}
    return {**{state: count for state, count in live.items() if count}, **times.ends}
