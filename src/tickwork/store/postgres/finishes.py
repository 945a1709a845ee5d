"""Finish and reclaim attempts on PostgreSQL. The SQL is in sql/finish_attempts.sql."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tickwork.core.ids import JobId
from tickwork.core.job import JobState
from tickwork.store.attempts import Finish, NewLog
from tickwork.store.postgres import params
from tickwork.store.postgres.caller_tx.adapters import inside, run_inside
from tickwork.store.postgres.caller_tx.same_database import SameDatabase
from tickwork.store.postgres.caller_tx.statements import TxStatements
from tickwork.store.postgres.connection.libpq_connection import Rows
from tickwork.store.postgres.limit_openings import LimitOpenings
from tickwork.store.postgres.runs.run_changes import RunChanges
from tickwork.store.postgres.runs.run_tx import PostgresRunTx
from tickwork.store.postgres.transactions import PostgresTransactions
from tickwork.store.runs.graph_cache import GraphCache


class Finished(NamedTuple):
    """The jobs whose attempts were closed, and whether that opened a limit key that holds jobs."""

    jobs: set[JobId]
    opened: bool


class PostgresFinishes:
    """Closes attempts whose claim still holds the job; finishes of steps also advance their runs."""

    def __init__(
        self,
        transactions: PostgresTransactions,
        *,
        runs: RunChanges,
        openings: LimitOpenings,
        graphs: GraphCache,
        tx_statements: TxStatements,
        same_database: SameDatabase,
    ) -> None:
        self._transactions = transactions
        self._runs = runs
        self._openings = openings
        self._graphs = graphs
        self._tx_statements = tx_statements
        self._same_database = same_database

    def finish_attempts(self, endings: Sequence[Finish], logs: Sequence[NewLog] = (), tx: Any = None) -> set[JobId]:
        """Close attempts, in the caller's transaction if there is one."""
        if tx is not None:
            return closed_jobs(self._finish_inside(tx, endings, logs))
        if any(advances_run(one) for one in endings):
            rows = self._runs.advance(lambda run_tx: run_tx.close("finish_attempts", endings, logs))
        else:
            finish = self._tx_statements.finish
            rows = self._transactions.perform(
                lambda session: session.run_steps(finish(endings, logs, session.now)), single=not logs
            )
        return self.after_commit(endings, rows).jobs

    def _finish_inside(self, tx: Any, endings: Sequence[Finish], logs: Sequence[NewLog]) -> Rows:
        """Close attempts in a caller's transaction. The sweeper opens the limits that this frees."""
        now = self._transactions.test_time()
        if not any(advances_run(one) for one in endings):
            return run_inside(tx, self._tx_statements.finish(endings, logs, now), self._same_database)
        with inside(tx, self._same_database) as run_all:
            run_tx = PostgresRunTx(run_all, self._transactions.sql, self._graphs, now)
            rows = run_tx.close("finish_attempts", endings, logs)
            run_tx.finish(run_all)
        return rows

    def reclaim_attempts(self, endings: Sequence[Finish]) -> set[JobId]:
        """Close attempts whose lease is still expired, on the connections reserved for heartbeats and the reaper."""
        if any(one.run for one in endings):
            reserved = self._transactions.reserved
            rows = self._runs.advance(lambda run_tx: run_tx.close("reclaim_attempts", endings), pool=reserved)
        else:
            rows = self._transactions.run_reserved("reclaim_attempts", **params.endings(endings))
        self._transactions.notifier.call()
        return self.after_commit(endings, rows).jobs

    def after_commit(self, endings: Sequence[Finish], rows: Rows) -> Finished:
        """Open limits and wake workers after the commit of finishes with these rows."""
        freed = [key_text for job_id, key_text in rows if job_id is None]
        opened = bool(freed) and self._openings.open_freed(freed)
        self.wake_for(endings)
        return Finished(closed_jobs(rows), opened)

    def wake_for(self, endings: Sequence[Finish]) -> None:
        """Wake workers if finishes put jobs back into the queue."""
        if any(finish.transition.job is JobState.QUEUED for finish in endings):
            self._transactions.notifier.call()


def advances_run(finish: Finish) -> bool:
    """Return whether a finish may change a run: that of its step, or those that wait for the assets it updates."""
    return finish.run is not None or bool(finish.produce)


def closed_jobs(rows: Rows) -> set[JobId]:
    """Return the jobs of the rows of finishes; the others are freed limit keys."""
    return {JobId(job_id) for job_id, _ in rows if job_id is not None}
