"""The jobs that a worker holds, kept so that a tick costs as much as has changed, however many there are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from heapq import heapify, heappop, heappush
from itertools import chain

import msgspec

from tickwork.core.batch import Batch
from tickwork.core.job import Claimed
from tickwork.core.placement.needs import Needs, Offer, free, needs_of
from tickwork.worker.batches import Batches, smallest_timeout
from tickwork.worker.ipc.protocol import Assignment


class HeldJob(msgspec.Struct):
    """A job that this worker holds: claimed, and running or about to."""

    job: Claimed
    claimed_mono: float
    start_at: float
    cancelled: bool = False
    begun: bool = False  # its handler was called; known of jobs that may begin only once, and of those with a limit

    def assignment(self) -> Assignment:
        """What a child is told to run it."""
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
        broadcast, spot = (None, None) if job.flow is None else (job.flow.broadcast, job.flow.spot)
        times = (job.run_at_us, job.claimed_at_us, self.claimed_mono)
        once, produce = policy.on_lost == "fail", policy.produce
        return Assignment(*what, *times, job.tick, (), broadcast, job.run, job.step, produce, job.trace, spot, once)


class HeldJobs:
    """Held jobs by id, those of them that wait for their time, and when to kill those that may not run for ever."""

    def __init__(self, batches: Mapping[str, Batch]) -> None:
        self.batches = Batches(batches)
        self._batched = frozenset(batches)
        self._held: dict[str, HeldJob] = {}
        self._waiting: dict[str, HeldJob] = {}
        self._exclusive: dict[str, HeldJob] = {}  # those that wait until nothing else is held
        self._apart: set[str] = set()  # these, and the one of them that runs
        self._needing: dict[str, Needs] = {}  # what those take that need something
        self._kills: list[tuple[float, str, int]] = []  # a heap; what is not held any more is left in it for a while

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[HeldJob]:
        return iter(list(self._held.values()))

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._held

    @property
    def load(self) -> int:
        """How many slots they take or will take."""
        return len(self._held) - self.batches.slotless

    def left_of(self, offer: Offer) -> Offer:
        """What is left of an offer beside the jobs that are held."""
        return free(offer, self._needing.values()) if self._needing else offer

    def company(self, job_id: str) -> list[HeldJob]:
        """The jobs of the call that a job leads: mostly itself alone; none when it is not held."""
        held = self._held.get(job_id)
        return [] if held is None else self.batches.company(held)

    def timeout(self, held: HeldJob) -> timedelta | None:
        """How long the call that runs it may take."""
        return smallest_timeout(self.batches.company(held))

    def attempt(self, job_id: str, claim: int) -> HeldJob | None:
        """Return the job if it is held by this claim."""
        held = self._held.get(job_id)
        return held if held is not None and held.job.claim == claim else None

    def take(self, jobs: Sequence[Claimed], now: float) -> None:
        """Hold claimed jobs.

        The store read its clock before its reply came, so a wait that is counted from the reply cannot be too short.
        """
        for job in jobs:
            held = HeldJob(job, now, now + max(0, job.run_at_us - job.claimed_at_us) / 1e6)
            self._held[job.job_id] = held
            if job.flow is not None and job.flow.needs:
                self._needing[job.job_id] = needs_of(job.flow.needs)
            if job.losses and job.is_exclusive:
                self._exclusive[job.job_id] = held
                self._apart.add(job.job_id)
            elif job.task not in self._batched or not self.batches.take(held):
                self._waiting[job.job_id] = held

    def forget(self, job_id: str) -> None:
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

    # -- those whose time has not come

    def starts(self, held: HeldJob) -> bool:
        """Whether it is still to be started."""
        job_id = held.job.job_id
        return job_id in self._waiting or job_id in self._exclusive or self.batches.waits(held)

    def start_times(self) -> Collection[float]:
        return [held.start_at for held in (*self._waiting.values(), *self._next_exclusive())]

    def reckon(self, store_us: int, now: float) -> None:
        """Count the waits anew from a look at the store's clock, whose reply came just now.

        The reply of a claim comes after its commit, which may take a while; that of a mere look comes at once.
        """
        for held in chain(self._waiting.values(), self.batches.waiting()):
            held.start_at = min(held.start_at, now + max(0, held.job.run_at_us - store_us) / 1e6)
            held.claimed_mono = min(held.claimed_mono, now - (store_us - held.job.claimed_at_us) / 1e6)

    def start_due(self, now: float) -> list[HeldJob]:
        """Those whose time has come; from here on they count as started."""
        due = [held for held in self._waiting.values() if held.start_at <= now]
        for held in due:
            del self._waiting[held.job.job_id]
        return due

    # -- those that run alone

    @property
    def is_exclusive(self) -> bool:
        """Whether a job is held that must be the only one: nothing else is claimed until it has ended."""
        return bool(self._apart)

    def _next_exclusive(self) -> list[HeldJob]:
        """The job that may start alone: the first of those, once nothing else is held."""
        alone = self._exclusive and len(self._exclusive) == len(self._held)
        return [next(iter(self._exclusive.values()))] if alone else []

    def exclusive_due(self, now: float) -> HeldJob | None:
        """Return the job that is to start alone now."""
        return next((held for held in self._next_exclusive() if held.start_at <= now), None)

    def start_exclusive(self, held: HeldJob) -> None:
        """From here on it counts as started."""
        del self._exclusive[held.job.job_id]

    # -- those that may not run for ever

    def kill_at(self, time: float, job_id: str, claim: int) -> None:
        """Have an attempt in `overdue` once its time is up, unless it has ended."""
        if len(self._kills) > 2 * len(self._held) + 100:  # short jobs with long limits would pile up
            self._kills = [one for one in self._kills if self.attempt(*one[1:]) is not None]
            heapify(self._kills)
        heappush(self._kills, (time, job_id, claim))

    def next_kill(self) -> float | None:
        """When to look for overdue ones; perhaps too early, never too late."""
        return self._kills[0][0] if self._kills else None

    def overdue(self, now: float) -> list[HeldJob]:
        """Those that should have ended by now."""
        found: list[HeldJob] = []
        while self._kills and (self._kills[0][0] < now or self.attempt(*self._kills[0][1:]) is None):
            _, job_id, claim = heappop(self._kills)
            held = self.attempt(job_id, claim)
            if held is not None:
                found.append(held)
        return found
