"""Read the data that the demo shows from its file in small steps, so that the cost does not grow with time."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import apsw  # the library with which the store opens this file: a process may use only one

from tickwork.api.client import Client, Job
from tickwork.cli.output import about, ago, short_error
from tickwork.core.ids import JobId
from tickwork.core.job import JobFilter, JobState, JobView, QueueView, WorkerView

HISTORY = 60
_SHOWN = 3  # jobs of each kind
_BATCH = 5000
_RUNNING = JobFilter(state=JobState.RUNNING)

# Finished jobs are written in successive transactions: rows that were not read yet have later times than all rows that
# were.
_ENDED = "SELECT job_id, state, ended_at FROM tickwork_finished WHERE ended_at > ? ORDER BY ended_at LIMIT ?"
_RETRYING = "SELECT job_id FROM tickwork_queue WHERE failures > 0 ORDER BY job_id DESC LIMIT 1000"
_DEAD = "SELECT count(*) FROM tickwork_finished WHERE state = 'failed' AND discarded_at IS NULL"


@dataclass(frozen=True, slots=True)
class NotableJob:
    """A job shown as a line, with the reason for its state."""

    state: str
    task: str
    when: str
    why: str


@dataclass(frozen=True, slots=True)
class DemoSnapshot:
    """A snapshot of the demo.

    `ended` counts jobs by state since the start; `jobs` are a few of each of several kinds.
    """

    now: datetime
    rates: list[float]
    ended: dict[str, int]
    retrying: int
    dead: int
    queues: list[QueueView]
    workers: list[WorkerView]
    jobs: list[list[NotableJob]]

    @property
    def standing(self) -> dict[str, int]:
        """The numbers of jobs that have not ended."""
        return {
            "running": sum(queue.running for queue in self.queues),
            "due": sum(queue.due for queue in self.queues),
            "later": sum(queue.later for queue in self.queues),
        }


class DemoCounts:
    """Counts the jobs that ended since the demo began, and keeps the ids of the last few."""

    def __init__(self, client: Client, path: str) -> None:
        self._client = client
        self._file = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        self._file.set_busy_timeout(5000)
        self._seen_us = 0
        self._ended: Counter[str] = Counter()
        self._rates: deque[float] = deque(maxlen=HISTORY)
        self._well: deque[str] = deque(maxlen=_SHOWN)
        self._badly: deque[str] = deque(maxlen=_SHOWN)

    def close(self) -> None:
        self._file.close()

    def look(self, passed_s: float) -> DemoSnapshot:
        """Return a snapshot of the demo, with the rate over the last `passed_s` seconds."""
        self._rates.append(self._count_ended() / max(passed_s, 0.001))
        store = self._client.store
        retrying = [row[0] for row in self._rows(_RETRYING)]
        now, workers = store.now(), store.reads.workers()
        return DemoSnapshot(
            now=now,
            rates=list(self._rates),
            ended=dict(self._ended),
            retrying=len(retrying),
            dead=self._rows(_DEAD)[0][0],
            queues=_with_empty(store.reads.queues(), workers),
            workers=workers,
            jobs=self._jobs(retrying[:_SHOWN], now),
        )

    def _count_ended(self) -> int:
        """Read the jobs that ended since the last call, and return their number."""
        count = 0
        while rows := self._rows(_ENDED, (self._seen_us, _BATCH)):
            for job_id, state, ended_at in rows:
                self._ended[state] += 1
                (self._badly if state == "failed" else self._well).append(job_id)
                self._seen_us = ended_at
            count += len(rows)
        return count

    def _rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        return list(self._file.execute(sql, values))

    def _jobs(self, retrying: list[str], now: datetime) -> list[list[NotableJob]]:
        """Return jobs in progress, jobs to be retried, failed jobs, and succeeded jobs."""
        running = [job.view for job in self._client.jobs(_RUNNING, limit=50)]
        kinds = [[view for view in running if view.progress is not None][:_SHOWN]]
        for ids in (retrying, list(reversed(self._badly)), list(reversed(self._well))):
            found = self._client.store.reads.get_jobs([JobId(id) for id in ids])
            kinds.append([found[JobId(id)] for id in ids if id in found])
        return [
            [NotableJob(view.state, view.task, _when(view, now), self._why(view)) for view in kind] for kind in kinds
        ]

    def _why(self, view: JobView) -> str:
        match view.state:
            case JobState.RUNNING:
                return f"{view.progress or 0:.0%} {view.progress_note or ''}, attempt {view.attempt}"
            case JobState.QUEUED:
                errors = [one.error for one in Job(self._client, view.id, view).attempts()]
                return f"failure {view.failures}: {short_error(errors[-1] if errors else '')}"
            case JobState.SUCCEEDED if view.started_at and view.ended_at:
                again = f", attempt {view.attempt}" if view.attempt > 1 else ""
                return f"took {about(view.ended_at - view.started_at)}{again}"
            case JobState.CANCELLED:
                return f"cancelled: {view.key} was not needed any more" if view.key else "cancelled"
            case _:
                return short_error(view.error)


def _with_empty(queues: list[QueueView], workers: list[WorkerView]) -> list[QueueView]:
    """Return the queues, and the empty queues that a worker serves."""
    found = {queue.name: queue for queue in queues}
    names = {name for worker in workers for name in worker.queues} | found.keys()
    return [found.get(name, QueueView(name, 0, 0, 0, 0, None)) for name in sorted(names)]


def _when(view: JobView, now: datetime) -> str:
    return ago(view.run_at if view.state is JobState.QUEUED else view.ended_at or view.started_at, now)
