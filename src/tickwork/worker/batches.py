"""Collect the held jobs of batch tasks into calls, and track which jobs share a call.

A call takes one slot, however many jobs it has; a job that waits for its batch to fill takes none. The processes that
run handlers know a call only by its first job, the *leader*. `Batches` maps the leader to the other jobs of the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tickwork.core.batch import Batch, form
from tickwork.worker.ipc.protocol import Assignment

if TYPE_CHECKING:
    from tickwork.worker.held_jobs import HeldJob

CALL_BYTES = 32 * 1024 * 1024  # the limit of arguments in one call, which is sent in one frame
_LATE_US = 1 << 62  # an instant after which every batch is due, used to start all of them


@dataclass(slots=True)
class SharedCall:
    """The jobs that run in one call, the leader first, and the ids of the cancelled jobs."""

    jobs: list[HeldJob]
    cancelled: set[str] = field(default_factory=set)


class Batches:
    """The held jobs of batch tasks: collects them by task, forms calls, and tracks which jobs share a call."""

    def __init__(self, rules: Mapping[str, Batch]) -> None:
        self._rules = rules
        self._turn = list(rules)
        self._gathering: dict[str, dict[str, HeldJob]] = {task: {} for task in rules}
        self._calls: dict[str, SharedCall] = {}  # running calls, by the id of each of their jobs
        self._alone: dict[str, str] = {}  # job id -> task of jobs that may have crashed a child and now run alone
        self._slotless: set[str] = set()
        self.look_at = inf  # when the next batch may start, on the monotonic clock

    def __bool__(self) -> bool:
        return bool(self._rules)

    def __contains__(self, task: str) -> bool:
        return task in self._rules

    @property
    def slotless(self) -> int:
        """Return how many held jobs take no slot: they wait for a batch, follow a leader, or run in their own child."""
        return len(self._slotless)

    def in_turn(self) -> list[str]:
        """Return the batch tasks, rotated by one on each call, so that each task is first in turn."""
        self._turn = self._turn[1:] + self._turn[:1]
        return self._turn

    def room(self, task: str, calls: int) -> int:
        """Return how many jobs of a task to claim in order to fill `calls` calls.

        Returns 0 while a job of the task runs alone because it may have crashed a child.
        """
        if task in self._alone.values():
            return 0
        return calls * self._rules[task].size - len(self._gathering[task])

    # -- adding and removing jobs

    def take(self, held: HeldJob) -> bool:
        """Add a claimed job to the waiting batch of its task; return False if the job must run alone."""
        job = held.job
        self._slotless.add(job.job_id)
        if job.alone:
            self._alone[job.job_id] = job.task
            return False
        self._gathering[job.task][job.job_id] = held
        self.look_at = 0.0
        return True

    def forget(self, held: HeldJob) -> None:
        job_id = held.job.job_id
        self._slotless.discard(job_id)
        self._alone.pop(job_id, None)
        self._calls.pop(job_id, None)
        self._gathering[held.job.task].pop(job_id, None)

    def clear(self) -> None:
        self._slotless.clear()
        self._alone.clear()
        self._calls.clear()
        for waiting in self._gathering.values():
            waiting.clear()

    # -- forming calls

    def waits(self, held: HeldJob) -> bool:
        """Return whether a job still waits for its batch to start."""
        return held.job.task in self._rules and held.job.job_id in self._gathering[held.job.task]

    def waiting(self) -> Iterator[HeldJob]:
        for waiting in self._gathering.values():
            yield from waiting.values()

    def start(self, now: float, *, hurry: bool) -> list[Assignment]:
        """Form and return the calls that start now: full batches, and batches whose first job has waited long enough.

        With `hurry`, all waiting jobs whose start time has come are started.
        """
        if now < self.look_at and not hurry:
            return []
        self.look_at = inf
        calls = []
        for task, waiting in self._gathering.items():
            due = [held for held in waiting.values() if held.start_at <= now]
            later = min((held.start_at for held in waiting.values() if held.start_at > now), default=inf)
            formed = form(self._rules[task], [_since_us(held) for held in due], _LATE_US if hurry else round(now * 1e6))
            look_at = later if formed.look_at_us is None else min(later, formed.look_at_us / 1e6)
            self.look_at = min(self.look_at, look_at)
            for size in formed.sizes:
                calls += [self._begin(task, jobs) for jobs in _within_frames(due[:size])]
                del due[:size]
        return calls

    def _begin(self, task: str, jobs: list[HeldJob]) -> Assignment:
        """Move waiting jobs into a running call, and return the assignment of its leader with the others attached."""
        leader, *others = jobs
        self._slotless.discard(leader.job.job_id)
        call = SharedCall(jobs)
        for held in jobs:
            del self._gathering[task][held.job.job_id]
            self._calls[held.job.job_id] = call
        timeout = smallest_timeout(jobs)
        timeout_s = None if timeout is None else timeout.total_seconds()
        company = tuple(held.assignment() for held in others)
        first = leader.assignment()
        tells = any(one.tells_start for one in (first, *company))
        return replace(first, timeout_s=timeout_s, company=company, tells_start=tells)

    # -- running

    def company(self, held: HeldJob) -> list[HeldJob]:
        """Return the jobs of the same call that have not ended, including `held` itself."""
        call = self._calls.get(held.job.job_id)
        return [held] if call is None else [one for one in call.jobs if one.job.job_id in self._calls]

    def cancel(self, held: HeldJob) -> HeldJob | None:
        """Record that a job is cancelled; return the leader to interrupt once all jobs of its call are cancelled.

        Returns None while the call has jobs that are not cancelled: the call continues for them.
        """
        call = self._calls.get(held.job.job_id)
        if call is None:
            held.cancelled = True
            return held
        call.cancelled.add(held.job.job_id)
        if len(call.cancelled) < len(call.jobs):
            return None
        for one in call.jobs:
            one.cancelled = True
        return call.jobs[0]


def smallest_timeout(jobs: list[HeldJob]) -> timedelta | None:
    """Return the shortest timeout of some jobs, which limits their shared call; None if none has a timeout."""
    return min((held.job.policy.timeout for held in jobs if held.job.policy.timeout is not None), default=None)


def _since_us(held: HeldJob) -> int:
    """Return when a job became due, in microseconds of this process's monotonic clock; usually before its claim."""
    return round(held.claimed_mono * 1e6) + held.job.run_at_us - held.job.claimed_at_us


def _within_frames(jobs: list[HeldJob]) -> Iterator[list[HeldJob]]:
    """Split the jobs of a call into parts of at most `CALL_BYTES` of arguments; usually there is only one part."""
    piece: list[HeldJob] = []
    size = 0
    for held in jobs:
        size += len(held.job.args)
        if piece and size > CALL_BYTES:
            yield piece
            piece, size = [], len(held.job.args)
        piece.append(held)
    yield piece
