"""The lower bound of the claim key that a worker remembers, so that claims do not walk over what is long gone.

Everything up to the key of the last claimed job is gone, with two exceptions: an insert that had its instant before and
commits after, and a job whose claim by another worker was rolled back. So the bound lags behind now, and every so often
a claim is made without it. Such a sweep walks over all the dead entries; it comes the more seldom the longer it takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from bench.shapes.base import LEVELS, Claimed

LAG = timedelta(milliseconds=200)
SWEEP_S = 5.0
SWEEP_SHARE = 0.02  # of all time, at most
OPEN = ("-infinity", "00000000-0000-0000-0000-000000000000")

Key = tuple[str, str]


class Bound:
    """Where the claims of one worker begin, for each priority of its queue."""

    def __init__(self, on: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._on = on
        self._clock = clock
        self._keys: dict[int, tuple[datetime, str]] = {}
        self._sweep_at = clock() + SWEEP_S
        self._began = 0.0
        self._sweeping = False

    def begin(self) -> list[Key]:
        """The keys that the next claim starts after, one for each priority."""
        self._began = self._clock()
        self._sweeping = self._on and self._began >= self._sweep_at
        if not self._on or self._sweeping:
            return [OPEN for _ in LEVELS]
        return [self._text(level) for level in LEVELS]

    def end(self, claims: Sequence[Claimed], now: datetime | None) -> None:
        """Learn from what the claim gave, at the store's now (None: it gave nothing)."""
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
        """Say whether even the last job stood behind the bound: then others may, and the sweep goes on."""
        if not claims:
            return False
        last = claims[-1]
        return last.priority in self._keys and (last.run_at, last.job_id) <= self._keys[last.priority]

    def _text(self, level: int) -> Key:
        if level not in self._keys:
            return OPEN
        run_at, job_id = self._keys[level]
        return run_at.isoformat(), job_id
