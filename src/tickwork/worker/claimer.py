"""Claim jobs for the free slots of a worker, and start each claimed job when its run time has come."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import inf

from tickwork.core.ids import WorkerId
from tickwork.core.job import RUN, Claimed
from tickwork.core.outcome import Failed, Released
from tickwork.core.text.suggestions import guess
from tickwork.errors import StoreError
from tickwork.observe.json_log import naming
from tickwork.store.attempt_types import Claims
from tickwork.store.base import AHEAD_LIMIT
from tickwork.store.limits import LimitedCapacity
from tickwork.store.rows.instants import to_us
from tickwork.worker.claim_pacing import BATCH, ClaimBackoff, NextClaim, Prefetch
from tickwork.worker.finisher import Finisher
from tickwork.worker.held_jobs import HeldJobs
from tickwork.worker.retry_budget import QueueRetryBudgets
from tickwork.worker.worker_types import WorkerParts

_log = logging.getLogger("tickwork.worker")
BATCH_CLAIM = 1000  # the limit of jobs in one claim for a batch task
LEAST_GROWS = 1.02  # growth of the recorded shortest claim duration per claim, so that it adapts to a slower store
UNSURE_LOOK_S = 1.0  # interval of checks for jobs of a claim whose reply was lost
OWN_LOOK_LEASES = 10  # interval, in leases, of checks for attempts whose stored end the store has lost
UNSURE_S = 20.0  # least duration of the checks after the store answers again; a delayed claim commits within it
UNKNOWN_LOOK_S = 5.0  # least interval of checks for due jobs that this worker has no task for
UNKNOWN_SHARE = 50  # such a check takes at most 1/50 of the time


class Claimer:
    """Claims jobs and submits them to the pools. Computes when the next claim is worthwhile."""

    def __init__(
        self,
        parts: WorkerParts,
        held: HeldJobs,
        finisher: Finisher,
        retries: QueueRetryBudgets,
        prefetch: Prefetch,
        *,
        kill_holder: Callable[[str], None],
    ) -> None:
        self._store = parts.store
        self._pools = parts.pools
        tasks, solo_tasks = [task.name for task in parts.code.tasks], parts.code.solo_tasks
        self._shared = (*(name for name in tasks if name not in solo_tasks and name not in held.batches), RUN)
        self._solo = tuple(name for name in tasks if name in solo_tasks)
        self._queue_weights = parts.options.queues
        self._lease = parts.lease
        self._held = held
        self._finisher = finisher
        self._retries = retries
        self._prefetch = prefetch
        self._clock = parts.clock
        self._rng = parts.rng
        self._kill_holder = kill_holder
        self._batches_first = False
        self._supplies: dict[Sequence[str], ClaimBackoff] = {(name,): ClaimBackoff(scarce=True) for name in tasks}
        self._supplies |= {self._shared: ClaimBackoff(), self._solo: ClaimBackoff()}
        self._least_s = inf  # the shortest duration of a claim
        self._next = NextClaim()
        self._unknown_tasks = UnknownTasks(parts, frozenset((RUN, *tasks)))
        self._recovery = RecoveryTimes()

    @property
    def free(self) -> int:
        """Return the number of free slots; negative when prefetched jobs are held beyond the slots."""
        return self._prefetch.slots - self._held.load

    def gathers(self, now: float) -> bool:
        """Return whether to delay storing attempt ends, so that one transaction stores more of them.

        Ends are delayed only while a prefetched job is ready for the next free slot.
        """
        prefetched = self._prefetch.prefetch() > 0 and self.free < 0
        return prefetched and len(self._finisher) > 0 and round(self._prefetch.gather_until() - now, 6) > 0

    def clear(self) -> None:
        """Stop looking for unknown attempts of an earlier lease: this worker may no longer release them."""
        self._recovery.is_unsure = False

    def times(self, now: float) -> list[float]:
        """Return the times at which to claim again, as far as the last claims determine them.

        While attempt ends are delayed for a common transaction, the end of that delay is the only such time.
        """
        if self.gathers(now):
            return [self._prefetch.gather_until()]
        times = [] if self._next.again_at is None else [self._next.again_at]
        if self._next.due_at is not None:
            # Without a free slot no job is claimed before its run time: an earlier wake-up would loop without effect.
            times.append(self._next.due_at - (AHEAD_LIMIT.total_seconds() / 2 if self.free > 0 else 0.0))
        return times

    # -- claiming

    def claim(self, now: float) -> int:
        """Claim jobs for the free slots, and prefetch if jobs are short; return how many jobs were claimed.

        Pending attempt ends are stored in the same transaction, so a busy worker commits once instead of twice.
        Single calls and batches compete for the slots, and the first to claim may take all of them. Batches go first
        after each round in which single calls went first and claimed jobs, so that both get slots.
        """
        self._next.again_at = None
        ahead = 0 if self._pools.stalled() else self._prefetch.ahead()
        if self._prefetch.prefetch() and not self._may_prefetch():
            ahead = 0
        if not self._held.batches:
            took, self._next.due_at = self._claim_calls(ahead, now)
            return took
        had_room = self.free + ahead > 0
        if self._batches_first:
            batched, calls = self._claim_batches(ahead, now), self._claim_calls(ahead, now)
        else:
            calls, batched = self._claim_calls(ahead, now), self._claim_batches(ahead, now)
        if had_room:
            self._batches_first = calls[0] > 0 and not self._batches_first
        self._next.due_at = min((due for _, due in (calls, batched) if due is not None), default=None)
        return calls[0] + batched[0]

    def _may_prefetch(self) -> bool:
        """Return whether a claim may prefetch: only if it also stores finished attempts or fills free slots.

        A worker with solo tasks never prefetches: a prefetched job would take the free slot that a solo job needs.
        """
        return not self._solo and (self.free > 0 or len(self._finisher) > 0)

    def _claim_calls(self, ahead: int, now: float) -> tuple[int, float | None]:
        """Claim jobs of tasks without batches; return how many, and when the next one is due.

        The count is 0 unless a claim returned as many jobs as it asked for (see `_claim_of`).
        """
        took, due = self._claim_of(self._shared, min(BATCH, self.free + ahead), max(0, self.free), now)
        if self._solo:
            room = min(self._pools.solo_room(), self.free)
            more, solo_due = self._claim_of(self._solo, room, room, now)
            took, due = took + more, min((one for one in (due, solo_due) if one is not None), default=None)
        return took, due

    def _claim_batches(self, ahead: int, now: float) -> tuple[int, float | None]:
        """Claim jobs of batch tasks; return how many, and when the next one is due.

        A call takes one slot, so the limit is the number of jobs that fill a call in each free slot.
        """
        took, dues = 0, []
        for task in self._held.batches.in_turn():
            batches, free = self._held.batches, self.free
            room, slots = batches.room(task, max(free, min(1, free + ahead))), batches.room(task, max(0, free))
            more = part = 1
            while room > 0 and more == part:  # claim all jobs that fit before the batch is formed
                part = min(room, BATCH_CLAIM)
                more, due = self._claim_of((task,), part, max(0, slots), now)
                took, room, slots = took + more, room - part, slots - part
                dues.append(due)
            self._start_batches(self._clock.monotonic(), hurry=False)
        return took, min((due for due in dues if due is not None), default=None)

    def _claim_of(self, tasks: Sequence[str], room: int, slots: int, now: float) -> tuple[int, float | None]:
        """Claim up to `room` jobs of some tasks, and start those that are due.

        `slots` bounds the jobs that have needs or a rate limit, which are never prefetched. Returns the number of
        claimed jobs if the claim was full, otherwise 0, and when the next job is due. Returns (1, None), so that the
        worker ticks again at once, if the store refused the claim because the lease is over.
        """
        if room <= 0 or not tasks or self._lease.worker is None:
            return 0, None
        claim_backoff = self._supplies[tasks]
        if claim_backoff.rests(now):
            self._next.again_by(claim_backoff.again_at)
            return 0, None
        claims = self._exchange(self._lease.worker, tasks, room, slots)
        if claims is None:
            return 1, None
        replied = self._clock.monotonic()  # not `now`: the store call may have been slow
        self._stop_superseded(claims.jobs)
        self._held.take(claims.jobs, replied)
        for job in [one for one in claims.jobs if one.flaw is not None]:
            for held in self._held.company(job.job_id):
                self._finisher.end(held, Failed(job.flaw or "", fatal=True), 0.0)
        self._start_calls(replied)
        if any(job.run_at_us > job.claimed_at_us for job in claims.jobs):
            store_now = self._store.now()
            self._held.reckon(to_us(store_now), self._clock.monotonic())
        if not claims.jobs:
            self._unknown_tasks.look(now)
        if claims.again_s is not None:
            self._next.again_by(max(now + claims.again_s, claim_backoff.again_at))
        full = len(claims.jobs) == room
        return len(claims.jobs) if full else 0, None if claims.next_due_s is None else now + claims.next_due_s

    def _stop_superseded(self, jobs: Sequence[Claimed]) -> None:
        """Stop the earlier attempts of jobs that this worker still holds and has claimed again.

        This happens when the store has lost the earlier claim: a backup was restored, or a failover lost commits.
        """
        for job in jobs:
            if job.job_id not in self._held:  # it may have ended when an earlier iteration killed its process
                continue
            text = "Job %s was claimed again while it runs here; its earlier attempt is stopped."
            _log.warning(text, job.job_id, extra=naming(job))
            company = self._held.company(job.job_id)
            leader = company[0].job
            self._pools.interrupt(leader.job_id, leader.claim, "stop")
            self._held.forget(job.job_id)
            self._finisher.notes.progress.pop(job.job_id, None)
            self._kill_holder(leader.job_id)
            self._finisher.release([held.job.job_id for held in company if held.job.job_id in self._held])

    def _exchange(self, worker: WorkerId, tasks: Sequence[str], room: int, slots: int) -> Claims | None:
        """Store pending ends and claim jobs, in one transaction.

        Returns None if the store refused the claim because the lease is over; the lease is then renewed or known to be
        lost. Raises StoreError.
        """
        window = AHEAD_LIMIT if self.free > 0 else timedelta(0)
        claim_backoff = self._supplies[tasks]
        batch = self._finisher.batch()
        words = self._finisher.last_words(batch)
        began = self._clock.monotonic()
        capacity = LimitedCapacity(
            min(room, slots), self._held.left(), claim_backoff.search(began), min(room, self._prefetch.prefetch())
        )
        try:
            done = self._store.exchange(
                worker,
                batch,
                words,
                queues=self._queues(),
                tasks=tasks,
                limit=room,
                ahead=window,
                capacity=capacity,
            )
        except StoreError:  # the store may have committed the claim, or may still commit it later
            self._recovery.unanswered(self._clock.monotonic())
            raise
        replied = self._clock.monotonic()
        self._finisher.settled(batch, done.finished)
        if done.claims is None:
            self._renew(worker)
        else:
            found, is_near = len(done.claims.jobs), done.claims.is_near
            self._prefetch.exchanged(replied - began, replied)
            self._least_s = min(replied - began, self._least_s * LEAST_GROWS)
            claim_backoff.claimed(began, replied, found, found + len(batch), is_near=is_near, least_s=self._least_s)
        return done.claims

    def _renew(self, worker: WorkerId) -> None:
        """Renew the lease; record whether it had only expired, as after a pause, or was reclaimed by a reaper."""
        sent = self._clock.monotonic()
        self._lease.renewed(worker, sent, self._store.renew_lease(worker, self._lease.duration))

    def _queues(self) -> list[str]:
        """Return the queues in a weighted random order, so that every queue comes first at times."""
        if len(self._queue_weights) == 1:
            return [self._queue_weights[0][0]]
        drawn = sorted(self._queue_weights, key=lambda one: -(self._rng.random() ** (1 / one[1])))
        return [queue for queue, _ in drawn]

    def start_due(self, now: float, *, hurry: bool) -> None:
        """Start the jobs that are due, and the batches that are full or have waited; with `hurry`, all batches."""
        self._start_calls(now)
        self._start_batches(now, hurry=hurry)

    def _start_calls(self, now: float) -> None:
        """Start the jobs that are due, unless the lease has expired: a claim may be answered after that."""
        due = self._held.start_due(now) if self._lease.left(now) > 0 else []
        self._count_starts([held.job.queue for held in due], now)
        for alone in (False, True):
            batch = [held.assignment() for held in due if held.job.alone is alone]
            if batch:
                self._pools.submit(batch, alone)

    def start_exclusive(self, now: float) -> None:
        """Start a job that must run alone, once no other job is held and all ends are stored.

        The start is stored first. If the worker is lost afterwards, the loss is charged to this job.
        """
        held = self._held.exclusive_due(now) if self._lease.left(now) > 0 else None
        if held is None or len(self._finisher):
            return
        job = held.job
        if not self._store.begin_alone(job.job_id, job.claim):
            self._held.forget(job.job_id)  # it was reclaimed
            return
        if self._lease.left(self._clock.monotonic()) <= 0:  # the store call may have been slow
            self._finisher.end(held, Released(), 0.0)
            return
        text = "Job %s runs alone: its last %d attempts were lost with their workers."
        _log.warning(text, job.job_id, job.losses, extra=naming(job))
        self._held.start_exclusive(held)
        self._count_starts([job.queue], now)
        self._pools.submit([held.assignment()], True)

    def _start_batches(self, now: float, *, hurry: bool) -> None:
        """Start the calls of batches that are full or have waited long enough; with `hurry`, all waiting jobs."""
        calls = self._held.batches.start(now, hurry=hurry) if self._lease.left(now) > 0 else []
        self._count_starts([one.queue for call in calls for one in (call, *call.company)], now)
        for call in calls:
            self._pools.submit([call], False)  # each in a frame of its own

    def _count_starts(self, queues: list[str], now: float) -> None:
        """Count started jobs for the retry budgets of their queues."""
        if queues:
            for queue, count in Counter(queues).items():
                self._retries.started(queue, count, now)

    # -- recovery

    def give_back_unknown(self, now: float) -> None:
        """Release attempts that the store assigns to this worker but that the worker does not hold.

        No reaper reclaims them while the worker renews its lease. They have two causes. First, the reply of their
        claim was lost: a server that was stopped may still commit the claim when it resumes, so the checks, one in
        `UNSURE_LOOK_S` seconds, continue for a while after its next answer. Second, their end was stored but the
        store has lost it (a restored backup, a failover): the worker checks for these every `OWN_LOOK_LEASES` leases.
        """
        lease_s = self._lease.duration.total_seconds()
        if self._lease.worker is None or not self._recovery.is_due(now, lease_s):
            return
        known = {(held.job.job_id, held.job.claim) for held in self._held}
        known |= {(finish.job_id, finish.claim) for finish in self._finisher}
        found = self._store.open_attempts(self._lease.worker)
        unknown = [one for one in found if (one.job_id, one.claim) not in known]
        if unknown:
            self._finisher.give_back(unknown)
        self._recovery.looked(now, lease_s)


@dataclass(slots=True)
class RecoveryTimes:
    """When to look for attempts that the store assigns to this worker but that the worker does not hold."""

    is_unsure: bool = False  # a claim was not answered: the store may count attempts as ours that we do not know
    unsure_at: float = 0.0  # the next look because of that
    unsure_until: float | None = None  # the end of these looks; set when the store answers again
    own_at: float | None = None  # the next look even if every claim was answered

    def unanswered(self, now: float) -> None:
        """Schedule checks from now on, because a claim was not answered."""
        self.is_unsure, self.unsure_at, self.unsure_until = True, now, None

    def is_due(self, now: float, lease_s: float) -> bool:
        """Return whether a check is due; the first regular check is `OWN_LOOK_LEASES` leases after the first call."""
        self.own_at = now + OWN_LOOK_LEASES * lease_s if self.own_at is None else self.own_at
        due = (self.is_unsure and now >= self.unsure_at) or now >= self.own_at
        self.own_at = now + OWN_LOOK_LEASES * lease_s if due else self.own_at
        return due

    def looked(self, now: float, lease_s: float) -> None:
        """Set the time of the next check, after the store has answered."""
        self.unsure_at = now + UNSURE_LOOK_S
        if self.is_unsure:
            self.unsure_until = self.unsure_until or now + max(lease_s, UNSURE_S)
            self.is_unsure = now <= self.unsure_until


class UnknownTasks:
    """Logs a warning, once per task, about due jobs in a worker's queues whose task the worker does not have."""

    def __init__(self, parts: WorkerParts, known: frozenset[str]) -> None:
        self._parts = parts
        self._known = known
        self._logged: set[str] = set()
        self._look_at = 0.0

    def look(self, now: float) -> None:
        """Check for such jobs, at most once in `UNKNOWN_LOOK_S` seconds and for 1/`UNKNOWN_SHARE` of the time."""
        if now < self._look_at:
            return
        clock = self._parts.clock
        began = clock.monotonic()
        due = self._parts.store.reads.due_tasks([queue for queue, _ in self._parts.options.queues])
        self._look_at = now + max(UNKNOWN_LOOK_S, (clock.monotonic() - began) * UNKNOWN_SHARE)
        for name in due - self._known - self._logged:
            self._logged.add(name)
            _log.warning(
                "UnknownTask: this worker has no task named %r%s. Its jobs stay queued. Start a worker that has it.",
                name,
                guess(name, self._known),
            )
