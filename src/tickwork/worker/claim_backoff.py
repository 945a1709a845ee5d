"""Choose between a plain claim and a search for the jobs of some tasks, and how soon to claim again.

A claim scans everything in front of the jobs that it may take. Behind ten thousand jobs of other tasks that takes
long, and the worker does nothing else meanwhile. So after two claims in a row that took longer than what they brought
explains, the worker searches (see store/claim/sparse_scan.py) until nothing is in front of its jobs any more: all the
way for a part of its time, otherwise where new jobs arrive. A single slow claim does not count: it may have waited for
a lock, the disk or a processor.
"""

from __future__ import annotations

from math import exp2
from typing import Literal

LONG_S = 0.005  # a claim that brings nothing takes less, unless the store is far away or busy, which is learnt
EACH_S = 0.0002  # and so much more for each job that it brings, or end that it stores
FORGETS_S = 30.0  # what was learnt counts for half after so long
SHARE = 30  # what was not found is looked for in at most this part of the time
REST_S = 1.0  # or after so long
LONG_REST_S = 30.0  # or so long, where it takes long each time, and not because the store is far away
TRIPS = 8  # a search takes at most as long as so many short claims, if that is all


class ClaimBackoff:
    """What one worker knows of the tasks that it claims together.

    `scarce`: they may well be few among others, and can wait a moment; so they are searched from the first, and what
    was not found is not looked for at all for a while.
    """

    def __init__(self, *, scarce: bool = False) -> None:
        self._scarce = scarce
        self._searches = scarce
        self._took_s = 0.0  # by the last claim that was no search, apart from what it moved
        self._learnt = LONG_S, 0.0  # how long a claim may well take, and since when that is known
        self._last_s = 0.0  # what the last one took that was to see everything
        self.again_at = 0.0  # from then on it is worth its time to look for what was not found

    def rests(self, now: float) -> bool:
        """Whether nothing should be claimed now."""
        return self._scarce and now < self.again_at

    def search(self, now: float) -> Literal["all", "ends"] | None:
        """How to search in a claim, if at all."""
        if not self._searches:
            return None
        return "ends" if now < self.again_at else "all"

    def claimed(self, began: float, ended: float, found: int, moved: int, *, is_near: bool, least_s: float) -> None:
        """A claim found so many jobs; `moved` are these and the ends that were stored with it.

        `least_s` is what a claim takes at least.
        """
        took_s, search = round(ended - began, 6), self.search(began)
        if search == "ends":
            return
        if search is None:
            before_s, self._took_s = self._took_s, took_s - moved * EACH_S
            self._searches = min(before_s, self._took_s) > self._long_s(ended)
        elif is_near:  # nothing stood in the way of the claim that took long
            self._searches = False
            self._learnt = (max(self._long_s(ended), 2 * self._took_s), ended)
        rests = not found and (self._scarce or (search is not None and self._searches))
        self.again_at = ended + self._rest_s(took_s, least_s) if rests else 0.0
        self._last_s = took_s

    def _rest_s(self, took_s: float, least_s: float) -> float:
        looking_s = min(took_s, self._last_s) - TRIPS * least_s  # one alone may have met a store that stood still
        return max(min(took_s * SHARE, REST_S), min(looking_s * SHARE, LONG_REST_S))

    def _long_s(self, now: float) -> float:
        """What takes longer than this is worth a search."""
        learnt_s, at = self._learnt
        return max(LONG_S, learnt_s * exp2((at - now) / FORGETS_S))
