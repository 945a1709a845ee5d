"""Counts for metrics: fires of schedules since a mark, how late schedules are, and dead letters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec

from tickwork.store.reads import stats

DEAD_COUNTED = 1000


class Counts(msgspec.Struct, frozen=True):
    """The counts up to an instant. `fired`: outcomes of occurrences, by action.

    `lag`: how long the most overdue schedule has waited. `dead`: the number of dead letters, up to DEAD_COUNTED.
    """

    until: datetime
    fired: dict[str, int]
    lag: timedelta
    dead: int


class CountVerbs(Protocol):
    """The verbs of metric counts."""

    def counts(self, since: datetime | None) -> Counts:
        """Count the fires of schedules since an instant; None begins now."""


def counts_of(
    run: Callable[[str, dict[str, Any]], Sequence[Any]],
    now: datetime,
    since: datetime | None,
    wire: Callable[[datetime], Any],
    read: Callable[[Any], datetime],
) -> Counts:
    """Count with the statements of counts.sql of either store. `wire` and `read` convert its instants."""
    latest = now - stats.SETTLED
    since = since or latest
    until = max(since, latest)
    ((wake,),), ((dead,),) = run("oldest_wake", {}), run("dead_count", {"most": DEAD_COUNTED})
    return Counts(
        until,
        dict(run("fired_counts", {"since": wire(since), "until": wire(until)})),
        timedelta(0) if wake is None else max(timedelta(0), now - read(wake)),
        dead,
    )
