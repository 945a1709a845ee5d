"""Claim cursors: where claims resume reading the queue, so that dead rows are skipped.

PostgreSQL keeps deleted rows until no session can see them any more. While a session holds an old snapshot that is a
long time, and a claim that begins at the front of the queue reads past all of them. So a claim begins where the last
one ended: behind the last due job that it took, in the order of the queue. A round of a limited claim does not take all
that it reads. The next one begins at the first job that was there, or a moment ago.

This misses a job that becomes visible behind the cursor. New jobs are queued as of the database's now, so it can only
be one whose transaction took longer to commit than claims took to get there, one that another claim had locked and
released, one that a gate diverted, or one that was queued after the database's clock was set back. A claim that begins
at the front again finds them: once each second, or less often where the walk from there took more than a fiftieth of
the time, twice in a row, and at least every 30 s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import NamedTuple

from tickwork.core.ids import WorkerId
from tickwork.store.claim.types import Place

AGAIN_S = 1.0
LONGEST_S = 30.0
SHARE = 50
PLACES = 1000  # Places for which the position is remembered.
GROWS = 1.02  # The minimum time of a claim may grow by this factor per claim.


class CursorPosition(NamedTuple):
    """The position of a job in the order of its place; the job itself may be gone."""

    run_at_us: int
    job_id: str


FRONT = CursorPosition(0, "00000000-0000-0000-0000-000000000000")  # Before every job.


class ClaimCursor:
    """The positions up to which the claims of one worker, for one set of tasks, have read each place (lane and
    priority).
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._reached: dict[Place, CursorPosition] = {}
        self._front_at = monotonic()  # When to begin at the front again.
        self._began = self._front_at  # When the present claim began.
        self._at_front = False
        self._least_s = inf  # The minimum time that a claim takes.
        self._way_s = 0.0  # The additional time that the last claim from the front took.
        self._looks_again = False

    def begin(self) -> Mapping[Place, CursorPosition]:
        """Return the positions after which a claim begins to read, by place; the places that were read last come last.

        Now and then all of them are FRONT, to find jobs that were stored before a position.
        """
        self._began = self._monotonic()
        self._at_front = self._began >= self._front_at
        return dict.fromkeys(self._reached, FRONT) if self._at_front else self._reached

    def took(self, read: Iterable[tuple[Place, CursorPosition]], *, claimed: bool) -> None:
        """Record, after the commit of a claim, up to which position it has read each place.

        `read` may name a place several times, in order; the last position counts. `claimed`: it has claimed jobs.
        """
        now = self._monotonic()
        took_s = now - self._began
        places = dict(read)
        if self._at_front:
            least_s = 0.0 if self._least_s == inf else self._least_s
            way_s, self._way_s = self._way_s, max(0.0, took_s - least_s)
            # The shorter of two, because one of them may have waited for a lock or the disk.
            self._front_at = now + min(max(AGAIN_S, min(way_s, self._way_s) * SHARE), LONGEST_S)
            self._reached = places
        else:
            self._least_s = min(took_s, self._least_s * GROWS)
            self._reached = {place: one for place, one in self._reached.items() if place not in places} | places
        if len(self._reached) > PLACES:
            self._reached = dict(list(self._reached.items())[-PLACES:])
        self._looks_again = claimed or (bool(self._reached) and not self._at_front)

    def again_s(self) -> float | None:
        """Return the seconds until a claim may find a job that this one missed; None if it missed none."""
        return max(0.0, self._front_at - self._monotonic()) if self._looks_again else None


class ClaimCursors:
    """The claim cursors of the workers of this process: one for each set of tasks that a worker claims."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._cursors: dict[tuple[WorkerId, tuple[str, ...]], ClaimCursor] = {}

    def of(self, worker: WorkerId, tasks: tuple[str, ...]) -> ClaimCursor:
        """Return the claim cursor of a worker for these tasks. Cursors of other workers are dropped."""
        cursor = self._cursors.get((worker, tasks))
        if cursor is None:
            cursor = ClaimCursor(self._monotonic)
            kept = {key: known for key, known in self._cursors.items() if key[0] == worker}
            self._cursors = {**kept, (worker, tasks): cursor}
        return cursor
