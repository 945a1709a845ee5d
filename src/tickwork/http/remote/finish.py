"""Finish attempts of remote workers: the outcome is decided and stored as for all other attempts."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from random import Random

from tickwork.clock import Clock
from tickwork.core.ids import WorkerId
from tickwork.core.job import Claimed
from tickwork.core.outcome import Ending, decide
from tickwork.observe.counters import Counters
from tickwork.observe.metrics_table import ATTEMPTS, WAIT
from tickwork.store.attempts import Finish
from tickwork.store.base import Store
from tickwork.store.remote_leases import RemoteAttempt
from tickwork.worker.finisher import breaker_ends
from tickwork.worker.retry_budget import QueueRetryBudgets

TIDY = 50  # leases of ended attempts that are deleted together; after a crash the pruner deletes them


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
        """Count jobs that have started, from which retry budgets are computed, and how long they waited."""
        now = self._clock.monotonic()
        with self._lock:
            for job in jobs:
                self._retries.started(job.queue, 1, now)
                self._tally.spread(WAIT, (job.queue,), max(0, job.claimed_at_us - job.run_at_us) / 1e6)

    def end(self, one: RemoteAttempt | Claimed, ending: Ending, worker: WorkerId | None = None) -> bool:
        """Store how an attempt ended; return False if it is not the current one of its job any more.

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
