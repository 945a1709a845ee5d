"""Autoscale the number of child processes of a worker by how long jobs wait (the rule is in core/workers/autoscale.py).

The autoscaler queries the backlog only when all slots are taken and the pool may still grow; otherwise a normal claim
takes the due jobs anyway. Jobs that wait for another resource than a slot, such as a GPU in use, do not grow the pool.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from tickwork.clock import Clock
from tickwork.core.placement import Offer, servable
from tickwork.core.workers.autoscale import AutoscaleRange, PoolLoad, PoolSize, resize
from tickwork.store.base import Store

_log = logging.getLogger("tickwork.worker")
LOOK_S = 1.0
MOST = 1000  # the backlog is counted up to this number of jobs: a larger count does not change the decision


class ResizablePool(Protocol):
    """A pool of child processes that can be resized."""

    def resize(self, count: int) -> None: ...

    def loaded(self) -> int: ...


class Autoscaler:
    """The autoscaler of a worker: it reports the usable slots and resizes the pool when the load changes."""

    def __init__(
        self,
        rule: AutoscaleRange,
        children: ResizablePool,
        slots: int,
        store: Store,
        *,
        queues: Sequence[str],
        tasks: Sequence[str],
    ) -> None:
        self._rule = rule
        self._children = children
        self._most = slots
        self._each = slots_of_each(slots, rule)
        self._store = store
        self._queues = queues
        self._tasks = tasks
        self._size = PoolSize(rule.low, 0)
        self._look_at = 0.0

    @property
    def slots(self) -> int:
        """Return the number of slots in the children that have loaded the code and take work."""
        return min(self._most, self._each * self._children.loaded())

    def look(self, held: int, left: Offer, mean_s: float, clock: Clock) -> None:
        """Resize the pool to fit the `held` jobs and the backlog, at most once in `LOOK_S` seconds.

        `left` is the capacity that is free for jobs with needs; `mean_s` is the mean duration of a job. Does nothing
        while children from an earlier resize are still loading.
        """
        now, size = clock.monotonic(), self._size
        if now < self._look_at or self._children.loaded() < size.count:
            return
        self._look_at = now + LOOK_S
        now_us, slots = round(now * 1e6), self.slots
        waiting, waited_us = self._backlog(left) if held >= slots and size.count < self._rule.high else (0, 0)
        load = PoolLoad(waiting + max(0, held - slots), min(held, slots), round(mean_s * 1e6), waited_us)
        self._size = resize(self._rule, size, load, self._each, now_us)
        if self._size.count != size.count:
            _tell(size.count, self._size.count, load)
            self._children.resize(self._size.count)

    def _backlog(self, left: Offer) -> tuple[int, int]:
        """Return how many jobs wait for a slot, and for how many microseconds the oldest of them has waited."""
        found = {one.needs: one for one in self._store.reads.backlog(self._queues, self._tasks, MOST)}
        waiting = [found[needs] for needs in servable(left, found)]
        if not waiting:
            return 0, 0
        waited = self._store.now() - min(one.oldest_at for one in waiting)
        return sum(one.count for one in waiting), max(0, round(waited.total_seconds() * 1e6))


def slots_of_each(slots: int, rule: AutoscaleRange) -> int:
    """Return the slots of each child, so that the largest number of children has `slots` together (rounded up)."""
    return -(-slots // rule.high)


def _tell(before: int, now: int, load: PoolLoad) -> None:
    if now > before:
        waited = f"{load.waited_us / 1e6:.1f} s"
        _log.info("Growing from %d to %d processes: %d jobs wait, the first for %s.", before, now, load.waiting, waited)
    else:
        _log.info("Shrinking from %d to %d processes: fewer have been enough for a while.", before, now)
