"""The verbs for attempts over REST on PostgreSQL (see `store.remote_leases`). The SQL is in sql/remote_leases.sql."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tickwork.core.ids import ClaimId, JobId, WorkerId, is_id
from tickwork.core.limits.lanes import read_lane
from tickwork.store.attempt_types import NewLog
from tickwork.store.postgres import params
from tickwork.store.postgres.claim.limited_round import heads_in
from tickwork.store.postgres.claim.positions import asked_for
from tickwork.store.postgres.connection.session import Session, utc
from tickwork.store.postgres.params import array, text_array
from tickwork.store.postgres.transactions import PostgresTransactions
from tickwork.store.remote_leases import (
    FIRST,
    DueHeads,
    DueWork,
    LeaseGrant,
    RemoteAttempt,
    RemoteName,
    due_heads,
    within,
)
from tickwork.store.rows.instants import duration_us
from tickwork.store.rows.jobs import decode_job_limits, decode_policy
from tickwork.store.rows.workers import encode_offer


@dataclass(eq=False)
class PostgresRemoteLeases:
    """Leases of attempts over REST. Renewals use the connections that are reserved for heartbeats."""

    transactions: PostgresTransactions

    def due_work(self, queues: Sequence[str]) -> DueWork:
        """Return the tasks of the first due jobs of these queues.

        The first job of each lane and priority is read first; only where it is due, the tasks of the jobs behind it are
        read.
        """
        queues = list(dict.fromkeys(queues))
        heads = self.transactions.perform(lambda session: self._heads(session, queues))
        if not heads.due:
            return DueWork({}, heads.next_s)
        values = {
            "lanes": text_array([lane for _, lane, _ in heads.due]),
            "priorities": array([priority for _, _, priority in heads.due]),
            "first": FIRST,
        }
        found: dict[str, set[str]] = {}
        for lane, task in self.transactions.run("place_tasks", **values):
            found.setdefault(read_lane(lane).queue, set()).add(task)
        return DueWork(found, heads.next_s)

    def _heads(self, session: Session, queues: list[str]) -> DueHeads:
        """Return the lanes of these queues with due jobs, and when there may be more."""
        asked = asked_for(queues)
        wanted = self.transactions.statements(session.now, ("now_us", {}), ("surroundings", asked), ("heads", asked))
        ((now_us,),), ((*_, opens_at_us, _),), heads = session.run_together(wanted)
        return due_heads(heads_in(heads, queues), now_us, opens_at_us)

    def grant_leases(self, claimer: WorkerId, grants: Sequence[LeaseGrant]) -> dict[JobId, datetime]:
        given = params.document(_grant(one) for one in grants)
        rows = self.transactions.run("grant_leases", claimer=claimer, grants=given)
        jobs = {one.worker: one.job_id for one in grants}
        return {jobs[WorkerId(worker)]: utc(until) for worker, until in rows}

    def lease_holders(self, names: Sequence[str]) -> set[str]:
        rows = self.transactions.run("lease_holders", names=text_array(names))
        return {name for (name,) in rows}

    def remote_attempt(self, name: RemoteName) -> RemoteAttempt | None:
        return self.transactions.perform(lambda session: _standing(session, name)) if is_id(name.job_id) else None

    def renew_attempt(self, name: RemoteName, lease: timedelta) -> RemoteAttempt | None:
        def renew(session: Session) -> RemoteAttempt | None:
            session.run("renew_attempt", **msgspec.structs.asdict(name), lease_us=duration_us(lease))
            return _standing(session, name)

        return (
            self.transactions.perform(renew, pool=self.transactions.reserved, single=False)
            if is_id(name.job_id)
            else None
        )

    def append_log(self, name: RemoteName, text: str, seq: int | None, limit: int) -> int | None:
        """Append lines under a lock on the attempt.

        An existing chunk is not changed, and the total is truncated to `limit`.
        """

        def append(session: Session) -> int | None:
            held = session.find("hold_attempt", **msgspec.structs.asdict(name))
            if held is None:
                return None
            (claim,) = held
            ((last, size),) = session.run("logged", job_id=name.job_id, attempt=name.attempt)
            chunk = last + 1 if seq is None else seq
            if kept := within(text, size, limit):
                log = NewLog(name.job_id, ClaimId(claim), chunk, kept)
                session.run("append_logs", logs=params.new_logs([log]))
            return int(chunk)

        return self.transactions.perform(append, single=False) if is_id(name.job_id) else None

    def end_leases(self, workers: Sequence[WorkerId]) -> None:
        self.transactions.run("end_leases", ids=text_array(workers))


def _grant(one: LeaseGrant) -> dict[str, Any]:
    return {
        "job_id": one.job_id,
        "claim": one.claim,
        "worker": one.worker,
        "name": one.name,
        "lessee": one.lessee,
        "queues": params.document(one.queues),
        "tasks": params.document(one.tasks),
        "offer": encode_offer(one.offer),
        "lease_us": duration_us(one.lease),
    }


def _standing(session: Session, name: RemoteName) -> RemoteAttempt | None:
    """Return an attempt over REST; None if it is not the current one of its job."""
    for id, number, claim, worker, task, queue, policy, failures, crashes, alone, job_limits, *rest in session.run(
        "remote_attempt", **msgspec.structs.asdict(name)
    ):
        run, step, claimed_at, is_cancelled, lease_until, losses = rest
        return RemoteAttempt(
            job_id=JobId(id),
            attempt=number,
            claim=ClaimId(claim),
            worker=WorkerId(worker),
            task=task,
            queue=queue,
            policy=decode_policy(policy),
            failures=failures,
            crashes=crashes,
            alone=alone,
            job_limits=decode_job_limits(job_limits),
            run=run,
            step=step,
            claimed_at=utc(claimed_at),
            cancel_requested=is_cancelled,
            lease_until=utc(lease_until),
            losses=losses,
        )
    return None
