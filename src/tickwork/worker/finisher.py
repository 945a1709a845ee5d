"""How attempts ended, until it is stored, and what their handlers wrote.

Storing an ending twice is harmless, since an attempt can only be closed once; so what was not stored for sure is kept.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

import msgspec

from tickwork.clock import Clock
from tickwork.core.ids import ClaimId, JobId
from tickwork.core.job import AttemptState, Claimed
from tickwork.core.outcome import Ending, Released, decide
from tickwork.core.why import gist
from tickwork.observe import metrics_table
from tickwork.observe.counters import Counters
from tickwork.observe.json_log import naming
from tickwork.store.base import Finish, NewLog, OpenAttempt, Progress, Store
from tickwork.worker.breaker_reports import BreakerReports
from tickwork.worker.held_jobs import HeldJob, HeldJobs
from tickwork.worker.retry_budget import QueueRetryBudgets

_log = logging.getLogger("tickwork.worker")
NOTES_S = 0.5  # logs and progress are stored this often while handlers run
FINISH_BATCH = 500
ONCE_KEPT = 10_000
_FAILURES = frozenset({AttemptState.FAILED, AttemptState.TIMED_OUT})


@dataclass(slots=True)
class PendingNotes:
    """What handlers said that need not be stored at once."""

    logs: list[NewLog] = field(default_factory=list)
    progress: dict[str, Progress] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.logs or self.progress)


class Finisher:
    """Decides what becomes of jobs whose attempts end, and has it stored."""

    def __init__(
        self,
        store: Store,
        held: HeldJobs,
        retries: QueueRetryBudgets,
        clock: Clock,
        rng: Random,
        nudge_scheduler: Callable[[], None],
        tally: Counters | None = None,
    ) -> None:
        self._store = store
        self._held = held
        self._retries = retries
        self._clock = clock
        self._rng = rng
        self._nudge_scheduler = nudge_scheduler
        self._tally = tally
        self._unstored: list[Finish] = []  # decided, and not yet stored
        self._runs: set[str] = set()  # those of them that schedules may wait for
        self.turnstiles = BreakerReports(store)
        self._notes_at = 0.0
        self.notes = PendingNotes()
        # Attempts that may not begin again, should the store lose their end (see Claiming.give_back_unknown).
        self._begun_once: deque[tuple[JobId, ClaimId]] = deque(maxlen=ONCE_KEPT)

    def __len__(self) -> int:
        return len(self._unstored)

    def __iter__(self) -> Iterator[Finish]:
        return iter(self._unstored)

    def end(self, held: HeldJob, ending: Ending, waited: float, took: float | None = None) -> None:
        """An attempt has ended so; it is held no longer. `took`: its handler ran so long, `waited` after its claim."""
        job = held.job
        self._held.forget(job.job_id)
        if held.begun and job.policy.on_lost == "fail":
            self._begun_once.append((job.job_id, job.claim))
        if job.tick is not None:
            self._runs.add(job.job_id)
        transition = decide(job.policy, job.failures, job.crashes, job.alone, ending, self._rng, job.losses)
        if transition.delay is not None and transition.attempt in _FAILURES:
            later = self._retries.delay(job.queue, transition.delay, self._clock.monotonic())
            transition = msgspec.structs.replace(transition, delay=later)
        if job.flow is not None:
            self.turnstiles.ended(job, transition.attempt)
        if self._tally is not None:
            self._count(self._tally, job, transition.attempt, waited, took)
        about = (round(waited * 1e6), job.run, job.step, job.policy.produce)
        progress = self.notes.progress.pop(job.job_id, None)
        self._unstored.append(Finish(job.job_id, job.attempt, job.claim, transition, *about, progress))

    def ended_elsewhere(self, held: HeldJob, waited: float, took: float) -> None:
        """An attempt has succeeded, and its handler's own transaction has stored that."""
        if self._tally is not None:
            self._count(self._tally, held.job, AttemptState.SUCCEEDED, waited, took)
        self._held.forget(held.job.job_id)
        self.turnstiles.ended(held.job, AttemptState.SUCCEEDED)
        self.turnstiles.freed(held.job)
        if held.job.tick is not None:
            self._nudge_scheduler()

    def count_refused(self, count: int) -> None:
        """Count connections that the database server refused to handlers."""
        if self._tally is not None:
            self._tally.add(metrics_table.CONNECTIONS_REFUSED, (), count)

    def _count(self, tally: Counters, job: Claimed, state: AttemptState, waited: float, took: float | None) -> None:
        tally.add(metrics_table.ATTEMPTS, (job.queue, job.task, state.value))
        if took is not None:
            tally.spread(metrics_table.WAIT, (job.queue,), max(0, job.claimed_at_us - job.run_at_us) / 1e6 + waited)
            tally.spread(metrics_table.RUN, (job.queue, job.task), took)

    def release(self, job_ids: Sequence[str]) -> None:
        """Give back jobs that had to stop for no fault of theirs."""
        for job_id in job_ids:
            for held in self._held.company(job_id):
                self.end(held, Released(begun=held.begun), 0.0)

    def give_back(self, unknown: Sequence[OpenAttempt]) -> None:
        """Give back attempts that are ours for the store alone."""
        self._store.finish_attempts([self._released(one) for one in unknown])

    def _released(self, one: OpenAttempt) -> Finish:
        ending = Released(begun=(one.job_id, one.claim) in self._begun_once)
        transition = decide(one.policy, one.failures, one.crashes, one.alone, ending, self._rng, one.losses)
        return Finish(one.job_id, one.attempt, one.claim, transition, 0, one.run, one.step)

    def clear(self) -> None:
        """Forget everything: none of it is ours any more."""
        self._unstored.clear()
        self._runs.clear()
        self.turnstiles.clear()
        self.notes = PendingNotes()

    # -- storing

    def settle(self) -> None:
        """Store how attempts ended, with what they wrote, in one transaction a batch."""
        while self._unstored:
            batch = self.batch()
            self.settled(batch, self._store.finish_attempts(batch, self.last_words(batch)))

    def batch(self) -> list[Finish]:
        """The endings that are to be stored next."""
        return self._unstored[:FINISH_BATCH]

    def last_words(self, batch: Sequence[Finish]) -> list[NewLog]:
        """What the attempts of a batch wrote and is not stored yet."""
        if not self.notes.logs:
            return []
        ids = {finish.job_id for finish in batch}
        return [log for log in self.notes.logs if log.job_id in ids]

    def settled(self, batch: Sequence[Finish], accepted: set[JobId]) -> None:
        """The first endings are stored, or were refused."""
        del self._unstored[: len(batch)]
        if self.notes.logs:
            ids = {finish.job_id for finish in batch}
            self.notes.logs = [log for log in self.notes.logs if log.job_id not in ids]
        if self._runs:
            self._tell_scheduler(batch)
        self._report(batch, accepted)

    def _tell_scheduler(self, batch: Sequence[Finish]) -> None:
        """Runs of schedules have ended: what waits for that need not wait for the scheduler's next look."""
        stored = self._runs.intersection(finish.job_id for finish in batch)
        if stored:
            self._runs -= stored
            self._nudge_scheduler()

    def _report(self, finishes: Sequence[Finish], accepted: set[JobId]) -> None:
        for finish in finishes:
            if finish.job_id not in accepted:
                text = "Attempt %d of job %s was superseded; its result was dropped."
                _log.warning(text, finish.attempt, finish.job_id, extra=naming(finish))
            elif finish.transition.error is not None and finish.transition.job == "failed":
                told = gist(finish.transition.error)
                text = "Job %s failed for good at attempt %d: %s"
                _log.warning(text, finish.job_id, finish.attempt, told, extra=naming(finish))

    def store_notes(self, now: float) -> None:
        """Store what handlers wrote so far, now and then."""
        if now - self._notes_at < NOTES_S:
            return
        self._notes_at = now
        if self.notes.logs:
            self._store.append_logs(self.notes.logs)
            self.notes.logs = []
        if self.notes.progress:
            self._store.set_progress(list(self.notes.progress.values()))
            self.notes.progress = {}
