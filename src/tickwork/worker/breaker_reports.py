"""What turnstiles are told when attempts under them have ended.

The store lets others through by itself when it stores an end. It does not know what failures mean to a breaker, and it
cannot act for an end that a handler's own transaction stored.
"""

from __future__ import annotations

from tickwork.core.ids import JobId
from tickwork.core.job import AttemptState, Claimed
from tickwork.core.job_limits import breaker_name
from tickwork.core.limits.lanes import Flow
from tickwork.core.limits.limits import LimitKey
from tickwork.store.base import Store

_FAILED = {
    AttemptState.SUCCEEDED: False,
    AttemptState.FAILED: True,
    AttemptState.TIMED_OUT: True,
    AttemptState.LOST: True,
}


def breaker_ends(
    task: str, flow: Flow | None, job_id: JobId, how: AttemptState, *, is_probe: bool
) -> list[tuple[LimitKey, JobId, bool]]:
    """What breakers are to be told of an attempt that ended so: they count failures, and wait for probes.

    Released attempts tell them nothing.
    """
    failed = _FAILED.get(how)
    if flow is None or failed is None or not (failed or is_probe):
        return []
    name = breaker_name(task)
    return [(LimitKey(name, slot.key), job_id, failed) for slot in flow.slots if slot.limit == name]


class BreakerReports:
    """Gathers what is to be told, and tells it. What could not be told is told the next time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ends: list[tuple[LimitKey, JobId, bool]] = []
        self._freed: list[LimitKey] = []

    def ended(self, job: Claimed, how: AttemptState) -> None:
        """An attempt ended so."""
        self._ends += breaker_ends(job.task, job.flow, job.job_id, how, is_probe=job.is_probe)

    def freed(self, job: Claimed) -> None:
        """The end of an attempt was stored in somebody's own transaction."""
        if job.flow is not None:
            self._freed += [LimitKey(slot.limit, slot.key) for slot in job.flow.slots]

    def clear(self) -> None:
        self._ends.clear()
        self._freed.clear()

    def tell(self) -> None:
        if self._ends:
            self._store.end_probes(self._ends)
            self._ends = []
        if self._freed:
            self._store.let_through(self._freed)
            self._freed = []
