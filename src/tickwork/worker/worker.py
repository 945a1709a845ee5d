"""Fills slots: claims jobs, has them run, and settles how they end. A service: `tick(now) -> how long to wait`.

Everything that touches the store or decides what becomes of a job happens in `tick`, on one thread. Handlers run
elsewhere (see `Pools`); they are heard of through messages. A tick that fails half-way is simply repeated: endings
that were not stored are kept, and storing one twice is harmless, since an attempt can only be closed once.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from difflib import get_close_matches
from math import inf
from random import Random
from typing import Protocol, assert_never

from tickwork.clock import Clock
from tickwork.core.flow.batch import Batch
from tickwork.core.ids import JobId, WorkerId
from tickwork.core.job import TaskDefinition
from tickwork.core.outcome import Crashed, Ending, Released, TimedOut, decide
from tickwork.core.schedule.spec import Spec
from tickwork.core.why import gist
from tickwork.errors import InvalidInput, StoreError
from tickwork.store import base
from tickwork.store.base import AHEAD_LIMIT, Finish, NewLog, OpenAttempt, Progress, Store
from tickwork.store.codec import to_us
from tickwork.worker import messages
from tickwork.worker.heartbeat import Lease
from tickwork.worker.holdings import Held, Holdings
from tickwork.worker.messages import Answer, Assignment, Died, End, FromExecutor
from tickwork.worker.pace import BATCH, Pace

_log = logging.getLogger("tickwork.worker")
POLL_S = 5.0  # how often to look without being called, when the store can call
POLL_ONLY_S = 0.5  # and when it cannot
CANCEL_LOOK_S = 1.0
LEASE_LOOK_S = 1.0  # how often to look whether a lease that ran out was renewed after all
NOTES_S = 0.5  # logs and progress are stored this often while handlers run
KILL_GRACE_S = 1.5  # a child may end its own overdue attempt, before it is killed
UNKNOWN_LOOK_S = 5.0  # how often to look for jobs that nobody here can run
UNKNOWN_SHARE = 50  # or less often, where that takes more than this part of the time
FINISH_BATCH = 500
BATCH_CLAIM = 1000  # one claim for batches brings at most so many
NO_BATCHES: Mapping[str, Batch] = {}


class Source(Protocol):
    """Whoever runs an attempt, so that it can be answered."""

    def send(self, message: Answer) -> None: ...


class Pools(Protocol):
    """Where handlers run. Implemented on threads and child processes, and by the simulator in virtual time."""

    def submit(self, assignments: Sequence[Assignment], alone: bool) -> None: ...

    def poll(self) -> Sequence[tuple[Source, FromExecutor | Died]]: ...

    def interrupt(self, job_id: str, attempt: int, reason: str) -> None: ...

    def kill_holder(self, job_id: str) -> list[str]:
        """End the process that runs a job; return the jobs that ran beside it and died with it."""

    def kill_all(self) -> None:
        """End every handler at once, and run none any more."""

    def abandon(self) -> None:
        """End every handler at once; nothing more is heard of them, and new ones can be run."""

    def solo_room(self) -> int: ...

    def tend(self, now: float) -> None: ...

    def stalled(self) -> bool: ...

    def filenos(self) -> list[int]:
        """Descriptors that are readable when `poll` has news."""

    def unsent(self) -> list[int]:
        """Those of them that `poll` has more to write to, as soon as they take it."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What a worker serves. Queues come with weights: the order in which they are asked is drawn by them."""

    queues: tuple[tuple[str, float], ...] = (("default", 1.0),)
    slots: int = 10
    host: str = "localhost"
    pid: int = 0
    version: str = ""


@dataclass(slots=True)
class Notes:
    """What handlers said that need not be stored at once."""

    logs: list[NewLog] = field(default_factory=list)
    progress: dict[str, Progress] = field(default_factory=dict)


