"""Page queries: data that a page of the UI shows about many objects at once, each in one query of bounded cost.

They only read. The caller bounds how many runs, steps or fires are returned.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from tickwork.core.ids import JobId

LOOKED_AT = 10  # Instances of a mapped step that a cell is made from.
# Fires are counted by quarters of an hour, because days of every time zone consist of them.
QUARTER = timedelta(minutes=15)


class RunBrief(NamedTuple):
    """A run in the list of a dag's runs. The times are those of its last generation."""

    dag: str
    id: JobId
    version: int
    state: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class EventPlace(NamedTuple):
    """The position of an event in the ordered events of a run. `rank` orders events of the same instant."""

    at: datetime
    rank: int
    attempt: int
    name: str


class RunEvent(NamedTuple):
    """An event in a run. `step` is None if it concerns the run as a whole."""

    place: EventPlace
    event: str
    step: str | None
    idx: int | None
    job_id: JobId | None
    state: str | None
    detail: str | None


class PendingApprovalView(NamedTuple):
    """An approval that waits for an answer; `answered_at` is when its default answers it, None: never."""

    run: JobId
    step: str
    since: datetime
    answered_at: datetime | None
    text: str | None


class FireSummary(NamedTuple):
    """The outcome of an occurrence of a schedule and of its job; `state` is None if there is no job, or no longer."""

    schedule: str
    due_at: datetime
    action: str
    fired_at: datetime
    is_catchup: bool
    reason: str | None
    job_id: JobId | None
    is_run: bool
    state: str | None
    started_at: datetime | None
    ended_at: datetime | None


class FireCount(NamedTuple):
    """The number of occurrences in a quarter of an hour with one outcome: ok, late, skipped, failed, live or pruned."""

    at: datetime
    outcome: str
    fires: int
