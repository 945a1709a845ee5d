"""Choose between a plain claim and a sparse scan for a set of tasks, and how long to back off before the next one.

A plain claim scans all jobs in front of its own candidates. Behind ten thousand jobs of other tasks it is slow, and
it blocks the worker meanwhile. So after two claims in a row that took longer than their results explain, the worker
switches to sparse scans (see store/claim/sparse_scan.py), until no other jobs are in front of its own. A full
sparse scan may take only a share of the worker's time; between full scans, the worker scans only the ends of the
queues, where new jobs arrive. A single slow claim does not count: it may have waited for a lock, the disk or a CPU.
"""

from __future__ import annotations

from math import exp2
from typing import Literal

LONG_S = 0.005  # an empty claim takes less, unless the store is remote or busy; then a longer time is learned
EACH_S = 0.0002  # additional time for each claimed job and each stored end
FORGETS_S = 30.0  # half-life of the learned time
SHARE = 30  # claims that find nothing take at most 1/30 of the time
REST_S = 1.0  # the longest pause after a claim that found nothing
LONG_REST_S = 30.0  # the same if two such claims in a row were slow, and not because the store is remote
TRIPS = 8  # a scan on a remote store may take as long as this many of the shortest claims without counting as slow


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
        """Return whether to skip the claim at this time."""
        return self._scarce and now < self.again_at

    def search(self, now: float) -> Literal["all", "ends"] | None:
        """Return the kind of sparse scan to claim with, or None for a plain claim."""
        if not self._searches:
            return None
        return "ends" if now < self.again_at else "all"

    def claimed(self, began: float, ended: float, found: int, moved: int, *, is_near: bool, least_s: float) -> None:
        """Record the times and the result of a claim.

        `moved` is the number of jobs found plus the ends that the same transaction stored. `is_near`: a sparse scan
        found no other jobs in front. `least_s` is the shortest duration of a claim, which includes the network.
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
        """Return the duration above which a plain claim counts as slow."""
        learnt_s, at = self._learnt
        return max(LONG_S, learnt_s * exp2((at - now) / FORGETS_S))
