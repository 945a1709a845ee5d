"""Wait for the end of a job: the delays between two reads of it, and the exceptions for its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import NoReturn

from tickwork import errors
from tickwork.core import why
from tickwork.core.ids import JobId
from tickwork.core.job import JobState, JobView
from tickwork.core.text.duration import parse_duration

FIRST_S, LAST_S = 0.002, 0.1  # the delay between two reads of a job, at first and at most


class PollDelay:
    """The delays between two reads of a job: 2 ms at first, growing to 100 ms."""

    def __init__(
        self, job_id: JobId, why_not_ended: Callable[[], str], timeout: float | str | timedelta | None
    ) -> None:
        self._job_id = job_id
        self._why_not_ended = why_not_ended
        self._next = FIRST_S
        if isinstance(timeout, str | timedelta):
            timeout = parse_duration(timeout, what="timeout").total_seconds()
        self._timeout_s = timeout
        self._until = None if self._timeout_s is None else time.monotonic() + self._timeout_s

    def next(self) -> float:
        """Return the next delay in seconds, not beyond the timeout. Raises WaitTimeout when the timeout is over."""
        left = None if self._until is None else self._until - time.monotonic()
        if left is not None and left <= 0:
            raise errors.WaitTimeout(
                f"job {self._job_id} had not ended after {self._timeout_s:g} s ({self._why_not_ended()}). It goes on."
            )
        wait, self._next = self._next, min(self._next * 1.5, LAST_S)
        return wait if left is None else min(wait, left)


def raise_ended(view: JobView) -> NoReturn:
    """Raise the exception for a job that ended without success."""
    kinds: dict[JobState, type[errors.JobEnded]] = {
        JobState.CANCELLED: errors.JobCancelled,
        JobState.EXPIRED: errors.JobExpired,
        JobState.DROPPED: errors.JobDropped,
    }
    kind = kinds.get(view.state, errors.JobFailed)
    raise kind(view.id, f"job {view.id} ({view.task}): {why.explain(view, (), view.created_at)}", view.error)
