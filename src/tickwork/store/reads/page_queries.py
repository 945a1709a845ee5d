"""What a store promises of glances: what a page shows of many things at once, each read in one query of a bounded cost.

They only read. What they leave out is said by who asks: so many runs, steps, fires.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from tickwork.core.dag.overview import GridCell
from tickwork.core.ids import JobId, WorkerId
from tickwork.core.job import JobView
from tickwork.store.dags import DagView
from tickwork.store.schedules import ScheduleView

LOOKED_AT = 10  # instances of a mapped step that a cell is made from
QUARTER = timedelta(minutes=15)  # fires are counted by quarters of an hour: days of every zone are made of them


class RunBrief(NamedTuple):
    """A run among others of its dag. Its times are those of its last generation."""

    dag: str
    id: JobId
    version: int
    state: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class EventPlace(NamedTuple):
    """Where an event stands in its run: what happened at the same instant has an order, too."""

    at: datetime
    rank: int
    attempt: int
    name: str


class RunEvent(NamedTuple):
    """Something that happened in a run, to one of its steps or, without a step, to itself."""

    place: EventPlace
    event: str
    step: str | None
    idx: int | None
    job_id: JobId | None
    state: str | None
    detail: str | None


class PendingApprovalView(NamedTuple):
    """An approval that waits for its answer; `answered_at` is when it is answered by its default."""

    run: JobId
    step: str
    since: datetime
    answered_at: datetime | None
    text: str | None


class FireSummary(NamedTuple):
    """What became of an occurrence, and of the job that it started; `state` is None when there is none, or no more."""

    schedule: str
    due_at: datetime
    action: str
    fired_at: datetime
    is_catchup: bool
    reason: str | None
    job_id: JobId | None
    is_run: bool
    state: str | None
    started_at: datetime | None
    ended_at: datetime | None


class FireCount(NamedTuple):
    """How many occurrences of a quarter of an hour came to the same: ok, late, skipped, failed, live or pruned."""

    at: datetime
    outcome: str
    fires: int


class PageVerbs(Protocol):
    """The verbs."""

    def newest_runs(self, dags: Sequence[str], limit: int, before: JobId | None = None) -> list[RunBrief]:
        """Return the newest `limit` runs of each of these dags, the newest first, from just before one on."""

    def grid(self, runs: Sequence[JobId], steps: Sequence[str]) -> list[GridCell]:
        """Return how each of these steps stands in each of these runs that has it.

        Of a mapped step the first LOOKED_AT instances tell when it began and how often it was tried.
        """

    def run_events(self, run_id: JobId, limit: int, after: EventPlace | None = None) -> list[RunEvent]:
        """Return what happened in a run, in its order, from just after a place on. It costs what the run is large."""

    def asked(self, places: Sequence[tuple[JobId, str]]) -> list[PendingApprovalView]:
        """Return those of these approvals, by run and step, that wait for their answer."""

    def dag_version(self, name: str, version: int) -> DagView | None:
        """Return one version of a dag."""

    def newest_dags(self, limit: int, after: str = "") -> list[DagView]:
        """Return dags that can be started by their newest version, by name, from just after `after` on."""

    def recent_fires(self, schedules: Sequence[str], limit: int) -> list[FireSummary]:
        """Return the latest `limit` fires of each of these schedules, the latest first."""

    def fire_counts(self, schedule: str, since: datetime, most: int) -> list[FireCount]:
        """Return what the fires of a schedule came to, by quarters of an hour; of more than `most`, the latest."""

    def schedules_of(self, targets: Sequence[str], limit: int) -> list[ScheduleView]:
        """Return schedules that start these tasks or dags, by name."""

    def held_jobs(self, worker: WorkerId, limit: int) -> list[JobView]:
        """Return jobs that a worker runs, those first that it has run for the longest, without arguments."""

    def sources_of(self, kind: str, names: Sequence[str]) -> dict[str, str]:
        """Return by which files those of these things were declared that were, by name."""

    def schedules_late(self) -> timedelta:
        """Return for how long the schedule has been due to be looked at that nobody has looked at for the longest."""
