"""Backfills: run a schedule for past occurrences, a few at a time.

The caller either waits for the jobs, or stores them all at once under a concurrency limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

import msgspec

from tickwork.api.client import PAGE, Client, Job
from tickwork.core.ids import JobId
from tickwork.core.job import JobState, NewJob
from tickwork.core.limits.job_limits import JobLimits, LimitUse
from tickwork.core.limits.limits import concurrency
from tickwork.core.recurrence.base_rule import Calendars, read_instant
from tickwork.core.recurrence.interval import After
from tickwork.core.recurrence.zones import TICK
from tickwork.core.schedule.decide import rule_of
from tickwork.core.schedule.spec import ScheduleSpec
from tickwork.errors import InvalidInput, check

OCCURRENCES_LIMIT = 100_000
KEPT = timedelta(days=30)  # how long a backfilled occurrence is not backfilled again


def occurrences(spec: ScheduleSpec, start: datetime, end: datetime, calendars: Calendars) -> list[datetime]:
    """Return the occurrences from `start` to `end`. Raises InvalidInput if there are too many, or for a fixed delay."""
    first, last = read_instant("start", start), read_instant("end", end)
    if last < first:
        raise InvalidInput(f"the backfill ends at {last.isoformat()}, before it starts at {first.isoformat()}.")
    if isinstance(spec.rule, After):
        raise InvalidInput(
            f"schedule {spec.name!r} is due some time after its last run ended; it has no occurrences to backfill."
        )
    rule = rule_of(spec.name, spec.rule, spec.policies.start, spec.policies.calendars)
    found: list[datetime] = []
    due = rule.first_after(first - TICK, calendars)
    while due is not None and due <= last:
        found.append(due)
        if len(found) > OCCURRENCES_LIMIT:
            raise InvalidInput(f"that is more than {OCCURRENCES_LIMIT:,} occurrences. Backfill them in parts.")
        due = rule.first_after(due, calendars)
    return found


def check_storable_at_once(spec: ScheduleSpec) -> None:
    """Raise InvalidInput if each occurrence of a schedule waits for the previous one: a limit cannot ensure that."""
    if spec.policies.wait_for_previous:
        raise InvalidInput(
            f"schedule {spec.name!r} has wait_for_previous, so each occurrence starts when the one before it has "
            f"succeeded. A backfill by a request stores all jobs at once and cannot wait for that. Nothing was stored. "
            f"Run it where it can wait: tickwork schedules backfill {spec.name} FROM TO"
        )


class MakeJob(Protocol):
    """A function that makes the job of an occurrence."""

    def __call__(self, due: datetime, *, is_catchup: bool) -> NewJob: ...


class BackfillOutcome(NamedTuple):
    """The outcome of one occurrence. `is_new`: this backfill stored its job.

    If `is_new` is false, an earlier backfill stored the job, which had succeeded or was retried now. If `job` is
    None, no job was started: it was a dry run, or an earlier occurrence did not succeed and the schedule has
    wait_for_previous.
    """

    due_at: datetime
    job: Job | None = None
    state: str | None = None
    is_new: bool = False


class Backfill:
    """The jobs of a backfill, at most `max_parallel` of them live at a time. The key of a job is its occurrence.

    With `force`, occurrences whose job of an earlier backfill succeeded run again. With `in_order`, each occurrence
    starts when the one before it has succeeded, or has failed and was discarded, as with wait_for_previous.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        dues: Sequence[datetime],
        max_parallel: int,
        make: MakeJob,
        *,
        force: bool = False,
        in_order: bool = False,
    ) -> None:
        if max_parallel < 1:
            raise InvalidInput(f"max_parallel must be at least 1, not {max_parallel!r}.")
        if in_order and max_parallel > 1:
            raise InvalidInput(
                f"schedule {name!r} has wait_for_previous, so its occurrences run one after another: "
                f"max_parallel must be 1, not {max_parallel!r}."
            )
        self._client = client
        self._name = name
        self._dues = dues
        self._max_parallel = max_parallel
        self._make = make
        self._force = force
        self._in_order = in_order

    def steps(self) -> Iterator[BackfillOutcome]:
        """Run the backfill; yield the outcome of each occurrence when its job has ended.

        With `in_order`, nothing is started after an occurrence that did not succeed; the remaining occurrences are
        yielded without a job.
        """
        live: dict[JobId, tuple[datetime, Job]] = {}
        left = deque(self._dues)
        while left or live:
            dues = [left.popleft() for _ in range(min(len(left), self._max_parallel - len(live)))]
            live |= {job.id: (due, job) for due, job in zip(dues, self._stored(dues), strict=True)} if dues else {}
            for ended in self._client.wait_for_any([job for _, job in live.values()]):
                due, job = live.pop(ended.id)
                yield BackfillOutcome(due, ended, ended.state, job.is_new)
                if self._in_order and not _lets_next_start(ended):
                    yield from map(BackfillOutcome, left)
                    return

    def _stored(self, dues: Sequence[datetime], limit: str | None = None) -> list[Job]:
        """Store the jobs of occurrences. Failed jobs of an earlier backfill are retried once.

        With `in_order`, a failed job that an operator discarded is not retried: the next occurrence may start.
        """
        jobs = self._client.enqueue([self._job(due, limit) for due in dues])
        earlier = [job.id for job in jobs if not job.is_new]
        views = self._client.store.reads.get_jobs(earlier) if earlier else {}
        failed = [one.id for one in views.values() if one.state.ended and one.state is not JobState.SUCCEEDED]
        if self._in_order:
            failed = [id for id in failed if not views[id].discarded]
        if failed:
            self._client.store.retry_jobs(failed)
        done = {one.id for one in views.values() if one.state is JobState.SUCCEEDED} if self._force else set()
        again = [due for due, job in zip(dues, jobs, strict=True) if job.id in done]
        forced = iter(self._client.enqueue([self._job(due, limit, anew=True) for due in again]) if again else ())
        return [next(forced) if job.id in done else job for job in jobs]

    def enqueue(self) -> list[JobId]:
        """Store all jobs now, oldest first, and return their ids.

        A concurrency limit of `max_parallel` applies to them.

        No caller has to wait for the jobs. The limit belongs to the schedule: its latest backfill sets the value. The
        limit does not keep order, even with a value of 1: a job can start before the job of an older occurrence.
        """
        check(not self._in_order, f"Schedule {self._name!r} has wait_for_previous; its backfill is not stored at once.")
        limit = f"backfill:{self._name}"
        self._client.store.limits.declare_limits({limit: concurrency(self._max_parallel, name=limit)})
        found: list[JobId] = []
        for first in range(0, len(self._dues), PAGE):
            found += [job.id for job in self._stored(self._dues[first : first + PAGE], limit)]
        return found

    def _job(self, due: datetime, limit: str | None, *, anew: bool = False) -> NewJob:
        """Return the job of an occurrence.

        Its key includes the target, so a schedule with a new target gets new jobs.
        """
        job = self._make(due, is_catchup=True)
        key = f"backfill/{self._name}/{job.task}/{due.isoformat()}{f'/{job.id}' if anew else ''}"
        made = msgspec.structs.replace(job, key=key, policy=msgspec.structs.replace(job.policy, key_for=KEPT))
        return made if limit is None else _limited(made, limit)


def _lets_next_start(ended: Job) -> bool:
    """Return whether the next occurrence may start: after a success, or after a failure that was discarded."""
    view = ended.seen
    return view.state is JobState.SUCCEEDED or view.discarded


def _limited(job: NewJob, limit: str) -> NewJob:
    """Return the job with the concurrency limit of the backfill added."""
    job_limits = JobLimits() if job.job_limits is None else job.job_limits
    return msgspec.structs.replace(
        job, job_limits=msgspec.structs.replace(job_limits, uses=(*job_limits.uses, LimitUse(limit, "", 1)))
    )
