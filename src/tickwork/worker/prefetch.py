"""Compute how many jobs a worker prefetches beyond its free slots, from the recent durations of jobs.

A worker that claims only for free slots waits for the store most of the time when jobs are short. A worker that
prefetches too many makes jobs wait behind slow ones while other workers are idle. For jobs below 20 ms it holds as
many as its slots finish in 50 ms. For jobs of 20 to 100 ms it holds a few: as many as its slots begin while it delays
ends and stores them in the transaction of the next claim.
"""

from __future__ import annotations

from math import ceil

MOMENT_S = 0.05
SHORT_S = 0.02  # of longer jobs, only as many are prefetched as begin during an exchange
MEDIUM_S = 0.1  # jobs longer than this are not prefetched
MOST = 512
BATCH = 256  # the limit of jobs in one claim
_WEIGHT = 0.05
_EXCHANGE_S = 0.003  # the assumed duration of an exchange until one was measured
_EXCHANGE_WEIGHT = 0.1
_GATHER = 2  # ends may be delayed for this many times the duration of an exchange
_MARGIN = _GATHER + 1  # jobs begin while ends are delayed, and during the exchange itself


class Prefetch:
    """Moving averages of job and exchange durations, and the prefetch limits that follow from them."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.mean_s = 0.0  # the moving average of job durations
        self._typical_s: float | None = None  # None until a job was measured; nothing is prefetched before that
        self._exchange_s = _EXCHANGE_S
        self._exchanged_at = 0.0

    def took(self, seconds: float) -> None:
        """Record the duration of a job. An increase above `SHORT_S` takes effect at once, a decrease gradually."""
        self.mean_s += (_WEIGHT if self.mean_s else 1.0) * (seconds - self.mean_s)
        before = max(SHORT_S, seconds) if self._typical_s is None else self._typical_s
        weight = 1.0 if seconds > max(SHORT_S, before) else _WEIGHT
        self._typical_s = before + weight * (seconds - before)

    def exchanged(self, seconds: float, now: float) -> None:
        """Record the duration of an exchange (one transaction that stores ends and claims jobs) that ended at `now`."""
        self._exchanged_at = now
        self._exchange_s += _EXCHANGE_WEIGHT * (min(seconds, MOMENT_S) - self._exchange_s)

    def ahead(self) -> int:
        """Return how many jobs may be held beyond the slots."""
        if self._typical_s is None or self._typical_s >= SHORT_S:
            return self.prefetch()
        return min(MOST, int(MOMENT_S * self.slots / max(self._typical_s, 1e-5)))

    def gather_until(self) -> float:
        """Return until when ends may be delayed, so that one exchange stores them together.

        The more workers share the store, the longer an exchange takes, and the more ends each exchange stores.
        """
        return self._exchanged_at + _GATHER * self._exchange_s

    def prefetch(self) -> int:
        """Return how many jobs of 20 to 100 ms to hold beyond the slots, so that no slot waits for an exchange."""
        if self._typical_s is None or not SHORT_S <= self._typical_s <= MEDIUM_S:
            return 0
        most = max(1, 3 * self.slots // 4)  # a prefetched job occupies its limit keys, which blocks other workers
        return min(most, 1 + ceil(_MARGIN * self.slots * self._exchange_s / self._typical_s))
