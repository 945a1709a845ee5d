"""How much work to take ahead, by how long jobs have been taking.

A worker that claims only for free slots spends its time waiting for the store when jobs are short. One that takes too
much ahead makes jobs wait behind slow ones while other workers are free. So: as much as its slots finish in a moment.
"""

from __future__ import annotations

MOMENT_S = 0.05
SHORT_S = 0.02  # jobs that take longer are never taken ahead
MOST = 512
BATCH = 256  # one claim brings at most so many
_WEIGHT = 0.05


class Pace:
    """Learns from durations how many jobs to hold beyond the free slots."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.mean_s = 0.0  # how long a job took lately
        self._typical_s = SHORT_S  # nothing is taken ahead until something was measured

    def took(self, seconds: float) -> None:
        """Note how long a job ran. A long one counts at once, short ones by and by."""
        self.mean_s += (_WEIGHT if self.mean_s else 1.0) * (seconds - self.mean_s)
        weight = 1.0 if seconds > SHORT_S else _WEIGHT
        self._typical_s += weight * (seconds - self._typical_s)

    def ahead(self) -> int:
        """How many jobs may be held beyond the slots."""
        if self._typical_s >= SHORT_S:
            return 0
        return min(MOST, int(MOMENT_S * self.slots / max(self._typical_s, 1e-5)))
