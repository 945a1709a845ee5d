"""The jobs of batch tasks that a worker holds: those that wait for company, and those that share a call.

A call takes one slot, however many jobs it is for, and a job that waits for company takes none. Where handlers run, a
call is known by the first of its jobs, its *leader*: whoever hears of the leader finds the others here.
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

CALL_BYTES = 32 * 1024 * 1024  # of arguments in one call, which travels in one frame
_LATE_US = 1 << 62  # when everybody has waited long enough


@dataclass(slots=True)
class SharedCall:
    """Jobs that run in one call, the leader first, and which of them somebody has cancelled."""

    jobs: list[HeldJob]
    cancelled: set[str] = field(default_factory=set)


class Batches:
    """Gathers jobs by task, says which of them start together, and remembers who runs with whom."""

    def __init__(self, rules: Mapping[str, Batch]) -> None:
        self._rules = rules
        self._turn = list(rules)
        self._gathering: dict[str, dict[str, HeldJob]] = {task: {} for task in rules}
        self._calls: dict[str, SharedCall] = {}  # by each of their jobs
        self._alone: dict[str, str] = {}  # suspects of a crash, which run by themselves, and their tasks
        self._slotless: set[str] = set()
        self.look_at = inf  # when something may start

    def __bool__(self) -> bool:
        return bool(self._rules)

    def __contains__(self, task: str) -> bool:
        return task in self._rules

    @property
    def slotless(self) -> int:
        """How many held jobs take no slot: they wait for company, run beside a leader, or in a child of their own."""
        return len(self._slotless)

    def in_turn(self) -> list[str]:
        """The tasks, each time with another one first."""
        self._turn = self._turn[1:] + self._turn[:1]
        return self._turn

    def room(self, task: str, calls: int) -> int:
        """How many jobs to claim for so many calls. While suspects of a crash are here, the rest waits for them."""
        if task in self._alone.values():
            return 0
        return calls * self._rules[task].size - len(self._gathering[task])

    # -- coming and going

    def take(self, held: HeldJob) -> bool:
        """Have a job of a batch task wait for company; False when it runs by itself."""
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

    # -- waiting for company

    def waits(self, held: HeldJob) -> bool:
        """Whether it still waits for others."""
        return held.job.task in self._rules and held.job.job_id in self._gathering[held.job.task]

    def waiting(self) -> Iterator[HeldJob]:
        for waiting in self._gathering.values():
            yield from waiting.values()

    def start(self, now: float, *, hurry: bool) -> list[Assignment]:
        """The calls to begin now: full ones, and those whose first job waited long enough; in a hurry, all."""
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
        """The jobs of its call that have not ended, itself among them."""
        call = self._calls.get(held.job.job_id)
        return [held] if call is None else [one for one in call.jobs if one.job.job_id in self._calls]

    def cancel(self, held: HeldJob) -> HeldJob | None:
        """Note that a job is cancelled. Its call goes on, until all of its jobs are: then return its leader."""
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
    """How long the call for some jobs may take."""
    return min((held.job.policy.timeout for held in jobs if held.job.policy.timeout is not None), default=None)


def _since_us(held: HeldJob) -> int:
    """Since when it has been due, on this process's monotonic clock: mostly since before it was claimed."""
    return round(held.claimed_mono * 1e6) + held.job.run_at_us - held.job.claimed_at_us


def _within_frames(jobs: list[HeldJob]) -> Iterator[list[HeldJob]]:
    """Cut a call in pieces whose arguments fit into a frame; mostly it is one."""
    piece: list[HeldJob] = []
    size = 0
    for held in jobs:
        size += len(held.job.args)
        if piece and size > CALL_BYTES:
            yield piece
            piece, size = [], len(held.job.args)
        piece.append(held)
    yield piece
