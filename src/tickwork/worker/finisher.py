"""Decide what happens to jobs whose attempts have ended, and store the ends with their logs and progress.

An end is kept until the store has confirmed it. Storing an end twice is harmless, because an attempt is closed once.

When the store finishes an attempt, it also admits the next jobs of the limit. The store does not know which endings
count as failures for a breaker, and it does not admit jobs when a handler's own transaction stored the ending. So the
worker reports both (`BreakerReports`).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tickwork.core.ids import ClaimId, JobId
from tickwork.core.job import AttemptState, Claimed
from tickwork.core.limits.job_limits import JobLimits, LimitKey
from tickwork.core.limits.task_limits import breaker_name
from tickwork.core.outcome import Ending, Released, decide
from tickwork.core.why import gist
from tickwork.observe import metrics_table
from tickwork.observe.counters import Counters
from tickwork.observe.json_log import naming
from tickwork.store.attempt_types import Finish, NewLog, OpenAttempt, Progress
from tickwork.store.base import Store
from tickwork.worker.held_jobs import HeldJob, HeldJobs
from tickwork.worker.retry_budget import QueueRetryBudgets
from tickwork.worker.worker_types import WorkerParts

_log = logging.getLogger("tickwork.worker")
NOTES_S = 0.5  # the interval at which logs and progress are stored while handlers run
FINISH_BATCH = 500
ONCE_KEPT = 10_000


@dataclass(slots=True)
class PendingNotes:
    """Logs and progress of handlers that are not stored yet."""

    logs: list[NewLog] = field(default_factory=list)
    progress: dict[str, Progress] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.logs or self.progress)


class Finisher:
    """Decides the transitions of jobs whose attempts have ended, and stores them in batches."""

    def __init__(self, parts: WorkerParts, held: HeldJobs, retries: QueueRetryBudgets) -> None:
        self._store = parts.store
        self._held = held
        self._retries = retries
        self._clock = parts.clock
        self._rng = parts.rng
        self._nudge_scheduler = parts.nudge_scheduler
        self._tally = parts.tally
        self._unstored: list[Finish] = []  # decided, and not yet stored
        self._runs: set[str] = set()  # ids of unstored jobs that a schedule made; the schedule may wait for their end
        self.breaker_reports = BreakerReports(parts.store)
        self._notes_at = 0.0
        self.notes = PendingNotes()
        # Attempts that may not begin again if the store loses their end (see `Claimer.give_back_unknown`).
        self._begun_once: deque[tuple[JobId, ClaimId]] = deque(maxlen=ONCE_KEPT)

    def __len__(self) -> int:
        return len(self._unstored)

    def __iter__(self) -> Iterator[Finish]:
        return iter(self._unstored)

    def end(self, held: HeldJob, ending: Ending, waited: float, took: float | None = None) -> None:
        """Decide the transition of a job whose attempt has ended, queue it for storing, and stop holding the job.

        `waited` is the time in seconds from the claim to the start of the handler, and `took` its run time; None if
        the handler did not report one.
        """
        job = held.job
        self._held.forget(job.job_id)
        if held.begun and job.policy.on_lost == "fail":
            self._begun_once.append((job.job_id, job.claim))
        if job.occurrence is not None:
            self._runs.add(job.job_id)
        transition = decide(job, ending, self._rng)
        transition = self._retries.postponed(job.queue, transition, self._clock.monotonic())
        if job.job_limits is not None:
            self.breaker_reports.ended(job, transition.attempt)
        if self._tally is not None:
            self._count(self._tally, job, transition.attempt, waited, took)
        about = (round(waited * 1e6), job.run, job.step, job.policy.produce)
        progress = self.notes.progress.pop(job.job_id, None)
        self._unstored.append(Finish(job.job_id, job.attempt, job.claim, transition, *about, progress))

    def ended_elsewhere(self, held: HeldJob, waited: float, took: float) -> None:
        """Stop holding a job whose success its handler's own transaction has already stored."""
        if self._tally is not None:
            self._count(self._tally, held.job, AttemptState.SUCCEEDED, waited, took)
        self._held.forget(held.job.job_id)
        self.breaker_reports.ended(held.job, AttemptState.SUCCEEDED)
        self.breaker_reports.freed(held.job)
        if held.job.occurrence is not None:
            self._nudge_scheduler()

    def count_refused(self, count: int) -> None:
        """Add to the metric of database connections that were refused to handlers."""
        if self._tally is not None:
            self._tally.add(metrics_table.CONNECTIONS_REFUSED, (), count)

    def _count(self, tally: Counters, job: Claimed, state: AttemptState, waited: float, took: float | None) -> None:
        """Update the metrics of attempts, wait times and run times."""
        tally.add(metrics_table.ATTEMPTS, (job.queue, job.task, state.value))
        if took is not None:
            tally.spread(metrics_table.WAIT, (job.queue,), max(0, job.claimed_at_us - job.run_at_us) / 1e6 + waited)
            tally.spread(metrics_table.RUN, (job.queue, job.task), took)

    def release(self, job_ids: Sequence[str]) -> None:
        """Release jobs, and the other jobs of their calls, that were stopped through no fault of their own."""
        for job_id in job_ids:
            for held in self._held.company(job_id):
                self.end(held, Released(begun=held.begun), 0.0)

    def give_back(self, unknown: Sequence[OpenAttempt]) -> None:
        """Release attempts that the store assigns to this worker but that the worker does not hold."""
        self._store.finish_attempts([self._released(one) for one in unknown])

    def _released(self, one: OpenAttempt) -> Finish:
        ending = Released(begun=(one.job_id, one.claim) in self._begun_once)
        transition = decide(one, ending, self._rng)
        return Finish(one.job_id, one.attempt, one.claim, transition, 0, one.run, one.step)

    def clear(self) -> None:
        """Discard everything that is not stored: without its lease, the worker may not store it."""
        self._unstored.clear()
        self._runs.clear()
        self.breaker_reports.clear()
        self.notes = PendingNotes()

    # -- storing

    def settle(self) -> None:
        """Store all pending ends with their logs, in one transaction per batch of `FINISH_BATCH`."""
        while self._unstored:
            batch = self.batch()
            self.settled(batch, self._store.finish_attempts(batch, self.last_words(batch)))

    def batch(self) -> list[Finish]:
        """Return the next batch of ends to store."""
        return self._unstored[:FINISH_BATCH]

    def last_words(self, batch: Sequence[Finish]) -> list[NewLog]:
        """Return the logs of a batch's attempts that are not stored yet."""
        if not self.notes.logs:
            return []
        ids = {finish.job_id for finish in batch}
        return [log for log in self.notes.logs if log.job_id in ids]

    def settled(self, batch: Sequence[Finish], accepted: set[JobId]) -> None:
        """Drop a batch that the store has processed, and log the ends that it did not accept."""
        del self._unstored[: len(batch)]
        if self.notes.logs:
            ids = {finish.job_id for finish in batch}
            self.notes.logs = [log for log in self.notes.logs if log.job_id not in ids]
        if self._runs:
            self._tell_scheduler(batch)
        self._report(batch, accepted)

    def _tell_scheduler(self, batch: Sequence[Finish]) -> None:
        """Wake the scheduler if a stored end belongs to a schedule, whose next occurrence may wait for that run."""
        stored = self._runs.intersection(finish.job_id for finish in batch)
        if stored:
            self._runs -= stored
            self._nudge_scheduler()

    def _report(self, finishes: Sequence[Finish], accepted: set[JobId]) -> None:
        """Log superseded attempts and jobs that failed for good."""
        for finish in finishes:
            if finish.job_id not in accepted:
                text = "Attempt %d of job %s was superseded; its result was dropped."
                _log.warning(text, finish.attempt, finish.job_id, extra=naming(finish))
            elif finish.transition.error is not None and finish.transition.job == "failed":
                told = gist(finish.transition.error)
                text = "Job %s failed for good at attempt %d: %s"
                _log.warning(text, finish.job_id, finish.attempt, told, extra=naming(finish))

    def store_notes(self, now: float) -> None:
        """Store the logs and progress of running handlers, at most once in `NOTES_S` seconds."""
        if now - self._notes_at < NOTES_S:
            return
        self._notes_at = now
        if self.notes.logs:
            self._store.append_logs(self.notes.logs)
            self.notes.logs = []
        if self.notes.progress:
            self._store.set_progress(list(self.notes.progress.values()))
            self.notes.progress = {}


