"""Gives rows of the audit log their links in the chain (see store/admin/audit_chain.py), within ten seconds."""

from __future__ import annotations

from tickwork.clock import Clock
from tickwork.store.base import Store

INTERVAL_S = 5.0
BATCH = 1000
SETTLED_S = 30.0  # longer than any transaction of ours: then nothing of a lower id is still to be committed


class AuditChainer:
    """Links what was added to the audit log. Safe to run many times at once, on many machines.

    Only while the log grows, and shortly after, does it look for rows without links: ids are drawn before rows are
    committed, so the highest one does not tell whether all others are there.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._newest: int | None = None
        self._until = 0.0

    def tick(self, now: float) -> float:
        newest = self._store.newest_change()
        if newest != self._newest:
            self._newest, self._until = newest, self._clock.monotonic() + SETTLED_S
        elif self._clock.monotonic() >= self._until:
            return INTERVAL_S
        return 0.0 if self._store.link_changes(BATCH) == BATCH else INTERVAL_S
