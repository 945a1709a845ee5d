"""What a store tells for metrics besides figures: what schedules did since a mark, how late they are, dead letters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec

from tickwork.store.reads import stats

DEAD_COUNTED = 1000


class Counts(msgspec.Struct, frozen=True):
    """What was counted, up to an instant. `fired`: what became of occurrences of schedules, by action.

    `lag`: how long the most overdue schedule has waited. `dead`: how many dead letters there are, up to DEAD_COUNTED.
    """

    until: datetime
    fired: dict[str, int]
    lag: timedelta
    dead: int


class CountVerbs(Protocol):
    """The verbs."""

    def counts(self, since: datetime | None) -> Counts:
        """Count what schedules did since an instant; without one, from now on."""


def counts_of(
    run: Callable[[str, dict[str, Any]], Sequence[Any]],
    now: datetime,
    since: datetime | None,
    wire: Callable[[datetime], Any],
    read: Callable[[Any], datetime],
) -> Counts:
    """Count on any store that can run the statements of counts.sql. `wire` and `read` say how it writes instants."""
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
