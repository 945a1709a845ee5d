"""Attempts of remote workers: claim jobs, grant each attempt a lease, and finish attempts.

`RemoteClaimer` is not thread-safe: all calls are made on the thread of `LongPolls`.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from tickwork.clock import Clock
from tickwork.core.access.scopes import BUILT_IN
from tickwork.core.ids import WorkerId
from tickwork.core.job import RUN, Claimed
from tickwork.core.outcome import Ending, Failed, Released, decide
from tickwork.core.placement import NOTHING, Offer
from tickwork.errors import LeaseLost
from tickwork.observe.counters import Counters
from tickwork.observe.metrics_table import ATTEMPTS, WAIT
from tickwork.store.attempt_types import Finish
from tickwork.store.base import LEASE, Store, WorkerRegistration
from tickwork.store.limits import LimitedCapacity
from tickwork.store.remote_leases import FIRST, DueWork, LeaseGrant, RemoteAttempt
from tickwork.version import VERSION
from tickwork.worker.finisher import breaker_ends
from tickwork.worker.retry_budget import QueueRetryBudgets

TIDY = 50  # leases of ended attempts that are deleted together; after a crash the pruner deletes them
ALONE_RETRY = timedelta(seconds=5)  # until a job that must run alone is offered again to workers that hold leases


class RemoteFinisher:
    """Finishes attempts of remote workers. Thread-safe."""

    def __init__(self, store: Store, clock: Clock, rng: Random, tally: Counters) -> None:
        self._store = store
        self._clock = clock
        self._rng = rng
        self._lock = threading.Lock()
        self._retries = QueueRetryBudgets(rng)
        self._tally = tally
        self._over: list[WorkerId] = []

    def started(self, jobs: Iterable[Claimed]) -> None:
        """Count jobs that have started, for the retry budgets, and record how long they waited."""
        now = self._clock.monotonic()
        with self._lock:
            for job in jobs:
                self._retries.started(job.queue, 1, now)
                self._tally.spread(WAIT, (job.queue,), max(0, job.claimed_at_us - job.run_at_us) / 1e6)

    def end(self, one: RemoteAttempt | Claimed, ending: Ending, worker: WorkerId | None = None) -> bool:
        """Store how an attempt ended; return False if it is no longer the current attempt of its job.

        `worker` is the attempt's own lease, which ends with it.
        """
        with self._lock:
            outcome = decide(one, ending, self._rng)
            outcome = self._retries.postponed(one.queue, outcome, self._clock.monotonic())
        finish = Finish(one.job_id, one.attempt, one.claim, outcome, 0, one.run, one.step, one.policy.produce)
        if not self._store.finish_attempts([finish]):
            return False
        # It is not known here whether it was a probe; a breaker that waits for no probe ignores it.
        if told := breaker_ends(one.task, one.job_limits, one.job_id, outcome.attempt, is_probe=True):
            self._store.limits.end_probes(told)
        self._ended((one.queue, one.task, outcome.attempt.value), worker)
        return True

    def _ended(self, labels: tuple[str, str, str], worker: WorkerId | None) -> None:
        """Count an ended attempt, and delete leases of ended attempts once there are TIDY of them."""
        with self._lock:
            self._tally.add(ATTEMPTS, labels)
            self._over += [] if worker is None else [worker]
            over = self._over if len(self._over) >= TIDY else []
            if over:
                self._over = []
        if over:
            self._store.remote.end_leases(over)


@dataclass(frozen=True, slots=True)
class WantedJobs:
    """The jobs that a worker asks for, by queues (in the order of preference) and tasks; without tasks, any task.

    Tickwork's own tasks must be named. The labels and resources of `offer` are shared by all jobs of a claim.
    """

    queues: tuple[str, ...]
    tasks: tuple[str, ...] = ()
    offer: Offer = NOTHING

    @property
    def key(self) -> tuple[object, ...]:
        """A key that is equal for requests that one claim can serve."""
        return (self.queues, self.tasks, self.offer.labels, tuple(sorted(self.offer.resources.items())))

    def of(self, due: Collection[str]) -> list[str]:
        """Return the tasks to claim, given the tasks that are due.

        A claim also starts due runs of dags; these are not leased.
        """
        runs = [RUN] if RUN in due else []
        if self.tasks:
            return [*self.tasks, *runs]
        return [*(name for name in sorted(due) if name not in BUILT_IN and not name.startswith("@")), *runs]


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """A remote worker's request: its name, the length of a lease, and the maximum number of jobs.

    `lessee` is the caller that sent the request, as named in the audit log.
    """

    name: str
    lessee: str
    lease: timedelta
    most: int


@dataclass(frozen=True, slots=True)
class LeasedAttempt:
    """An attempt that is leased to a remote worker, and the end of its lease."""

    job: Claimed
    worker: WorkerId
    lease_until: datetime


class RemoteClaimer:
    """Claims jobs under the server's own lease, which it renews only when it claims."""

    def __init__(self, store: Store, ends: RemoteFinisher, clock: Clock) -> None:
        self._store = store
        self._ends = ends
        self._clock = clock
        self._me: WorkerId | None = None
        self._until = 0.0

    def due(self, queues: Sequence[str]) -> DueWork:
        return self._store.remote.due_work(queues)

    def claim(
        self, wanted: WantedJobs, due: Collection[str], askers: Sequence[LeaseRequest]
    ) -> list[list[LeasedAttempt]]:
        """Claim jobs for requests in their order; return the jobs of each request.

        If the store fails, no request gets jobs, and claimed jobs return to their queue when their leases expire.
        """
        tasks = wanted.of(due)
        room = min(FIRST, sum(one.most for one in askers))
        if not tasks:
            return [[] for _ in askers]
        try:
            me = self._leased()
            claims = self._store.claim_jobs(
                me, wanted.queues, tasks, room, capacity=LimitedCapacity(room, wanted.offer)
            )
            return self._granted(me, wanted, self._sound(claims.jobs), askers)
        except LeaseLost:
            self._me = None
            return [[] for _ in askers]
        except Exception:
            self._me = None
            raise

    def give_back(self, leased: Sequence[LeasedAttempt]) -> None:
        """Return jobs to their queue, due at once and uncharged, because the client that asked for them left."""
        for one in leased:
            self._ends.end(one.job, Released(), one.worker)

    def _leased(self) -> WorkerId:
        """Return the server's worker id, after ensuring that its lease lasts long enough for a claim and its grants."""
        now = self._clock.monotonic()
        if self._me is not None and self._until - now > LEASE.total_seconds() / 2:
            return self._me
        if self._me is None or not self._store.renew_lease(self._me, LEASE):
            self._me = WorkerId(f"server/{secrets.token_hex(8)}")
            me = WorkerRegistration(self._me, socket.gethostname(), os.getpid(), VERSION, (), (), slots=0)
            self._store.register_worker(me, (), LEASE)
        self._until = now + LEASE.total_seconds()
        return self._me

    def _sound(self, jobs: Sequence[Claimed]) -> list[Claimed]:
        """Return the jobs that can run; fail all others, as a worker would."""
        for job in jobs:
            if job.flaw is not None:
                self._ends.end(job, Failed(job.flaw, fatal=True))
        return [job for job in jobs if job.flaw is None]

    def _granted(
        self, me: WorkerId, wanted: WantedJobs, jobs: Sequence[Claimed], askers: Sequence[LeaseRequest]
    ) -> list[list[LeasedAttempt]]:
        """Distribute claimed jobs among requests and grant their leases; return the leased attempts of each request."""
        dealt = self._deal(jobs, askers)
        grants = [
            (job, _grant(job, asker, wanted)) for asker, given in zip(askers, dealt, strict=True) for job in given
        ]
        until = self._store.remote.grant_leases(me, [grant for _, grant in grants]) if grants else {}
        leased = {
            job.job_id: LeasedAttempt(job, grant.worker, until[job.job_id])
            for job, grant in grants
            if job.job_id in until
        }
        self._ends.started(one.job for one in leased.values())
        return [[leased[job.job_id] for job in given if job.job_id in leased] for given in dealt]

    def _deal(self, jobs: Sequence[Claimed], askers: Sequence[LeaseRequest]) -> list[list[Claimed]]:
        """Distribute jobs among requests.

        A job that must run alone goes to a worker that gets and holds no other job.
        """
        exclusive = [job for job in jobs if job.is_exclusive]
        if not exclusive:
            return _deal(jobs, askers)
        busy = self._store.remote.lease_holders([one.name for one in askers])
        alone: dict[int, Claimed] = {}
        for number, asker in enumerate(askers):
            if exclusive and asker.name not in busy:
                alone[number] = exclusive.pop(0)
                busy.add(asker.name)
        for job in exclusive:
            self._ends.end(job, Released(ALONE_RETRY))
        others = [one for number, one in enumerate(askers) if number not in alone]
        shares = iter(_deal([job for job in jobs if not job.is_exclusive], others))
        dealt = [[alone[number]] if number in alone else next(shares) for number in range(len(askers))]
        given = {job.job_id for share in dealt for job in share}
        for job in [one for one in jobs if not one.is_exclusive and one.job_id not in given]:
            self._ends.end(job, Released())  # more jobs than the other requests asked for
        return dealt


def _deal(jobs: Sequence[Claimed], askers: Sequence[LeaseRequest]) -> list[list[Claimed]]:
    """Distribute jobs among requests in order, to each at most the number that it asks for."""
    dealt: list[list[Claimed]] = []
    at = 0
    for one in askers:
        dealt.append(list(jobs[at : at + one.most]))
        at += one.most
    return dealt


def _grant(job: Claimed, asker: LeaseRequest, wanted: WantedJobs) -> LeaseGrant:
    worker = WorkerId(f"{asker.name}/{secrets.token_hex(8)}")
    serves = (wanted.queues, wanted.tasks, asker.lease, wanted.offer)
    return LeaseGrant(job.job_id, job.claim, worker, asker.name, asker.lessee, *serves)
