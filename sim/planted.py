"""Mutation tests of the simulator: bugs that are planted on purpose, and that it must find.

The numbers are those of RELIABILITY.md 3a. Bugs without a number were found in the product and are planted to show
that they would be found again. A plant changes the text of a statement or a function while its context is open, and
raises if the text to change does not exist any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any
from unittest import mock

import msgspec

from sim.actor import Actor
from sim.faults import NO_FAULTS, FaultPlan
from sim.run import run_seed
from sim.world import World
from tickwork.core import outcome
from tickwork.core.ids import ClaimId, JobId, WorkerId
from tickwork.core.job import AttemptState, Claimed, JobState
from tickwork.core.outcome import Released, Transition
from tickwork.core.retry import RetryPolicy
from tickwork.services import scheduler
from tickwork.store.attempt_types import Finish
from tickwork.store.claim.picked_row import PickedRow
from tickwork.store.rows.instants import duration_us
from tickwork.store.sqlite import SqliteStore, job_transitions, transactions
from tickwork.store.sqlite.claim import plain_claim
from tickwork.worker import finisher
from tickwork.worker.claimer import Claimer
from tickwork.worker.finisher import Finisher
from tickwork.worker.lease import Heartbeat, Lease, LeaseWatch
from tickwork.worker.worker import Worker


@dataclass(frozen=True, slots=True)
class Plant:
    """A planted bug, and the invariants of which at least one must be reported as broken.

    `plan`: the faults to search with, if random faults would need many seeds. `first`: the first seed of the search,
    if earlier seeds do not find the bug.
    """

    name: str
    plant: Callable[[], AbstractContextManager[object]]
    breaks: frozenset[str]
    plan: FaultPlan | None = None
    first: int = 0


@dataclass(frozen=True, slots=True)
class Find:
    """A planted bug that was found: the seed, the number of seeds, the broken invariant and its message."""

    seed: int
    after: int
    broken: str
    message: str


def find(plant: Plant, most: int) -> Find | None:
    """Run up to `most` seeds with the bug until an invariant is broken; return None if none is."""
    with plant.plant():
        for seed in range(plant.first, plant.first + most):
            outcome = run_seed(seed, plan=plant.plan)
            if outcome.broken is not None:
                return Find(seed, seed - plant.first + 1, outcome.broken, outcome.message)
    return None


def _statement(name: str, old: str, new: str) -> AbstractContextManager[object]:
    """Replace a part of a SQL statement. Raises ValueError if the part does not occur exactly once."""
    text = transactions.SQL[name]
    if text.count(old) != 1:
        raise ValueError(f"the statement {name} does not contain {old!r} once; plant this bug another way")
    return mock.patch.dict(transactions.SQL, {name: text.replace(old, new)})


def _finish_without_attempt() -> AbstractContextManager[object]:
    return _statement("current_attempts", " AND r.claim = a.value", "")


def _finish_without_state() -> AbstractContextManager[object]:
    """Finish compares the attempt but not the state: a queued job still has the number of its last attempt."""
    original = job_transitions.finish

    def finish_anyway(transaction: Any, endings: Sequence[Finish], guard: str) -> dict[JobId, str]:
        closed = original(transaction, endings, guard)
        waits = "SELECT 1 FROM tickwork_queue WHERE job_id = ? AND attempt = ?"
        for one in endings:
            if one.job_id not in closed and transaction.connection.run(waits, (one.job_id, one.attempt)):
                _end_waiting(transaction, one)
                closed[one.job_id] = "somebody"
        return closed

    return mock.patch.object(job_transitions, "finish", finish_anyway)


def _end_waiting(transaction: Any, finish: Finish) -> None:
    outcome = finish.transition
    if outcome.job is JobState.QUEUED:
        again_at = transaction.now + duration_us(outcome.delay or timedelta(0))
        transaction.connection.run("UPDATE tickwork_queue SET run_at = ? WHERE job_id = ?", (again_at, finish.job_id))
    else:
        row = job_transitions.DequeuedRow(finish.job_id, *transaction.first("dequeue", (finish.job_id,)))
        job_transitions.end_unstarted(transaction, row, outcome.job, "")


@contextmanager
def _fence_without_holder() -> Iterator[None]:
    """Claims are compared only by the attempt's number, which repeats after the store has lost commits."""
    running_row, claimed_job = plain_claim.running_row, plain_claim.claimed_job

    def numbered_row(row: PickedRow, lane: str, worker: WorkerId, claim: ClaimId, now: int) -> tuple[Any, ...]:
        return running_row(row, lane, worker, ClaimId(row.attempt), now)

    def numbered(row: PickedRow, *, claim: ClaimId, **about: Any) -> Claimed:
        return claimed_job(row, claim=ClaimId(row.attempt), **about)

    with (
        mock.patch.object(plain_claim, "running_row", numbered_row),
        mock.patch.object(plain_claim, "claimed_job", numbered),
    ):
        yield


