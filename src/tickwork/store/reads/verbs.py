"""The verbs that read jobs, queues, workers, tasks, runs and schedules, for lists, pages, searches and live views."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from tickwork.core.dag.overview import GridCell
from tickwork.core.ids import JobId, WorkerId
from tickwork.core.job import AttemptView, JobFilter, JobPage, JobView, LogChunk, QueueView, TaskDefinition, WorkerView
from tickwork.core.stats.error_groups import FailedEnd, FailurePage
from tickwork.core.workers.autoscale import WaitingKind
from tickwork.store.dags import DagView
from tickwork.store.reads.change_feed import Changes
from tickwork.store.reads.job_search import SearchHits, StateCount
from tickwork.store.reads.ui_page_queries import (
    EventPlace,
    FireCount,
    FireSummary,
    PendingApprovalView,
    RunBrief,
    RunEvent,
)
from tickwork.store.schedules import ScheduleView


class Backlog(msgspec.Struct, frozen=True):
    """Due jobs with the same needs that no limit holds: how many, and the run_at of the oldest."""

    needs: str
    count: int
    oldest_at: datetime


class ReadVerbs(Protocol):
    """The verbs that only read. Their cost is bounded unless they say otherwise."""

    # -- jobs and their attempts

    def get_jobs(self, ids: Sequence[JobId]) -> dict[JobId, JobView]:
        """Return the jobs with these ids, by id; ids without a job are left out."""

    def list_jobs(self, which: JobFilter, limit: int, before: JobId | None = None) -> list[JobView]:
        """Return up to `limit` matching jobs whose id is less than `before`, the newest first.

        The cost is not bounded.
        """

    def find_key(self, key: str) -> JobId | None:
        """Return the job that holds the key, else the newest job that had it; None if there never was one."""

    def attempts(self, job_id: JobId) -> list[AttemptView]:
        """Return all attempts of a job in their order; none if the job does not exist."""

    def logs(self, job_id: JobId, after: tuple[int, int] = (0, -1), limit: int = 1000) -> list[LogChunk]:
        """Return up to `limit` chunks of lines that handlers of the job wrote, after the chunk (attempt, seq), in
        order.
        """

    def find_jobs(self, which: JobFilter, limit: int, before: JobId | None = None) -> JobPage:
        """Return a page of the jobs that list_jobs returns, at a bounded cost.

        A page may be short, or empty, and still have a next one. The jobs come without their arguments and results,
        which may be large.
        """

    def count_jobs(self, which: JobFilter, most: int) -> list[StateCount]:
        """Return the number of matching jobs in each state, up to `most` and at a bounded cost.

        Queued jobs are counted by the reason for which they wait.
        """

    def find_failures(self, which: JobFilter, limit: int, before: JobId | None = None) -> FailurePage:
        """Return a page of dead letters, with only the columns of which error groups are made."""

    def failed_lately(self, since: datetime, limit: int) -> list[FailedEnd]:
        """Return up to `limit` jobs that ended without success since an instant, the latest first."""

    def retried_lately(self, since: datetime, limit: int) -> list[FailedEnd]:
        """Return up to `limit` attempts that ended since an instant and whose job was queued again, the latest
        first.
        """

    def ended_among(self, ids: Sequence[JobId]) -> set[JobId]:
        """Return which of these jobs have ended."""

    def search_jobs(self, text: str, limit: int, before: JobId | None = None) -> SearchHits:
        """Return up to `limit` ids below `before` of jobs whose task or key begins with a text, or whose error contains
        it.

        A text that is an id finds that job.
        """

    def queue_names(self) -> list[str]:
        """Return the names of queues that have waiting jobs."""

    # -- queues, workers and tasks

    def queues(self) -> list[QueueView]:
        """Return each queue that has waiting or running jobs, with counts of at most COUNTED."""

    def durations(self) -> dict[str, timedelta]:
        """Return the mean duration of the jobs of each queue, over the last thousand jobs that ended."""

    def workers(self) -> list[WorkerView]:
        """Return the live workers, and the workers that were lost lately.

        Attempts over REST appear while they run: attempts with the same name, queues, tasks and offer are one worker in
        the state `remote`, with the id of any of their leases and one slot per attempt. If there are more than
        REMOTE_SHOWN such workers, the rest are combined as REMOTE_OTHERS. A server, which claims for others and has no
        slots, is not listed.
        """

    def worker(self, id: WorkerId) -> WorkerView | None:
        """Return a worker, or an attempt over REST by the id of its lease; None if there is none."""

    def task_definition(self, name: str) -> TaskDefinition | None:
        """Return the latest definition of a task that a worker stored; None if there is none."""

    def task_definitions(self, limit: int, after: str = "") -> list[TaskDefinition]:
        """Return up to `limit` latest definitions of tasks and dags whose names come after `after`, sorted by name."""

    def due_tasks(self, queues: Sequence[str]) -> set[str]:
        """Return the tasks that have due jobs in these queues, among the first thousand jobs of each queue."""

    def backlog(self, queues: Sequence[str], tasks: Sequence[str], most: int) -> list[Backlog]:
        """Return how many due jobs of these tasks wait in these queues, held jobs excepted, grouped by their needs.

        The cost is bounded: about `most` jobs are read, of those plain and limited ones.
        """

    def waiting_kinds(self, queue: str, most: int) -> list[WaitingKind]:
        """Return how many due jobs wait in a queue, held jobs excepted, grouped by task and needs.

        The cost is bounded: about `most` jobs are read, of those plain and limited ones.
        """

    # -- pages about many objects at once

    def newest_runs(self, dags: Sequence[str], limit: int, before: JobId | None = None) -> list[RunBrief]:
        """Return for each of these dags its newest `limit` runs whose id is less than `before`, the newest first."""

    def grid(self, runs: Sequence[JobId], steps: Sequence[str]) -> list[GridCell]:
        """Return the state of these steps in each of these runs; steps that a run does not have are left out.

        For a mapped step, the first LOOKED_AT instances tell when it began and how often it was tried.
        """

    def run_events(self, run_id: JobId, limit: int, after: EventPlace | None = None) -> list[RunEvent]:
        """Return up to `limit` events of a run after a position, in order. The cost grows with the size of the run."""

    def asked(self, places: Sequence[tuple[JobId, str]]) -> list[PendingApprovalView]:
        """Return the approvals that wait for an answer, among these steps, given as (run, step)."""

    def dag_version(self, name: str, version: int) -> DagView | None:
        """Return one version of a dag; None if there is none."""

    def newest_dags(self, limit: int, after: str = "") -> list[DagView]:
        """Return the newest version of up to `limit` dags that can be started, with names after `after`, sorted
        by name.
        """

    def recent_fires(self, schedules: Sequence[str], limit: int) -> list[FireSummary]:
        """Return for each of these schedules its latest `limit` occurrences with their outcomes, the latest first."""

    def fire_counts(self, schedule: str, since: datetime, most: int) -> list[FireCount]:
        """Return the number of a schedule's occurrences by quarter of an hour and outcome, since an instant.

        If there are more than `most` occurrences, the latest are counted.
        """

    def schedules_of(self, targets: Sequence[str], limit: int) -> list[ScheduleView]:
        """Return up to `limit` schedules that start these tasks or dags, sorted by name."""

    def held_jobs(self, worker: WorkerId, limit: int) -> list[JobView]:
        """Return up to `limit` jobs that a worker runs, the longest running first, without arguments."""

    def sources_of(self, kind: str, names: Sequence[str]) -> dict[str, str]:
        """Return for each of these objects that a file declares the name of the file."""

    def schedules_late(self) -> timedelta:
        """Return how long the most overdue schedule has been due for evaluation; zero if none is overdue."""

    # -- the change feed

    def happenings(self, since: datetime, most: int) -> Changes:
        """Return the changes of jobs since an instant, at most `most` of each kind.

        Running jobs that reported progress are always included; changes that the library made to waiting jobs are not.
        """

    def topics(self) -> dict[str, str]:
        """Return for each of TOPICS a digest, which changes when an object of the topic changes."""
