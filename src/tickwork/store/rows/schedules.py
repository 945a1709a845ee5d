"""Convert the rows of schedules and of their runs; shared by both stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from tickwork.core.ids import JobId
from tickwork.core.schedule.spec import ScheduleSpec, decode_spec, merge
from tickwork.core.schedule.state import ScheduleState, WaitingOccurrence
from tickwork.errors import InvalidInput
from tickwork.store.schedules import DueSchedule, ScheduleView


def merge_declared(declared: ScheduleSpec, stored: str | None, base: str | None) -> ScheduleSpec:
    """Return a declared schedule, merged with edits of the stored one. `base` is what code declared before."""
    if stored is None:
        return declared
    return merge(None if base is None else decode_spec(base), decode_spec(stored), declared)


def schedule_state(
    handled_at: datetime,
    active_since: datetime,
    run_count: int,
    last_ended_at: datetime | None,
    waiting: str,
    *,
    paused: bool,
    live_count: int = 0,
) -> ScheduleState:
    """Build the state of a schedule from its columns."""
    return ScheduleState(
        handled_at=handled_at,
        active_since=active_since,
        run_count=run_count,
        live_count=live_count,
        last_ended_at=last_ended_at,
        waiting=decode_waiting(waiting),
        paused=paused,
    )


@lru_cache(maxsize=1024)
def decode_waiting(text: str) -> tuple[WaitingOccurrence, ...]:
    """Decode the occurrences of a schedule that wait for an earlier run."""
    return msgspec.json.decode(text, type=tuple[WaitingOccurrence, ...])


def due_schedule(
    name: str,
    version: int,
    spec: str,
    standing: ScheduleState,
    runs: Sequence[tuple[str, bool, datetime | None, bool]],
    paused_until: datetime | None = None,
) -> DueSchedule:
    """Build a due schedule from its row and its runs.

    Live runs are counted each time, so that the count cannot drift.
    """
    live = tuple(JobId(job_id) for job_id, ended, *_ in runs if not ended)
    ended = tuple(JobId(job_id) for job_id, ended, *_ in runs if ended)
    failed = frozenset(JobId(job_id) for job_id, *_, failed in runs if failed)
    ends = [at for at in (standing.last_ended_at, *(at for _, _, at, _ in runs)) if at is not None]
    if ended and not ends:  # The run was pruned, so it is not known when it ended.
        ends = [standing.handled_at]
    counted = msgspec.structs.replace(standing, live_count=len(live), last_ended_at=max(ends, default=None))
    return DueSchedule(
        name=name,
        version=version,
        spec=spec,
        standing=counted,
        live=live,
        ended=ended,
        paused_until=paused_until,
        failed=failed,
    )


def schedule_view(row: Mapping[str, Any], instant: Callable[[Any], datetime]) -> ScheduleView:
    """Decode a row of the `schedule_columns` select."""

    def at(name: str) -> datetime | None:
        return None if row[name] is None else instant(row[name])

    return ScheduleView(
        name=row["name"],
        spec=decode_spec(row["spec"]),
        standing=schedule_state(
            instant(row["handled_at"]),
            instant(row["active_since"]),
            row["run_count"],
            at("last_ended_at"),
            row["waiting"],
            paused=row["paused_at"] is not None,
            live_count=row["live_count"],
        ),
        is_declared=bool(row["is_declared"]),
        paused_at=at("paused_at"),
        paused_until=at("paused_until"),
        paused_by=row["paused_by"],
        paused_why=row["paused_why"],
        wake_at=at("wake_at"),
        created_at=instant(row["created_at"]),
        edited_at=instant(row["edited_at"]),
    )


def dag_in_use(name: str, schedule: str) -> InvalidInput:
    """Return the error for the deletion of a dag that a schedule starts."""
    return InvalidInput(
        f"dag {name!r} is started by schedule {schedule!r}, so it was not deleted. Change or delete that first."
    )


def calendar_in_use(name: str, schedule: str) -> InvalidInput:
    """Return the error for the deletion of a calendar that a schedule uses."""
    return InvalidInput(
        f"calendar {name!r} is heeded by schedule {schedule!r}, so it was not deleted. Change or delete that first."
    )
