"""What changed lately on PostgreSQL (see `store.changes`). The SQL is in sql/changes.sql."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from tickwork.store import changes
from tickwork.store.changes import TOPIC_ROWS, Changes
from tickwork.store.postgres.pool import Pool
from tickwork.store.postgres.session import Session
from tickwork.store.postgres.values import utc

T = TypeVar("T")


class PostgresChanges:
    """A part of PostgresStore. What it needs of the rest are its transactions."""

    def _perform(self, work: Callable[[Session], T], *, pool: Pool | None = None, single: bool = True) -> T:
        raise NotImplementedError

    def happenings(self, since: datetime, most: int) -> Changes:
        def look(session: Session) -> Changes:
            ((now,),) = session.run("now")
            return changes.happenings(lambda name, values: session.run(name, **values), utc(now), since, most, utc)

        return self._perform(look)

    def topics(self) -> dict[str, str]:
        return changes.topics(self._perform(lambda session: session.run("topics", most=TOPIC_ROWS)))
