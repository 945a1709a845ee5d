"""When and how much a worker claims: claim backoff and prefetch.

Claim backoff chooses between a plain claim and a sparse scan for a set of tasks, and how long to wait before the next
one. A plain claim scans all jobs in front of its own candidates. Behind ten thousand jobs of other tasks it is slow,
and it blocks the worker meanwhile. So after two claims in a row that took longer than their results explain, the worker
switches to sparse scans (see store/claim/sparse_scan.py), until no other jobs are in front of its own. A full
sparse scan may take only a share of the worker's time; between full scans, the worker scans only the ends of the
queues, where new jobs arrive. A single slow claim does not count: it may have waited for a lock, the disk or a CPU.

Prefetch is how many jobs a worker holds beyond its free slots, by the recent durations of jobs. A worker that claims
only for free slots waits for the store most of the time when jobs are short. A worker that prefetches too many makes
jobs wait behind slow ones while other workers are idle. For jobs below 20 ms it holds as many as its slots finish in 50
ms. For jobs of 20 to 100 ms it holds a few: as many as its slots begin while it delays ends and stores them in the
transaction of the next claim.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp2, inf
from typing import Literal

LONG_S = 0.005  # an empty claim takes less, unless the store is remote or busy; then a longer time is learned
EACH_S = 0.0002  # additional time for each claimed job and each stored end
FORGETS_S = 30.0  # half-life of the learned time
SHARE = 30  # claims that find nothing take at most 1/30 of the time
REST_S = 1.0  # the longest pause after a claim that found nothing
LONG_REST_S = 30.0  # the same if two such claims in a row were slow, and not because the store is remote
TRIPS = 8  # a scan on a remote store may take as long as this many of the shortest claims without counting as slow
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


class ClaimBackoff:
    """The claim timing of one worker for one set of tasks that it claims together.

    `scarce`: the jobs of these tasks may be rare in the queue and can wait a moment. They are claimed by sparse scans
    from the start, and after an empty scan they are not claimed at all for a while.
    """

    def __init__(self, *, scarce: bool = False) -> None:
        self._scarce = scarce
        self._searches = scarce
        self._took_s = 0.0  # duration of the last plain claim, less `EACH_S` for each job and end
        self._learnt = LONG_S, 0.0  # the learned normal duration of a claim, and when it was learned
        self._last_s = 0.0  # duration of the last plain claim or full scan
        self.again_at = 0.0  # the earliest time of the next full scan

    def rests(self, now: float) -> bool:
        """Return whether the worker should skip the claim now."""
        return self._scarce and now < self.again_at

    def search(self, now: float) -> Literal["all", "ends"] | None:
        """Return the kind of sparse scan to claim with, or None for a plain claim."""
        if not self._searches:
            return None
        return "ends" if now < self.again_at else "all"

    def claimed(self, began: float, ended: float, found: int, moved: int, *, is_near: bool, least_s: float) -> None:
        """Record the times and the result of a claim.

        `moved` is the number of jobs found plus the attempt ends that the same transaction stored. `is_near`: a
        sparse scan found no other jobs in front. `least_s` is the shortest duration of a claim, which includes the
        network.
        """
        took_s, search = round(ended - began, 6), self.search(began)
        if search == "ends":
            return
        if search is None:
            before_s, self._took_s = self._took_s, took_s - moved * EACH_S
            self._searches = min(before_s, self._took_s) > self._long_s(ended)
        elif is_near:  # no jobs were in front, so the slow plain claim was slow for another reason
            self._searches = False
            self._learnt = (max(self._long_s(ended), 2 * self._took_s), ended)
        rests = not found and (self._scarce or (search is not None and self._searches))
        self.again_at = ended + self._rest_s(took_s, least_s) if rests else 0.0
        self._last_s = took_s

    def _rest_s(self, took_s: float, least_s: float) -> float:
        """Return the pause after a claim that found nothing, in seconds."""
        looking_s = min(took_s, self._last_s) - TRIPS * least_s  # min: a single slow claim may have met a stalled store
        return max(min(took_s * SHARE, REST_S), min(looking_s * SHARE, LONG_REST_S))

    def _long_s(self, now: float) -> float:
        """Return the duration in seconds above which a plain claim counts as slow."""
        learnt_s, at = self._learnt
        return max(LONG_S, learnt_s * exp2((at - now) / FORGETS_S))


class Prefetch:
    """Moving averages of job and exchange durations, and the prefetch limits that follow from them."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.mean_s = 0.0  # the moving average of job durations
        self._typical_s: float | None = None  # None until a job was measured; nothing is prefetched before that
        self._exchange_s = _EXCHANGE_S
        self._exchanged_at = 0.0

    def took(self, seconds: float) -> None:
        """Record the duration of a job.

        A duration above `SHORT_S` and above the typical one takes effect at once, any other gradually.
        """
        self.mean_s += (_WEIGHT if self.mean_s else 1.0) * (seconds - self.mean_s)
        before = max(SHORT_S, seconds) if self._typical_s is None else self._typical_s
        weight = 1.0 if seconds > max(SHORT_S, before) else _WEIGHT
        self._typical_s = before + weight * (seconds - before)

    def exchanged(self, seconds: float, now: float) -> None:
        """Record the duration of an exchange (one transaction that stores ends and claims jobs) that ended at `now`."""
        self._exchanged_at = now
        self._exchange_s += _EXCHANGE_WEIGHT * (min(seconds, MOMENT_S) - self._exchange_s)

    def ahead(self) -> int:
        """Return how many jobs the worker may hold beyond its slots."""
        if self._typical_s is None or self._typical_s >= SHORT_S:
            return self.prefetch()
        return min(MOST, int(MOMENT_S * self.slots / max(self._typical_s, 1e-5)))

    def gather_until(self) -> float:
        """Return the time until which attempt ends may be delayed, so that one exchange stores several of them.

        The more workers share the store, the longer an exchange takes, and the more ends each exchange stores.
        """
        return self._exchanged_at + _GATHER * self._exchange_s

    def prefetch(self) -> int:
        """Return how many jobs of 20 to 100 ms to hold beyond the slots, so that no slot waits for an exchange."""
        if self._typical_s is None or not SHORT_S <= self._typical_s <= MEDIUM_S:
            return 0
        most = max(1, 3 * self.slots // 4)  # a prefetched job occupies its limit keys, which blocks other workers
        return min(most, 1 + ceil(_MARGIN * self.slots * self._exchange_s / self._typical_s))


@dataclass(slots=True)
class NextClaim:
    """The time of the next claim on the monotonic clock, or None if the last claims do not determine it."""

    due_at: float | None = None  # the next job is due
    again_at: float | None = None  # a claim backoff ends, or a limit may open

    def again_by(self, time: float) -> None:
        """Claim again at this time, unless an earlier time is already set."""
        self.again_at = min(time, self.again_at or inf)
