"""The change feed on one SQLite file (see `store.reads.change_feed`). The SQL is in sql/change_feed.sql."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime

from tickwork.store.reads import change_feed
from tickwork.store.reads.change_feed import TOPIC_ROWS, Changes
from tickwork.store.rows.instants import from_us, to_us
from tickwork.store.sqlite.transitions import Transaction


class SqliteChanges:
    """A part of SqliteStore. It needs from the rest the transactions."""

    def _read(self) -> AbstractContextManager[Transaction]:
        raise NotImplementedError

    def happenings(self, since: datetime, most: int) -> Changes:
        with self._read() as transaction:
            return change_feed.happenings(transaction.run, from_us(transaction.now), since, most, to_us)

    def topics(self) -> dict[str, str]:
        with self._read() as transaction:
            return change_feed.topics(transaction.run("topics", {"now": transaction.now, "most": TOPIC_ROWS}))
