"""How far each place of the queue was read, so that a claim does not walk over what was claimed before.

PostgreSQL keeps deleted rows until nobody can see them any more. While some session holds an old snapshot that is a
long time, and a claim that begins at the front of the queue walks over all of them. So a claim begins where the one
before it ended: behind the last due job that it took, in the order of the queue.

That passes by a job that becomes visible behind the bound. New jobs are queued as of the database's now, so it can only
be one whose transaction took longer to commit than claims took to get there, one that another claim had locked and gave
back, or one that was queued after the database's clock was set back. They are found by a claim that begins at the front
again: one each second, or less often where two in a row took more than a fiftieth of the time, and at least every 30 s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

AGAIN_S = 1.0
LONGEST_S = 30.0
SHARE = 50


class Bound(NamedTuple):
    """A job's place in the order of its queue and priority; the job itself need not be there any more."""

    run_at_us: int
    job_id: str


Place = tuple[str, int]  # a queue and a priority
FRONT = Bound(0, "00000000-0000-0000-0000-000000000000")  # before everything


class Bounds:
    """The bounds of one worker, for one set of tasks."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._reached: dict[Place, Bound] = {}
        self._front_at = monotonic()  # when to begin at the front again
        self._began: float | None = None  # a claim from the front is under way since then
        self._took_s = 0.0  # by the last one

    def begin(self, places: Sequence[Place]) -> list[Bound]:
        """Where a claim begins in each place."""
        now = self._monotonic()
        if now < self._front_at:
            self._began = None
            return [self._reached.get(place, FRONT) for place in places]
        self._began = now
        return [FRONT] * len(places)

    def took(self, jobs: Iterable[tuple[Place, Bound]]) -> None:
        """That claim was carried out and took these due jobs, those of a place in their order."""
        if self._began is not None:
            now = self._monotonic()
            took_s, self._took_s = self._took_s, now - self._began
            # The shorter of two: one may have waited for a lock or the disk, not for its walk.
            self._front_at = now + min(max(AGAIN_S, min(took_s, self._took_s) * SHARE), LONGEST_S)
            self._reached.clear()
        self._reached |= dict(jobs)

    def again_s(self) -> float | None:
        """In how many seconds something could be found that this claim passed by; None when it passed by nothing."""
        return max(0.0, self._front_at - self._monotonic()) if self._reached else None
