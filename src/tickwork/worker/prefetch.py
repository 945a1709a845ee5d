"""How much work to take ahead, by how long jobs have been taking.

A worker that claims only for free slots spends its time waiting for the store when jobs are short. One that takes too
much ahead makes jobs wait behind slow ones while other workers are free. So: as much as its slots finish in a moment.
Where jobs take a little longer, it prefetches a few: as many as its slots begin while it gathers ends and exchanges
them for jobs.
"""

from __future__ import annotations

from math import ceil

MOMENT_S = 0.05
SHORT_S = 0.02  # of jobs that take longer no more is taken ahead than is begun during an exchange
MEDIUM_S = 0.1  # and of those that take longer than this, nothing
MOST = 512
BATCH = 256  # one claim brings at most so many
_WEIGHT = 0.05
_EXCHANGE_S = 0.003  # what an exchange takes until it was measured
_EXCHANGE_WEIGHT = 0.1
_GATHER = 2  # times as long as an exchange takes, ends may wait for others
_MARGIN = _GATHER + 1  # jobs begin while ends are gathered, and during the exchange


class Prefetch:
    """Learns from durations how many jobs to hold beyond the free slots."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.mean_s = 0.0  # how long a job took lately
        self._typical_s: float | None = None  # nothing is taken ahead until something was measured
        self._exchange_s = _EXCHANGE_S
        self._exchanged_at = 0.0

    def took(self, seconds: float) -> None:
        """Note how long a job ran. A longer one counts at once, shorter ones by and by."""
        self.mean_s += (_WEIGHT if self.mean_s else 1.0) * (seconds - self.mean_s)
        before = max(SHORT_S, seconds) if self._typical_s is None else self._typical_s
        weight = 1.0 if seconds > max(SHORT_S, before) else _WEIGHT
        self._typical_s = before + weight * (seconds - before)

    def exchanged(self, seconds: float, now: float) -> None:
        """Note how long the store took to take ends and give jobs, until `now`."""
        self._exchanged_at = now
        self._exchange_s += _EXCHANGE_WEIGHT * (min(seconds, MOMENT_S) - self._exchange_s)

    def ahead(self) -> int:
        """How many jobs may be held beyond the slots."""
        if self._typical_s is None or self._typical_s >= SHORT_S:
            return self.prefetch()
        return min(MOST, int(MOMENT_S * self.slots / max(self._typical_s, 1e-5)))

    def gather_until(self) -> float:
        """Return until when ends may wait for others, so that one exchange stores them all.

        The more workers share the store, the longer an exchange takes, and the more of their ends go into one.
        """
        return self._exchanged_at + _GATHER * self._exchange_s

    def prefetch(self) -> int:
        """Return how many jobs of 20 to 100 ms to hold beyond the slots, so that no slot waits for an exchange."""
        if self._typical_s is None or not SHORT_S <= self._typical_s <= MEDIUM_S:
            return 0
        most = max(1, 3 * self.slots // 4)  # what waits here keeps its keys from others
        return min(most, 1 + ceil(_MARGIN * self.slots * self._exchange_s / self._typical_s))
