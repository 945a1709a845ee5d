"""Records refused deliveries of hooks after they were answered.

A write takes long enough to be measured from outside, and only an existing hook has a record. So a write before the
answer would reveal which hooks exist. Requests leave their record here, and a service of the server stores it within a
second.
"""

from __future__ import annotations

import logging
import threading

from tickwork.core.hooks import Delivery
from tickwork.store.base import Store

_log = logging.getLogger("tickwork.http")
INTERVAL_S = 1.0
HOOKS_LIMIT = 1000  # with a record that waits
TOLD_EVERY_S = 60.0  # seconds between two log records about one hook that cannot work


class RefusedDeliveries:
    """Refused deliveries that wait to be recorded: the latest of each hook."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._waiting: dict[str, Delivery] = {}
        self._faults: dict[str, str] = {}
        self._told: dict[str, float] = {}

    def add(self, delivery: Delivery, fault: str | None) -> None:
        """Record a delivery within a second. `fault`: what is wrong with the hook on this server."""
        with self._lock:
            if len(self._waiting) < HOOKS_LIMIT or delivery.hook in self._waiting:
                self._waiting[delivery.hook] = delivery
                if fault is not None:
                    self._faults[delivery.hook] = fault

    def tick(self, now: float) -> float:
        """Store the waiting deliveries, and log what is wrong with hooks, each at most once a minute."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            faults, self._faults = self._faults, {}
        for hook, fault in faults.items():
            if now - self._told.get(hook, -TOLD_EVERY_S) >= TOLD_EVERY_S:
                self._told[hook] = now
                _log.error("Hook %r refuses all messages: %s.", hook, fault.removesuffix("."))
        for delivery in waiting.values():
            self._store.hooks.record_delivery(delivery)
        return INTERVAL_S
