"""What a store promises of schedules: the verbs, and the values that go in and out of them.

Nobody leads. Any scheduler looks at what is due, decides what to do (`core/schedule/decide.py`), and moves each
schedule from the version that it looked at to the next. Whoever comes second finds another one and has done nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import msgspec

from tickwork.core.ids import JobId
from tickwork.core.job import NewJob, TaskDefinition
from tickwork.core.recurrence.calendars.calendar import Calendar
from tickwork.core.schedule.spec import ScheduleSpec
from tickwork.core.schedule.state import ScheduleState


class DueSchedule(msgspec.Struct, frozen=True):
    """A schedule at a look. `standing` knows which of its runs live; those that `ended` are forgotten by a move.

    Of these, `failed` did not succeed and were not discarded.

    `spec` and the calendars of a look are as stored: one that cannot be read must not keep the others waiting.
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
    """What a look brought: schedules that are to be judged, and what judging them takes.

    `next_wake_s`: seconds until the next of the other schedules is to be looked at, None if none is.
    """

    now: datetime
    schedules: list[DueSchedule]
    next_wake_s: float | None
    calendars: Mapping[str, str] = {}
    definitions: Mapping[str, TaskDefinition] = {}


class Fired(msgspec.Struct, frozen=True):
    """What became of one occurrence. `job_id` is the run that was started for it."""

    due_at: datetime
    action: str
    is_catchup: bool
    job_id: JobId | None = None
    reason: str | None = None


class ScheduleMove(msgspec.Struct, frozen=True, kw_only=True):
    """What is to become of a schedule that still has this version: all of it, or nothing.

    `awaits_end`: the end of a run is to be answered with another look. `cancels` are older runs that are to stop.
    Each of the `jobs` has the instant `at` which it is due.
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
    """A schedule as it stood when the store was read. `is_declared`: code has declared it."""

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
    """What became of an occurrence, as it was recorded."""

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
        """Store schedules, all or none. A new one begins now, or at its start; one that is there is edited.

        An edit of when it is due holds from now on and fires nothing of the time before. An equal Spec changes nothing.
        """

    def declare_schedules(self, specs: Sequence[ScheduleSpec]) -> None:
        """Store schedules that code declares, merged with later edits (see core/schedule/declared_merge.py)."""

    def get_schedules(self, names: Sequence[str]) -> dict[str, ScheduleView]:
        """Return those of the schedules that exist."""

    def list_schedules(self, limit: int, after: str = "") -> list[ScheduleView]:
        """Return schedules by name, from just after `after` on."""

    def waking_schedules(self, limit: int) -> list[ScheduleView]:
        """Return the schedules that somebody has to look at next, the soonest first; none is due before that."""

    def paused_schedules(self, limit: int) -> list[ScheduleView]:
        """Return schedules that are paused, the last one to be paused first."""

    def delete_schedules(self, names: Sequence[str]) -> list[str]:
        """Delete schedules and the records of their fires; return those that were there. Their jobs go on."""

    def replace_schedule(self, spec: ScheduleSpec, old: ScheduleSpec | None) -> bool:
        """Store a schedule where it is still defined by `old`, or, without one, where none of its name is there."""

    def pause_schedules(
        self, names: Sequence[str], by: str | None = None, why: str | None = None, until: datetime | None = None
    ) -> list[str]:
        """Have schedules start nothing from now on, or until an instant; return those that were not paused before."""

    def resume_schedules(self, names: Sequence[str]) -> list[str]:
        """Have paused schedules go on; return those that were paused. What came due meanwhile was missed."""

    def fires(self, name: str, limit: int, before: datetime | None = None) -> list[FireView]:
        """Return what became of a schedule's occurrences, the latest first, from just before an instant on."""

    def put_calendar(self, name: str, calendar: Calendar) -> None:
        """Store a calendar. Schedules that heed it are looked at again; what is past does not fire after all."""

    def delete_calendar(self, name: str) -> bool:
        """Delete a calendar; False when there is none of that name. InvalidInput while a schedule heeds it."""

    def calendars(self) -> dict[str, Calendar]:
        """Return all calendars by name."""

    # -- services

    def look_at_schedules(self, limit: int) -> DueSchedules:
        """Return about `limit` schedules whose time to be looked at has come, or that wait for a run that has ended."""

    def end_pauses(self) -> list[str]:
        """Have schedules go on whose pause was to last until now, as resume_schedules does; return them."""

    def move_schedules(self, moves: Sequence[ScheduleMove]) -> set[str]:
        """Move schedules in one transaction; return those that were moved. The others had been moved or changed.

        Raises InvariantBroken, and moves nothing, when an occurrence would be judged a second time.
        """
