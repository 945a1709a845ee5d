"""How the steps of a run stand, each on one line: from their standings and the times of their jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from tickwork.core.dag.advance import OPEN, SKIPPED, WAITING, StepState
from tickwork.core.dag.graph import Graph, Step
from tickwork.core.job import JobState


class StepTimes(NamedTuple):
    """The jobs of a step: how many wait in the queue and how many run, when the first started and the last ended.

    `ends` are how many ended how. `job_id` is the first one, `attempt` the number of tries of the one with the most.
    `changed_at`: nothing of them has changed since; of what is to be tried again, that is not known, and it is now.
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
    """How many jobs ended how, of those ends that there are, from counts in the order of ENDS."""
    return {state.value: count for state, count in zip(ENDS, counts, strict=True) if count}


class GridCell(NamedTuple):
    """A step of one run beside the same step of others: its row, and what its first instances tell.

    `since` is when its state last changed, `jobs` how many of its instances were looked at, `running` how many of those
    run, `attempt` the number of tries of the one with the most.
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
        """As that of a step is told: what is open without a job is an approval."""
        if self.standing != OPEN:
            return self.standing
        if not self.jobs:
            return WAITING
        return JobState.RUNNING.value if self.running or (self.mapped and self.ended) else JobState.QUEUED.value

    def took(self, now: datetime) -> timedelta | None:
        """How long it has run, until now if it has not ended; None: it has not started."""
        if self.started_at is None or self.standing in (WAITING, SKIPPED):
            return None
        return max(timedelta(0), (now if self.standing == OPEN else self.since) - self.started_at)


@dataclass(frozen=True, slots=True)
class StepLine:
    """A step of a run as it stands. `state` is waiting, queued, running, or how it ended.

    Of a mapped one `total` is how many instances it has, of which `ended` have, `bad` of them without success.
    `counts` are how many of its jobs are in which state, `changed_at` as in StepTimes.
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
        """An approval that waits for its answer, and for nothing else."""
        return self.is_approval and self.state == WAITING and self.total > 0

    def took(self, now: datetime) -> timedelta | None:
        """How long it has run, until now if it has not ended; None: it has not started."""
        if self.started_at is None:
            return None
        return max(timedelta(0), ((self.ended_at if self.is_over else None) or now) - self.started_at)


def overview(
    graph: Graph, standings: Iterable[StepState], times: Iterable[StepTimes], since: Mapping[str, datetime] = _NEVER
) -> list[StepLine]:
    """A line for each step, in the order of the graph. Before a run has begun, all of them wait.

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
    """The state of a step in the words that jobs have. A mapped one runs from its first start to its last end."""
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
