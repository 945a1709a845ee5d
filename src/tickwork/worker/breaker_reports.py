"""Report ended attempts to circuit breakers, and release limits that a handler's own transaction freed.

When the store finishes an attempt, it admits the next jobs of the limit itself. It does not know which endings count
as failures for a breaker, and it does not admit jobs when a handler's own transaction stored the ending. The worker
reports both.
"""

from __future__ import annotations

from tickwork.core.ids import JobId
from tickwork.core.job import AttemptState, Claimed
from tickwork.core.job_limits import breaker_name
from tickwork.core.limits.lanes import JobLimits
from tickwork.core.limits.limits import LimitKey
from tickwork.store.base import Store

_FAILED = {
    AttemptState.SUCCEEDED: False,
    AttemptState.FAILED: True,
    AttemptState.TIMED_OUT: True,
    AttemptState.LOST: True,
}


def breaker_ends(
    task: str, job_limits: JobLimits | None, job_id: JobId, how: AttemptState, *, is_probe: bool
) -> list[tuple[LimitKey, JobId, bool]]:
    """Return the reports to breakers about an ended attempt, as (limit key, job id, failed).

    A breaker counts failures and waits for the ends of probes, so the list is empty for a success that was no probe,
    for released attempts, and for jobs without limits.
    """
    failed = _FAILED.get(how)
    if job_limits is None or failed is None or not (failed or is_probe):
        return []
    name = breaker_name(task)
    return [(LimitKey(name, slot.key), job_id, failed) for slot in job_limits.slots if slot.limit == name]


class BreakerReports:
    """Buffer of reports to breakers and of freed limit keys. Reports that could not be stored are kept for a retry."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ends: list[tuple[LimitKey, JobId, bool]] = []
        self._freed: list[LimitKey] = []

    def ended(self, job: Claimed, how: AttemptState) -> None:
        """Buffer the report of an ended attempt."""
        self._ends += breaker_ends(job.task, job.job_limits, job.job_id, how, is_probe=job.is_probe)

    def freed(self, job: Claimed) -> None:
        """Buffer the limit keys of a job whose end was stored by its handler's own transaction."""
        if job.job_limits is not None:
            self._freed += [LimitKey(slot.limit, slot.key) for slot in job.job_limits.slots]

    def clear(self) -> None:
        self._ends.clear()
        self._freed.clear()

    def tell(self) -> None:
        """Store the buffered reports, and admit jobs under the freed limit keys."""
        if self._ends:
            self._store.limits.end_probes(self._ends)
            self._ends = []
        if self._freed:
            self._store.limits.let_through(self._freed)
            self._freed = []
