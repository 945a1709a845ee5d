"""What a store counts for metrics: what was made and what ended since a mark, a bounded number of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

import msgspec

from tickwork.core.ids import first_id

DEAD_COUNTED = 1000
SETTLED = timedelta(seconds=5)  # what is younger is left for the next time: its transaction may still be open


class Marks(msgspec.Struct, frozen=True):
    """Up to where it was counted: jobs by id, ends and fires by when they were."""

    created: str
    ended: datetime
    fired: datetime


class Created(NamedTuple):
    """So many jobs of a task were made for a queue."""

    queue: str
    task: str
    jobs: int


class Ended(NamedTuple):
    """So many jobs of a task, or runs of a dag, ended so."""

    queue: str
    task: str
    state: str
    is_run: bool
    jobs: int


class Counts(msgspec.Struct, frozen=True):
    """What was counted, and the marks to go on from. `fired`: what became of occurrences of schedules, by action.

    `lag`: how long the most overdue schedule has waited. `dead`: how many dead letters there are, up to DEAD_COUNTED.
    """

    marks: Marks
    created: list[Created]
    ended: list[Ended]
    fired: dict[str, int]
    lag: timedelta
    dead: int


class CountVerbs(Protocol):
    """The verbs."""

    def counts(self, since: Marks | None, limit: int) -> Counts:
        """Count what there is since the marks, at most about `limit` rows of each kind; without marks, from now on.

        An attempt to count everything exactly would have to slow down those who write: a job whose transaction was open
        for more than a few seconds may be left out.
        """


def count(
    run: Callable[[str, dict[str, Any]], Sequence[Any]],
    now: datetime,
    since: Marks | None,
    limit: int,
    wire: Callable[[datetime], Any],
    read: Callable[[Any], datetime],
) -> Counts:
    """Count on any store that can run the statements of counts.sql. `wire` and `read` say how it writes instants."""
    latest = now - SETTLED
    since = since or Marks(first_id(latest), latest, latest)
    ((wake,),), ((dead,),) = run("oldest_wake", {}), run("dead_count", {"most": DEAD_COUNTED})
    ids = {"since": since.created, "latest": max(since.created, first_id(latest)), "limit": limit}
    ids["until"] = _first(run("created_until", ids), ids["latest"])
    ends = {"since": wire(since.ended), "latest": wire(max(since.ended, latest)), "limit": limit}
    ends["until"] = _first(run("ended_until", ends), ends["latest"])
    fires = {"since": wire(since.fired), "until": wire(max(since.fired, latest))}
    return Counts(
        Marks(str(ids["until"]), read(ends["until"]), read(fires["until"])),
        [Created(*row) for row in run("created_counts", ids)],
        [Ended(queue, task, state, bool(is_run), n) for queue, task, state, is_run, n in run("ended_counts", ends)],
        dict(run("fired_counts", fires)),
        timedelta(0) if wake is None else max(timedelta(0), now - read(wake)),
        dead,
    )


def _first(rows: Sequence[Any], other: Any) -> Any:
    return rows[0][0] if rows else other
