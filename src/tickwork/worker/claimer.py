"""How a worker comes by jobs: claims for its free slots, and starts what it claimed when its time has come."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from difflib import get_close_matches
from math import inf
from random import Random

from tickwork.clock import Clock
from tickwork.core.ids import WorkerId
from tickwork.core.job import RUN, Claimed, TaskDefinition
from tickwork.core.outcome import Failed, Released
from tickwork.errors import StoreError
from tickwork.observe.json_log import naming
from tickwork.store.base import AHEAD_LIMIT, Claims, Store
from tickwork.store.limits import LimitedCapacity
from tickwork.store.row_codec import to_us
from tickwork.worker.claim_backoff import ClaimBackoff
from tickwork.worker.finisher import Finisher
from tickwork.worker.handler_pools import HandlerPools, WorkerOptions
from tickwork.worker.heartbeat import Lease
from tickwork.worker.held_jobs import HeldJobs
from tickwork.worker.prefetch import BATCH, Prefetch
from tickwork.worker.retry_budget import QueueRetryBudgets

_log = logging.getLogger("tickwork.worker")
BATCH_CLAIM = 1000  # one claim for batches brings at most so many
LEAST_GROWS = 1.02  # with each claim, what one takes at least may have become so much more
UNSURE_LOOK_S = 1.0  # how often to look for what a claim took that was not answered
OWN_LOOK_LEASES = 10  # the time, in leases, between two looks for attempts whose stored end the store has lost
UNSURE_S = 20.0  # for at least so long after the store answers again: a late claim takes no longer
UNKNOWN_LOOK_S = 5.0  # how often to look for jobs that nobody here can run
UNKNOWN_SHARE = 50  # or less often, where that takes more than this part of the time


class Claimer:
    """Claims jobs and hands them out. Between claims it knows when there may be more."""

    def __init__(
        self,
        store: Store,
        pools: HandlerPools,
        tasks: Sequence[TaskDefinition],
        solo_tasks: frozenset[str],
        options: WorkerOptions,
        lease: Lease,
        held: HeldJobs,
        endings: Finisher,
        retries: QueueRetryBudgets,
        pace: Prefetch,
        clock: Clock,
        rng: Random,
        kill_holder: Callable[[str], None],
    ) -> None:
        self._store = store
        self._pools = pools
        self._known = frozenset((RUN, *(task.name for task in tasks)))
        apart = {*solo_tasks, *(task.name for task in tasks if task.name in held.batches)}
        self._shared = (*(task.name for task in tasks if task.name not in apart), RUN)
        self._solo = tuple(task.name for task in tasks if task.name in solo_tasks)
        self._options = options
        self._lease = lease
        self._held = held
        self._endings = endings
        self._retries = retries
        self._pace = pace
        self._clock = clock
        self._rng = rng
        self._kill_holder = kill_holder
        self._batches_first = False
        self._supplies: dict[Sequence[str], ClaimBackoff] = {(task.name,): ClaimBackoff(scarce=True) for task in tasks}
        self._supplies |= {self._shared: ClaimBackoff(), self._solo: ClaimBackoff()}
        self._least_s = inf  # what a claim takes at least
        self._unknown_at = 0.0
        self._unknown: set[str] = set()
        self._next_due: float | None = None
        self._look_again: float | None = None
        self._is_unsure = False  # a claim was not answered: we may hold more than we know
        self._unsure_until: float | None = None  # set when the store answers again
        self._unsure_at = 0.0
        self._own_at: float | None = None  # when to look for such attempts though every claim was answered

    @property
    def free(self) -> int:
        """How many slots are free; below zero when more is held."""
        return self._pace.slots - self._held.load

    def gathers(self, now: float) -> bool:
        """Return whether ends wait for others, which they do while a prefetched job is there for the next free slot."""
        prefetched = self._pace.prefetch() > 0 and self.free < 0
        return prefetched and len(self._endings) > 0 and round(self._pace.gather_until() - now, 6) > 0

    def clear(self) -> None:
        """What an earlier lease of ours may hold is not ours to give back any more."""
        self._is_unsure = False

    def times(self, now: float) -> list[float]:
        """When to claim again, as far as the last claims could tell; not before ends were gathered."""
        if self.gathers(now):
            return [self._pace.gather_until()]
        times = [] if self._look_again is None else [self._look_again]
        if self._next_due is not None:
            # Without a free slot nothing is claimed ahead of its time: to ask earlier would be to ask without end.
            times.append(self._next_due - (AHEAD_LIMIT.total_seconds() / 2 if self.free > 0 else 0.0))
        return times

    # -- claiming

    def claim(self, now: float) -> int:
        """Claim for free slots, and ahead where jobs are short; return how many were taken.

        What has ended is stored with it, in one transaction: a busy worker pays for one commit where it would for two.
        Who claims first has all the room. Batches are first after a claim that left them none, so nobody starves.
        """
        self._look_again = None
        ahead = 0 if self._pools.stalled() else self._pace.ahead()
        if self._pace.prefetch() and not self._may_prefetch():
            ahead = 0
        if not self._held.batches:
            took, self._next_due = self._claim_calls(ahead, now)
            return took
        had_room = self.free + ahead > 0
        if self._batches_first:
            batched, calls = self._claim_batches(ahead, now), self._claim_calls(ahead, now)
        else:
            calls, batched = self._claim_calls(ahead, now), self._claim_batches(ahead, now)
        if had_room:
            self._batches_first = calls[0] > 0 and not self._batches_first
        self._next_due = min((due for _, due in (calls, batched) if due is not None), default=None)
        return calls[0] + batched[0]

    def _may_prefetch(self) -> bool:
        """Whether to prefetch: with the ends of others or for free slots, and never for its own sake.

        Where some jobs need a process of their own, and so a free slot, others must not be held in their stead.
        """
        return not self._solo and (self.free > 0 or len(self._endings) > 0)

    def _claim_calls(self, ahead: int, now: float) -> tuple[int, float | None]:
        """Claim jobs that are called one by one."""
        took, due = self._claim_of(self._shared, min(BATCH, self.free + ahead), max(0, self.free), now)
        if self._solo:
            room = min(self._pools.solo_room(), self.free)
            more, solo_due = self._claim_of(self._solo, room, room, now)
            took, due = took + more, min((one for one in (due, solo_due) if one is not None), default=None)
        return took, due

    def _claim_batches(self, ahead: int, now: float) -> tuple[int, float | None]:
        """Claim for batches: a call takes one slot, so as many jobs as fill the free ones."""
        took, dues = 0, []
        for task in self._held.batches.in_turn():
            batches, free = self._held.batches, self.free
            room, slots = batches.room(task, max(free, min(1, free + ahead))), batches.room(task, max(0, free))
            more = part = 1
            while room > 0 and more == part:  # all that a batch can have is claimed before it is formed
                part = min(room, BATCH_CLAIM)
                more, due = self._claim_of((task,), part, max(0, slots), now)
                took, room, slots = took + more, room - part, slots - part
                dues.append(due)
            self._start_batches(self._clock.monotonic(), hurry=False)
        return took, min((due for due in dues if due is not None), default=None)

    def _claim_of(self, tasks: Sequence[str], room: int, slots: int, now: float) -> tuple[int, float | None]:
        """Claim up to `room` jobs, and up to `slots` of those that limits or needs hold: these are not taken ahead."""
        if room <= 0 or not tasks or self._lease.worker is None:
            return 0, None
        supply = self._supplies[tasks]
        if supply.rests(now):
            self._look_again = min(supply.again_at, self._look_again or inf)
            return 0, None
        claims = self._exchange(self._lease.worker, tasks, room, slots)
        if claims is None:
            return 1, None
        replied = self._clock.monotonic()  # the store took its time
        self._stop_superseded(claims.jobs)
        self._held.take(claims.jobs, replied)
        for job in [one for one in claims.jobs if one.flaw is not None]:
            for held in self._held.company(job.job_id):
                self._endings.end(held, Failed(job.flaw or "", fatal=True), 0.0)
        self._start_calls(replied)
        if any(job.run_at_us > job.claimed_at_us for job in claims.jobs):
            store_now = self._store.now()
            self._held.reckon(to_us(store_now), self._clock.monotonic())
        if not claims.jobs:
            self._look_for_unknown(now)
        if claims.again_s is not None:
            again_at = max(now + claims.again_s, supply.again_at)
            self._look_again = min(again_at, self._look_again or inf)
        full = len(claims.jobs) == room
        return len(claims.jobs) if full else 0, None if claims.next_due_s is None else now + claims.next_due_s

    def _stop_superseded(self, jobs: Sequence[Claimed]) -> None:
        """Stop the earlier attempts of jobs that this worker still holds and was given again.

        That happens when the store has lost the earlier claim: a backup was restored, or a failover lost commits.
        """
        for job in jobs:
            if job.job_id not in self._held:  # also when the process of another one was killed just now
                continue
            text = "Job %s was claimed again while it runs here; its earlier attempt is stopped."
            _log.warning(text, job.job_id, extra=naming(job))
            company = self._held.company(job.job_id)
            leader = company[0].job
            self._pools.interrupt(leader.job_id, leader.claim, "stop")
            self._held.forget(job.job_id)
            self._endings.notes.progress.pop(job.job_id, None)
            self._kill_holder(leader.job_id)
            self._endings.release([held.job.job_id for held in company if held.job.job_id in self._held])

    def _exchange(self, worker: WorkerId, tasks: Sequence[str], room: int, slots: int) -> Claims | None:
        """Store endings and claim; None: the lease is over, and it is known by now whether it is lost."""
        window = AHEAD_LIMIT if self.free > 0 else timedelta(0)
        offer, supply = self._held.left_of(self._options.offer.of_worker(worker)), self._supplies[tasks]
        batch = self._endings.batch()
        words = self._endings.last_words(batch)
        began = self._clock.monotonic()
        reach = LimitedCapacity(min(room, slots), offer, supply.search(began), min(room, self._pace.prefetch()))
        try:
            done = self._store.exchange(worker, batch, words, self._queues(), tasks, room, window, reach)
        except StoreError:  # it may have been carried out all the same, or may still be
            self._unsure_at = self._clock.monotonic()
            self._is_unsure, self._unsure_until = True, None
            raise
        replied = self._clock.monotonic()
        self._endings.settled(batch, done.finished)
        if done.claims is None:
            self._renew(worker)
        else:
            found, is_near = len(done.claims.jobs), done.claims.is_near
            self._pace.exchanged(replied - began, replied)
            self._least_s = min(replied - began, self._least_s * LEAST_GROWS)
            supply.claimed(began, replied, found, found + len(batch), is_near=is_near, least_s=self._least_s)
        return done.claims

    def _renew(self, worker: WorkerId) -> None:
        """Find out whether the lease only ran out, as after a pause, or was lost to a reaper with all it covers."""
        sent = self._clock.monotonic()
        self._lease.renewed(worker, sent, self._store.renew_lease(worker, self._lease.duration))

    def _queues(self) -> list[str]:
        """The queues in a random order in which heavier ones come first more often; nobody starves."""
        if len(self._options.queues) == 1:
            return [self._options.queues[0][0]]
        drawn = sorted(self._options.queues, key=lambda one: -(self._rng.random() ** (1 / one[1])))
        return [queue for queue, _ in drawn]

    def start_due(self, now: float, *, hurry: bool) -> None:
        """Start what is due, and the batches that have waited for company long enough; in a hurry, all of them."""
        self._start_calls(now)
        self._start_batches(now, hurry=hurry)

    def _start_calls(self, now: float) -> None:
        """Start what is due, unless the lease ran out: a claim may have been answered that late."""
        due = self._held.start_due(now) if self._lease.left(now) > 0 else []
        self._count_starts([held.job.queue for held in due], now)
        for alone in (False, True):
            batch = [held.assignment() for held in due if held.job.alone is alone]
            if batch:
                self._pools.submit(batch, alone)

    def start_exclusive(self, now: float) -> None:
        """Start a job that must run alone, once nothing else is held and all ends are stored.

        That it begins is stored first: from then on, a loss of this worker is the job's own fault.
        """
        held = self._held.exclusive_due(now) if self._lease.left(now) > 0 else None
        if held is None or len(self._endings):
            return
        job = held.job
        if not self._store.begin_alone(job.job_id, job.claim):
            self._held.forget(job.job_id)  # it was reclaimed
            return
        if self._lease.left(self._clock.monotonic()) <= 0:  # the store took its time
            self._endings.end(held, Released(), 0.0)
            return
        text = "Job %s runs alone: its last %d attempts were lost with their workers."
        _log.warning(text, job.job_id, job.losses, extra=naming(job))
        self._held.start_exclusive(held)
        self._count_starts([job.queue], now)
        self._pools.submit([held.assignment()], True)

    def _start_batches(self, now: float, *, hurry: bool) -> None:
        """Begin the calls whose time has come; a draining worker waits for no company."""
        calls = self._held.batches.start(now, hurry=hurry) if self._lease.left(now) > 0 else []
        self._count_starts([one.queue for call in calls for one in (call, *call.company)], now)
        for call in calls:
            self._pools.submit([call], False)  # each in a frame of its own

    def _count_starts(self, queues: list[str], now: float) -> None:
        if queues:
            for queue, count in Counter(queues).items():
                self._retries.started(queue, count, now)

    # -- what went wrong

    def give_back_unknown(self, now: float) -> None:
        """Give back attempts that the store counts as this worker's and that it does not hold: no reaper would.

        A claim whose answer was lost took them. A server that was stopped may carry out such a claim when it goes on,
        so the time to look for them is counted from its next answer. Or their end was stored, and the store has lost
        it (a restored backup, a failover); for those it looks every few minutes.
        """
        look_at = now + OWN_LOOK_LEASES * self._lease.duration.total_seconds()
        self._own_at = look_at if self._own_at is None else self._own_at
        unsure = self._is_unsure and now >= self._unsure_at
        if self._lease.worker is None or not (unsure or now >= self._own_at):
            return
        self._own_at = look_at
        known = {(held.job.job_id, held.job.claim) for held in self._held}
        known |= {(finish.job_id, finish.claim) for finish in self._endings}
        found = self._store.open_attempts(self._lease.worker)
        unknown = [one for one in found if (one.job_id, one.claim) not in known]
        if unknown:
            self._endings.give_back(unknown)
        self._unsure_at = now + UNSURE_LOOK_S
        if self._is_unsure:
            self._unsure_until = self._unsure_until or now + max(self._lease.duration.total_seconds(), UNSURE_S)
            self._is_unsure = now <= self._unsure_until

    def _look_for_unknown(self, now: float) -> None:
        """Say once of each task that stands in our queues and that we cannot run, so that nobody has to wonder."""
        if now < self._unknown_at:
            return
        began = self._clock.monotonic()
        due = self._store.due_tasks([queue for queue, _ in self._options.queues])
        took = self._clock.monotonic() - began
        self._unknown_at = now + max(UNKNOWN_LOOK_S, took * UNKNOWN_SHARE)
        for name in due - self._known - self._unknown:
            self._unknown.add(name)
            nearest = get_close_matches(name, self._known, n=1)
            _log.warning(
                "UnknownTask: this worker has no task named %r%s. Its jobs stay queued. Start a worker that has it.",
                name,
                f" (did you mean {nearest[0]!r}?)" if nearest else "",
            )
