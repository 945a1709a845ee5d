"""How the steps of a run stand, each on one line: from their standings and the times of their jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from tickwork.core.dag.advance import OPEN, SKIPPED, WAITING, Standing
from tickwork.core.dag.graph import Graph, Step
from tickwork.core.job import JobState


class StepTimes(NamedTuple):
    """The jobs of a step: how many wait in the queue and how many run, when the first started and the last ended."""

    step: str
    queued: int
    running: int
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class StepLine:
    """A step of a run as it stands. `state` is waiting, queued, running, or how it ended.

    Of a mapped one `total` is how many instances it has, of which `ended` have, `bad` of them without success.
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


def overview(graph: Graph, standings: Iterable[Standing], times: Iterable[StepTimes]) -> list[StepLine]:
    """A line for each step, in the order of the graph. Before a run has begun, all of them wait."""
    known = {one.step: one for one in standings}
    timed = {one.step: one for one in times}
    return [
        _line(step, known.get(step.name) or Standing(step.name, mapped=step.map is not None), timed.get(step.name))
        for step in graph.steps
    ]


def state_of(step: Step, one: Standing, times: StepTimes | None) -> str:
    """The state of a step in the words that jobs have. A mapped one runs from its first start to its last end."""
    if one.state != OPEN:
        return one.state
    if step.approval is not None:
        return WAITING
    if times is not None and (times.running or (one.mapped and one.ended)):
        return JobState.RUNNING.value
    return JobState.QUEUED.value


def _line(step: Step, one: Standing, times: StepTimes | None) -> StepLine:
    has_run = times is not None and one.state not in (WAITING, SKIPPED)
    return StepLine(
        name=step.name,
        task=None if step.job is None else step.job.task,
        state=state_of(step, one, times),
        is_mapped=one.mapped,
        is_approval=step.approval is not None,
        total=one.total,
        ended=one.ended,
        bad=one.bad,
        started_at=times.started_at if times is not None and has_run else None,
        ended_at=times.ended_at if times is not None and has_run and one.is_over else None,
        reason=one.reason,
    )
