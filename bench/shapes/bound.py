"""A claim cursor: the lower bound of the claim key that a worker remembers, so that claims skip dead index entries.

All jobs up to the key of the last claimed job are gone, with two exceptions: an insert that took its time before and
commits after the claim, and a job whose claim by another worker was rolled back. So the bound lags behind the current
time, and from time to time a claim is made without it. Such a sweep scans all dead entries; the longer it takes, the
less often it is made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from bench.shapes.base import LEVELS, Claimed

LAG = timedelta(milliseconds=200)
SWEEP_S = 5.0
SWEEP_SHARE = 0.02  # the largest share of time for sweeps
OPEN = ("-infinity", "00000000-0000-0000-0000-000000000000")

Key = tuple[str, str]


class Bound:
    """The lower bounds of the claims of one worker, for each priority of its queue."""

    def __init__(self, on: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._on = on
        self._clock = clock
        self._keys: dict[int, tuple[datetime, str]] = {}
        self._sweep_at = clock() + SWEEP_S
        self._began = 0.0
        self._sweeping = False

    def begin(self) -> list[Key]:
        """Return the keys after which the next claim starts, one for each priority."""
        self._began = self._clock()
        self._sweeping = self._on and self._began >= self._sweep_at
        if not self._on or self._sweeping:
            return [OPEN for _ in LEVELS]
        return [self._text(level) for level in LEVELS]

    def end(self, claims: Sequence[Claimed], now: datetime | None) -> None:
        """Update the bounds by the result of a claim, at the store's time `now` (None: it returned no jobs)."""
        if self._sweeping and not self._found_more_behind(claims):
            took = self._clock() - self._began
            self._sweep_at = self._clock() + max(SWEEP_S, took / SWEEP_SHARE)
        if not self._on or now is None:
            return
        limit = (now - LAG, OPEN[1])
        for claim in claims:
            key = min((claim.run_at, claim.job_id), limit)
            self._keys[claim.priority] = max(key, self._keys.get(claim.priority, key))

    def _found_more_behind(self, claims: Sequence[Claimed]) -> bool:
        """Return whether even the last claimed job was below the bound; then the sweep continues for more of them."""
        if not claims:
            return False
        last = claims[-1]
        return last.priority in self._keys and (last.run_at, last.job_id) <= self._keys[last.priority]

    def _text(self, level: int) -> Key:
        if level not in self._keys:
            return OPEN
        run_at, job_id = self._keys[level]
        return run_at.isoformat(), job_id
