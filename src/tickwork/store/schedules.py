"""The store verbs and views of schedules.

There is no leader. Any scheduler reads the due schedules, decides (`core/schedule/decide.py`), and moves each schedule
from the version that it read to the next. The second of two schedulers finds another version, and its move does
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import msgspec

from tickwork.core.ids import JobId
from tickwork.core.job import NewJob, TaskDefinition
from tickwork.core.recurrence.calendar import Calendar
from tickwork.core.schedule.spec import ScheduleSpec
from tickwork.core.schedule.state import ScheduleState


class DueSchedule(msgspec.Struct, frozen=True):
    """A schedule that is due, as a scheduler reads it. `live` are its runs that have not ended.

    A move removes the runs in `ended` from the schedule. `failed` is the part of them that did not succeed and was not
    discarded. `spec` and the calendars are passed as stored: one that cannot be decoded must not block the others.
    """

    name: str
    version: int
    spec: str
    standing: ScheduleState
    live: tuple[JobId, ...] = ()
    ended: tuple[JobId, ...] = ()
    paused_until: datetime | None = None
    failed: frozenset[JobId] = frozenset()


class DueSchedules(msgspec.Struct, frozen=True):
    """The due schedules, with the calendars and task definitions that are needed to evaluate them.

    `next_wake_s`: seconds until the next of the other schedules is due, None if none is.
    """

    now: datetime
    schedules: list[DueSchedule]
    next_wake_s: float | None
    calendars: Mapping[str, str] = {}
    definitions: Mapping[str, TaskDefinition] = {}


class Fired(msgspec.Struct, frozen=True):
    """The outcome of one occurrence. `job_id` is the job that was started for it."""

    due_at: datetime
    action: str
    is_catchup: bool
    job_id: JobId | None = None
    reason: str | None = None


class ScheduleMove(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to a schedule that still has this version: all of them are stored, or none.

    `awaits_end`: the schedule is evaluated again when a run ends. `cancels` are older runs to cancel. Each of the
    `jobs` has the instant `at` which it is due.
    """

    name: str
    version: int
    standing: ScheduleState
    wake_at: datetime | None
    awaits_end: bool = False
    fires: tuple[Fired, ...] = ()
    jobs: tuple[NewJob, ...] = ()
    ended: tuple[JobId, ...] = ()
    cancels: tuple[JobId, ...] = ()


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule at the time of the read. `is_declared`: code has declared it."""

    name: str
    spec: ScheduleSpec
    standing: ScheduleState
    is_declared: bool
    paused_at: datetime | None
    paused_until: datetime | None
    paused_by: str | None
    paused_why: str | None
    wake_at: datetime | None
    created_at: datetime
    edited_at: datetime


@dataclass(frozen=True, slots=True)
class FireView:
    """The recorded outcome of an occurrence."""

    due_at: datetime
    action: str
    job_id: JobId | None
    fired_at: datetime
    is_catchup: bool
    reason: str | None


class ScheduleVerbs(Protocol):
    """The verbs of schedules. Each is one transaction and safe to run twice, like all verbs of a store."""

    # -- callers

    def put_schedules(self, specs: Sequence[ScheduleSpec]) -> None:
        """Store schedules, all or none. A new one begins now, or at its start; an existing one is edited.

        A changed recurrence applies from now on and fires nothing of the past. An equal spec changes nothing.
        """

    def declare_schedules(self, specs: Sequence[ScheduleSpec]) -> None:
        """Store schedules that code declares, merged with later edits (see core/schedule/spec.py)."""

    def get_schedules(self, names: Sequence[str]) -> dict[str, ScheduleView]:
        """Return the schedules with these names that exist."""

    def list_schedules(self, limit: int, after: str = "") -> list[ScheduleView]:
        """Return schedules by name, from just after `after` on."""

    def waking_schedules(self, limit: int) -> list[ScheduleView]:
        """Return the schedules that are evaluated next, the soonest first; none is due before that."""

    def paused_schedules(self, limit: int) -> list[ScheduleView]:
        """Return paused schedules, the last one to be paused first."""

    def delete_schedules(self, names: Sequence[str]) -> list[str]:
        """Delete schedules and their fire records; return those that existed. Their jobs are not affected."""

    def replace_schedule(self, spec: ScheduleSpec, old: ScheduleSpec | None) -> bool:
        """Store a schedule if its spec is still `old`; with None, only if no schedule has its name."""

    def pause_schedules(
        self, names: Sequence[str], by: str | None = None, why: str | None = None, until: datetime | None = None
    ) -> list[str]:
        """Pause schedules, for good or until an instant; return those that were not paused before."""

    def resume_schedules(self, names: Sequence[str]) -> list[str]:
        """Resume paused schedules; return those that were paused. Occurrences that came due meanwhile were missed."""

    def fires(self, name: str, limit: int, before: datetime | None = None) -> list[FireView]:
        """Return the outcomes of a schedule's occurrences, the latest first, from just before an instant on."""

    def put_calendar(self, name: str, calendar: Calendar) -> None:
        """Store a calendar. Schedules that use it are evaluated again; past occurrences do not fire."""

    def delete_calendar(self, name: str) -> bool:
        """Delete a calendar; False when there is none of that name. InvalidInput while a schedule uses it."""

    def calendars(self) -> dict[str, Calendar]:
        """Return all calendars by name."""

    # -- services

    def look_at_schedules(self, limit: int) -> DueSchedules:
        """Return about `limit` schedules that are due to be evaluated, or that wait for a run that has ended."""

    def end_pauses(self) -> list[str]:
        """Resume schedules whose pause ends now, as resume_schedules does; return them."""

    def move_schedules(self, moves: Sequence[ScheduleMove]) -> set[str]:
        """Move schedules in one transaction; return those that were moved. The others had been moved or changed.

        Raises InvariantBroken, and moves nothing, if an occurrence would be decided a second time.
        """
