"""Grows and shrinks the children of a worker by how long jobs wait (the rule is in core/autoscale.py).

The store is asked only when all slots are taken and there may be more of them: else whatever is due is claimed anyway.
Jobs that wait for something else than a slot, a GPU that is in use, do not make it grow.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from tickwork.clock import Clock
from tickwork.core.autoscale import AutoscaleRange, PoolLoad, PoolSize, resize
from tickwork.core.placement.needs import Offer, servable
from tickwork.store.base import Store

_log = logging.getLogger("tickwork.worker")
LOOK_S = 1.0
MOST = 1000  # so many waiting jobs are as good as any number


class ResizablePool(Protocol):
    """Children of which there may be more or fewer."""

    def resize(self, count: int) -> None: ...

    def loaded(self) -> int: ...


class Autoscaler:
    """Says how many slots there are, and has more or fewer children now and then."""

    def __init__(
        self,
        rule: AutoscaleRange,
        children: ResizablePool,
        slots: int,
        store: Store,
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
        """The slots of the children that take work."""
        return min(self._most, self._each * self._children.loaded())

    def look(self, held: int, left: Offer, mean_s: float, clock: Clock) -> None:
        """Have as many children as are wanted for what is held, and waits; `left` is what is free for jobs with needs.

        Jobs take `mean_s` on average. While children load that were wanted before, nothing more is.
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
        """How many jobs wait for a slot, and for how many microseconds the first has."""
        found = {one.needs: one for one in self._store.backlog(self._queues, self._tasks, MOST)}
        waiting = [found[needs] for needs in servable(left, found)]
        if not waiting:
            return 0, 0
        waited = self._store.now() - min(one.oldest_at for one in waiting)
        return sum(one.count for one in waiting), max(0, round(waited.total_seconds() * 1e6))


def slots_of_each(slots: int, rule: AutoscaleRange) -> int:
    """How many slots a child has, when all of them together have so many."""
    return -(-slots // rule.high)


def _tell(before: int, now: int, load: PoolLoad) -> None:
    if now > before:
        waited = f"{load.waited_us / 1e6:.1f} s"
        _log.info("Growing from %d to %d processes: %d jobs wait, the first for %s.", before, now, load.waiting, waited)
    else:
        _log.info("Shrinking from %d to %d processes: fewer have been enough for a while.", before, now)
