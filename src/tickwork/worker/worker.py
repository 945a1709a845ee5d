"""The worker: claim jobs, submit them to the pools, and store their ends. `tick(now)` returns how long to wait.

All store calls and all decisions about jobs happen in `tick`, on one thread. Handlers run elsewhere (see
`HandlerPools`) and report by messages. A tick that fails half-way is repeated: ends that were not stored are kept,
and storing an end twice is harmless, because an attempt is closed only once.
"""

from __future__ import annotations

import logging
from math import inf

from tickwork.core.ids import WorkerId
from tickwork.core.job_stamper import declared_rules
from tickwork.core.outcome import Released, TimedOut
from tickwork.errors import InvalidInput
from tickwork.observe.json_log import naming
from tickwork.store import base
from tickwork.worker.child_events import ChildEvents
from tickwork.worker.claim_pacing import Prefetch
from tickwork.worker.claimer import Claimer
from tickwork.worker.finisher import NOTES_S, Finisher
from tickwork.worker.held_jobs import HeldJob, HeldJobs
from tickwork.worker.retry_budget import QueueRetryBudgets
from tickwork.worker.worker_types import WorkerParts

_log = logging.getLogger("tickwork.worker")
CANCEL_LOOK_S = 1.0
LEASE_LOOK_S = 1.0  # how often to check whether a lease that ran out was renewed after all


