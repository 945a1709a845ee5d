"""What a store promises of figures: to count what happened since a mark, to add it up, and to read it as it was added.

Rows are counted where they are, a bounded number at a time, and each once: who adds them moves the marks in the same
transaction, from where they were looked at. Nobody who enqueues, claims or finishes does anything for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import msgspec

from tickwork.core.ids import created_at, first_id
from tickwork.core.stats.histogram import Spread
from tickwork.core.stats.rollups import COUNTS, CountedRows, RollupCounts, RollupKey

SETTLED = timedelta(seconds=5)  # what is younger is left for the next time: its transaction may still be open

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_SPREAD = msgspec.json.Decoder(dict[int, int])


class RollupMarks(msgspec.Struct, frozen=True):
    """Up to where it was counted: jobs by id, ends by when they were. `version` is raised by every move.

    `look_at`: when somebody has to count on.
    """

    created: str = first_id(_BEGINNING)
    ended: datetime = _BEGINNING
    version: int = 0
    look_at: datetime = _BEGINNING


class RollupPage(msgspec.Struct, frozen=True):
    """What was counted, and the marks to go on from. `is_full`: there is more to count at once."""

    marks: RollupMarks
    counted: list[CountedRows]
    is_full: bool


class StatsVerbs(Protocol):
    """The verbs of figures."""

    def figure_marks(self) -> RollupMarks:
        """Return up to where it was counted."""

    def count_figures(self, marks: RollupMarks, limit: int) -> RollupPage:
        """Count what there is since the marks, at most about `limit` rows of each kind.

        To count everything exactly would slow down those who write: a job whose transaction was open for more than a
        few seconds may be left out.
        """

    def add_figures(self, marks: RollupMarks, figures: Mapping[RollupKey, RollupCounts]) -> bool:
        """Add figures and move the marks, in one transaction, from the version that they name; False: somebody did."""

    def figures(self, span: int, queue: str, task: str, since: int) -> dict[int, RollupCounts]:
        """Return the figures of one queue and task from a minute on, by the minute that each span began with."""

    def queue_figures(self, span: int, since: int) -> dict[str, dict[int, RollupCounts]]:
        """Return the same of every queue, over all its tasks."""

    def total_figures(self) -> dict[tuple[str, str], RollupCounts]:
        """Return what was counted since the store was made, by queue and task."""

    def starting(self, limit: int) -> list[CountedRows]:
        """Count attempts that run, which no figures have yet, by when they were claimed; at most so many of them."""

    def figures_known(self) -> datetime:
        """Return until when figures are complete: a few seconds ago, unless there is more to count."""


Run = Callable[[str, dict[str, Any]], Sequence[Any]]
"""Runs a statement of figures.sql."""


def count_page(
    run: Run,
    now: datetime,
    marks: RollupMarks,
    limit: int,
    wire: Callable[[datetime], Any],
    read: Callable[[Any], datetime],
) -> RollupPage:
    """Count on any store that can run the statements of figures.sql. `wire` and `read` say how it writes instants."""
    latest = now - SETTLED
    ids = {"since": marks.created, "latest": max(marks.created, first_id(latest)), "limit": limit}
    ids["until"] = _first(run("created_until", ids), ids["latest"])
    ends = {"since": wire(marks.ended), "latest": wire(max(marks.ended, latest)), "limit": limit}
    ends["until"] = min(_first(run(which, ends), ends["latest"]) for which in ("ended_until", "tried_until"))
    rows = [*run("created_figures", ids), *run("ended_figures", ends)]
    return RollupPage(
        msgspec.structs.replace(marks, created=str(ids["until"]), ended=read(ends["until"])),
        counted_of(rows),
        ids["until"] != ids["latest"] or ends["until"] != ends["latest"],
    )


def known(run: Run, now: datetime, marks: RollupMarks, wire: Callable[[datetime], Any]) -> datetime:
    """Until when figures with these marks are complete."""
    latest = now - SETTLED
    ids = {"since": marks.created, "latest": first_id(latest), "limit": 0}
    ends = {"since": wire(marks.ended), "latest": wire(latest), "limit": 0}
    untils = [created_at(marks.created)] if run("created_until", ids) else []
    if any(run(which, ends) for which in ("ended_until", "tried_until")):
        untils.append(marks.ended)
    return min([latest, *untils])


def figures_of(columns: Sequence[Any]) -> RollupCounts:
    """The counts and spreads of a row as figures."""
    *counts, waits, runs = columns
    named = dict(zip(COUNTS, counts, strict=True))
    return RollupCounts(**named, waits=_SPREAD.decode(waits), runs=_SPREAD.decode(runs))


def added(there: Mapping[RollupKey, RollupCounts], figures: Mapping[RollupKey, RollupCounts]) -> list[dict[str, Any]]:
    """The rows that are to be written: what is there of these places, and what is added to it."""
    rows: list[dict[str, Any]] = []
    for place in sorted(figures):
        whole = there.get(place, RollupCounts())
        whole.add(figures[place])
        rows.append(_row(place, whole))
    return rows


def counted_of(rows: Sequence[Any]) -> list[CountedRows]:
    """Rows of what was counted, of any store."""
    return [
        CountedRows(what, queue, task, minute, digits, None if lead is None else int(lead), count)
        for what, queue, task, minute, digits, lead, count in rows
    ]


def _row(place: RollupKey, figures: RollupCounts) -> dict[str, Any]:
    spreads = {"waits": _encoded(figures.waits), "runs": _encoded(figures.runs)}
    return {**place._asdict(), **{name: getattr(figures, name) for name in COUNTS}, **spreads}


def _encoded(spread: Spread) -> str:
    return msgspec.json.encode(spread).decode()


def _first(rows: Sequence[Any], other: Any) -> Any:
    return rows[0][0] if rows else other
