"""The reaper reclaims jobs whose worker stopped renewing its lease; the expirer ends jobs past their deadline."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tickwork.clock import Clock
from tickwork.core.outcome import Abandoned, Transition, decide
from tickwork.observe.counters import Counters
from tickwork.observe.metrics_table import LEASES_EXPIRED
from tickwork.store.attempt_types import Finish, OpenAttempt
from tickwork.store.base import Store

BATCH = 500
INTERVAL_S = 2.0
SHARE = 50
LONGEST_S = 30.0


class Reaper:
    """Reclaims attempts whose lease has expired. Safe to run twice at once, on two machines."""

    def __init__(
        self,
        store: Store,
        rng: Random,
        own: Callable[[], str | None] = lambda: None,
        tally: Counters | None = None,
        interval_s: float = INTERVAL_S,
    ) -> None:
        """Create a reaper; `own` is the worker of this process.

        After a pause the worker renews its lease itself, so its attempts are skipped.
        """
        self._interval_s = interval_s
        self._store = store
        self._rng = rng
        self._own = own
        self._tally = tally
        self.reclaimed = 0

    def _outcome(self, one: OpenAttempt) -> Transition:
        """Return the transition of a job whose attempt was abandoned."""
        ending = Abandoned(begun=one.begun)
        return decide(one, ending, self._rng)

    def tick(self, now: float) -> float:
        """Reclaim one batch; return the seconds until the next."""
        own = self._own()
        expired = [one for one in self._store.expired_attempts(BATCH) if one.worker != own]
        endings = [
            Finish(
                one.job_id,
                one.attempt,
                one.claim,
                self._outcome(one),
                run=one.run,
                step=one.step,
            )
            for one in expired
        ]
        if endings:
            count = len(self._store.reclaim_attempts(endings))  # skips attempts whose worker came back first
            self.reclaimed += count
            if self._tally is not None:
                self._tally.add(LEASES_EXPIRED, (), count)
        return 0.0 if len(expired) == BATCH else self._interval_s


class Expirer:
    """Ends queued jobs whose deadline has passed, and answers approvals that have timed out.

    No claim takes a job past its deadline. While a transaction holds a snapshot open on PostgreSQL, a scan reads over
    all rows that were claimed since. It then scans less often, so that this takes at most a fiftieth of the time.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def tick(self, now: float) -> float:
        """Expire one batch; return the seconds until the next."""
        if BATCH in (self._store.expire_jobs(BATCH), self._store.dags.answer_overdue(BATCH)):
            return 0.0
        return max(INTERVAL_S, min((self._clock.monotonic() - now) * SHARE, LONGEST_S))
