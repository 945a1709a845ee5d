"""Sparse scan: find rare jobs of a worker's tasks in a long queue that it shares with other tasks.

A claim reads past all jobs before the ones that it may take. Where that takes long, the worker scans instead: each of
its claims advances scan cursors by a bounded number of rows, so that neither its other jobs nor other workers wait.
Lanes in which order counts, and lanes of held jobs, are picked from as in any claim.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from tickwork.core.ids import JobId
from tickwork.core.limits.lanes import read_lane
from tickwork.store.claim.scan_cursor import ScanCursors, ScanTask
from tickwork.store.claim.types import Candidate, ClaimTx, PickRequest, Place, Position

PLACES = 32  # With more places a scan is slower than a plain pick, since each place costs time.
WALK = 2000  # Rows read in a round, over all places together; takes one or two milliseconds.
LEAST = 100  # Rows read in each place at least.
_FRONT: Position = (0, "")


class SparseScan:
    """The progress of one worker's sparse scan for one set of tasks."""

    def __init__(self) -> None:
        self._cursors = ScanCursors()
        self._found: list[Candidate] = []

    @property
    def is_near(self) -> bool:
        """Return whether a plain read of the queue would find the jobs quickly, so that no sparse scan is needed."""
        return self._cursors.is_near

    @property
    def lags(self) -> bool:
        """Return whether jobs have arrived at the end of a place that the scan has not read yet."""
        return self._cursors.lags

    def pick(
        self, claim_tx: ClaimTx, pick_requests: Sequence[PickRequest], most: int, now_us: int, *, ends_only: bool
    ) -> list[Candidate]:
        """Pick up to `most` jobs as `ClaimTx.pick` does, but only jobs that the scan has not seen yet.

        `ends_only`: only jobs that have just arrived.
        """
        self.took(set())  # The last round was rolled back if `took` was not called: find its jobs again.
        far = [pick_request for pick_request in pick_requests if not read_lane(pick_request.lane).is_strict]
        near = [pick_request for pick_request in pick_requests if read_lane(pick_request.lane).is_strict]
        picked = claim_tx.pick(near) if near else []
        walk = max(LEAST, WALK // max(1, len(far)))
        # Of two requests for a place the second covers the younger jobs, and its grace time is the shorter one.
        scan_tasks = {one.place: ScanTask(_FRONT, (), one.grace_us, min(one.most, most), walk) for one in far}
        self._cursors.send(scan_tasks, now_us)
        self._found = self._cursors.walk(claim_tx, now_us, ends_only=ends_only)
        return _wanted([*picked, *self._found], pick_requests, now_us)[:most]

    def next_us(self, now_us: int) -> int:
        """Return the instant at which another step may find other jobs."""
        return self._cursors.next_us(now_us)

    def took(self, gone: Set[JobId]) -> None:
        """Note which of the picked jobs have left their place (`gone`); the next step finds the others again."""
        self._cursors.hold_back(one for one in self._found if one.job_id not in gone)
        self._found = []


def _wanted(found: Sequence[Candidate], pick_requests: Sequence[PickRequest], now_us: int) -> list[Candidate]:
    """Return the found jobs that the requests ask for, in the order of the requests, and up to the number of each
    group.
    """
    by_place: dict[Place, list[int]] = {}
    for rank, pick_request in enumerate(pick_requests):
        by_place.setdefault(pick_request.place, []).append(rank)

    def rank_of(one: Candidate) -> int:
        ranks = by_place[one.place]
        return next((rank for rank in ranks if pick_requests[rank].covers(one.run_at_us, now_us)), ranks[-1])

    left = {pick_request.group: pick_request.of_group for pick_request in pick_requests}
    wanted = []
    ranked = sorted((rank_of(one), one.run_at_us, one.job_id, one) for one in found)
    for rank, _, _, one in ranked:
        group = pick_requests[rank].group
        if left[group] > 0:
            left[group] -= 1
            wanted.append(one)
    return wanted
