"""How a schedule stands: what the store remembers of it between two looks."""

from __future__ import annotations

from datetime import datetime

import msgspec

from tickwork.core.recurrence.zones.zone import TICK
from tickwork.core.schedule.policy import SchedulePolicies


class WaitingOccurrence(msgspec.Struct, frozen=True):
    """An occurrence whose run waits until an earlier one has ended."""

    due_at: datetime
    is_catchup: bool


class ScheduleState(msgspec.Struct, frozen=True, kw_only=True):
    """What was done for a schedule so far.

    `handled_at` is the last due instant that was judged: nothing up to it is ever judged again, whatever becomes of the
    rule. What was due before `active_since`, when the schedule was made or resumed, counts as missed.
    `run_count` are the runs that were started, `live_count` those of them that have not ended. `started` are instants
    after `handled_at` that started work: the store's clock was ahead then, and they do not start it again.
    `is_blocked`: the last run did not succeed, and the next ones wait for it.
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
        """After a change of the rule: it holds from now on, and fires nothing of the time before."""
        return msgspec.structs.replace(self, handled_at=max(self.handled_at, now))

    def put_on_hold(self) -> ScheduleState:
        return msgspec.structs.replace(self, paused=True)

    def resumed(self, now: datetime) -> ScheduleState:
        """After a pause: what came due meanwhile was missed, and the catch-up policy judges it."""
        return msgspec.structs.replace(self, paused=False, active_since=now) if self.paused else self

    def run_ended(self, now: datetime) -> ScheduleState:
        return msgspec.structs.replace(self, live_count=max(0, self.live_count - 1), last_ended_at=now)


def new_standing(created_at: datetime, policies: SchedulePolicies) -> ScheduleState:
    """Return how a new schedule stands: it looks back to its start, if that has passed already."""
    start = policies.start
    looked = created_at if start is None else min(start - TICK, created_at)
    return ScheduleState(handled_at=looked, active_since=created_at)
