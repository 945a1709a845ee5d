"""Statistics on PostgreSQL (see `store.reads.stats`). The SQL is in sql/stats.sql."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tickwork.core.stats.rollups import KEPT, CountedRows, RollupCounts, RollupKey, minute_of
from tickwork.store.postgres.connection.session import Session, utc
from tickwork.store.postgres.params import document
from tickwork.store.postgres.transactions import PostgresTransactions
from tickwork.store.reads.stats import (
    Counts,
    RollupMarks,
    RollupPage,
    added,
    count_page,
    counted_of,
    counts_of,
    known,
    rollup_counts,
)


@dataclass(eq=False)
class PostgresStats:
    """The stats rollup (sums of what happened to jobs), and the counts for metrics."""

    transactions: PostgresTransactions

    def rollup_marks(self) -> RollupMarks:
        return self.transactions.perform(_marks)

    def count_events(self, marks: RollupMarks, limit: int) -> RollupPage:
        now = self.transactions.now()
        return self.transactions.perform(
            lambda session: count_page(lambda name, values: session.run(name, **values), now, marks, limit, utc, utc)
        )

    def add_rollups(self, marks: RollupMarks, counts: Mapping[RollupKey, RollupCounts]) -> bool:
        """Store the marks, and add the counts to the rollup rows with the same keys.

        Return False if the marks had moved.
        """
        moved = {"created": marks.created, "ended": marks.ended, "version": marks.version, "look_at": marks.look_at}
        places = document(place._asdict() for place in counts)

        def add(session: Session) -> bool:
            if not session.run("move_rollup_marks", **moved):
                return False
            rows = session.run("rollups_at", places=places)
            there = {
                RollupKey(span, queue, task, minute): rollup_counts(counted)
                for span, queue, task, minute, *counted in rows
            }
            session.run("put_rollups", rows=document(added(there, counts)))
            return True

        return self.transactions.perform(add, single=False)

    def rollups(self, span: int, queue: str, task: str, since: int) -> dict[int, RollupCounts]:
        values = {"span": span, "queue": queue, "task": task, "since": since}
        rows = self.transactions.run("rollups", **values)
        return {minute: rollup_counts(columns) for minute, *columns in rows}

    def queue_rollups(self, span: int, since: int) -> dict[str, dict[int, RollupCounts]]:
        found: dict[str, dict[int, RollupCounts]] = {}
        rows = self.transactions.run("queue_rollups", span=span, since=since)
        for queue, minute, *columns in rows:
            found.setdefault(queue, {})[minute] = rollup_counts(columns)
        return found

    def rollup_totals(self) -> dict[tuple[str, str], RollupCounts]:
        rows = self.transactions.run("rollup_totals")
        return {(queue, task): rollup_counts(columns) for queue, task, *columns in rows}

    def starting(self, limit: int) -> list[CountedRows]:
        return counted_of(self.transactions.run("starting_counts", limit=limit))

    def counted_until(self) -> datetime:
        now = self.transactions.now()

        def look(session: Session) -> datetime:
            return known(lambda name, values: session.run(name, **values), now, _marks(session), utc)

        return self.transactions.perform(look)

    def counts(self, since: datetime | None) -> Counts:
        now = self.transactions.now()
        return self.transactions.perform(
            lambda session: counts_of(lambda name, values: session.run(name, **values), now, since, utc, utc)
        )

    def prune_rollups(self, limit: int) -> None:
        """Delete up to `limit` rollup rows of each span that are older than its retention."""
        now = self.transactions.now()
        for span, kept in KEPT.items():
            values = {"span": span, "before": minute_of(now - kept), "limit": limit}
            self.transactions.perform(lambda session, values=values: session.run("prune_rollups", **values))  # type: ignore[misc]


def _marks(session: Session) -> RollupMarks:
    """Return the stored marks; new ones if there are none."""
    for created, ended, version, look_at in session.run("rollup_marks"):
        return RollupMarks(created, utc(ended), version, utc(look_at))
    return RollupMarks()
