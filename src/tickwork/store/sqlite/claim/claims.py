"""Claim jobs on a SQLite file: plain claims, and claims in rounds under limits (see `store.claim.limited`).

The SQL is in sql/claim_jobs.sql and sql/limits.sql.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

import msgspec

from tickwork.core.fairness import StarvationGuard
from tickwork.core.ids import ClaimId, WorkerId
from tickwork.store.attempt_types import Claims
from tickwork.store.claim import limited
from tickwork.store.claim.limited import RoundResult
from tickwork.store.claim.memory import ClaimMemory
from tickwork.store.claim.types import (
    ClaimRequest,
)
from tickwork.store.limits import (
    LimitedCapacity,
)
from tickwork.store.rows.instants import duration_us
from tickwork.store.runs.graph_cache import GraphCache
from tickwork.store.sqlite import job_transitions
from tickwork.store.sqlite.claim import plain_claim
from tickwork.store.sqlite.claim.limited_round import SqliteClaimTx
from tickwork.store.sqlite.run_transitions import advance, arranged
from tickwork.store.sqlite.transactions import SqliteTransactions, Transaction, as_json


class SqliteClaims:
    """Claims of workers, and the memory of each worker from one claim to the next."""

    def __init__(self, transactions: SqliteTransactions, graphs: GraphCache, new_claim: Callable[[], ClaimId]) -> None:
        self._transactions = transactions
        self._graphs = graphs
        self._new_claim = new_claim
        self._memories: dict[WorkerId, ClaimMemory] = {}
        self._starvation_guards: dict[WorkerId, StarvationGuard] = {}

    def claim(
        self,
        transaction: Transaction,
        worker: WorkerId,
        *,
        queues: Sequence[str],
        tasks: Sequence[str],
        limit: int,
        ahead: timedelta,
        capacity: LimitedCapacity | None,
    ) -> Claims | None:
        """Claim jobs inside a transaction, in rounds if limits or gates are in force.

        None if the worker has no lease.
        """
        if not plain_claim.has_lease(transaction, worker):
            return None
        queues = list(dict.fromkeys(queues))
        capacity = capacity or LimitedCapacity(limit)
        if capacity.search or is_guarded(transaction, queues):
            return self._claim_in_rounds(transaction, worker, ClaimRequest(queues, tuple(tasks), limit, capacity))
        claims = plain_claim.claim(
            transaction,
            worker,
            self._new_claim(),
            queues=queues,
            tasks=tasks,
            limit=limit,
            ahead_us=duration_us(ahead),
            starvation_guard=self._starvation_guards.setdefault(worker, StarvationGuard()),
        )
        return self._begin_runs(transaction, claims)

    def _claim_in_rounds(self, transaction: Transaction, worker: WorkerId, request: ClaimRequest) -> Claims:
        """Claim jobs under limits and gates. All rounds share the transaction."""
        claim_tx = SqliteClaimTx(transaction, worker, request.queues, request.tasks, self._new_claim())
        memory = self._memories.setdefault(worker, ClaimMemory())

        def run_round(request: ClaimRequest, after_parking: bool) -> RoundResult:
            result = limited.run_round(claim_tx, request, memory, after_parking=after_parking)
            dropped = [job_id for job_id in result.dropped if job_transitions.drop(transaction, job_id)]
            advance(transaction, self._graphs, dropped)
            return result

        result = limited.run_rounds(run_round, request, self._transactions.clock.monotonic)
        return self._begin_runs(transaction, Claims(claim_tx.claimed, None, result.again_s, result.is_near))

    def _begin_runs(self, transaction: Transaction, claims: Claims) -> Claims:
        """Begin the claimed runs and return the other claims. The first steps of the runs can be claimed at once."""
        jobs = arranged(transaction, self._graphs, claims.jobs)
        if jobs is claims.jobs:
            return claims
        next_due_s = 0.0 if len(jobs) < len(claims.jobs) else claims.next_due_s
        return msgspec.structs.replace(claims, jobs=jobs, next_due_s=next_due_s)


def is_guarded(transaction: Transaction, queues: Sequence[str]) -> bool:
    """Return whether limits or gates are in force for these queues, so that a plain claim must take nothing."""
    return bool(transaction.value("is_guarded", {"queues": as_json(list(queues)), "now": transaction.now}))
