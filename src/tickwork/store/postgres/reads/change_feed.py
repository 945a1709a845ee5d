"""The change feed on PostgreSQL (see `store.reads.change_feed`). The SQL is in sql/change_feed.sql."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from tickwork.store.postgres.connection.session import Session
from tickwork.store.postgres.connection.verb_pool import VerbPool
from tickwork.store.postgres.rows import utc
from tickwork.store.reads import change_feed
from tickwork.store.reads.change_feed import TOPIC_ROWS, Changes

T = TypeVar("T")


class PostgresChanges:
    """A part of PostgresStore. It needs from the rest the transactions."""

    def _perform(self, work: Callable[[Session], T], *, pool: VerbPool | None = None, single: bool = True) -> T:
        raise NotImplementedError

    def happenings(self, since: datetime, most: int) -> Changes:
        def look(session: Session) -> Changes:
            ((now,),) = session.run("now")
            return change_feed.happenings(lambda name, values: session.run(name, **values), utc(now), since, most, utc)

        return self._perform(look)

    def topics(self) -> dict[str, str]:
        return change_feed.topics(self._perform(lambda session: session.run("topics", most=TOPIC_ROWS)))
