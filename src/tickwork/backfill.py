"""Running a schedule for occurrences of the past, a few at a time, from the caller's own process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from tickwork.client import Client, Job
from tickwork.core.job import NewJob
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

    def _job(self, due: datetime) -> NewJob:
        job = self._make(due, is_catchup=True)
        policy = msgspec.structs.replace(job.policy, key_for=KEPT)
        return msgspec.structs.replace(job, key=f"backfill/{self._name}/{due.isoformat()}", policy=policy)
