"""The verbs for attempts over REST on PostgreSQL (see `store.remote_leases`). The SQL is in sql/remote_leases.sql."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from tickwork.core.ids import ClaimId, JobId, WorkerId, is_id
from tickwork.core.limits.lanes import read_lane
from tickwork.store.attempts import NewLog
from tickwork.store.postgres import params
from tickwork.store.postgres.claim.positions import asked_for
from tickwork.store.postgres.claim.round import heads_in
from tickwork.store.postgres.connection.session import Session
from tickwork.store.postgres.connection.verb_pool import VerbPool
from tickwork.store.postgres.params import array, text_array
from tickwork.store.postgres.rows import utc
from tickwork.store.remote_counts import DueHeads, due_heads, within
from tickwork.store.remote_leases import FIRST, DueWork, LeaseGrant, RemoteAttempt, RemoteName
from tickwork.store.rows.instants import duration_us, to_us
from tickwork.store.rows.jobs import decode_job_limits, decode_policy
from tickwork.store.rows.workers import encode_offer

T = TypeVar("T")


class PostgresRemote:
    """A part of PostgresStore. It needs from the rest the transactions, and the connections reserved for heartbeats."""

    _sql: dict[str, str]
    _reserved: VerbPool

    def _perform(self, work: Callable[[Session], T], *, pool: VerbPool | None = None, single: bool = True) -> T:
        raise NotImplementedError

    def due_work(self, queues: Sequence[str]) -> DueWork:
        """Read the heads of all lanes first; only if a place has due jobs, read the tasks of its first jobs."""
        queues = list(dict.fromkeys(queues))
        heads = self._perform(lambda session: self._heads(session, queues))
        if not heads.due:
            return DueWork({}, heads.next_s)
        values = {
            "lanes": text_array([lane for _, lane, _ in heads.due]),
            "priorities": array([priority for _, _, priority in heads.due]),
            "first": FIRST,
        }
        found: dict[str, set[str]] = {}
        for lane, task in self._perform(lambda session: session.run("place_tasks", **values)):
            found.setdefault(read_lane(lane).queue, set()).add(task)
        return DueWork(found, heads.next_s)

    def _heads(self, session: Session, queues: list[str]) -> DueHeads:
        asked = {"now": session.now, **asked_for(queues)}
        wanted = [(self._sql[name], asked) for name in ("now", "surroundings", "heads")]
        ((now,),), ((_, _, _, _, opens_at_us, _),), heads = session.run_together(wanted)
        return due_heads(heads_in(heads, queues), to_us(utc(now)), opens_at_us)

    def grant_leases(self, claimer: WorkerId, grants: Sequence[LeaseGrant]) -> dict[JobId, datetime]:
        given = params.document(_grant(one) for one in grants)
        rows = self._perform(lambda session: session.run("grant_leases", claimer=claimer, grants=given))
        jobs = {one.worker: one.job_id for one in grants}
        return {jobs[WorkerId(worker)]: utc(until) for worker, until in rows}

    def lease_holders(self, names: Sequence[str]) -> set[str]:
        rows = self._perform(lambda session: session.run("lease_holders", names=text_array(names)))
        return {name for (name,) in rows}

    def remote_attempt(self, name: RemoteName) -> RemoteAttempt | None:
        return self._perform(lambda session: _standing(session, name)) if is_id(name.job_id) else None

    def renew_attempt(self, name: RemoteName, lease: timedelta) -> RemoteAttempt | None:
        def renew(session: Session) -> RemoteAttempt | None:
            session.run("renew_attempt", **msgspec.structs.asdict(name), lease_us=duration_us(lease))
            return _standing(session, name)

        return self._perform(renew, pool=self._reserved, single=False) if is_id(name.job_id) else None

    def append_log(self, name: RemoteName, text: str, seq: int | None, limit: int) -> int | None:
        """Append lines under a lock on the attempt; an existing chunk is kept, and the total is cut at `limit`."""

        def append(session: Session) -> int | None:
            held = session.run("hold_attempt", **msgspec.structs.asdict(name))
            if not held:
                return None
            ((last, size),) = session.run("logged", job_id=name.job_id, attempt=name.attempt)
            chunk = last + 1 if seq is None else seq
            if kept := within(text, size, limit):
                log = NewLog(name.job_id, ClaimId(held[0][0]), chunk, kept)
                session.run("append_logs", logs=params.new_logs([log]))
            return int(chunk)

        return self._perform(append, single=False) if is_id(name.job_id) else None

    def end_leases(self, workers: Sequence[WorkerId]) -> None:
        self._perform(lambda session: session.run("end_leases", ids=text_array(workers)))


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
    rows = session.run("remote_attempt", **msgspec.structs.asdict(name))
    if not rows:
        return None
    id, number, claim, worker, task, queue, policy, failures, crashes, alone, job_limits, run, step, *rest = rows[0]
    claimed_at, cancel, until, losses = rest
    counts = (decode_policy(policy), failures, crashes, alone, decode_job_limits(job_limits))
    times = (utc(claimed_at), cancel, utc(until))
    return RemoteAttempt(
        JobId(id), number, ClaimId(claim), WorkerId(worker), task, queue, *counts, run, step, *times, losses
    )
