"""Running a schedule for occurrences of the past, a few at a time: while the caller waits, or held by a limit."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from tickwork.client import PAGE, Client, Job
from tickwork.core.flow.flow import Flow
from tickwork.core.flow.limits import Slot, concurrency
from tickwork.core.ids import JobId
from tickwork.core.job import JobState, NewJob
from tickwork.core.schedule.decide import rule_of
from tickwork.core.schedule.interval import After
from tickwork.core.schedule.rule import Calendars, read_instant
from tickwork.core.schedule.spec import Spec
from tickwork.core.schedule.zone import TICK
from tickwork.errors import InvalidInput

OCCURRENCES_LIMIT = 100_000
KEPT = timedelta(days=30)  # how long an occurrence that was backfilled is not backfilled again


def occurrences(spec: Spec, start: datetime, end: datetime, calendars: Calendars) -> list[datetime]:
    """Return the occurrences from `start` to `end`. Raises InvalidInput for too many, or a rule that has none."""
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


class MakeJob(Protocol):
    """Makes a job that stands for an occurrence."""

    def __call__(self, due: datetime, *, is_catchup: bool) -> NewJob: ...


class Backfill:
    """Jobs for occurrences, of which at most `max_parallel` live at a time. Each has its occurrence as its key."""

    def __init__(
        self,
        client: Client,
        name: str,
        dues: Sequence[datetime],
        max_parallel: int,
        make: MakeJob,
    ) -> None:
        if max_parallel < 1:
            raise InvalidInput(f"max_parallel must be at least 1, not {max_parallel!r}.")
        self._client = client
        self._name = name
        self._dues = dues
        self._max_parallel = max_parallel
        self._make = make

    def steps(self) -> Iterator[Job]:
        """Run it, giving each job when it has ended."""
        live: list[Job] = []
        left = deque(self._dues)
        while left or live:
            starts = [self._job(left.popleft()) for _ in range(min(len(left), self._max_parallel - len(live)))]
            live += [self._again(job) for job in self._client.enqueue(starts)] if starts else []
            ended = self._client.wait_for_any(live)
            live = [job for job in live if job.id not in {one.id for one in ended}]
            yield from ended

    @staticmethod
    def _again(job: Job) -> Job:
        """An earlier backfill's job that did not succeed is tried once more."""
        if job.view.state.ended:
            job.retry()  # leaves one alone that succeeded
        return job

    def enqueue(self) -> list[JobId]:
        """Store all of its jobs now, and return them. A limit lets `max_parallel` of them run at a time, oldest first.

        Nobody has to wait for them. The limit is that of the schedule: the latest backfill of it says how many.
        """
        limit = f"backfill:{self._name}"
        self._client.store.declare_limits({limit: concurrency(self._max_parallel, name=limit)})
        found: list[JobId] = []
        for first in range(0, len(self._dues), PAGE):
            new = [_limited(self._job(due), limit) for due in self._dues[first : first + PAGE]]
            jobs = self._client.enqueue(new)
            found += [job.id for job in jobs]
            self._retry([job.id for job, made in zip(jobs, new, strict=True) if job.id != made.id])
        return found

    def _retry(self, earlier: Sequence[JobId]) -> None:
        """Jobs of an earlier backfill that did not succeed are tried once more."""
        views = self._client.store.get_jobs(earlier) if earlier else {}
        ended = [view.id for view in views.values() if view.state.ended and view.state is not JobState.SUCCEEDED]
        if ended:
            self._client.store.retry_jobs(ended)

    def _job(self, due: datetime) -> NewJob:
        job = self._make(due, is_catchup=True)
        policy = msgspec.structs.replace(job.policy, key_for=KEPT)
        return msgspec.structs.replace(job, key=f"backfill/{self._name}/{due.isoformat()}", policy=policy)


def _limited(job: NewJob, limit: str) -> NewJob:
    flow = Flow() if job.flow is None else job.flow
    return msgspec.structs.replace(job, flow=msgspec.structs.replace(flow, slots=(*flow.slots, Slot(limit, "", 1))))
