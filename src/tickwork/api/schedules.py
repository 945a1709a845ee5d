"""The schedules of an app: `app.schedules["report"]`, and the operations on a schedule."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from tickwork.api.async_twins import twin
from tickwork.api.backfill import Backfill, BackfillOutcome, MakeJob, occurrences
from tickwork.api.client import Client, Job
from tickwork.api.paging import Page, Pages
from tickwork.api.schedule_rules import Rule
from tickwork.context import current_creator
from tickwork.core.arguments.unstorable import check_text
from tickwork.core.ids import JobId
from tickwork.core.job import NewJob
from tickwork.core.job_options import schedule_name
from tickwork.core.occurrence import Occurrence, encode_occurrence
from tickwork.core.recurrence.base_rule import NO_CALENDARS, Calendars, read_instant
from tickwork.core.schedule.decide import rule_of
from tickwork.core.schedule.policy import SchedulePolicies
from tickwork.core.schedule.spec import ScheduleSpec, template
from tickwork.core.schedule.state import period
from tickwork.core.schedule.upcoming import missing_calendars, state_of, upcoming
from tickwork.core.text.duration import parse_duration
from tickwork.errors import InvalidInput, InvalidOption, ScheduleNotFound
from tickwork.store.base import Store
from tickwork.store.schedules import FireView, ScheduleView

PAGE = 1000
_LONGEST_PAUSE = timedelta(days=36_500)
NewIds = Callable[[int], list[str]]


class Schedules(Mapping[str, "Schedule"]):
    """The schedules of a store, sorted by name. Each access reads the store.

    `nudge` wakes the schedulers of this process at once; schedulers of other processes notice a change within a
    second.
    """

    def __init__(self, client: Client, new_ids: NewIds, nudge: Callable[[], None]) -> None:
        self.client = client
        self.new_ids = new_ids
        self.nudge = nudge

    @property
    def store(self) -> Store:
        return self.client.store

    def __getitem__(self, name: str) -> Schedule:
        """Return the schedule of that name. Raises ScheduleNotFound."""
        found = self.store.schedules.get_schedules([name]).get(name)
        if found is None:
            raise ScheduleNotFound(
                f"there is no schedule {name!r} in this store. A declared schedule is stored when a worker with "
                f"that code starts. See which there are: tickwork schedules list"
            )
        return Schedule(self, name, found)

    def __iter__(self) -> Iterator[str]:
        return (view.name for view in self.views())

    def __len__(self) -> int:
        return sum(1 for _ in self.views())

    def views(self) -> Iterator[ScheduleView]:
        """Yield all schedules with their state, read a page at a time."""
        after = ""
        while page := self.store.schedules.list_schedules(PAGE, after):
            yield from page
            after = page[-1].name

    def handle(self, view: ScheduleView) -> Schedule:
        """Return a `Schedule` for a view that was just read."""
        return Schedule(self, view.name, view)

    def put(self, specs: Sequence[ScheduleSpec]) -> list[Schedule]:
        """Store schedules, all or none; existing schedules of the same name are edited.

        Raises InvalidInput for a calendar that is not in the store.
        """
        self.check_calendars(specs)
        self.store.schedules.put_schedules(specs)
        self.nudge()
        return [Schedule(self, spec.name) for spec in specs]

    def pause_as_said(self, specs: Sequence[ScheduleSpec]) -> None:
        """Pause the schedules that are declared as paused, including schedules that existed before."""
        self.store.schedules.pause_schedules([spec.name for spec in specs if spec.paused])

    def check_calendars(self, specs: Sequence[ScheduleSpec], beside: Container[str] = ()) -> None:
        """Raise InvalidInput if a schedule uses a calendar that is neither in the store nor in `beside`."""
        heeded = {name: spec for spec in specs for name in spec.calendar_names if name not in beside}
        missing = sorted(set(heeded) - set(self.store.schedules.calendars())) if heeded else []
        if missing:
            raise InvalidInput(
                f"schedule {heeded[missing[0]].name!r} heeds the calendar {missing[0]!r}, which is not in this store. "
                f"Nothing was stored. Store it first: app.put_calendar({missing[0]!r}, calendar(...))"
            )

    def undeclared(self) -> list[str]:
        """Return the schedules that code declared earlier and no live worker declares now.

        They fire until they are deleted.

        Without any live worker the list is empty, since it is not known what code declares.
        """
        live = [worker for worker in self.store.reads.workers() if worker.state not in ("lost", "remote")]
        declared = {name for worker in live for name in worker.schedules}
        return [view.name for view in self.views() if live and view.is_declared and view.name not in declared]


class Schedule:
    """A schedule in the store. Its properties are read from the store on access."""

    def __init__(self, schedules: Schedules, name: str, view: ScheduleView | None = None) -> None:
        self._schedules = schedules
        self._client = schedules.client
        self._first = view
        self.name = schedule_name(name)

    def __repr__(self) -> str:
        return f"<Schedule {self.name}>"

    @property
    def view(self) -> ScheduleView:
        """All stored facts of the schedule, read now. Raises ScheduleNotFound if the schedule was deleted."""
        view, self._first = self._first, None
        found = view or self._client.store.schedules.get_schedules([self.name]).get(self.name)
        if found is None:
            raise ScheduleNotFound(f"schedule {self.name!r} is not in this store any more.")
        return found

    @property
    def spec(self) -> ScheduleSpec:
        """The definition of the schedule."""
        return self.view.spec

    @property
    def rule(self) -> Rule:
        return Rule(self.view.spec.rule)

    @property
    def policies(self) -> SchedulePolicies:
        return self.view.spec.policies

    @property
    def state(self) -> str:
        """ "active", "paused", "troubled" while a calendar is missing, or "ended" if there is no further occurrence."""
        view = self.view
        return state_of(view.spec, view.standing, self._client.store.now(), self._calendars(view))

    def next(self, n: int = 1) -> list[datetime]:
        """Return the next `n` occurrences, in UTC. For a fixed delay: only the next, once it is known.

        For a paused schedule these are the occurrences that it would have.
        """
        view = self.view
        return upcoming(view.spec, view.standing, n, self._client.store.now(), self._calendars(view))

    def _calendars(self, view: ScheduleView) -> Calendars:
        return self._client.store.schedules.calendars() if view.spec.calendar_names else NO_CALENDARS

    def pause(
        self, reason: str | None = None, *, by: str | None = None, until: str | timedelta | datetime | None = None
    ) -> bool:
        """Pause the schedule, so that it starts nothing; return False if it was already paused. Running jobs
        continue.

        `until` is an instant, or a duration from now, at which the schedule resumes by itself. Raises InvalidOption.
        """
        ends = None if until is None else _end_of_pause(until, self._client.store.now())
        check_text("by", by)
        check_text("reason", reason)
        return self._change(self._client.store.schedules.pause_schedules([self.name], by, reason, ends))

    def resume(self) -> bool:
        """Resume the schedule; return False if it was not paused.

        Occurrences that were due during the pause count as missed: the catch-up policy decides about them.
        """
        return self._change(self._client.store.schedules.resume_schedules([self.name]))

    def _change(self, changed: list[str]) -> bool:
        """Wake the schedulers after a change and return `changed`.

        Raises ScheduleNotFound if the schedule was deleted.
        """
        self._first = None
        if not changed:
            _ = self.view  # raises ScheduleNotFound
        self._schedules.nudge()
        return bool(changed)

    def run(self) -> Job:
        """Start a run now, regardless of the rule and the policies. The schedule is otherwise unchanged."""
        return self._client.enqueue([self._job_of(self.view)(self._client.store.now(), is_catchup=False)])[0]

    def delete(self) -> bool:
        """Delete the schedule and the record of its fires; return False if it did not exist. Its jobs continue."""
        self._first = None
        return bool(self._client.store.schedules.delete_schedules([self.name]))

    def fires(self, limit: int | None = None, before: datetime | None = None) -> Sequence[FireView]:
        """Return the outcomes of the schedule's occurrences before `before`, latest first.

        Pages are read while iterating; with `limit`, at most that number is read at once.
        """
        return (
            Pages(self._fires_before, before)
            if limit is None
            else self._client.store.schedules.fires(self.name, limit, before)
        )

    async def fires_async(self, limit: int | None = None, before: datetime | None = None) -> list[FireView]:
        """Return the outcomes of occurrences, as `fires` does. Without `limit`, all of them are read."""
        return await asyncio.to_thread(lambda: list(self.fires(limit, before)))

    def _fires_before(self, before: datetime | None) -> Page[FireView]:
        found = self._client.store.schedules.fires(self.name, PAGE, before)
        return Page(found, found[-1].due_at if len(found) == PAGE else None)

    def occurrences(self, start: datetime, end: datetime) -> list[datetime]:
        """Return the schedule's occurrences from `start` to `end`.

        Raises InvalidInput for too many, or for a fixed delay.
        """
        view = self.view
        return occurrences(view.spec, start, end, self._calendars(view))

    def backfill(
        self, start: datetime, end: datetime, *, max_parallel: int = 1, dry_run: bool = False, force: bool = False
    ) -> list[BackfillOutcome]:
        """Run the schedule for each occurrence from `start` to `end`, oldest first; return their outcomes.

        At most `max_parallel` jobs are live at a time, and the call returns when all have ended. The key of a job
        contains its occurrence and is kept for 30 days, so repeating a backfill runs nothing twice, except with
        `force`. `dry_run` starts nothing. With wait_for_previous the backfill ends at the first occurrence that does
        not succeed; later occurrences have no job.
        """
        dues = self.occurrences(start, end)
        if dry_run:
            return [BackfillOutcome(due) for due in dues]
        return sorted(self.backfilling(dues, max_parallel, force=force).steps(), key=lambda one: one.due_at)

    def backfilling(self, dues: Sequence[datetime], max_parallel: int, *, force: bool = False) -> Backfill:
        """Return a backfill of these occurrences, for callers that show its progress."""
        view = self.view
        in_order = view.spec.policies.wait_for_previous
        make = self._job_of(view)
        return Backfill(self._client, self.name, dues, max_parallel, make, force=force, in_order=in_order)

    def _job_of(self, view: ScheduleView) -> MakeJob:
        """Return a function that makes the job of an occurrence."""
        made = template(view.spec, self._client.store.reads.task_definition(view.spec.target))
        spec, calendars = view.spec, self._calendars(view)
        rule = rule_of(spec.name, spec.rule, spec.policies.start, spec.policies.calendars)
        is_known = not missing_calendars(spec, calendars)

        def make(due: datetime, *, is_catchup: bool) -> NewJob:
            (job_id,) = self._schedules.new_ids(1)
            occurrence = Occurrence(self.name, due, is_catchup, period(rule, due, calendars) if is_known else None)
            return msgspec.structs.replace(
                made, id=JobId(job_id), occurrence=encode_occurrence(occurrence), creator=current_creator()
            )

        return make

    next_async = twin(next)
    pause_async = twin(pause)
    resume_async = twin(resume)
    run_async = twin(run)
    delete_async = twin(delete)


def _end_of_pause(until: str | timedelta | datetime, now: datetime) -> datetime:
    """Return the instant at which a pause ends. Raises InvalidOption if it has passed."""
    if isinstance(until, datetime):
        ends = read_instant("until", until)
    else:
        ends = now + min(parse_duration(until, what="until"), _LONGEST_PAUSE)
    if ends <= now:
        raise InvalidOption(f"until is {until}, which has passed: such a pause would hold nothing.")
    return ends
