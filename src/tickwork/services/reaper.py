"""Takes back jobs whose worker fell silent, and ends those that were not started before their deadline."""

from __future__ import annotations

from random import Random

from tickwork.core.outcome import Abandoned, decide
from tickwork.store.base import Finish, Store

BATCH = 500
INTERVAL_S = 2.0


class Reaper:
    """Reclaims attempts whose lease ran out. Safe to run twice at once, on two machines."""

    def __init__(self, store: Store, rng: Random) -> None:
        self._store = store
        self._rng = rng
        self.reclaimed = 0

    def tick(self, now: float) -> float:
        expired = self._store.expired_attempts(BATCH)
        endings = [
            Finish(
                one.job_id,
                one.attempt,
                decide(one.policy, one.failures, one.crashes, one.alone, Abandoned(), self._rng),
            )
            for one in expired
        ]
        if endings:
            self.reclaimed += len(self._store.reclaim_attempts(endings))  # skips any whose worker came back first
        return 0.0 if len(expired) == BATCH else INTERVAL_S


class Expirer:
    """Ends queued jobs whose deadline has passed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def tick(self, now: float) -> float:
        return 0.0 if self._store.expire_jobs(BATCH) == BATCH else INTERVAL_S
