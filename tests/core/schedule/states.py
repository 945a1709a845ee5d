"""The states of schedules that stores write: of a new schedule, after edits, pauses and ends of runs."""

from __future__ import annotations

from datetime import datetime

import msgspec

from tickwork.core.recurrence.zones import TICK
from tickwork.core.schedule.policy import SchedulePolicies
from tickwork.core.schedule.state import ScheduleState


def edited(standing: ScheduleState, now: datetime) -> ScheduleState:
    """Return the state after a change of the rule, which fires nothing of the time before it."""
    return msgspec.structs.replace(standing, handled_at=max(standing.handled_at, now))


def put_on_hold(standing: ScheduleState) -> ScheduleState:
    """Return the state when paused."""
    return msgspec.structs.replace(standing, paused=True)


def resumed(standing: ScheduleState, now: datetime) -> ScheduleState:
    """Return the state after a pause. Occurrences due meanwhile were missed: the catch-up policy decides."""
    return msgspec.structs.replace(standing, paused=False, active_since=now) if standing.paused else standing


def run_ended(standing: ScheduleState, now: datetime) -> ScheduleState:
    """Return the state after the end of a run."""
    return msgspec.structs.replace(standing, live_count=max(0, standing.live_count - 1), last_ended_at=now)


def new_standing(created_at: datetime, policies: SchedulePolicies) -> ScheduleState:
    """Return the state of a new schedule, which looks back to its start if that has passed."""
    start = policies.start
    looked = created_at if start is None else min(start - TICK, created_at)
    return ScheduleState(handled_at=looked, active_since=created_at)
