"""Track the jobs that a worker has claimed.

The cost of a tick depends on changes, not on the number of held jobs.

`Batches` collects the held jobs of batch tasks into calls. A call takes one slot, however many jobs it has; a job that
waits for its batch to fill takes none. The processes that run handlers know a call only by its first job, the *leader*.
`Batches` maps the leader to the other jobs of the call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from heapq import heapify, heappop, heappush
from itertools import chain
from math import inf

import msgspec
from msgspec.structs import replace

from tickwork.core.job import Claimed
from tickwork.core.placement import NOTHING, Needs, Offer, free, needs_of
from tickwork.core.workers.batch import Batch, form
from tickwork.worker.ipc.protocol import Assignment

CALL_BYTES = 32 * 1024 * 1024  # the limit of arguments in one call, which is sent in one frame
_LATE_US = 1 << 62  # an instant after which every batch is due, used to start all of them


class HeldJob(msgspec.Struct):
    """A job that this worker has claimed and that is running or waits to be started."""

    job: Claimed
    claimed_mono: float
    start_at: float
    cancelled: bool = False
    begun: bool = False  # the handler was called; reported only for jobs that may begin only once or have a timeout

    def assignment(self) -> Assignment:
        """Return the message that tells a child to run the job."""
        job, policy = self.job, self.job.policy
        timeout_s = None if policy.timeout is None else policy.timeout.total_seconds()
        what = (
            job.job_id,
            job.attempt,
            job.claim,
            job.task,
            job.queue,
            job.args,
            timeout_s,
            policy.retry_on,
            policy.give_up_on,
        )
        broadcast, spot = (None, None) if job.job_limits is None else (job.job_limits.broadcast, job.job_limits.spot)
        times = (job.run_at_us, job.claimed_at_us, self.claimed_mono)
        once, produce = policy.on_lost == "fail", policy.produce
        return Assignment(
            *what, *times, job.occurrence, (), broadcast, job.run, job.step, produce, job.trace, spot, once
        )


class HeldJobs:
    """The held jobs of a worker by id, with the jobs that wait to start and the kill times of jobs with a timeout."""

    def __init__(self, batches: Mapping[str, Batch]) -> None:
        self.offer = NOTHING  # of the registered worker, with its own label
        self.batches = Batches(batches)
        self._batched = frozenset(batches)
        self._held: dict[str, HeldJob] = {}
        self._waiting: dict[str, HeldJob] = {}
        self._exclusive: dict[str, HeldJob] = {}  # jobs that must run alone and wait until no other job is held
        self._apart: set[str] = set()  # ids of these jobs, and of the exclusive job that runs
        self._needing: dict[str, Needs] = {}  # the needs of held jobs, by job id
        self._kills: list[tuple[float, str, int]] = []  # a heap; entries of ended jobs are removed later

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[HeldJob]:
        return iter(list(self._held.values()))

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._held

    @property
    def load(self) -> int:
        """Return how many slots the held jobs take now or will take."""
        return len(self._held) - self.batches.slotless

    def left(self) -> Offer:
        """Return what remains of the worker's offer of resources after the needs of the held jobs."""
        return free(self.offer, self._needing.values()) if self._needing else self.offer

    def company(self, job_id: str) -> list[HeldJob]:
        """Return the jobs of a job's call, usually only the job itself; an empty list if the job is not held."""
        held = self._held.get(job_id)
        return [] if held is None else self.batches.company(held)

    def timeout(self, held: HeldJob) -> timedelta | None:
        """Return the timeout of the call that runs a job: the shortest one of its jobs; None if none has one."""
        return smallest_timeout(self.batches.company(held))

    def attempt(self, job_id: str, claim: int) -> HeldJob | None:
        """Return the job if it is held by this claim."""
        held = self._held.get(job_id)
        return held if held is not None and held.job.claim == claim else None

    def take(self, jobs: Sequence[Claimed], now: float) -> None:
        """Add claimed jobs; `now` is when the reply of the claim arrived.

        The store read its clock before that, so a wait that is counted from the reply is never too short.
        """
        for job in jobs:
            held = HeldJob(job, now, now + max(0, job.run_at_us - job.claimed_at_us) / 1e6)
            self._held[job.job_id] = held
            if job.job_limits is not None and job.job_limits.needs:
                self._needing[job.job_id] = needs_of(job.job_limits.needs)
            if job.losses and job.is_exclusive:
                self._exclusive[job.job_id] = held
                self._apart.add(job.job_id)
            elif job.task not in self._batched or not self.batches.take(held):
                self._waiting[job.job_id] = held

    def forget(self, job_id: str) -> None:
        """Stop holding a job. Raises KeyError if it is not held."""
        held = self._held.pop(job_id)
        self._waiting.pop(job_id, None)
        if self._apart:
            self._exclusive.pop(job_id, None)
            self._apart.discard(job_id)
        if self._needing:
            self._needing.pop(job_id, None)
        if held.job.task in self._batched:
            self.batches.forget(held)

    def clear(self) -> None:
        self._held.clear()
        self._waiting.clear()
        self._exclusive.clear()
        self._apart.clear()
        self._needing.clear()
        self._kills.clear()
        self.batches.clear()

    # -- jobs that wait to start

    def starts(self, held: HeldJob) -> bool:
        """Return whether a held job still waits to be started."""
        job_id = held.job.job_id
        return job_id in self._waiting or job_id in self._exclusive or self.batches.waits(held)

    def start_times(self) -> Collection[float]:
        return [held.start_at for held in (*self._waiting.values(), *self._next_exclusive())]

    def reckon(self, store_us: int, now: float) -> None:
        """Recompute the start times from a reading of the store's clock, `store_us`, whose reply arrived at `now`.

        The reply of a claim comes after its commit, which may be slow. The reply of a clock reading comes at once, so
        it gives a better estimate.
        """
        for held in chain(self._waiting.values(), self.batches.waiting()):
            held.start_at = min(held.start_at, now + max(0, held.job.run_at_us - store_us) / 1e6)
            held.claimed_mono = min(held.claimed_mono, now - (store_us - held.job.claimed_at_us) / 1e6)

    def start_due(self, now: float) -> list[HeldJob]:
        """Return the waiting jobs that are due, and mark them as started."""
        due = [held for held in self._waiting.values() if held.start_at <= now]
        for held in due:
            del self._waiting[held.job.job_id]
        return due

    # -- jobs that run alone

    @property
    def is_exclusive(self) -> bool:
        """Return whether a held job must run alone; no other jobs are claimed until it has ended."""
        return bool(self._apart)

    def _next_exclusive(self) -> list[HeldJob]:
        """Return the first job that must run alone, if all held jobs must run alone; otherwise an empty list."""
        alone = self._exclusive and len(self._exclusive) == len(self._held)
        return [next(iter(self._exclusive.values()))] if alone else []

    def exclusive_due(self, now: float) -> HeldJob | None:
        """Return the job that must run alone and can start now, or None."""
        return next((held for held in self._next_exclusive() if held.start_at <= now), None)

    def start_exclusive(self, held: HeldJob) -> None:
        """Mark a job that must run alone as started."""
        del self._exclusive[held.job.job_id]

    # -- jobs with a timeout

    def kill_at(self, time: float, job_id: str, claim: int) -> None:
        """Set the time after which `overdue` returns an attempt, unless the attempt has ended by then."""
        if len(self._kills) > 2 * len(self._held) + 100:  # short jobs with long timeouts would fill the heap
            self._kills = [one for one in self._kills if self.attempt(*one[1:]) is not None]
            heapify(self._kills)
        heappush(self._kills, (time, job_id, claim))

    def next_kill(self) -> float | None:
        """Return when to check for overdue attempts next: maybe too early, never too late; None if there are none."""
        return self._kills[0][0] if self._kills else None

    def overdue(self, now: float) -> list[HeldJob]:
        """Remove the kill times that have passed, and return the held jobs that they belong to."""
        found: list[HeldJob] = []
        while self._kills and (self._kills[0][0] < now or self.attempt(*self._kills[0][1:]) is None):
            _, job_id, claim = heappop(self._kills)
            held = self.attempt(job_id, claim)
            if held is not None:
                found.append(held)
        return found


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
        """Return how many held jobs take no slot: they wait for a batch, share a call, or run in their own child."""
        return len(self._slotless)

    def in_turn(self) -> list[str]:
        """Return the batch tasks, rotated by one on each call, so that each task comes first at times."""
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
