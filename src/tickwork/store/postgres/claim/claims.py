"""Claim jobs on PostgreSQL: finishes and a plain claim in one round trip, or rounds where limits are in force.

A plain claim takes plain jobs only, and none if limits or gates are in force; then a limited claim follows, which takes
jobs in rounds (see limited_claims.py). Where jobs of a low priority have waited too long, the oldest of them are
claimed first. The first of these claims stores the finishes in its transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import msgspec

from tickwork.core.fairness import AGE, StarvationGuard
from tickwork.core.ids import ClaimId, JobId, WorkerId
from tickwork.core.job import Claimed
from tickwork.errors import LeaseLost
from tickwork.store.attempt_types import Claims, Exchange, Finish, NewLog
from tickwork.store.claim.picked_row import PickedRow, claimed_job
from tickwork.store.claim.types import ClaimRequest, Place
from tickwork.store.postgres.claim.claim_cursor import ClaimCursor, CursorPosition
from tickwork.store.postgres.claim.limited_claims import ClaimRounds, sooner
from tickwork.store.postgres.claim.positions import guards, placed, read_limited_lanes
from tickwork.store.postgres.connection.libpq_connection import Rows
from tickwork.store.postgres.connection.session import Session
from tickwork.store.postgres.job_transitions import JobTransitions, advances_run, closed_jobs
from tickwork.store.postgres.params import text_array
from tickwork.store.postgres.transactions import PostgresTransactions
from tickwork.store.reads.queue_counts import places_of
from tickwork.store.rows.instants import duration_us

DUE = 0  # The phase of a claim that takes jobs that are due, before jobs that will be due soon.


class ClaimRow(NamedTuple):
    """A row of the statement `claim_jobs`: a claimed job, if any, and when the next job is due and the next limit
    opens.

    `is_guarded`: limits or gates are in force, so nothing was claimed. `phase` is DUE for a job that was due, None if
    the row has no job. `next_due_s` and `opens_s` are seconds from now.
    """

    now_us: int
    next_due_s: float | None
    opens_s: float | None
    is_guarded: bool
    phase: int | None
    picked: PickedRow

    @classmethod
    def of(cls, row: Sequence[Any]) -> ClaimRow:
        """Build a ClaimRow from the columns of a row."""
        now_us, next_due_s, opens_s, is_guarded, phase, *picked = row
        return cls(now_us, next_due_s, opens_s, is_guarded, phase, PickedRow(*picked))


class _PlainClaim(NamedTuple):
    """The result of a plain claim: the rows of the finishes that it stored, and its own.

    No own rows: the lease is lost.
    """

    finished: Rows
    rows: list[ClaimRow]

    def jobs(self, claim: ClaimId) -> list[Claimed]:
        """Return the claimed jobs."""
        return [
            claimed_job(row.picked, queue=row.picked.lane, claim=claim, now_us=row.now_us)
            for row in self.rows
            if row.phase is not None
        ]


@dataclass(eq=False)
class PostgresClaims:
    """Claims for the workers of this process.

    Between claims it remembers where each worker's next claim begins to read.
    """

    transactions: PostgresTransactions
    rounds: ClaimRounds
    changes: JobTransitions
    _starvation: dict[WorkerId, StarvationGuard] = field(default_factory=dict, init=False)

    def exchange(
        self,
        worker: WorkerId,
        endings: Sequence[Finish],
        logs: Sequence[NewLog],
        request: ClaimRequest,
        ahead: timedelta,
    ) -> Exchange:
        """Store finishes and claim jobs; return the closed jobs and the claims (see Store.exchange).

        Finishes that advance runs come first, in a transaction of their own, so that the jobs that they release can be
        claimed here. Claimed runs are begun here instead of being returned.
        """
        moving = {one.job_id for one in endings if advances_run(one)}
        ended: set[JobId] = set()
        if moving:
            ended = self.changes.finish_attempts(
                [one for one in endings if one.job_id in moving], [log for log in logs if log.job_id in moving]
            )
            endings = [one for one in endings if one.job_id not in moving]
            logs = [log for log in logs if log.job_id not in moving]
        if request.capacity.search or self.rounds.memory_of(worker).is_guarded:
            found = self._exchange_in_rounds(worker, endings, logs, request)
        else:
            found = self._exchange_plain(worker, endings, logs, request, ahead)
        return Exchange(ended | found.finished, self._begin_runs(worker, found.claims))

    def _begin_runs(self, worker: WorkerId, claims: Claims | None) -> Claims | None:
        """Begin the claimed runs, and return the claims without them; None for None."""
        if claims is None or not claims.jobs:
            return claims
        jobs = self.changes.begin_claimed(worker, claims.jobs)
        begun = len(jobs) < len(claims.jobs)  # Runs were begun; their first steps can be claimed at once.
        return msgspec.structs.replace(claims, jobs=jobs, next_due_s=0.0 if begun else claims.next_due_s)

    # -- plain claims

    def _exchange_plain(
        self,
        worker: WorkerId,
        endings: Sequence[Finish],
        logs: Sequence[NewLog],
        request: ClaimRequest,
        ahead: timedelta,
    ) -> Exchange:
        """Store finishes and claim jobs with a plain claim; if limits are in force, claim the rest in rounds."""
        claim = self.rounds.new_claim()
        cursor = self.rounds.cursors.of(worker, request.tasks)
        reached = cursor.begin()
        values = {**_values_of(worker, claim, request), **guards(request.queues, reached)}
        done, opened, before = set[JobId](), False, list[Claimed]()
        aged = self._claim_aged(endings, logs, values, request)
        if aged is not None:
            done, opened = closed_jobs(aged.finished), self.changes.after_commit(endings, aged.finished)
            before = aged.jobs(claim)
            endings, logs = (), ()
            if not aged.rows or len(before) == request.most:
                return Exchange(done, Claims(before) if aged.rows else None)
        values |= {"limit": str(request.most - len(before)), "ahead_us": str(duration_us(ahead))}
        found = self._claim(endings, logs, values | placed(places_of(request.queues), reached))
        first = next(iter(found.rows), None)
        self._move_cursor(cursor, reached, found.rows, request)
        if endings:
            done, opened = closed_jobs(found.finished), self.changes.after_commit(endings, found.finished)
        jobs = before + found.jobs(claim)
        if first is None:
            claims = Claims(jobs) if jobs else None
        else:
            claims = Claims(jobs, first.next_due_s, sooner(cursor.again_s(), first.opens_s))
        # Limits are in force, or the finishes freed one that holds jobs: claim the rest in rounds.
        if claims is not None and (opened or (first is not None and first.is_guarded)):
            rest = ClaimRequest(request.queues, request.tasks, request.most - len(jobs), request.capacity)
            claims = self._claim_in_rounds(worker, rest, claims)
        return Exchange(done, claims)

    def _move_cursor(
        self,
        cursor: ClaimCursor,
        reached: Mapping[Place, CursorPosition],
        rows: Sequence[ClaimRow],
        request: ClaimRequest,
    ) -> None:
        """Record in the claim cursor how far a plain claim has read, after its commit."""
        # The rows of a place are in order, so its last one wins: the cursor continues behind it.
        taken = [row.picked for row in rows if row.phase == DUE]
        read = {(job.lane, job.priority): CursorPosition(job.run_at_us, job.job_id) for job in taken}
        # A guarded claim has not read the lanes of limited jobs to their end.
        if (first := next(iter(rows), None)) is not None and not first.is_guarded:
            read = read_limited_lanes(reached, request.queues, first.now_us) | read
        cursor.took(read.items(), claimed=bool(taken))

    def _claim_aged(
        self, endings: Sequence[Finish], logs: Sequence[NewLog], values: dict[str, Any], request: ClaimRequest
    ) -> _PlainClaim | None:
        """Claim the oldest jobs of priorities that have waited too long; None if it is not yet time for that."""
        guard = self._starvation.setdefault(values["worker"], StarvationGuard())
        aged = guard.turn(self.transactions.monotonic())
        if aged is None:
            return None
        places = [(queue, priority) for priority in aged for queue in request.queues]
        found = self._claim(endings, logs, {**values, **placed(places, {}), "age_us": str(duration_us(AGE))})
        first = next((row.picked.priority for row in found.rows if row.phase is not None), None)
        guard.took(first, self.transactions.monotonic())
        return found

    def _claim(self, endings: Sequence[Finish], logs: Sequence[NewLog], values: dict[str, Any]) -> _PlainClaim:
        """Store finishes and make a plain claim, in one transaction and one round trip."""

        def run(session: Session) -> list[Rows]:
            finishing = self.changes.tx_statements.finishing(endings, logs, session.now)
            claiming = self.transactions.statements(session.now, ("claim_jobs", values))
            return session.run_together([*finishing, *claiming])

        *finished, claimed = self.transactions.perform(run)
        return _PlainClaim(finished[-1] if endings else [], list(map(ClaimRow.of, claimed)))

    # -- claims in rounds

    def _claim_in_rounds(self, worker: WorkerId, request: ClaimRequest, before: Claims) -> Claims:
        """Claim jobs in rounds, and return them together with the jobs claimed before."""
        try:
            claim = self.rounds.claim(worker, request)
        # The lease was lost between the two claims. The first claim's jobs are returned, and the next claim reports it.
        except LeaseLost:
            return before
        return Claims([*before.jobs, *claim.claimed], None, sooner(before.again_s, claim.again_s))

    def _exchange_in_rounds(
        self, worker: WorkerId, endings: Sequence[Finish], logs: Sequence[NewLog], request: ClaimRequest
    ) -> Exchange:
        """Store finishes and claim in rounds, where a sparse scan is requested or the last claim met limits.

        The first round stores the finishes.
        """
        # If this fails, the next exchange stores its finishes without the limited claim that failed.
        self.rounds.memory_of(worker).is_guarded = False
        try:
            claim = self.rounds.claim(worker, request, partial(self.changes.tx_statements.finishing, endings, logs))
        except LeaseLost:
            return Exchange(self.changes.finish_attempts(endings, logs), None)
        self.changes.wake_for(endings)
        return Exchange(closed_jobs(claim.finished), Claims(claim.claimed, None, claim.again_s, claim.is_near))


def _values_of(worker: WorkerId, claim: ClaimId, request: ClaimRequest) -> dict[str, Any]:
    """Return the values of the statement `claim_jobs` for jobs that are due now, except the places to read."""
    return {
        "worker": worker,
        "claim": str(claim),
        "queues": text_array(request.queues),
        "tasks": text_array(request.tasks),
        "limit": str(request.most),
        "ahead_us": "0",
        "age_us": "0",
    }
