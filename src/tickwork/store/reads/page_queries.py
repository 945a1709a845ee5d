"""Page queries: data that a page of the UI shows about many objects at once, each in one query of bounded cost.

They only read. The caller bounds how many runs, steps or fires are returned.
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

LOOKED_AT = 10  # Instances of a mapped step that a cell is made from.
# Fires are counted by quarters of an hour, because days of every time zone consist of them.
QUARTER = timedelta(minutes=15)


class RunBrief(NamedTuple):
    """A run in a list of its dag's runs. Its times are those of its last generation."""

    dag: str
    id: JobId
    version: int
    state: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class EventPlace(NamedTuple):
    """The position of an event in its run. Events of the same instant are ordered, too."""

    at: datetime
    rank: int
    attempt: int
    name: str


class RunEvent(NamedTuple):
    """An event in a run. `step` is None if it concerns the run as a whole."""

    place: EventPlace
    event: str
    step: str | None
    idx: int | None
    job_id: JobId | None
    state: str | None
    detail: str | None


class PendingApprovalView(NamedTuple):
    """An approval that waits for its answer; `answered_at` is when its default answers it."""

    run: JobId
    step: str
    since: datetime
    answered_at: datetime | None
    text: str | None


class FireSummary(NamedTuple):
    """The outcome of an occurrence and of the job that it started; `state` is None if there is no job (any more)."""

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
    """The number of occurrences in a quarter of an hour by outcome: ok, late, skipped, failed, live or pruned."""

    at: datetime
    outcome: str
    fires: int


class PageVerbs(Protocol):
    """The verbs of page queries. They only read."""

    def newest_runs(self, dags: Sequence[str], limit: int, before: JobId | None = None) -> list[RunBrief]:
        """Return the newest `limit` runs of each of these dags, the newest first, from just before `before` on."""

    def grid(self, runs: Sequence[JobId], steps: Sequence[str]) -> list[GridCell]:
        """Return the state of each of these steps in each of these runs that has it.

        For a mapped step, the first LOOKED_AT instances tell when it began and how often it was tried.
        """

    def run_events(self, run_id: JobId, limit: int, after: EventPlace | None = None) -> list[RunEvent]:
        """Return the events of a run in order, from just after a position. The cost grows with the size of the run."""

    def asked(self, places: Sequence[tuple[JobId, str]]) -> list[PendingApprovalView]:
        """Return the approvals among these, by run and step, that wait for their answer."""

    def dag_version(self, name: str, version: int) -> DagView | None:
        """Return one version of a dag."""

    def newest_dags(self, limit: int, after: str = "") -> list[DagView]:
        """Return the newest versions of dags that can be started, by name, from just after `after` on."""

    def recent_fires(self, schedules: Sequence[str], limit: int) -> list[FireSummary]:
        """Return the latest `limit` fires of each of these schedules, the latest first."""

    def fire_counts(self, schedule: str, since: datetime, most: int) -> list[FireCount]:
        """Return the outcomes of a schedule's fires by quarters of an hour; of more than `most`, the latest."""

    def schedules_of(self, targets: Sequence[str], limit: int) -> list[ScheduleView]:
        """Return schedules that start these tasks or dags, by name."""

    def held_jobs(self, worker: WorkerId, limit: int) -> list[JobView]:
        """Return jobs that a worker runs, the longest running first, without arguments."""

    def sources_of(self, kind: str, names: Sequence[str]) -> dict[str, str]:
        """Return the files that declare these objects, by name."""

    def schedules_late(self) -> timedelta:
        """Return how long the most overdue schedule has been due for evaluation."""
