"""The state of a schedule, which the store keeps between two decisions."""

from __future__ import annotations

from datetime import datetime

import msgspec

from tickwork.core.recurrence.zones import TICK
from tickwork.core.schedule.policy import SchedulePolicies


class WaitingOccurrence(msgspec.Struct, frozen=True):
    """An occurrence whose run waits until an earlier run has ended."""

    due_at: datetime
    is_catchup: bool


class ScheduleState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a schedule.

    `handled_at` is the last due instant that was decided: nothing up to it is decided again, even if the rule changes.
    Occurrences due before `active_since`, when the schedule was created or resumed, count as missed. `run_count` is the
    number of runs started, `live_count` the number of these runs that have not ended. `started` are instants after
    `handled_at` that started work: the store's clock was ahead then, and they do not start it again. `is_blocked`: the
    last run did not succeed, and the next ones wait for it.
    """

    handled_at: datetime
    active_since: datetime
    run_count: int = 0
    live_count: int = 0
    last_ended_at: datetime | None = None
    waiting: tuple[WaitingOccurrence, ...] = ()
    paused: bool = False
    started: tuple[datetime, ...] = ()
    is_blocked: bool = False

    def edited(self, now: datetime) -> ScheduleState:
        """Return the state after a change of the rule, which fires nothing of the time before it."""
        return msgspec.structs.replace(self, handled_at=max(self.handled_at, now))

    def put_on_hold(self) -> ScheduleState:
        """Return the state when paused."""
        return msgspec.structs.replace(self, paused=True)

    def resumed(self, now: datetime) -> ScheduleState:
        """Return the state after a pause. Occurrences due meanwhile were missed: the catch-up policy decides."""
        return msgspec.structs.replace(self, paused=False, active_since=now) if self.paused else self

    def run_ended(self, now: datetime) -> ScheduleState:
        """Return the state after the end of a run."""
        return msgspec.structs.replace(self, live_count=max(0, self.live_count - 1), last_ended_at=now)


def new_standing(created_at: datetime, policies: SchedulePolicies) -> ScheduleState:
    """Return the state of a new schedule, which looks back to its start if that has passed."""
    start = policies.start
    looked = created_at if start is None else min(start - TICK, created_at)
    return ScheduleState(handled_at=looked, active_since=created_at)
