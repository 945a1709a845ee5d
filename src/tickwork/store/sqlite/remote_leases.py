"""Attempts over REST on one SQLite file (see `store.remote_leases`). The SQL is in sql/remote_leases.sql."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from tickwork.core.ids import JobId, WorkerId
from tickwork.store.attempt_types import NewLog
from tickwork.store.remote_leases import FIRST, DueWork, LeaseGrant, RemoteAttempt, RemoteName, due_heads, within
from tickwork.store.rows.instants import duration_us, from_us
from tickwork.store.rows.jobs import decode_job_limits, decode_policy
from tickwork.store.rows.workers import encode_offer
from tickwork.store.sqlite import job_transitions
from tickwork.store.sqlite.claim.limited_round import SqliteClaimTx
from tickwork.store.sqlite.transactions import SqliteTransactions, Transaction, as_json


class SqliteRemoteLeases:
    """Attempts of remote workers, with a lease for each."""

    def __init__(self, transactions: SqliteTransactions) -> None:
        self._transactions = transactions

    def due_work(self, queues: Sequence[str]) -> DueWork:
        found: dict[str, set[str]] = {}
        with self._transactions.read() as transaction:
            snapshot = SqliteClaimTx(transaction, WorkerId(""), list(dict.fromkeys(queues)), ()).snapshot()
            heads = due_heads(snapshot.heads, snapshot.now_us, snapshot.opens_at_us)
            for queue, lane, priority in heads.due:
                values = {"lane": lane, "priority": priority, "now": snapshot.now_us, "first": FIRST}
                found.setdefault(queue, set()).update(transaction.column("place_tasks", values))
        return DueWork(found, heads.next_s)

    def grant_leases(self, claimer: WorkerId, grants: Sequence[LeaseGrant]) -> dict[JobId, datetime]:
        """Move attempts that the claimer still holds to leases of their own; others are left out of the result."""
        granted: dict[JobId, datetime] = {}
        with self._transactions.write() as transaction:
            for one in grants:
                fence = {"job_id": one.job_id, "claim": one.claim, "claimer": claimer, "worker": one.worker}
                if not transaction.run("hand_over", fence):
                    continue
                until = transaction.now + duration_us(one.lease)
                serves = {"queues": as_json(one.queues), "tasks": as_json(one.tasks)}
                times = {"now": transaction.now, "until": until}
                row = {
                    "worker": one.worker,
                    "name": one.name,
                    "lessee": one.lessee,
                    "offer": encode_offer(one.offer),
                }
                transaction.run("grant_lease", {**row, **serves, **times})
                granted[one.job_id] = from_us(until)
        return granted

    def lease_holders(self, names: Sequence[str]) -> set[str]:
        with self._transactions.read() as transaction:
            return set(transaction.column("lease_holders", (as_json(list(names)),)))

    def remote_attempt(self, name: RemoteName) -> RemoteAttempt | None:
        with self._transactions.read() as transaction:
            return _find(transaction, name)

    def renew_attempt(self, name: RemoteName, lease: timedelta) -> RemoteAttempt | None:
        with self._transactions.write() as transaction:
            until = transaction.now + duration_us(lease)
            one = _find(transaction, name)
            if one is None:
                return None
            transaction.run("renew_attempt", {"worker": one.worker, "until": until})
            return msgspec.structs.replace(one, lease_until=from_us(until))

    def append_log(self, name: RemoteName, text: str, seq: int | None, limit: int) -> int | None:
        """Append lines if the attempt is current.

        An existing chunk is not changed, and the total is truncated to `limit`.
        """
        with self._transactions.write() as transaction:
            one = _find(transaction, name)
            if one is None:
                return None
            last, held = transaction.first("logged", {"job_id": one.job_id, "attempt": one.attempt})
            chunk = last + 1 if seq is None else seq
            if kept := within(text, held, limit):
                job_transitions.append(transaction, [NewLog(one.job_id, one.claim, chunk, kept)])
            return int(chunk)

    def end_leases(self, workers: Sequence[WorkerId]) -> None:
        with self._transactions.write() as transaction:
            transaction.run("end_leases", (as_json(list(workers)),))


def _find(transaction: Transaction, name: RemoteName) -> RemoteAttempt | None:
    """Return an attempt over REST; None if it is not the current one of its job."""
    row = transaction.first("remote_attempt", msgspec.structs.asdict(name))
    if row is None:
        return None
    id, number, claim, worker, task, queue, policy, failures, crashes, alone, job_limits, run, step, *rest = row
    claimed_at, cancel, until, losses = rest
    return RemoteAttempt(
        job_id=id,
        attempt=number,
        claim=claim,
        worker=worker,
        task=task,
        queue=queue,
        policy=decode_policy(policy),
        failures=failures,
        crashes=crashes,
        alone=alone == 1,
        job_limits=decode_job_limits(job_limits),
        run=run,
        step=step,
        claimed_at=from_us(claimed_at),
        cancel_requested=cancel == 1,
        lease_until=from_us(until),
        losses=losses,
    )