_FAILED = {
    AttemptState.SUCCEEDED: False,
    AttemptState.FAILED: True,
    AttemptState.TIMED_OUT: True,
    AttemptState.LOST: True,
}


def breaker_ends(
    task: str, job_limits: JobLimits | None, job_id: JobId, how: AttemptState, *, is_probe: bool
) -> list[tuple[LimitKey, JobId, bool]]:
    """Return the reports to breakers about an ended attempt, as (limit key, job id, failed).

    A breaker counts failures and waits for the ends of probes, so the list is empty for a success that was no probe,
    for released attempts, and for jobs without limits.
    """
    failed = _FAILED.get(how)
    if job_limits is None or failed is None or not (failed or is_probe):
        return []
    name = breaker_name(task)
    return [(LimitKey(name, slot.key), job_id, failed) for slot in job_limits.uses if slot.limit == name]


class BreakerReports:
    """A buffer of reports to breakers and of freed limit keys.

    Reports that could not be stored are kept and retried.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ends: list[tuple[LimitKey, JobId, bool]] = []
        self._freed: list[LimitKey] = []

    def ended(self, job: Claimed, how: AttemptState) -> None:
        """Buffer the report of an ended attempt."""
        self._ends += breaker_ends(job.task, job.job_limits, job.job_id, how, is_probe=job.is_probe)

    def freed(self, job: Claimed) -> None:
        """Buffer the limit keys of a job whose end was stored by its handler's own transaction."""
        if job.job_limits is not None:
            self._freed += [LimitKey(slot.limit, slot.key) for slot in job.job_limits.uses]

    def clear(self) -> None:
        self._ends.clear()
        self._freed.clear()

    def tell(self) -> None:
        """Store the buffered reports, and admit jobs under the freed limit keys."""
        if self._ends:
            self._store.limits.end_probes(self._ends)
            self._ends = []
        if self._freed:
            self._store.limits.let_through(self._freed)
            self._freed = []
