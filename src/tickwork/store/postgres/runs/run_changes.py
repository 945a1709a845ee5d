"""Transactions that change runs of dags, or jobs that may be steps of runs (see run_tx.py).

After the commit they open the limit keys that were freed, and wake workers if new jobs can be claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from tickwork.core.ids import JobId, WorkerId, is_id
from tickwork.core.job import Claimed
from tickwork.store.postgres.connection.connection_pool import VerbPool
from tickwork.store.postgres.connection.session import Session
from tickwork.store.postgres.limit_openings import LimitOpenings
from tickwork.store.postgres.params import array, id_document
from tickwork.store.postgres.runs.run_tx import PostgresRunTx, RunMembership, pairs_of
from tickwork.store.postgres.transactions import PostgresTransactions
from tickwork.store.rows.jobs import limit_keys_of
from tickwork.store.runs import step_jobs
from tickwork.store.runs.graph_cache import GraphCache
from tickwork.store.runs.step_jobs import ResultRow

T = TypeVar("T")


class RunChanges:
    """Advances runs, and ends jobs that wait in the queue, in transactions of its own."""

    def __init__(self, transactions: PostgresTransactions, openings: LimitOpenings, graphs: GraphCache) -> None:
        self._transactions = transactions
        self._openings = openings
        self._graphs = graphs

    def advance(self, work: Callable[[PostgresRunTx], T], pool: VerbPool | None = None) -> T:
        """Run `work` as a transaction that advances runs; afterwards open freed limits and wake workers."""

        def inside(session: Session) -> tuple[T, PostgresRunTx]:
            run_tx = PostgresRunTx(session.run_together, self._transactions.sql, self._graphs, session.now)
            result = work(run_tx)
            run_tx.finish(session.run_last)
            return result, run_tx

        result, run_tx = self._transactions.perform(inside, pool=pool, single=False)
        if run_tx.freed:
            self._openings.open_freed(run_tx.freed)
        if run_tx.released:
            self._transactions.notifier.call()
        return result

    def cancel(self, ids: Sequence[JobId]) -> dict[str, str]:
        """Cancel jobs, and for runs their live steps and approvals, too; return the outcome for each."""
        return self.advance(lambda run_tx: run_tx.cancel(dict.fromkeys(ids)))

    def memberships(self, ids: Collection[str]) -> list[RunMembership]:
        """Return how jobs belong to runs; plain jobs are left out."""
        rows = self._transactions.run("parts", ids=array([one for one in ids if is_id(one)]))
        return [RunMembership(*row) for row in rows]

    def end_steps(self, ids: Collection[str], state: str, error: str) -> int:
        """End steps that wait in the queue, and advance their runs; return how many ended."""
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
        """End jobs whose deadline has passed: plain jobs in one statement, then steps under the lock of their run."""
        end = {"state": "expired", "error": "it was not started before its deadline"}
        ((count, limits),) = self._transactions.run("expire_jobs", limit=limit, **end)
        self._openings.leave_sequences(limits)
        steps = self._transactions.run("expired_steps", limit=limit)
        ended = self.end_steps([job_id for (job_id,) in steps], **end) if steps else 0
        return max(int(count), ended)

    def drop_jobs(self, ids: Sequence[JobId]) -> int:
        """End jobs that a gate drops; return how many. Steps of runs also advance their runs."""
        end = {"state": "dropped", "error": "a gate dropped it"}
        steps = [one.job_id for one in self.memberships(ids) if one.run is not None]
        ended = self.end_steps(steps, **end) if steps else 0
        rest = id_document([one for one in ids if one not in steps])
        ((count, limits),) = self._transactions.run("drop_jobs", ids=rest, **end)
        self._openings.leave_sequences(limits)
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
        rows = self._transactions.run("result_rows", **pairs_of(pairs))
        return step_jobs.with_inputs(jobs, [ResultRow(*row) for row in rows], self._graphs.large_results.load)

    def retry_steps(self, ids: Sequence[JobId], first_us: int) -> dict[JobId, bool]:
        """Rerun the runs of the jobs among these that are failed steps; return for each whether its run was queued."""
        rows = self._transactions.run("failed_parts", ids=array([one for one in ids if is_id(one)]))
        again: dict[str, list[str]] = {}
        for _, run, name in rows:
            again.setdefault(run, []).append(name)
        begun = {
            run: self.advance(lambda run_tx, run=run, names=names: run_tx.rerun(run, names, first_us))  # type: ignore[misc]
            for run, names in again.items()
        }
        return {JobId(job_id): begun[run] for job_id, run, _ in rows}
