"""How attempts end that were made over REST: decided where all are, stored behind the same fence."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from random import Random

import msgspec

from tickwork.clock import Clock
from tickwork.core.ids import WorkerId
from tickwork.core.job import AttemptState, Claimed
from tickwork.core.outcome import Ending, decide
from tickwork.store.base import Finish, Store
from tickwork.store.remote import RemoteAttempt
from tickwork.worker.retries import Retries
from tickwork.worker.turnstiles import breaker_ends

TIDY = 50  # so many leases of attempts that have ended are forgotten together; a crash leaves them to the pruner
_FAILURES = frozenset({AttemptState.FAILED, AttemptState.TIMED_OUT})


class Ends:
    """Ends attempts. Its calls may come from any thread."""

    def __init__(self, store: Store, clock: Clock, rng: Random) -> None:
        self._store = store
        self._clock = clock
        self._rng = rng
        self._lock = threading.Lock()
        self._retries = Retries(rng)
        self._over: list[WorkerId] = []

    def started(self, queues: Iterable[str]) -> None:
        """Jobs of these queues have started, by which the budget for retries is counted."""
        now = self._clock.monotonic()
        with self._lock:
            for queue in queues:
                self._retries.started(queue, 1, now)

    def end(self, one: RemoteAttempt | Claimed, ending: Ending, worker: WorkerId | None = None) -> bool:
        """Store that an attempt ended so; False when it is not its job's current one any more.

        `worker` is the lease of its own that it had, which ends with it.
        """
        with self._lock:
            outcome = decide(one.policy, one.failures, one.crashes, one.alone, ending, self._rng)
            if outcome.delay is not None and outcome.attempt in _FAILURES:
                later = self._retries.delay(one.queue, outcome.delay, self._clock.monotonic())
                outcome = msgspec.structs.replace(outcome, delay=later)
        finish = Finish(one.job_id, one.attempt, outcome, 0, one.run, one.step, one.policy.produce)
        if not self._store.finish_attempts([finish]):
            return False
        # Whether it was a probe is not known here; a breaker that waits for none takes no notice.
        if told := breaker_ends(one.task, one.flow, one.job_id, outcome.attempt, is_probe=True):
            self._store.end_probes(told)
        if worker is not None:
            self._tidy(worker)
        return True

    def _tidy(self, worker: WorkerId) -> None:
        with self._lock:
            self._over.append(worker)
            if len(self._over) < TIDY:
                return
            over, self._over = self._over, []
        self._store.end_leases(over)
