"""Adds the hash chain to the audit log (see store/admin/audit.py), within ten seconds of a row."""

from __future__ import annotations

from tickwork.clock import Clock
from tickwork.store.base import Store

INTERVAL_S = 5.0
BATCH = 1000
SETTLED_S = 30.0  # longer than any transaction of Tickwork: no row with a lower id is still to be committed then


class AuditChainer:
    """Links new rows of the audit log. Safe to run many times at once, on many machines.

    It looks for rows without links only while the log grows, and for a short time afterwards: ids are drawn before rows
    are committed, so the highest id does not tell whether all lower rows exist.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._newest: int | None = None
        self._until = 0.0

    def tick(self, now: float) -> float:
        """Link one batch of rows; return the seconds until the next."""
        newest = self._store.audit.newest_change()
        if newest != self._newest:
            self._newest, self._until = newest, self._clock.monotonic() + SETTLED_S
        elif self._clock.monotonic() >= self._until:
            return INTERVAL_S
        return 0.0 if self._store.audit.link_changes(BATCH) == BATCH else INTERVAL_S