class Worker:
    """Claims jobs, submits them to the pools and stores their ends. `tick` never runs or waits for user code."""

    def __init__(self, parts: WorkerParts) -> None:
        self._parts = parts
        self._store = parts.store
        self._pools = parts.pools
        self._lease = parts.lease
        self._clock = parts.clock
        self._prefetch = Prefetch(parts.options.slots)
        retries = QueueRetryBudgets(parts.rng)
        self._held = HeldJobs(parts.code.batches)
        self._finisher = Finisher(parts, self._held, retries)
        self._child_events = ChildEvents(parts, self._held, self._finisher, self._prefetch)
        kill = self._child_events.kill_holder
        self._claimer = Claimer(parts, self._held, self._finisher, retries, self._prefetch, kill_holder=kill)
        self._cancels_at = 0.0
        self.called = True  # the store notified us of new jobs or cancellations since the last tick
        self.draining = False
        self.quiet = False  # an operator asked this worker to claim nothing for a while

    # -- the loop

    def tick(self, now: float) -> float:
        """Do all work that is due, and return the seconds until the next tick is needed.

        Steps that need no store come first: they must be done in time even while the store does not answer.
        """
        if self._lease.worker is None or self._lease.lost:
            self._register(now)
        called, self.called = self.called, False
        owning = self._lease.left(now) > 0
        if not owning:  # before messages are read: a child that became free must not begin a job that waits for it
            self._let_go("the worker could not renew its lease in time")
        self._child_events.listen()
        self._kill_overdue(now)
        self._pools.tend(now)
        self._claimer.start_due(now, hurry=self.draining)
        self._child_events.answer_asks()
        self._look_for_cancels(now, False)  # at its interval, even if the claim below fails
        self._claimer.give_back_unknown(now)
        self._finisher.breaker_reports.tell()  # before the claim, whose jobs may be under the same breakers
        took, claims = 0, owning and self._claims
        gathers = claims and self._claimer.gathers(now)
        if claims and not gathers:
            self._resize()
            took = self._claimer.claim(now)
        self._look_for_cancels(now, called)  # after the claim, since most notifications announce new jobs
        if not gathers:
            self._finisher.settle()
        self._finisher.store_notes(now)
        now = self._clock.monotonic()  # the store calls may have been slow
        self._claimer.start_due(now, hurry=self.draining)
        self._claimer.start_exclusive(now)
        return 0.0 if took else self._wait(now)

    @property
    def _claims(self) -> bool:
        return not (self.draining or self.quiet or self._held.is_exclusive)

    @property
    def busy(self) -> bool:
        """Return whether the worker holds jobs, or ends that are not stored."""
        return bool(self._held or self._finisher)

    def patience(self, now: float) -> float:
        """Return the seconds until a handler must be stopped or killed, which limits every wait; else infinity."""
        kill_at = self._held.next_kill()
        times = [] if kill_at is None else [kill_at - now]
        left = self._lease.left(now)
        if left > 0 and self._held:
            times.append(left)
        elif left <= 0 and any(self._goes_on(held) for held in self._held):
            times.append(0.0)  # the lease ended during the tick
        return max(0.0, min(times, default=inf))

    def drain(self) -> None:
        """Claim no more jobs; running jobs continue."""
        self.draining = True
        if self._lease.worker is not None:
            self._store.drain_worker(self._lease.worker)

    def release(self) -> None:
        """Kill all handlers, release their jobs without charging an attempt, and deregister the worker."""
        self._pools.kill_all()
        self._child_events.listen()  # ends that were sent just before the kill
        for held in self._held:
            self._finisher.end(held, Released(begun=held.begun), 0.0)
        self._finisher.settle()
        self._finisher.breaker_reports.tell()
        if self._lease.worker is not None:
            self._store.end_worker(self._lease.worker)
            self._lease.worker = None

    def _resize(self) -> None:
        """Let the autoscaler resize the pool of children, and use the resulting number of slots."""
        autoscaler = self._parts.autoscaler
        if autoscaler is not None:
            autoscaler.look(self._held.load, self._held.left(), self._prefetch.mean_s, self._clock)
            self._prefetch.slots = autoscaler.slots

    def _wait(self, now: float) -> float:
        """Return the seconds until the next work is due, unless a notification or a message comes first."""
        owning = self._lease.left(now) > 0
        waiter, (poll_s, poll_only_s) = self._parts.waiter, self._parts.poll_s
        poll_s = poll_s if waiter is None or waiter.fileno() >= 0 else poll_only_s
        times = [now + (poll_s if owning else min(poll_s, LEASE_LOOK_S))]
        if owning and self._claims:
            times.extend(self._claimer.times(now))
        if owning:
            times.extend(self._held.start_times())
            times.append(self._held.batches.look_at)
        if self._held:
            times.append(now + self.patience(now))
            times.append(now + (NOTES_S if self._finisher.notes else CANCEL_LOOK_S))
        return max(0.0, min(times) - now)

    # -- the lease

    def _register(self, now: float) -> None:
        """Register this worker in the store under a new id. After a lost lease, drop all jobs of the earlier id."""
        if self._lease.lost:
            _log.warning(
                "The lease of worker %s was lost; its %d jobs were dropped.", self._lease.worker, len(self._held)
            )
            self._drop_all()
        me, options, code = self._parts.new_id(), self._parts.options, self._parts.code
        worker = base.WorkerRegistration(
            id=WorkerId(me),
            host=options.host,
            pid=options.pid,
            version=options.version,
            queues=tuple(queue for queue, _ in options.queues),
            tasks=tuple(task.name for task in code.tasks),
            slots=options.slots,
            schedules=tuple(spec.name for spec in code.schedules),
            offer=options.offer.of_worker(me),
        )
        self._store.register_worker(worker, code.tasks, self._lease.duration)
        self._declare()
        self._held.offer = worker.offer
        self._lease.begin(worker.id, now)
        self._parts.nudge_scheduler()

    def _declare(self) -> None:
        """Store the limits, dags and schedules of the code.

        If schedules are invalid, log the error and run tasks anyway.
        """
        code = self._parts.code
        if rules := declared_rules(code.tasks):
            self._store.limits.declare_limits(rules)
        for graph in code.graphs:
            self._store.dags.put_dag(graph)
        if not code.schedules:
            return
        try:
            self._store.schedules.declare_schedules(code.schedules)
        except InvalidInput as error:
            _log.error("The schedules of this worker's code were not stored: %s", error)

    def _let_go(self, cause: str) -> None:
        """Stop every handler before the store may give its job to another worker."""
        for held in self._held:
            if self._goes_on(held):
                held.cancelled = True
                _log.warning("Job %s is stopped: %s.", held.job.job_id, cause, extra=naming(held.job))
                self._pools.interrupt(held.job.job_id, held.job.claim, "stop")

    def _goes_on(self, held: HeldJob) -> bool:
        """Return whether the handler of a held job has started and was not told to stop."""
        return not held.cancelled and not self._held.starts(held)

    def _drop_all(self) -> None:
        """Kill all handlers and discard all state of the lost lease."""
        self._pools.abandon()
        self._child_events.clear()
        self._held.clear()
        self._finisher.clear()
        self._claimer.clear()

    # -- cancellations and timeouts

    def _look_for_cancels(self, now: float, called: bool) -> None:
        """Read cancellation requests from the store, if notified or at the interval, and interrupt their handlers."""
        due = round(now - self._cancels_at, 6) >= CANCEL_LOOK_S
        if not self._held or self._lease.worker is None or not (called or due):
            return
        self._cancels_at = now
        for job_id, claim in self._store.cancel_requests(self._lease.worker):
            held = self._held.attempt(job_id, claim)
            if held is None or held.cancelled:
                continue
            if self._held.starts(held):
                self._finisher.end(held, Released(), 0.0)  # the store turns it into cancelled
            elif (leader := self._held.batches.cancel(held)) is not None:
                self._pools.interrupt(leader.job.job_id, leader.job.claim, "cancel")

    def _kill_overdue(self, now: float) -> None:
        """Kill children whose attempt is past its time limit and which did not end it themselves."""
        overdue = self._held.overdue(now)
        if not overdue:
            return
        beside = [job_id for leader in overdue for job_id in self._pools.kill_holder(leader.job.job_id)]
        self._child_events.listen()  # output and ends that were sent just before the kill
        for leader in overdue:  # before `beside` is released: it may contain overdue jobs, which are charged
            if self._held.attempt(leader.job.job_id, leader.job.claim) is None:
                continue  # it ended just before the kill
            timeout = self._held.timeout(leader)
            limit = "" if timeout is None else f" of {timeout.total_seconds():g} s"
            ending = TimedOut(f"it ran for more than its timeout{limit}; its process was killed")
            for held in self._held.company(leader.job.job_id):
                self._finisher.end(held, ending, 0.0)
        self._finisher.release(beside)
