"""The store verbs and views of schedules.

There is no leader. Any scheduler reads the due schedules, decides (`core/schedule/decide.py`), and moves each schedule,
that is stores the decision, from the version that it read to the next. If two schedulers decide on one version, the
move of the second finds another version and does nothing.
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
    """A schedule that is due for evaluation. `live` are its runs (the jobs that it started) that have not ended.

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

    `next_wake_s`: seconds until another schedule is due, None if none is.
    """

    now: datetime
    schedules: list[DueSchedule]
    next_wake_s: float | None
    calendars: Mapping[str, str] = {}
    definitions: Mapping[str, TaskDefinition] = {}


class Fired(msgspec.Struct, frozen=True):
    """The outcome of one occurrence. `job_id` is the job that was started for it, if any."""

    due_at: datetime
    action: str
    is_catchup: bool
    job_id: JobId | None = None
    reason: str | None = None


class ScheduleMove(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler's decision about a schedule. All of its changes are stored, or none if the schedule has another
    version.

    `awaits_end`: the schedule is evaluated again when a run ends. `cancels` are older runs to cancel. Each of the
    `jobs` has its run_at in `at`.
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
        """Store schedules, all or none. A new one begins now, or at its start; one with an existing name is changed.

        A changed recurrence applies from now on and fires nothing of the past. An equal spec changes nothing.
        """

    def declare_schedules(self, specs: Sequence[ScheduleSpec]) -> None:
        """Store schedules that code declares, merged with later edits (see core/schedule/spec.py)."""

    def get_schedules(self, names: Sequence[str]) -> dict[str, ScheduleView]:
        """Return the schedules with these names, by name; names without a schedule are left out."""

    def list_schedules(self, limit: int, after: str = "") -> list[ScheduleView]:
        """Return up to `limit` schedules whose names come after `after`, sorted by name."""

    def waking_schedules(self, limit: int) -> list[ScheduleView]:
        """Return up to `limit` schedules, ordered by when they are evaluated next."""

    def paused_schedules(self, limit: int) -> list[ScheduleView]:
        """Return up to `limit` paused schedules, the most recently paused first."""

    def delete_schedules(self, names: Sequence[str]) -> list[str]:
        """Delete schedules and their fire records; return the names that existed. Their jobs are not affected."""

    def replace_schedule(self, spec: ScheduleSpec, old: ScheduleSpec | None) -> bool:
        """Store a schedule if the stored spec still equals `old` (None: if its name is new).

        Return whether it was stored.
        """

    def pause_schedules(
        self, names: Sequence[str], by: str | None = None, why: str | None = None, until: datetime | None = None
    ) -> list[str]:
        """Pause schedules until an instant (None: until they are resumed); return those that were not paused before."""

    def resume_schedules(self, names: Sequence[str]) -> list[str]:
        """Resume schedules; return those that were paused.

        Occurrences that came due during the pause count as missed.
        """

    def fires(self, name: str, limit: int, before: datetime | None = None) -> list[FireView]:
        """Return up to `limit` outcomes of a schedule's occurrences before an instant, the latest first."""

    def put_calendar(self, name: str, calendar: Calendar) -> None:
        """Store a calendar, or replace it. Schedules that use it are evaluated again; past occurrences do not fire."""

    def delete_calendar(self, name: str) -> bool:
        """Delete a calendar; return False if there is none of this name.

        Raise InvalidInput while a schedule uses it.
        """

    def calendars(self) -> dict[str, Calendar]:
        """Return all calendars by name."""

    # -- services

    def look_at_schedules(self, limit: int) -> DueSchedules:
        """Return about `limit` schedules that are due for evaluation, or that wait for a run that has ended."""

    def end_pauses(self) -> list[str]:
        """Resume schedules whose pause has ended, as resume_schedules does; return their names."""

    def move_schedules(self, moves: Sequence[ScheduleMove]) -> set[str]:
        """Store these decisions in one transaction; return the names of the schedules that were moved.

        A schedule that was changed, or moved by another scheduler, is left out. Raise InvariantBroken, and move
        nothing, if an occurrence would be decided a second time.
        """