def _losses_never_charged() -> AbstractContextManager[object]:
    """A job whose worker is lost is always requeued, without a limit."""

    def uncounted(job: outcome.CountedJob, *_: Any) -> Transition:
        again = (JobState.QUEUED, job.failures, job.crashes, timedelta(0), job.alone)
        return Transition(AttemptState.LOST, *again, error="lost", losses=job.losses)

    return mock.patch.object(outcome, "_abandoned", uncounted)


def _renew_for_anyone() -> AbstractContextManager[object]:
    return _statement("renew_lease", "WHERE id = ?", "WHERE ? <> ''")


@contextmanager
def _attempt_counted_at_finish() -> Iterator[None]:
    """Finish increments the attempt's number instead of the claim; jobs that the reaper requeues keep their number."""
    original = job_transitions.finish

    def finish(transaction: Any, endings: Sequence[Finish], guard: str) -> dict[JobId, str]:
        closed = original(transaction, endings, guard)
        if guard == "current_attempts":
            sql = "UPDATE tickwork_queue SET attempt = attempt + 1 WHERE job_id = ?"
            for job_id in closed:
                transaction.connection.run(sql, (job_id,))
        return closed

    with ExitStack() as stack:
        stack.enter_context(_statement("pick_due", "q.attempt + 1", "max(q.attempt, 1)"))
        stack.enter_context(mock.patch.object(job_transitions, "finish", finish))
        yield


@contextmanager
def _lease_from_worker_clock() -> Iterator[None]:
    asking: list[Actor] = []
    carry_out = World._carry_out

    def note_who(self: World, actor: Actor, *args: Any) -> Any:
        asking[:] = [actor]
        return carry_out(self, actor, *args)

    def renew_lease(self: SqliteStore, worker: WorkerId, lease: timedelta) -> bool:
        with self._transactions.write() as transaction:
            until = asking[0].clock.wall_us() + duration_us(lease)
            return bool(transaction.run("renew_lease", (until, worker)))

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(World, "_carry_out", note_who))
        stack.enter_context(mock.patch.object(SqliteStore, "renew_lease", renew_lease))
        yield


def _lease_not_renewed() -> AbstractContextManager[object]:
    return mock.patch.object(Heartbeat, "tick", lambda self, now: self._lease.duration.total_seconds() / 3)


def _reaper_without_recheck() -> AbstractContextManager[object]:
    return _statement("expired_current_attempts", "w.lease_until < :now", ":now > 0")


def _priority_ignored() -> AbstractContextManager[object]:
    """A claim takes jobs by age only."""
    original = plain_claim.pick

    def pick(transaction: Any, asked: dict[str, Any], limit: int, after: int, until: int) -> list[PickedRow]:
        found = original(transaction, asked, 1_000_000, after, until)
        return sorted(found, key=lambda row: row.run_at_us)[:limit]

    return mock.patch.object(plain_claim, "pick", pick)


def _key_released_early() -> AbstractContextManager[object]:
    original = job_transitions.finish

    def finish(transaction: Any, endings: Sequence[Finish], guard: str) -> dict[JobId, str]:
        closed = original(transaction, endings, guard)
        for job_id in closed:
            transaction.run("free_key", (job_id,))
        return closed

    return mock.patch.object(job_transitions, "finish", finish)


def _retry_without_cap() -> AbstractContextManager[object]:
    original = RetryPolicy.delay

    def delay(self: RetryPolicy, failures: int, rng: Random) -> timedelta | None:
        return original(replace(self, retries=failures), failures, rng)

    return mock.patch.object(RetryPolicy, "delay", delay)


def _cancel_loses_to_retry() -> AbstractContextManager[object]:
    def cancelled(outcome: Transition) -> Transition:
        return outcome

    return mock.patch.object(job_transitions, "cancelled", cancelled)


def _unanswered_claim_forgotten() -> AbstractContextManager[object]:
    return mock.patch.object(Claimer, "give_back_unknown", return_value=None)


def _start_after_lease() -> AbstractContextManager[object]:
    """Claimed jobs are started even if the lease ended during the claim."""
    return _believing_in_its_lease(Claimer, "_start_calls")


def _handlers_not_stopped() -> AbstractContextManager[object]:
    """A worker that cannot renew its lease does not stop its handlers."""
    return mock.patch.object(Worker, "_let_go", return_value=None)


def _spin_without_lease() -> AbstractContextManager[object]:
    """A worker whose lease is over does not claim, and ticks without waiting."""
    return _believing_in_its_lease(Worker, "_wait")


def _believing_in_its_lease(part: type[Worker | Claimer], method: str) -> AbstractContextManager[object]:
    original = getattr(part, method)

    def believe(self: Worker | Claimer, now: float) -> Any:
        lease, self._lease = self._lease, _EndlessLease(timedelta(hours=1))
        try:
            return original(self, now)
        finally:
            self._lease = lease

    return mock.patch.object(part, method, believe)


