"""Claim in rounds on PostgreSQL where limits or gates are in force; a round is a transaction (see limited_round.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from tickwork.core.ids import ClaimId, WorkerId
from tickwork.core.job import Claimed
from tickwork.errors import LeaseLost
from tickwork.store.claim import limited
from tickwork.store.claim.limited import RoundResult
from tickwork.store.claim.memory import ClaimMemory
from tickwork.store.claim.types import ClaimRequest
from tickwork.store.postgres.claim.claim_cursor import ClaimCursors
from tickwork.store.postgres.claim.limited_round import PostgresClaimTx
from tickwork.store.postgres.connection.libpq_connection import Rows, Statement
from tickwork.store.postgres.connection.session import Session
from tickwork.store.postgres.job_transitions import JobTransitions
from tickwork.store.postgres.limit_openings import LimitOpenings
from tickwork.store.postgres.transactions import PostgresTransactions

Finishing = Callable[[datetime | None], Sequence[Statement]]
"""Returns the statements of finishes, for the time of a test."""


@dataclass(eq=False)
class ClaimRounds:
    """Runs claims in rounds.

    `memories` are what workers remember between their claims (fair turns of tenants, scans).
    """

    transactions: PostgresTransactions
    changes: JobTransitions
    openings: LimitOpenings
    cursors: ClaimCursors
    new_claim: Callable[[], ClaimId]
    memories: dict[WorkerId, ClaimMemory] = field(default_factory=dict)

    def memory_of(self, worker: WorkerId) -> ClaimMemory:
        """Return the memory of a worker, a new one for its first claim."""
        return self.memories.setdefault(worker, ClaimMemory())

    def claim(self, worker: WorkerId, request: ClaimRequest, finishing: Finishing | None = None) -> LimitedClaim:
        """Claim jobs in rounds and return the claim. The first round stores the finishes before it reads.

        Raise LeaseLost.
        """
        claim = LimitedClaim(self, worker, self.new_claim(), finishing)
        result = limited.run_rounds(claim.run_round, request, self.transactions.monotonic)
        claim.is_near = result.is_near
        claim.again_s = sooner(result.again_s, self.cursors.of(worker, request.tasks).again_s())
        return claim


class LimitedClaim:
    """A claim in rounds: the jobs claimed so far, and the rows of the finishes that were stored."""

    def __init__(self, rounds: ClaimRounds, worker: WorkerId, claim: ClaimId, finishing: Finishing | None) -> None:
        self._rounds = rounds
        self._worker = worker
        self._claim = claim
        self._finishing = finishing
        self._is_stored = False
        self.finished: Rows = []
        self.claimed: list[Claimed] = []
        self.again_s: float | None = None
        self.is_near = False

    def run_round(self, request: ClaimRequest, after_parking: bool) -> RoundResult:
        """Run one round in a transaction and return its result.

        After the commit it updates the claim cursor, opens limit keys, and ends dropped jobs.
        """
        rounds = self._rounds
        try:
            claim_tx, result = rounds.transactions.perform(
                lambda session: self._run_inside(session, request, after_parking), single=False
            )
        except LeaseLost:
            if self._is_stored:
                return RoundResult()  # The jobs claimed so far stay claimed, until they are reclaimed.
            raise
        # The round is committed: finishes are not sent again, and its knowledge about rows is valid.
        self._is_stored = True
        self._finishing = None
        cursor = rounds.cursors.of(self._worker, request.tasks)
        cursor.took(claim_tx.read.items(), claimed=bool(claim_tx.claimed))
        claim_tx.holds.commit()
        self.finished += claim_tx.finished
        self.claimed += claim_tx.claimed
        opened = rounds.openings.open_after_round(result.full, claim_tx.freed)
        if result.dropped:
            rounds.changes.drop_jobs(result.dropped)
        return replace(result, wants_more=True) if opened else result

    def _run_inside(
        self, session: Session, request: ClaimRequest, after_parking: bool
    ) -> tuple[PostgresClaimTx, RoundResult]:
        """Run one round inside a transaction; return the round's state and its result."""
        rounds = self._rounds
        claim_tx = PostgresClaimTx(
            session,
            rounds.transactions.sql,
            worker=self._worker,
            queues=request.queues,
            tasks=request.tasks,
            read_now=rounds.transactions.test_time,
            released_holds=rounds.openings.released_holds,
            reached=rounds.cursors.of(self._worker, request.tasks).begin(),
            finishing=self._finishing(session.now) if self._finishing else (),
            claim=self._claim,
        )
        return claim_tx, limited.run_round(
            claim_tx, request, rounds.memory_of(self._worker), after_parking=after_parking
        )


def sooner(one: float | None, other: float | None) -> float | None:
    """Return the smaller of two numbers; None counts as absent."""
    return min((given for given in (one, other) if given is not None), default=None)
