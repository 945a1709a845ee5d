"""A worker without handlers: it claims and finishes a hundred jobs at a time, and runs its shape's maintenance."""

from __future__ import annotations

import time

from bench.shapes.base import Claimed, Shape, ShapeFailed, new_jobs

CLAIM = 100
FILL = 2_000
TEND_S = 1.0


class Worker:
    """A loop of claiming and finishing on one session, with its measurements."""

    def __init__(self, shape: Shape) -> None:
        shape.register()
        self._shape = shape
        self._held: list[Claimed] = []
        self._tend_at = time.monotonic() + TEND_S
        self.finished = 0
        self.claimed = 0
        self.claimed_at = 0.0  # when the last claim that found jobs returned
        self.claim_ms: list[float] = []  # duration of each claim; if fused, of each finish and claim

    def turn(self) -> bool:
        """Finish the held jobs and claim new ones; return whether there was any work."""
        if time.monotonic() >= self._tend_at:
            self._shape.tend()
            self._tend_at = time.monotonic() + TEND_S
        if self._shape.variant.fused:
            began, held = time.perf_counter(), self._held
            closed, self._held = self._shape.finish_and_claim(held, CLAIM)
            self._note(began)
            self._check(held, closed)
            return bool(held or self._held)
        began = time.perf_counter()
        self._held = self._shape.claim(CLAIM)
        self._note(began)
        if self._held:
            self._check(self._held, self._shape.finish(self._held))
        return bool(self._held)

    def _note(self, began: float) -> None:
        self.claim_ms.append((time.perf_counter() - began) * 1000)
        if self._held:
            self.claimed_at = time.monotonic()
        self.claimed += len(self._held)

    def _check(self, held: list[Claimed], closed: list[str]) -> None:
        if len(closed) != len(held):
            raise ShapeFailed(f"{len(closed)} of {len(held)} attempts could be finished, though nobody else had them.")
        self.finished += len(closed)

    def work(self, until: int, limit_s: float) -> float:
        """Work until `until` jobs are finished or none are left; return the seconds that it took."""
        began = time.monotonic()
        while self.finished < until and self.turn():
            if time.monotonic() - began > limit_s:
                break
        return time.monotonic() - began


def fill(shape: Shape, count: int) -> float:
    """Enqueue jobs in batches; return the seconds that it took."""
    began = time.monotonic()
    for start in range(0, count, FILL):
        shape.insert(new_jobs(min(FILL, count - start)))
    return time.monotonic() - began