class _EndlessLease(Lease):
    def left(self, now: float) -> float:
        return 1.0


def _notes_dropped_on_error() -> AbstractContextManager[object]:
    original = Finisher.store_notes

    def store_notes(self: Finisher, now: float) -> None:
        try:
            original(self, now)
        except BaseException:
            self.notes.logs = []
            raise

    return mock.patch.object(Finisher, "store_notes", store_notes)


def _bug(
    name: str,
    plant: Callable[[], AbstractContextManager[object]],
    *breaks: str,
    plan: FaultPlan | None = None,
    first: int = 0,
) -> Plant:
    return Plant(name, plant, frozenset(breaks), plan, first)


_RESTORED = replace(NO_FAULTS, restores=8.0)
_SILENCES = replace(NO_FAULTS, silent=0.05, stall=0.02)
_SLOW_REAPERS = replace(NO_FAULTS, hiccup=0.05, slow_reaper=1.0)


def _move_without_version() -> AbstractContextManager[object]:
    """A scheduler moves a schedule even if another scheduler has moved it since the read."""
    return _statement("move_schedule", " AND version = :version", "")


def _due_from_now() -> AbstractContextManager[object]:
    """Missed occurrences are forgotten: the next occurrence is computed from now."""
    original = scheduler.decide

    def decide(name: str, rule: Any, policies: Any, standing: Any, now: Any, calendars: Any) -> Any:
        since = max(standing.handled_at, now - timedelta(seconds=1))
        standing = msgspec.structs.replace(standing, handled_at=since)
        return original(name, rule, policies, standing, now, calendars)

    return mock.patch.object(scheduler, "decide", decide)


def _no_lease_watch() -> AbstractContextManager[object]:
    """Only the worker's main thread, which may be blocked by the store, stops handlers."""
    return mock.patch.object(LeaseWatch, "tick", return_value=0.1)


def _head_loses_its_place() -> AbstractContextManager[object]:
    """A job of a sequence frees its key when its attempt ends, even if the job is requeued."""
    # A planted bug replaces a private step.
    original = job_transitions._free_holds
    return mock.patch.object(
        job_transitions,
        "_free_holds",
        lambda transaction, job_ids, returned: original(transaction, job_ids, frozenset()),
    )


def _begun_work_released() -> AbstractContextManager[object]:
    """A job with on_lost="fail" that its worker releases is started again, although its handler had begun."""
    original = finisher.decide

    def decide(job: outcome.CountedJob, ending: Any, rng: Random) -> Transition:
        ending = Released(ending.after) if isinstance(ending, Released) else ending
        return original(job, ending, rng)

    return mock.patch.object(finisher, "decide", decide)


PLANTS = (
    _bug("1 finish without the attempt", _finish_without_attempt, "S1", "S5", "S6", first=45),
    _bug("fence without holder", _fence_without_holder, "OWN", "S6", "LOG", plan=_RESTORED, first=40),
    _bug("lost attempts never charged", _losses_never_charged, "S21", "L1"),
    _bug("begun work is given back", _begun_work_released, "ONCE", first=170),
    _bug("2 finish without the state", _finish_without_state, "S6"),
    _bug("3 a heartbeat renews for anyone", _renew_for_anyone, "S6"),
    _bug("4 attempts counted at finish", _attempt_counted_at_finish, "S3"),
    _bug("5 lease from the worker's clock", _lease_from_worker_clock, "S26"),
    _bug("6 lease not renewed", _lease_not_renewed, "WELL", "L1"),
    _bug("7 reaper does not look again", _reaper_without_recheck, "S4", plan=_SLOW_REAPERS),
    _bug("8 a schedule moved whatever its version", _move_without_version, "TICK", "ERR", "L1", first=115),
    _bug("9 the next due counted from now", _due_from_now, "TICK"),
    _bug("16 priority ignored in a batch", _priority_ignored, "S13"),
    _bug("17 key released before the end", _key_released_early, "S9", "KEY"),
    _bug("18 retry without cap", _retry_without_cap, "S21"),
    _bug("19 cancel loses to retry", _cancel_loses_to_retry, "S19"),
    _bug("a claim that was not answered is forgotten", _unanswered_claim_forgotten, "L2"),
    _bug("started although the lease is over", _start_after_lease, "R10", first=12),
    _bug("handlers go on although the lease is over", _handlers_not_stopped, "R10", "L1", first=85),
    _bug("handlers wait for the store to be stopped", _no_lease_watch, "R10", plan=_SILENCES),
    _bug("a worker without a lease spins", _spin_without_lease, "L1", "R10"),
    _bug("a sequence head that loses its place", _head_loses_its_place, "SEQ"),
    _bug("logs are dropped when the store fails", _notes_dropped_on_error, "LOG"),
)