class Worker:
    """Claims, hands out, settles. `tick` never runs user code and never blocks on a handler."""

    def __init__(
        self,
        store: Store,
        pools: Pools,
        tasks: Sequence[TaskDefinition],
        solo_tasks: frozenset[str],
        options: WorkerOptions,
        lease: Lease,
        new_id: Callable[[], str],
        clock: Clock,
        rng: Random,
        poll_s: Callable[[], float] = lambda: POLL_S,
        schedules: Sequence[Spec] = (),
        nudge_scheduler: Callable[[], None] = lambda: None,
        batches: Mapping[str, Batch] = NO_BATCHES,
    ) -> None:
        self._store = store
        self._pools = pools
        self._definitions = tasks
        self._shared = tuple(task.name for task in tasks if task.name not in solo_tasks and task.name not in batches)
        self._solo = tuple(task.name for task in tasks if task.name in solo_tasks)
        self._options = options
        self._lease = lease
        self._new_id = new_id
        self._clock = clock
        self._rng = rng
        self._poll_s = poll_s
        self._schedules = schedules
        self._nudge_scheduler = nudge_scheduler
        self._pace = Pace(options.slots)
        self._held = Holdings(batches)
        self._batches_first = False
        self._inbox: deque[tuple[Source, FromExecutor | Died]] = deque()
        self._asks: deque[tuple[Source, messages.Ask]] = deque()
        self._endings: list[Finish] = []  # decided, and not yet stored
        self._runs: set[str] = set()  # those of them that schedules may wait for
        self._notes = Notes()
        self._notes_at = 0.0
        self._cancels_at = 0.0
        self._unknown_at = 0.0
        self._unknown: set[str] = set()
        self._next_due: float | None = None
        self._look_again: float | None = None
        self._unsure_until: float | None = None  # a claim was not answered: we may hold more than we know
        self._unsure_at = 0.0
        self.called = True  # somebody may have brought work or a cancellation since the last tick
        self.draining = False
        self.stale = 0  # endings that the store refused, because another attempt is the current one

    # -- the loop

    def tick(self, now: float) -> float:
        """Do what there is to do, and return how many seconds nothing more will have to be done."""
        if self._lease.worker is None or self._lease.lost:
            self._register(now)
        called, self.called = self.called, False
        # First what needs no store: it must be done in time, also while the store does not answer.
        self._listen(now)
        self._kill_overdue(now)
        self._pools.tend(now)
        owning = self._lease.left(now) > 0
        self._start_due(now)
        self._start_batches(now)
        if not owning:
            self._let_go("the worker could not renew its lease in time")
        self._answer_asks()
        self._look_for_cancels(now, called)
        self._give_back_unknown(now)
        took = self._claim(now) if owning and not self.draining else 0
        self._settle()
        self._store_notes(now)
        now = self._clock.monotonic()  # the store took its time
        self._start_due(now)
        self._start_batches(now)
        return 0.0 if took else self._wait(now)

    @property
    def busy(self) -> bool:
        """Whether it holds jobs, or endings that are not stored."""
        return bool(self._held or self._endings)

    def patience(self, now: float) -> float:
        """How long it may be left alone even while the store does not answer: until a handler has to be ended."""
        kill_at = self._held.next_kill()
        times = [] if kill_at is None else [kill_at - now]
        left = self._lease.left(now)
        if self._held and left > 0:
            times.append(left)
        return max(0.0, min(times, default=inf))

    def drain(self) -> None:
        """Take no more jobs; what runs goes on."""
        self.draining = True
        if self._lease.worker is not None:
            self._store.drain_worker(self._lease.worker)

    def release(self) -> None:
        """End whatever still runs and give it back, uncharged; then leave."""
        self._pools.kill_all()
        self._listen(self._clock.monotonic())  # what had ended just before
        for held in self._held:
            self._end(held, Released(), 0.0)
        self._settle()
        if self._lease.worker is not None:
            self._store.end_worker(self._lease.worker)
            self._lease.worker = None

    # -- the lease

    def _register(self, now: float) -> None:
        """Become known under a new name. Whatever an earlier one of ours held is not ours any more."""
        if self._lease.lost:
            _log.warning(
                "The lease of worker %s was lost; its %d jobs were dropped.", self._lease.worker, len(self._held)
            )
            self._drop_all()
        worker = base.Worker(
            id=WorkerId(self._new_id()),
            host=self._options.host,
            pid=self._options.pid,
            version=self._options.version,
            queues=tuple(queue for queue, _ in self._options.queues),
            tasks=tuple(task.name for task in self._definitions),
            slots=self._options.slots,
            schedules=tuple(spec.name for spec in self._schedules),
        )
        self._store.register_worker(worker, self._definitions, self._lease.duration)
        self._declare()
        self._lease.begin(worker.id, now)
        self._nudge_scheduler()

    def _declare(self) -> None:
        """Store what the code says of its schedules. Should that not be possible, its tasks are run all the same."""
        if not self._schedules:
            return
        try:
            self._store.declare_schedules(self._schedules)
        except InvalidInput as error:
            _log.error("The schedules of this worker's code were not stored: %s", error)

    def _renew(self, worker: WorkerId) -> None:
        """Find out whether the lease only ran out, as after a pause, or was lost to a reaper with all it covers."""
        sent = self._clock.monotonic()
        self._lease.renewed(worker, sent, self._store.renew_lease(worker, self._lease.duration))

    def _let_go(self, cause: str) -> None:
        """Stop every handler before the store may give its job to somebody else."""
        for held in self._held:
            if not held.cancelled and not self._held.starts(held):
                held.cancelled = True
                _log.warning("Job %s is stopped: %s.", held.job.job_id, cause)
                self._pools.interrupt(held.job.job_id, held.job.attempt, "stop")

    def _drop_all(self) -> None:
        self._pools.abandon()
        self._inbox.clear()
        self._asks.clear()
        self._held.clear()
        self._endings.clear()
        self._runs.clear()
        self._unsure_until = None
        self._notes = Notes()

    # -- hearing from handlers

    def _listen(self, now: float) -> None:
        self._inbox.extend(self._pools.poll())
        while self._inbox:
            self._hear(*self._inbox.popleft(), now)

    def _hear(self, source: Source, message: FromExecutor | Died, now: float) -> None:
        match message:
            case messages.Ended(ends):
                for end in ends:
                    self._hear_end(end)
            case messages.Started():
                self._hear_start(message)
            case messages.Stuck():
                self._hear_stuck(message)
            case messages.Returned(job_ids):
                self._release_others(job_ids)
            case messages.Wrote() | messages.Progressed():
                self._note(message)
            case messages.Ask():
                self._asks.append((source, message))
            case Died(job_ids, error, alone):
                self._hear_death(job_ids, error, alone)
            case messages.Hello():
                pass
            case messages.Trouble(error):
                _log.error("A child process could not start: %s", error)
            case _:
                assert_never(message)

    def _note(self, message: messages.Wrote | messages.Progressed) -> None:
        job_id, attempt = JobId(message.job_id), message.attempt
        if self._held.attempt(job_id, attempt) is None:
            return
        if isinstance(message, messages.Wrote):
            self._notes.logs.append(NewLog(job_id, attempt, message.seq, message.text))
        else:
            self._notes.progress[job_id] = Progress(job_id, attempt, message.fraction, message.note)

    def _hear_start(self, start: messages.Started) -> None:
        held = self._held.attempt(start.job_id, start.attempt)
        timeout = None if held is None else self._held.timeout(held)
        if timeout is not None:
            kill_at = start.began + timeout.total_seconds() + KILL_GRACE_S
            self._held.kill_at(kill_at, start.job_id, start.attempt)

    def _hear_stuck(self, stuck: messages.Stuck) -> None:
        """An attempt does not let itself be ended: kill its process. What ran beside it is not to blame."""
        if self._held.attempt(stuck.job_id, stuck.attempt) is not None:
            for job in [held.job for held in self._held.company(stuck.job_id)]:
                self._hear_end(End(job.job_id, job.attempt, stuck.kind, stuck.began, error=stuck.error))
        self._release_others(self._pools.kill_holder(stuck.job_id))

    def _hear_end(self, end: End) -> None:
        held = self._held.attempt(end.job_id, end.attempt)
        if held is None:
            return
        self._pace.took(end.took)
        if end.settled:
            self._held.forget(end.job_id)
            if held.job.tick is not None:
                self._nudge_scheduler()
        else:
            self._end(held, end.ending(), max(0.0, end.began - held.claimed_mono))

    def _hear_death(self, job_ids: Sequence[str], error: str, alone: bool) -> None:
        for job_id in job_ids:
            company = self._held.company(job_id)
            for held in company:
                self._end(held, Crashed(error, alone and len(company) == 1), 0.0)

    def _release_others(self, job_ids: Sequence[str]) -> None:
        """Give back jobs that had to stop for no fault of theirs."""
        for job_id in job_ids:
            for held in self._held.company(job_id):
                self._end(held, Released(), 0.0)

    def _answer_asks(self) -> None:
        """Store or give handlers' states. While the store does not answer, they wait."""
        while self._asks:
            source, ask = self._asks[0]
            answer = self._answer(ask, JobId(ask.job_id))
            self._asks.popleft()
            source.send(answer)

    def _answer(self, ask: messages.Ask, job_id: JobId) -> Answer:
        if self._held.attempt(job_id, ask.attempt) is None:
            return Answer(ask.request, False, None)
        if ask.state is None:
            return Answer(ask.request, True, self._store.saved_state(job_id))
        return Answer(ask.request, self._store.save_state(job_id, ask.attempt, ask.state), None)

    # -- settling

    def _end(self, held: Held, ending: Ending, waited: float) -> None:
        job = held.job
        self._held.forget(job.job_id)
        if job.tick is not None:
            self._runs.add(job.job_id)
        transition = decide(job.policy, job.failures, job.crashes, job.alone, ending, self._rng)
        self._endings.append(Finish(job.job_id, job.attempt, transition, round(waited * 1e6)))

    def _settle(self) -> None:
        """Store how attempts ended, with what they wrote, in one transaction a batch."""
        while self._endings:
            batch = self._endings[:FINISH_BATCH]
            self._settled(batch, self._store.finish_attempts(batch, self._last_words(batch)))

    def _last_words(self, batch: Sequence[Finish]) -> list[NewLog]:
        """What the attempts of a batch wrote and is not stored yet."""
        if not self._notes.logs:
            return []
        ids = {finish.job_id for finish in batch}
        return [log for log in self._notes.logs if log.job_id in ids]

    def _settled(self, batch: Sequence[Finish], accepted: set[JobId]) -> None:
        """The first endings are stored, or were refused."""
        del self._endings[: len(batch)]
        if self._notes.logs:
            ids = {finish.job_id for finish in batch}
            self._notes.logs = [log for log in self._notes.logs if log.job_id not in ids]
        if self._runs:
            self._tell_scheduler(batch)
        self.stale += len(batch) - len(accepted)
        self._report(batch, accepted)

    def _tell_scheduler(self, batch: Sequence[Finish]) -> None:
        """Runs of schedules have ended: what waits for that need not wait for the scheduler's next look."""
        stored = self._runs.intersection(finish.job_id for finish in batch)
        if stored:
            self._runs -= stored
            self._nudge_scheduler()

    def _report(self, finishes: Sequence[Finish], accepted: set[JobId]) -> None:
        for finish in finishes:
            if finish.job_id not in accepted:
                _log.warning(
                    "Attempt %d of job %s was superseded; its result was dropped.", finish.attempt, finish.job_id
                )
            elif finish.transition.error is not None and finish.transition.job == "failed":
                told = gist(finish.transition.error)
                _log.warning("Job %s failed for good at attempt %d: %s", finish.job_id, finish.attempt, told)

    def _store_notes(self, now: float) -> None:
        """Store what handlers wrote so far, now and then."""
        if now - self._notes_at < NOTES_S:
            return
        self._notes_at = now
        if self._notes.logs:
            self._store.append_logs(self._notes.logs)
            self._notes.logs = []
        if self._notes.progress:
            self._store.set_progress(list(self._notes.progress.values()))
            self._notes.progress = {}

    # -- ending what should not go on

    def _look_for_cancels(self, now: float, called: bool) -> None:
        if not self._held or self._lease.worker is None or not (called or now - self._cancels_at > CANCEL_LOOK_S):
            return
        self._cancels_at = now
        for job_id, attempt in self._store.cancel_requests(self._lease.worker):
            held = self._held.attempt(job_id, attempt)
            if held is None or held.cancelled:
                continue
            if self._held.starts(held):
                self._end(held, Released(), 0.0)  # the store turns it into cancelled
            elif (leader := self._held.batches.cancel(held)) is not None:
                self._pools.interrupt(leader.job.job_id, leader.job.attempt, "cancel")

    def _kill_overdue(self, now: float) -> None:
        """Kill children whose attempt is past its time limit and which did not end it themselves."""
        overdue = self._held.overdue(now)
        for leader in overdue:  # all of them first: one must not be given back uncharged because another one was killed
            timeout = self._held.timeout(leader)
            limit = "" if timeout is None else f" of {timeout.total_seconds():g} s"
            for held in self._held.company(leader.job.job_id):
                self._end(held, TimedOut(f"it ran for more than its timeout{limit}; its process was killed"), 0.0)
        for held in overdue:
            self._release_others(self._pools.kill_holder(held.job.job_id))

    # -- claiming

    def _claim(self, now: float) -> int:
        """Claim for free slots, and ahead where jobs are short; return how many were taken.

        What has ended is stored with it, in one transaction: a busy worker pays for one commit where it would for two.
        Batches and the others take turns at being first, so that none of them starves.
        """
        self._look_again = None
        ahead = 0 if self._pools.stalled() else self._pace.ahead()
        claims = [self._claim_calls]
        if self._held.batches:
            self._batches_first = not self._batches_first
            claims.insert(0 if self._batches_first else 1, self._claim_batches)
        found = [claim(ahead, now) for claim in claims]
        self._next_due = min((due for _, due in found if due is not None), default=None)
        return sum(took for took, _ in found)

    def _claim_calls(self, ahead: int, now: float) -> tuple[int, float | None]:
        """Claim jobs that are called one by one."""
        room = min(BATCH, self._options.slots + ahead - self._held.load)
        took, due = self._claim_of(self._shared, room, now)
        if self._solo:
            solo_room = min(self._pools.solo_room(), self._options.slots - self._held.load)
            more, solo_due = self._claim_of(self._solo, solo_room, now)
            took, due = took + more, min((one for one in (due, solo_due) if one is not None), default=None)
        return took, due

    def _claim_batches(self, ahead: int, now: float) -> tuple[int, float | None]:
        """Claim for batches: a call takes one slot, so as many jobs as fill the free ones."""
        took, dues = 0, []
        for task in self._held.batches.in_turn():
            free = self._options.slots - self._held.load
            room = self._held.batches.room(task, max(free, min(1, free + ahead)))
            more = part = 1
            while room > 0 and more == part:  # all that a batch can have is claimed before it is formed
                part = min(room, BATCH_CLAIM)
                more, due = self._claim_of((task,), part, now)
                took, room = took + more, room - part
                dues.append(due)
            self._start_batches(self._clock.monotonic())
        return took, min((due for due in dues if due is not None), default=None)

    def _claim_of(self, tasks: Sequence[str], room: int, now: float) -> tuple[int, float | None]:
        if room <= 0 or not tasks or self._lease.worker is None:
            return 0, None
        free = self._options.slots - self._held.load
        window = AHEAD_LIMIT if free > 0 else timedelta(0)
        worker, batch = self._lease.worker, self._endings[:FINISH_BATCH]
        try:
            done = self._store.exchange(worker, batch, self._last_words(batch), self._queues(), tasks, room, window)
        except StoreError:  # it may have been carried out all the same, or may still be
            self._unsure_at = self._clock.monotonic()
            self._unsure_until = self._unsure_at + self._lease.duration.total_seconds()
            raise
        self._settled(batch, done.finished)
        claims = done.claims
        if claims is None:
            self._renew(worker)
            return 1, None
        replied = self._clock.monotonic()  # the store took its time
        self._held.take(claims.jobs, replied)
        self._start_due(replied)
        if any(job.run_at_us > job.claimed_at_us for job in claims.jobs):
            store_now = self._store.now()
            self._held.reckon(to_us(store_now), self._clock.monotonic())
        if not claims.jobs:
            self._look_for_unknown(now)
        if claims.again_s is not None:
            self._look_again = min(now + claims.again_s, self._look_again or inf)
        full = len(claims.jobs) == room
        return len(claims.jobs) if full else 0, None if claims.next_due_s is None else now + claims.next_due_s

    def _give_back_unknown(self, now: float) -> None:
        """Give back what a claim took that was not answered: as long as this worker lives, nobody else would."""
        if self._unsure_until is None or now < self._unsure_at or self._lease.worker is None:
            return
        known = {(held.job.job_id, held.job.attempt) for held in self._held}
        known |= {(finish.job_id, finish.attempt) for finish in self._endings}
        found = self._store.open_attempts(self._lease.worker)
        unknown = [one for one in found if (one.job_id, one.attempt) not in known]
        if unknown:
            self._store.finish_attempts([self._released(one) for one in unknown])
        self._unsure_at = now + CANCEL_LOOK_S
        if now > self._unsure_until:
            self._unsure_until = None

    def _released(self, one: OpenAttempt) -> Finish:
        transition = decide(one.policy, one.failures, one.crashes, one.alone, Released(), self._rng)
        return Finish(one.job_id, one.attempt, transition)

    def _start_due(self, now: float) -> None:
        """Start what is due, unless the lease ran out: a claim may have been answered that late."""
        if self._lease.left(now) <= 0:
            return
        due = self._held.start_due(now)
        for alone in (False, True):
            batch = [held.assignment() for held in due if held.job.alone is alone]
            if batch:
                self._pools.submit(batch, alone)

    def _start_batches(self, now: float) -> None:
        """Begin the calls whose time has come; a draining worker waits for no company."""
        if self._lease.left(now) > 0:
            for call in self._held.batches.start(now, hurry=self.draining):
                self._pools.submit([call], False)  # each in a frame of its own

    def _queues(self) -> list[str]:
        """The queues in a random order in which heavier ones come first more often; nobody starves."""
        if len(self._options.queues) == 1:
            return [self._options.queues[0][0]]
        drawn = sorted(self._options.queues, key=lambda one: -(self._rng.random() ** (1 / one[1])))
        return [queue for queue, _ in drawn]

    def _look_for_unknown(self, now: float) -> None:
        """Say once of each task that stands in our queues and that we cannot run, so that nobody has to wonder."""
        if now < self._unknown_at:
            return
        began = self._clock.monotonic()
        known = {task.name for task in self._definitions}
        due = self._store.due_tasks([queue for queue, _ in self._options.queues])
        took = self._clock.monotonic() - began
        self._unknown_at = now + max(UNKNOWN_LOOK_S, took * UNKNOWN_SHARE)
        for name in due - known - self._unknown:
            self._unknown.add(name)
            nearest = get_close_matches(name, known, n=1)
            _log.warning(
                "UnknownTask: this worker has no task named %r%s. Its jobs stay queued. Start a worker that has it.",
                name,
                f" (did you mean {nearest[0]!r}?)" if nearest else "",
            )

    def _wait(self, now: float) -> float:
        """How long nothing has to be done unless somebody calls."""
        owning = self._lease.left(now) > 0
        times = [now + (self._poll_s() if owning else min(self._poll_s(), LEASE_LOOK_S))]
        if self._next_due is not None and owning and not self.draining:
            # Without a free slot nothing is claimed ahead of its time: to ask earlier would be to ask without end.
            ahead_s = AHEAD_LIMIT.total_seconds() / 2 if self._held.load < self._options.slots else 0.0
            times.append(self._next_due - ahead_s)
        if self._look_again is not None and owning and not self.draining:
            times.append(self._look_again)
        if owning:
            times.extend(self._held.start_times())
            times.append(self._held.batches.look_at)
        if self._held:
            times.append(now + self.patience(now))
            times.append(now + (NOTES_S if self._notes.logs or self._notes.progress else CANCEL_LOOK_S))
        return max(0.0, min(times) - now)
