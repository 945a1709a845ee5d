"""Statistics on one SQLite file (see `store.reads.stats`). The SQL is in sql/stats.sql."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tickwork.core.stats.rollups import KEPT, CountedRows, RollupCounts, RollupKey, minute_of
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
from tickwork.store.rows.instants import from_us, to_us
from tickwork.store.sqlite.transactions import SqliteTransactions, Transaction, as_json


class SqliteStats:
    """The stats rollup (sums of what happened to jobs), and the counts for metrics."""

    def __init__(self, transactions: SqliteTransactions) -> None:
        self._transactions = transactions

    def rollup_marks(self) -> RollupMarks:
        with self._transactions.read() as transaction:
            return _marks(transaction)

    def count_events(self, marks: RollupMarks, limit: int) -> RollupPage:
        with self._transactions.read() as transaction:
            return count_page(transaction.run, from_us(transaction.now), marks, limit, to_us, from_us)

    def add_rollups(self, marks: RollupMarks, counts: Mapping[RollupKey, RollupCounts]) -> bool:
        """Store the marks, and add the counts to the rollup rows with the same keys.

        Return False if the marks had moved.
        """
        instants = {"ended": to_us(marks.ended), "look_at": to_us(marks.look_at)}
        with self._transactions.write() as transaction:
            moved = {"created": marks.created, "version": marks.version, **instants}
            if not transaction.run("move_rollup_marks", moved):
                return False
            rows = transaction.run("rollups_at", (as_json(list(counts)),))
            there = {
                RollupKey(span, queue, task, minute): rollup_counts(columns)
                for span, queue, task, minute, *columns in rows
            }
            transaction.run_many("put_rollups", [_row(one) for one in added(there, counts)])
        return True

    def rollups(self, span: int, queue: str, task: str, since: int) -> dict[int, RollupCounts]:
        with self._transactions.read() as transaction:
            rows = transaction.run("rollups", {"span": span, "queue": queue, "task": task, "since": since})
        return {minute: rollup_counts(columns) for minute, *columns in rows}

    def queue_rollups(self, span: int, since: int) -> dict[str, dict[int, RollupCounts]]:
        found: dict[str, dict[int, RollupCounts]] = {}
        with self._transactions.read() as transaction:
            for queue, minute, *columns in transaction.run("queue_rollups", {"span": span, "since": since}):
                found.setdefault(queue, {})[minute] = rollup_counts(columns)
        return found

    def rollup_totals(self) -> dict[tuple[str, str], RollupCounts]:
        with self._transactions.read() as transaction:
            rows = transaction.run("rollup_totals")
        return {(queue, task): rollup_counts(columns) for queue, task, *columns in rows}

    def starting(self, limit: int) -> list[CountedRows]:
        with self._transactions.read() as transaction:
            return counted_of(transaction.run("starting_counts", {"limit": limit}))

    def counted_until(self) -> datetime:
        with self._transactions.read() as transaction:
            return known(transaction.run, from_us(transaction.now), _marks(transaction), to_us)

    def counts(self, since: datetime | None) -> Counts:
        with self._transactions.read() as transaction:
            return counts_of(transaction.run, from_us(transaction.now), since, to_us, from_us)


def prune_rollups(transaction: Transaction, limit: int) -> None:
    """Delete up to `limit` rollup rows of each span that are older than its retention."""
    now = from_us(transaction.now)
    for span, kept in KEPT.items():
        transaction.run("prune_rollups", {"span": span, "before": minute_of(now - kept), "limit": limit})


def _marks(transaction: Transaction) -> RollupMarks:
    """Return the stored marks; new ones if there are none."""
    row = transaction.first("rollup_marks")
    if row is None:
        return RollupMarks()
    created, ended, version, look_at = row
    return RollupMarks(created, from_us(ended), version, from_us(look_at))


def _row(counts: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return statistics in the order of the columns of put_rollups."""
    span, queue, task, minute, *rest = counts.values()
    return (span, task, queue, minute, *rest)
