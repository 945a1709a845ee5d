"""The verbs that can run inside a caller's own transaction, as steps: insert jobs, finish attempts (see adapters.py).

Each step is a statement with its values; its rows decide the next one. Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from tickwork.core.ids import JobId
from tickwork.core.job import AskingAttempt, NewJob
from tickwork.core.key_conflict import KeyOwner, check_holder
from tickwork.errors import KeyTaken, LeaseLost
from tickwork.store.attempt_types import Finish, NewLog
from tickwork.store.postgres import params
from tickwork.store.postgres.connection.libpq_connection import Rows, Statement, Values
from tickwork.store.postgres.connection.session import Steps
from tickwork.store.rows.new_jobs import merge_keys

By = AskingAttempt | None
_REPLACES = ("replace", "follow")
_TRIES = 5  # Tries of a replacement that raced with a claim.


class TxStatements:
    """Builds the steps of the verbs for one schema. `channel` is the NOTIFY channel on which waiting workers listen."""

    def __init__(self, sql: Mapping[str, str], channel: str) -> None:
        self._sql = sql
        self._channel = channel

    def insert(
        self, jobs: Sequence[NewJob], now: datetime | None, by: By, again: bool, fence: str = "hold_current"
    ) -> Steps[list[JobId]]:
        """Store jobs; return for each the id of the job that represents it (see Store.insert_jobs).

        Jobs with a key are first checked against the live job that holds the key. `again`: an earlier try may have
        stored some of them. `fence` is the statement that checks whether the attempt `by` is current.
        """
        if by is not None:
            yield from self._fenced(by, fence)
        kept, stands = merge_keys(jobs)
        if any(job.key is not None for job in kept):
            ids = yield from self._insert_keyed(kept, now, again)
        else:
            yield from self._insert(kept, now, again)
            ids = [job.id for job in kept]
        return [ids[place] for place in stands]

    def insert_and_call(self, jobs: Sequence[NewJob], now: datetime | None, by: By) -> Steps[list[JobId]]:
        """Store jobs in a caller's transaction, whose commit notifies the workers; return the ids of the representing
        jobs.

        The attempt is checked but not locked, because this transaction may stay open for long.
        """
        ids = yield from self.insert(jobs, now, by, again=True, fence="is_current")
        yield self._calling()
        return ids

    def inserting(self, jobs: Sequence[NewJob], now: datetime | None, again: bool, calls: bool) -> list[Statement]:
        """Return the statements that store jobs without keys; with `calls`, they also notify the workers."""
        if len(jobs) == 1 and not again and _is_plain(jobs[0]):
            inserting = self._sql["insert_job_and_call" if calls else "insert_job"]
            return [(inserting, {"now": now, "channel": self._channel, **params.new_job(jobs[0])})]
        statements = [(self._inserting(again, values), {"now": now, **values}) for values in params.new_jobs(jobs)]
        return [*statements, self._calling()] if calls else statements

    def _inserting(self, again: bool, values: Values) -> str:
        """Return the SQL that inserts a batch with these values; with `again`, it skips jobs that exist."""
        if "job_limits" in values:
            return self._sql["insert_guarded_jobs"]
        return self._sql["insert_missing_jobs" if again else "insert_jobs"]

    def _calling(self) -> Statement:
        """Return the statement that notifies the workers."""
        return "SELECT pg_notify(%(channel)s, '')", {"channel": self._channel}

    def finish(self, endings: Sequence[Finish], logs: Sequence[NewLog], now: datetime | None) -> Steps[Rows]:
        """Store the last log lines of attempts and close them; return rows of closed jobs and of freed limit keys."""
        rows: Rows = []
        for statement in self.finishing(endings, logs, now):
            rows = yield statement
        return rows if endings else []

    def finishing(self, endings: Sequence[Finish], logs: Sequence[NewLog], now: datetime | None) -> list[Statement]:
        """Return the statements of `finish`. If there are finishes, the last statement returns the rows."""
        statements: list[Statement] = []
        if logs:
            statements.append((self._sql["append_logs"], {"now": now, "logs": params.new_logs(logs)}))
        if endings:
            statements.append((self._sql["finish_attempts"], {"now": now, **params.endings(endings)}))
        return statements

    def _insert(self, jobs: Sequence[NewJob], now: datetime | None, again: bool) -> Steps[set[JobId]]:
        """Store jobs whose keys are already taken for them.

        Return the ids of jobs with a key that did not exist before.
        """
        new: set[JobId] = set()
        for values in params.new_jobs(jobs):
            rows = yield self._inserting(again, values), {"now": now, **values}
            new.update(JobId(job_id) for (job_id,) in rows)
        return new

    def _fenced(self, by: AskingAttempt, fence: str) -> Steps[None]:
        """Raise LeaseLost unless the attempt is still the current one of its job."""
        if not (yield self._sql[fence], {"job_id": by.job_id, "claim": by.claim}):
            raise LeaseLost(f"attempt {by.attempt} of job {by.job_id} was superseded; nothing it enqueues is stored.")

    def _insert_keyed(self, kept: Sequence[NewJob], now: datetime | None, again: bool) -> Steps[list[JobId]]:
        """Store jobs of which some have a key; return the ids of the jobs that represent them.

        A key that is missing from `holders` belongs to a job that an earlier try has stored.
        """
        keyed = [job for job in kept if job.key is not None]
        wanted = params.document({"id": job.id, "key": str(job.key)} for job in keyed)
        rows = yield self._sql["take_keys"], {"now": now, "jobs": wanted}
        holders = {key: JobId(job_id) for key, job_id in rows}
        stands = {job.id: holders.get(str(job.key), job.id) for job in keyed}
        fresh = [job for job in kept if job.key is None or holders.get(job.key) == job.id]
        held = [(job, stands[job.id]) for job in keyed if stands[job.id] != job.id]
        if held:
            yield from self._check_holders(held, [job.id for job in fresh if job.key is not None])
        new = yield from self._insert(fresh, now, again)
        yield from self._give_back(fresh, new)
        replaced = yield from self._replace(held, now)
        following = [job for job, holder in held if job.if_exists == "follow" and holder not in replaced]
        if following:
            keys = params.text_array([job.key for job in following])
            yield self._sql["follow_keys"], {"keys": keys, "ids": params.array(job.id for job in following)}
            yield from self._insert(following, now, again)
            stands |= {job.id: job.id for job in following}
        return [stands.get(job.id, job.id) for job in kept]

    def _replace(self, held: Sequence[tuple[NewJob, JobId]], now: datetime | None) -> Steps[set[JobId]]:
        """Replace queued jobs that hold the keys of new jobs by these; return which were replaced.

        A claim that parks such a job moves its row: a statement that waited for the claim finds no row, but a new
        statement does. So jobs that are still queued are tried again.
        """
        left = [msgspec.structs.replace(job, id=holder) for job, holder in held if job.if_exists in _REPLACES]
        replaced: set[JobId] = set()
        for _ in range(_TRIES if left else 0):
            document = params.document(map(params.replacement, left))
            rows = yield self._sql["replace_jobs"], {"now": now, "jobs": document}
            replaced |= {JobId(job_id) for (job_id,) in rows}
            left = [job for job in left if job.id not in replaced]
            if not left:
                break
            rows = yield self._sql["key_holders"], {"ids": params.array(job.id for job in left)}
            waiting = {job_id for job_id, _, _, state in rows if state == "queued"}
            left = [job for job in left if job.id in waiting]
            if not left:
                break
        return replaced

    def _check_holders(self, held: Sequence[tuple[NewJob, JobId]], taken: Sequence[JobId]) -> Steps[None]:
        """Raise KeyTaken if the holder of a key cannot represent the new job.

        The keys in `taken` are released first.
        """
        rows = yield self._sql["key_holders"], {"ids": params.array(holder for _, holder in held)}
        holders = {job_id: KeyOwner(job_id, *owner) for job_id, *owner in rows}
        try:
            for job, holder in held:
                if holder in holders:
                    check_holder(job, holders[holder])
        except KeyTaken:
            yield self._sql["release_keys"], {"ids": params.array(taken)}
            raise

    def _give_back(self, fresh: Sequence[NewJob], stored: set[JobId]) -> Steps[None]:
        """Release keys that were taken for jobs that already existed."""
        taken = tuple(job.id for job in fresh if job.key is not None and job.id not in stored)
        if taken:
            yield self._sql["free_taken_keys"], {"ids": params.array(taken)}


def _is_plain(job: NewJob) -> bool:
    return job.occurrence is None and job.job_limits is None and job.version is None
