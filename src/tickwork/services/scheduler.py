"""The scheduler: turns due occurrences of schedules into jobs. Every worker and server runs one, without a leader.

It reads the schedules that are due, calls `decide` of the core for each, and stores the decisions with their jobs, in
one transaction per batch; each raises the version of its schedule. If another scheduler has stored a decision first,
the version differs and nothing is stored for that schedule.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache

import msgspec

from tickwork.clock import Clock
from tickwork.core.ids import IdMaker, JobId
from tickwork.core.job import NewJob
from tickwork.core.occurrence import Occurrence, encode_occurrence
from tickwork.core.recurrence.calendar import Calendar
from tickwork.core.recurrence.parse_rule import decode_calendar
from tickwork.core.schedule.decide import FireAction, FireDecision, ScheduleDecision, decide
from tickwork.core.schedule.spec import ScheduleSpec, decode_spec, template
from tickwork.errors import InvariantBroken
from tickwork.services.clock_watch import ClockWatch
from tickwork.store.base import Store
from tickwork.store.schedules import DueSchedule, DueSchedules, Fired, ScheduleMove

_log = logging.getLogger("tickwork.services")
BATCH = 500
POLL_S = 1.0  # delay until it notices that another process stored a schedule, or that a run ended elsewhere
ZONES_LOOK = timedelta(hours=1)
TROUBLE = timedelta(minutes=1)  # delay until a schedule that raised an error is looked at again
PASSED = "pass"  # action of the record of missed occurrences that the catch-up policy gave up


class Scheduler:
    """Fires schedules when they are due. Safe to run many times at once, on many machines."""

    def __init__(self, store: Store, ids: IdMaker, clock: Clock, may_fire: Callable[[], bool] = lambda: True) -> None:
        self._store = store
        self._ids = ids
        self._clock = clock
        self._may_fire = may_fire
        self._watch = ClockWatch(store, clock)
        self._troubled: dict[str, str] = {}
        self.moved = 0

    def tick(self, now: float) -> float:
        """Decide about the due schedules; return the seconds until the next one is due, at most POLL_S."""
        if not self._may_fire():
            return POLL_S
        asked_us = self._watch.asking()
        look = self._store.schedules.look_at_schedules(BATCH)
        looked = self._clock.monotonic()
        if self._watch.saw(look.now, asked_us):
            return 0.0
        if any(seen.paused_until is not None and seen.paused_until <= look.now for seen in look.schedules):
            self._store.schedules.end_pauses()
            return 0.0
        moves = [self._move(look, seen) for seen in look.schedules]
        if moves:
            self._carry_out(look, moves)
        # jobs cancelled before they began have ended: start their successors
        if len(moves) >= BATCH or any(move.cancels for move in moves):
            return 0.0
        wakes = [(move.wake_at - look.now).total_seconds() for move in moves if move.wake_at is not None]
        soonest = min([POLL_S, *wakes, *([] if look.next_wake_s is None else [look.next_wake_s])])
        return max(0.0, soonest - (self._clock.monotonic() - looked))

    def _carry_out(self, look: DueSchedules, moves: Sequence[ScheduleMove]) -> None:
        """Store decisions. A schedule that another scheduler handled first is skipped.

        A schedule whose stored records contradict its decision must not delay the others: the decisions are then
        stored one by one, and the broken schedule is postponed.
        """
        try:
            self.moved += len(self._store.schedules.move_schedules(moves))
        except InvariantBroken as error:
            if len(moves) > 1:
                for move in moves:
                    self._carry_out(look, [move])
                return
            seen = next(one for one in look.schedules if one.name == moves[0].name)
            self._complain(seen, error)
            self._store.schedules.move_schedules([_put_off(look, seen)])

    def _move(self, look: DueSchedules, seen: DueSchedule) -> ScheduleMove:
        """Decide about one schedule; return what to store.

        A schedule that raises an error is postponed, so that it does not delay the others.
        """
        try:
            spec = decode_spec(seen.spec)
            calendars = _calendars(look.calendars, spec)
            if spec.policies.wait_for_previous and seen.failed:
                seen = _blocked(seen)
            decision = decide(seen.name, spec.rule, spec.policies, seen.standing, look.now, calendars)
            return self._carry(look, seen, spec, decision)
        except Exception as error:
            self._complain(seen, error)
            return _put_off(look, seen)

    def _carry(
        self, look: DueSchedules, seen: DueSchedule, spec: ScheduleSpec, decision: ScheduleDecision
    ) -> ScheduleMove:
        """Return what to store for a decision."""
        made = template(spec, look.definitions.get(spec.target))
        fires, jobs, cancels, live = [], [], [], list(seen.live)
        if decision.passed_over is not None:
            first, last = decision.passed_over
            reason = f"missed, as were all until {last.isoformat()}; catchup is {spec.policies.catchup}"
            fires.append(Fired(first, PASSED, True, reason=reason))
        for fire in decision.fires:
            job_id = None
            if fire.action is FireAction.START:
                job = _run(made, JobId(self._ids.new_id()), seen.name, fire, look.now)
                job_id = job.id
                jobs.append(job)
                live.append(job_id)
            elif fire.action is FireAction.CANCEL_OLDER:
                cancels += live
            fires.append(Fired(fire.scheduled_for, fire.action, fire.is_catchup, job_id, fire.reason))
        return ScheduleMove(
            name=seen.name,
            version=seen.version,
            standing=decision.standing,
            wake_at=_wake_at(spec, decision, look.now),
            awaits_end=decision.wakes_on_end,
            fires=tuple(fires),
            jobs=tuple(jobs),
            ended=seen.ended,
            cancels=tuple(dict.fromkeys(cancels)),
        )

    def _complain(self, seen: DueSchedule, error: Exception) -> None:
        """Log an error of a schedule once, not at every look."""
        told = f"{type(error).__name__}: {error}"
        if self._troubled.get(seen.name) != told:
            self._troubled[seen.name] = told
            _log.error("Schedule %r cannot be judged and starts nothing for now. %s", seen.name, told)


def _blocked(seen: DueSchedule) -> DueSchedule:
    """Return a schedule with its state blocked: its last run failed, and that run stays recorded until it succeeds."""
    standing = msgspec.structs.replace(seen.standing, is_blocked=True)
    kept = tuple(job_id for job_id in seen.ended if job_id not in seen.failed)
    return msgspec.structs.replace(seen, standing=standing, ended=kept)


def _run(made: NewJob, id: JobId, schedule: str, fire: FireDecision, now: datetime) -> NewJob:
    """Return the job of an occurrence. A late job is due now, which is also when its `expires` begins."""
    occurrence, at = Occurrence(schedule, fire.scheduled_for, fire.is_catchup, fire.interval), max(fire.run_at, now)
    when = {"at": at, "expires_at": fire.expires_at, "occurrence": encode_occurrence(occurrence)}
    return msgspec.structs.replace(made, id=id, creator=f"schedule:{schedule}", **when)


def _wake_at(spec: ScheduleSpec, decision: ScheduleDecision, now: datetime) -> datetime | None:
    """Return when to look at a schedule again; None if nothing will be due.

    For a rule in a time zone, within an hour: an update of the time zone database may move its occurrences.
    """
    if decision.wake_at is None or spec.rule.zone == "UTC":
        return decision.wake_at
    return min(decision.wake_at, now + ZONES_LOOK)


def _put_off(look: DueSchedules, seen: DueSchedule) -> ScheduleMove:
    """Return a move that changes nothing and looks at the schedule again after TROUBLE."""
    wake_at = None if seen.standing.paused else look.now + TROUBLE
    return ScheduleMove(name=seen.name, version=seen.version, standing=seen.standing, wake_at=wake_at)


def _calendars(stored: Mapping[str, str], spec: ScheduleSpec) -> dict[str, Calendar]:
    return {name: _calendar(stored[name]) for name in spec.calendar_names if name in stored}


@lru_cache(maxsize=256)
def _calendar(text: str) -> Calendar:
    return decode_calendar(text.encode())
