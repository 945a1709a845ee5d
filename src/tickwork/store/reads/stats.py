"""Statistics: the stats rollup, which counts jobs and attempts, and the counts for metrics.

A rollup row sums what happened to the jobs of a queue and task in a period (its span). Jobs and attempts are counted in
their own tables, a bounded number at a time, and each once: the marks (positions up to which rows were counted) move in
the transaction that adds the counts. Enqueuing, claiming and finishing do no work for statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import msgspec

from tickwork.core.ids import created_at, first_id
from tickwork.core.stats.rollups import COUNTS, CountedRows, RollupCounts, RollupKey, Spread

SETTLED = timedelta(seconds=5)  # Younger rows are left for the next time, because their transactions may still be open.
DEAD_COUNTED = 1000

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_SPREAD = msgspec.json.Decoder(dict[int, int])


class RollupMarks(msgspec.Struct, frozen=True):
    """The positions up to which rows are counted: created jobs by id, ends by time. Every move increments `version`.

    `look_at`: when the next count is due.
    """

    created: str = first_id(_BEGINNING)
    ended: datetime = _BEGINNING
    version: int = 0
    look_at: datetime = _BEGINNING


class RollupPage(msgspec.Struct, frozen=True):
    """The counts of a page of rows, and the marks from which the next page begins.

    `is_full`: there is more to count now.
    """

    marks: RollupMarks
    counted: list[CountedRows]
    is_full: bool


class Counts(msgspec.Struct, frozen=True):
    """The counts for metrics, up to an instant. `fired`: the number of occurrences by action.

    `lag`: how long the most overdue schedule has waited. `dead`: the number of dead letters, up to DEAD_COUNTED.
    """

    until: datetime
    fired: dict[str, int]
    lag: timedelta
    dead: int


class StatsVerbs(Protocol):
    """The verbs of statistics."""

    def rollup_marks(self) -> RollupMarks:
        """Return, for each table whose rows the stats rollup counts, the position up to which they are counted."""

    def count_events(self, marks: RollupMarks, limit: int) -> RollupPage:
        """Count rows after the marks, about `limit` of each kind; return the counts and the next marks. Store nothing.

        An exact count would slow down writers: a job whose transaction was open for more than a few seconds may be
        missed.
        """

    def add_rollups(self, marks: RollupMarks, counts: Mapping[RollupKey, RollupCounts]) -> bool:
        """Add counts to the rollup and store the marks, in one transaction; return whether that was done.

        False if the marks have another version than when they were read: another process has counted these rows.
        """

    def rollups(self, span: int, queue: str, task: str, since: int) -> dict[int, RollupCounts]:
        """Return the rollup rows of a queue and task from the minute `since` on, by the minute in which their
        span begins.
        """

    def queue_rollups(self, span: int, since: int) -> dict[str, dict[int, RollupCounts]]:
        """Return the rollup rows of every queue, over all its tasks, from the minute `since` on, by queue and
        minute.
        """

    def rollup_totals(self) -> dict[tuple[str, str], RollupCounts]:
        """Return the totals since the store was created, by (queue, task)."""

    def starting(self, limit: int) -> list[CountedRows]:
        """Count up to `limit` running attempts, which the rollup does not contain yet, by the time of their claim."""

    def counted_until(self) -> datetime:
        """Return the instant up to which the rollup is complete.

        A few seconds ago, unless rows remain to be counted.
        """

    def counts(self, since: datetime | None) -> Counts:
        """Count the fires of schedules since an instant (None: since now), overdue schedules and dead letters."""


Run = Callable[[str, dict[str, Any]], Sequence[Any]]
"""Runs a statement of stats.sql."""


def count_page(
    run: Run,
    now: datetime,
    marks: RollupMarks,
    limit: int,
    wire: Callable[[datetime], Any],
    read: Callable[[Any], datetime],
) -> RollupPage:
    """Count the jobs and attempts of one page, using the statements of the given store's stats.sql.

    `wire` converts instants to the store's format and `read` converts them back.
    """
    latest = now - SETTLED
    ids = {"since": marks.created, "latest": max(marks.created, first_id(latest)), "limit": limit}
    ids["until"] = _first(run("created_until", ids), ids["latest"])
    ends = {"since": wire(marks.ended), "latest": wire(max(marks.ended, latest)), "limit": limit}
    ends["until"] = min(_first(run(which, ends), ends["latest"]) for which in ("ended_until", "tried_until"))
    rows = [*run("created_counts", ids), *run("ended_counts", ends)]
    return RollupPage(
        msgspec.structs.replace(marks, created=str(ids["until"]), ended=read(ends["until"])),
        counted_of(rows),
        ids["until"] != ids["latest"] or ends["until"] != ends["latest"],
    )


def known(run: Run, now: datetime, marks: RollupMarks, wire: Callable[[datetime], Any]) -> datetime:
    """Return the instant up to which the rollup with these marks is complete.

    `wire` converts instants to the store's format.
    """
    latest = now - SETTLED
    ids = {"since": marks.created, "latest": first_id(latest), "limit": 0}
    ends = {"since": wire(marks.ended), "latest": wire(latest), "limit": 0}
    untils = [created_at(marks.created)] if run("created_until", ids) else []
    if any(run(which, ends) for which in ("ended_until", "tried_until")):
        untils.append(marks.ended)
    return min([latest, *untils])


def counts_of(
    run: Callable[[str, dict[str, Any]], Sequence[Any]],
    now: datetime,
    since: datetime | None,
    wire: Callable[[datetime], Any],
    read: Callable[[Any], datetime],
) -> Counts:
    """Return the counts for metrics, using the statements of the given store's counts.sql.

    `wire` converts instants to the store's format and `read` converts them back.
    """
    latest = now - SETTLED
    since = since or latest
    until = max(since, latest)
    ((wake,),), ((dead,),) = run("oldest_wake", {}), run("dead_count", {"most": DEAD_COUNTED})
    return Counts(
        until,
        dict(run("fired_counts", {"since": wire(since), "until": wire(until)})),
        timedelta(0) if wake is None else max(timedelta(0), now - read(wake)),
        dead,
    )


def rollup_counts(columns: Sequence[Any]) -> RollupCounts:
    """Build the counts and histograms of a rollup row from its columns."""
    *counts, waits, runs = columns
    named = dict(zip(COUNTS, counts, strict=True))
    return RollupCounts(**named, waits=_SPREAD.decode(waits), runs=_SPREAD.decode(runs))


def added(there: Mapping[RollupKey, RollupCounts], counts: Mapping[RollupKey, RollupCounts]) -> list[dict[str, Any]]:
    """Return the rollup rows to write: for each key the stored counts plus the new ones."""
    rows: list[dict[str, Any]] = []
    for place in sorted(counts):
        whole = there.get(place, RollupCounts())
        whole.add(counts[place])
        rows.append(_row(place, whole))
    return rows


def counted_of(rows: Sequence[Any]) -> list[CountedRows]:
    """Build CountedRows from the rows of a counting statement of either store."""
    return [
        CountedRows(what, queue, task, minute, digits, None if lead is None else int(lead), count)
        for what, queue, task, minute, digits, lead, count in rows
    ]


def _row(place: RollupKey, counts: RollupCounts) -> dict[str, Any]:
    spreads = {"waits": _encoded(counts.waits), "runs": _encoded(counts.runs)}
    return {**place._asdict(), **{name: getattr(counts, name) for name in COUNTS}, **spreads}


def _encoded(spread: Spread) -> str:
    return msgspec.json.encode(spread).decode()


def _first(rows: Sequence[Any], other: Any) -> Any:
    """Return the value of the first row, or `other` if there is none."""
    return next((value for (value,) in rows), other)
