"""The store verbs and views of dags and their runs. Part of `Store`; `tests/store/` is the definition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from tickwork.core.dag.advance import StepState
from tickwork.core.dag.graph import Graph
from tickwork.core.dag.overview import StepTimes
from tickwork.core.ids import JobId
from tickwork.core.job import JobView, MapIndex
from tickwork.core.stats.findings import PendingApproval


@dataclass(frozen=True, slots=True)
class DagView:
    """One version of a dag."""

    name: str
    version: int
    graph: Graph
    created_at: datetime


@dataclass(frozen=True, slots=True)
class StepView:
    """A step of a run. `since` is when its state last changed.

    `answered_at` is when its approval's default answers it.
    """

    standing: StepState
    since: datetime
    answered_at: datetime | None


class InstanceView(NamedTuple):
    """The job of an instance of a step. The times are those of its last attempt."""

    step: str
    idx: int
    job_id: JobId
    state: str
    attempt: int
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class AssetView:
    """An asset: when it was last updated, and by which job or run."""

    name: str
    made_at: datetime
    made_by: JobId


class DagVerbs(Protocol):
    """The verbs of dags and runs.

    Unless they say otherwise, they return an empty result for a run that does not exist.
    """

    def put_dag(self, graph: Graph) -> int:
        """Store a definition as a new version if it differs from the newest; return the version of the definition."""

    def delete_dag(self, name: str) -> bool:
        """Delete a dag, so that it cannot be started; return False if there is none of this name.

        Raise InvalidInput while a schedule starts it. Its versions are kept as long as their runs, and are reused if
        the dag is stored again.
        """

    def list_dags(self, name: str | None = None) -> list[DagView]:
        """Return the newest version of every dag by name, or every version of one dag, the newest first."""

    def rerun(self, run_id: JobId, steps: Sequence[str] | None = None, args: bytes | None = None) -> bool:
        """Queue an ended run again, from these steps and all that depend on them (None: from the steps that failed).

        Other succeeded steps keep their results. `args` are new parameters. Return False if the run does not exist or
        has not ended.
        """

    def run_steps(self, run_id: JobId, names: Sequence[str] | None = None) -> list[StepView]:
        """Return the steps of a run, or those of them that are named; none if the run has not begun."""

    def step_times(self, run_id: JobId) -> list[StepTimes]:
        """Return the times of every step of a run that has jobs, and the numbers of its queued and running jobs."""

    def run_instances(self, run_id: JobId, limit: int, after: tuple[str, int] = ("", -1)) -> list[InstanceView]:
        """Return up to `limit` jobs of a run's steps, ordered by step and number, that come after the given (step,
        number).
        """

    def map_places(self, ids: Sequence[JobId]) -> dict[JobId, MapIndex]:
        """Return for each of these jobs that is an instance of a mapped step its number and how many instances there
        are.
        """

    def run_failures(self, run_id: JobId, limit: int) -> list[tuple[str, str]]:
        """Return up to `limit` failed steps of a run, as (step, error)."""

    def step_jobs(self, run_id: JobId, step: str, first: int, limit: int) -> list[JobView]:
        """Return up to `limit` jobs of a step's instances, ordered by number, from number `first` on."""

    def answer(self, run_id: JobId, step: str, approved: bool, by: str, note: str | None = None) -> bool:
        """Approve or reject an approval of a run; return False if it does not wait for an answer."""

    def waiting_approvals(self, limit: int) -> list[PendingApproval]:
        """Return up to `limit` approvals that wait for an answer, among the newest hundred running runs."""

    def list_assets(self) -> list[AssetView]:
        """Return all assets that were ever updated, sorted by name."""

    def answer_overdue(self, limit: int) -> int:
        """Answer up to `limit` approvals whose time limit has passed with their defaults; return how many."""
