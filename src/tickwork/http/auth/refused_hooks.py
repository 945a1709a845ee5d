"""Records what strangers left at hooks, after they were answered.

A write takes long enough to be measured, and only a hook that exists has a record. So requests leave what is to be
recorded here, and a service of the server stores it within a second.
"""

from __future__ import annotations

import logging
import threading

from tickwork.core.hooks.hook import Delivery
from tickwork.store.base import Store

_log = logging.getLogger("tickwork.http")
INTERVAL_S = 1.0
HOOKS_LIMIT = 1000  # with a record waiting
TOLD_EVERY_S = 60.0  # of each hook that cannot work


class RefusedDeliveries:
    """The refused deliveries that wait to be recorded: the last one of each hook."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._waiting: dict[str, Delivery] = {}
        self._faults: dict[str, str] = {}
        self._told: dict[str, float] = {}

    def add(self, delivery: Delivery, fault: str | None) -> None:
        """Have a delivery recorded soon. `fault`: what is wrong with the hook on this server."""
        with self._lock:
            if len(self._waiting) < HOOKS_LIMIT or delivery.hook in self._waiting:
                self._waiting[delivery.hook] = delivery
                if fault is not None:
                    self._faults[delivery.hook] = fault

    def tick(self, now: float) -> float:
        """Store what waits, and log what is wrong with hooks, each at most once a minute."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            faults, self._faults = self._faults, {}
        for hook, fault in faults.items():
            if now - self._told.get(hook, -TOLD_EVERY_S) >= TOLD_EVERY_S:
                self._told[hook] = now
                _log.error("Hook %r refuses all messages: %s.", hook, fault.removesuffix("."))
        for delivery in waiting.values():
            self._store.record_delivery(delivery)
        return INTERVAL_S
