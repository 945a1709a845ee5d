"""State changes of jobs on PostgreSQL: finish, cancel, expire, drop; and of the runs whose steps they are.

A job may be a step of a run, whose row is then locked first; the run is advanced (its next steps are made ready) in the
same transaction (see run_transitions.py). After the commit, the limit keys that were freed are opened, and workers are
woken if new jobs can be claimed. The SQL is in sql/finish_attempts.sql, sql/change_jobs.sql and sql/runs.sql.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tickwork.core.ids import JobId, WorkerId, is_id
from tickwork.core.job import Claimed, JobState
from tickwork.store.attempt_types import Finish, NewLog
from tickwork.store.postgres import params
from tickwork.store.postgres.caller_tx.adapters import inside, run_inside
from tickwork.store.postgres.caller_tx.same_database import SameDatabase
from tickwork.store.postgres.caller_tx.statements import TxStatements
from tickwork.store.postgres.connection.connection_pool import VerbPool
from tickwork.store.postgres.connection.libpq_connection import Rows
from tickwork.store.postgres.connection.session import Session
from tickwork.store.postgres.limit_openings import LimitOpenings
from tickwork.store.postgres.params import array, id_document
from tickwork.store.postgres.run_transitions import PostgresRunTx, RunMembership, pairs_of
from tickwork.store.postgres.transactions import PostgresTransactions
from tickwork.store.rows.jobs import limit_keys_of
from tickwork.store.runs import step_jobs
from tickwork.store.runs.graph_cache import GraphCache
from tickwork.store.runs.step_jobs import ResultRow

T = TypeVar("T")


@dataclass(eq=False)
class JobTransitions:
    """Changes jobs in transactions of its own, and finishes attempts in a caller's transaction."""

    transactions: PostgresTransactions
    openings: LimitOpenings
    graphs: GraphCache
    tx_statements: TxStatements
    same_database: SameDatabase

    # -- finishes

    def finish_attempts(self, endings: Sequence[Finish], logs: Sequence[NewLog] = (), tx: Any = None) -> set[JobId]:
        """Close attempts, in the caller's transaction if there is one; return the jobs whose attempt was closed."""
        if tx is not None:
            return closed_jobs(self._finish_inside(tx, endings, logs))
        if any(advances_run(one) for one in endings):
            rows = self.advance(lambda run_tx: run_tx.close("finish_attempts", endings, logs))
        else:
            finish = self.tx_statements.finish
            rows = self.transactions.perform(
                lambda session: session.run_steps(finish(endings, logs, session.now)), single=not logs
            )
        self.after_commit(endings, rows)
        return closed_jobs(rows)

    def _finish_inside(self, tx: Any, endings: Sequence[Finish], logs: Sequence[NewLog]) -> Rows:
        """Close attempts in a caller's transaction and return the rows.

        A service later opens the limits that this frees.
        """
        now = self.transactions.test_time()
        if not any(advances_run(one) for one in endings):
            return run_inside(tx, self.tx_statements.finish(endings, logs, now), self.same_database)
        with inside(tx, self.same_database) as run_all:
            run_tx = PostgresRunTx(run_all, self.transactions.sql, self.graphs, now)
            rows = run_tx.close("finish_attempts", endings, logs)
            run_tx.finish(run_all)
        return rows

    def reclaim_attempts(self, endings: Sequence[Finish]) -> set[JobId]:
        """Close attempts whose lease is still expired, on the connections reserved for the reaper.

        Return their jobs.
        """
        if any(one.run for one in endings):
            reserved = self.transactions.reserved
            rows = self.advance(lambda run_tx: run_tx.close("reclaim_attempts", endings), pool=reserved)
        else:
            rows = self.transactions.run_reserved("reclaim_attempts", **params.endings(endings))
        self.transactions.notifier.call()
        self.after_commit(endings, rows)
        return closed_jobs(rows)

    def after_commit(self, endings: Sequence[Finish], rows: Rows) -> bool:
        """Wake workers and open freed limit keys after the commit of finishes.

        Return whether an opened key holds jobs.
        """
        freed = [key_text for job_id, key_text in rows if job_id is None]
        opened = bool(freed) and self.openings.open_freed(freed)
        self.wake_for(endings)
        return opened

    def wake_for(self, endings: Sequence[Finish]) -> None:
        """Wake workers if one of these finishes has queued its job again."""
        if any(finish.transition.job is JobState.QUEUED for finish in endings):
            self.transactions.notifier.call()

    # -- runs and waiting jobs

    def advance(self, work: Callable[[PostgresRunTx], T], pool: VerbPool | None = None) -> T:
        """Run `work` as a transaction that advances runs, and return its result.

        Then open freed limits and wake workers.
        """

        def inside(session: Session) -> tuple[T, PostgresRunTx]:
            run_tx = PostgresRunTx(session.run_together, self.transactions.sql, self.graphs, session.now)
            result = work(run_tx)
            run_tx.finish(session.run_last)
            return result, run_tx

        result, run_tx = self.transactions.perform(inside, pool=pool, single=False)
        if run_tx.freed:
            self.openings.open_freed(run_tx.freed)
        if run_tx.released:
            self.transactions.notifier.call()
        return result

    def cancel(self, ids: Sequence[JobId]) -> dict[str, str]:
        """Cancel jobs, for runs also their live steps and approvals.

        Return "done", "ended" or "unknown" for each job.
        """
        return self.advance(lambda run_tx: run_tx.cancel(dict.fromkeys(ids)))

    def memberships(self, ids: Collection[str]) -> list[RunMembership]:
        """Return how these jobs belong to runs; jobs that are neither runs nor steps are left out."""
        rows = self.transactions.run("parts", ids=array([one for one in ids if is_id(one)]))
        return [RunMembership(*row) for row in rows]

    def end_steps(self, ids: Collection[str], state: str, error: str) -> int:
        """End those of these steps that have not ended, and advance their runs; return how many were ended."""
        locks = [str(one.run) for one in self.memberships(ids) if one.run]

        def end(run_tx: PostgresRunTx) -> int:
            run_tx.lock(locks)
            # Steps that another transaction has not ended meanwhile.
            waiting = [one.job_id for one in run_tx.places(ids) if one.state is None]
            wanted = {"ids": id_document([JobId(one) for one in waiting]), "state": state, "error": error}
            (((count, texts),),) = run_tx.together(("drop_jobs", wanted))
            run_tx.freed += [name for text in texts for name in limit_keys_of(text)]
            run_tx.advance(waiting)
            return int(count)

        return self.advance(end)

    def expire_jobs(self, limit: int) -> int:
        """End jobs whose deadline has passed, plain jobs first, then steps; return the larger of the two numbers."""
        end = {"state": "expired", "error": "it was not started before its deadline"}
        ((count, limits),) = self.transactions.run("expire_jobs", limit=limit, **end)
        self.openings.leave_sequences(limits)
        steps = self.transactions.run("expired_steps", limit=limit)
        ended = self.end_steps([job_id for (job_id,) in steps], **end) if steps else 0
        return max(int(count), ended)

    def drop_jobs(self, ids: Sequence[JobId]) -> int:
        """End jobs that a gate drops, and advance the runs of steps; return how many were ended."""
        end = {"state": "dropped", "error": "a gate dropped it"}
        steps = [one.job_id for one in self.memberships(ids) if one.run is not None]
        ended = self.end_steps(steps, **end) if steps else 0
        rest = id_document([one for one in ids if one not in steps])
        ((count, limits),) = self.transactions.run("drop_jobs", ids=rest, **end)
        self.openings.leave_sequences(limits)
        return int(count) + ended

    def begin_claimed(self, worker: WorkerId, claimed: list[Claimed]) -> list[Claimed]:
        """Begin the claimed runs; return the other claimed jobs, with results filled into the arguments of steps."""
        begins = [one for one in claimed if step_jobs.is_run(one)]
        if begins:
            self.advance(lambda run_tx: run_tx.begin(worker, begins))
        jobs = [one for one in claimed if not step_jobs.is_run(one)]
        pairs = step_jobs.wanted_results(jobs)
        if not pairs:
            return jobs
        rows = self.transactions.run("result_rows", **pairs_of(pairs))
        return step_jobs.with_inputs(jobs, [ResultRow(*row) for row in rows], self.graphs.large_results.load)

    def retry_steps(self, ids: Sequence[JobId], first_us: int) -> dict[JobId, bool]:
        """Rerun the runs of those jobs that are failed steps; return for each of these whether its run was queued."""
        rows = self.transactions.run("failed_parts", ids=array([one for one in ids if is_id(one)]))
        again: dict[str, list[str]] = {}
        for _, run, name in rows:
            again.setdefault(run, []).append(name)
        begun = {
            run: self.advance(lambda run_tx, run=run, names=names: run_tx.rerun(run, names, first_us))  # type: ignore[misc]
            for run, names in again.items()
        }
        return {JobId(job_id): begun[run] for job_id, run, _ in rows}


def advances_run(finish: Finish) -> bool:
    """Return whether a finish may change a run: that of its step, or one that waits for an asset which it updates."""
    return finish.run is not None or bool(finish.produce)


def closed_jobs(rows: Rows) -> set[JobId]:
    """Return the jobs whose attempts were closed, from the rows of finishes; the other rows name freed limit keys."""
    return {JobId(job_id) for job_id, _ in rows if job_id is not None}
