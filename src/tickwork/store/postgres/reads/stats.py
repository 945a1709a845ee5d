"""Statistics on PostgreSQL (see `store.reads.stats`). The SQL is in sql/figures.sql."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeVar

from tickwork.core.stats.rollups import KEPT, CountedRows, RollupCounts, RollupKey, minute_of
from tickwork.store.postgres.connection.session import Session
from tickwork.store.postgres.connection.verb_pool import VerbPool
from tickwork.store.postgres.params import document
from tickwork.store.postgres.rows import utc
from tickwork.store.reads.metric_counts import Counts, counts_of
from tickwork.store.reads.stats import RollupMarks, RollupPage, added, count_page, counted_of, figures_of, known

T = TypeVar("T")


class PostgresStats:
    """A part of PostgresStore. It needs from the rest the transactions."""

    def _perform(self, work: Callable[[Session], T], *, pool: VerbPool | None = None, single: bool = True) -> T:
        raise NotImplementedError

    def now(self) -> datetime:
        raise NotImplementedError

    def figure_marks(self) -> RollupMarks:
        return self._perform(_marks)

    def count_figures(self, marks: RollupMarks, limit: int) -> RollupPage:
        now = self.now()
        return self._perform(
            lambda session: count_page(lambda name, values: session.run(name, **values), now, marks, limit, utc, utc)
        )

    def add_figures(self, marks: RollupMarks, figures: Mapping[RollupKey, RollupCounts]) -> bool:
        """Move the marks, and add the counts to the stored rows of the same keys; False: the marks had moved."""
        moved = {"created": marks.created, "ended": marks.ended, "version": marks.version, "look_at": marks.look_at}
        places = document(place._asdict() for place in figures)

        def add(session: Session) -> bool:
            if not session.run("move_figure_marks", **moved):
                return False
            rows = session.run("figures_at", places=places)
            there = {RollupKey(*row[:4]): figures_of(row[4:]) for row in rows}
            session.run("put_figures", rows=document(added(there, figures)))
            return True

        return self._perform(add, single=False)

    def figures(self, span: int, queue: str, task: str, since: int) -> dict[int, RollupCounts]:
        values = {"span": span, "queue": queue, "task": task, "since": since}
        rows = self._perform(lambda session: session.run("figures", **values))
        return {minute: figures_of(columns) for minute, *columns in rows}

    def queue_figures(self, span: int, since: int) -> dict[str, dict[int, RollupCounts]]:
        found: dict[str, dict[int, RollupCounts]] = {}
        rows = self._perform(lambda session: session.run("queue_figures", span=span, since=since))
        for queue, minute, *columns in rows:
            found.setdefault(queue, {})[minute] = figures_of(columns)
        return found

    def total_figures(self) -> dict[tuple[str, str], RollupCounts]:
        rows = self._perform(lambda session: session.run("total_figures"))
        return {(queue, task): figures_of(columns) for queue, task, *columns in rows}

    def starting(self, limit: int) -> list[CountedRows]:
        return counted_of(self._perform(lambda session: session.run("starting_figures", limit=limit)))

    def figures_known(self) -> datetime:
        now = self.now()

        def look(session: Session) -> datetime:
            return known(lambda name, values: session.run(name, **values), now, _marks(session), utc)

        return self._perform(look)

    def counts(self, since: datetime | None) -> Counts:
        now = self.now()
        return self._perform(
            lambda session: counts_of(lambda name, values: session.run(name, **values), now, since, utc, utc)
        )

    def _prune_figures(self, limit: int) -> None:
        """Delete statistics that are older than the retention of their span."""
        now = self.now()
        for span, kept in KEPT.items():
            values = {"span": span, "before": minute_of(now - kept), "limit": limit}
            self._perform(lambda session, values=values: session.run("prune_figures", **values))  # type: ignore[misc]


def _marks(session: Session) -> RollupMarks:
    rows = session.run("figure_marks")
    if not rows:
        return RollupMarks()
    created, ended, version, look_at = rows[0]
    return RollupMarks(created, utc(ended), version, utc(look_at))
