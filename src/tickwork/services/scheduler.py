"""Turns due occurrences into jobs. Every worker runs one, and nobody leads.

It looks at the schedules that are due, has the core decide what each of them does, and moves them from the version that
it looked at to the next, with the jobs, in one transaction a batch. Another scheduler that did the same moves nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache

import msgspec

from tickwork.clock import Clock
from tickwork.core.ids import IdMaker, JobId
from tickwork.core.job import NewJob, TaskDefinition
from tickwork.core.schedule.calendar import Calendar
from tickwork.core.schedule.decide import Action, Decision, Fire, decide
from tickwork.core.schedule.spec import Spec, decode_spec, template
from tickwork.core.schedule.stored import decode_calendar
from tickwork.core.schedule.tick import Tick, encode_tick
from tickwork.store.base import Store
from tickwork.store.schedules import Fired, Look, Move, Seen

_log = logging.getLogger("tickwork.services")
BATCH = 500
POLL_S = 1.0  # how soon it is noticed that another process made or changed a schedule, or that a run ended elsewhere
TROUBLE = timedelta(minutes=1)  # when to look again at a schedule that could not be judged
PASSED = "pass"  # the action of a record of missed occurrences that the catch-up policy gave up


class Scheduler:
    """Fires schedules when they are due. Safe to run many times at once, on many machines."""

    def __init__(self, store: Store, ids: IdMaker, clock: Clock) -> None:
        self._store = store
        self._ids = ids
        self._clock = clock
        self._troubled: dict[str, str] = {}
        self.moved = 0

    def tick(self, now: float) -> float:
        look = self._store.look_at_schedules(BATCH)
        looked = self._clock.monotonic()
        moves = [self._move(look, seen) for seen in look.schedules]
        if moves:
            self.moved += len(self._store.move_schedules(moves))  # passes by those that another one moved first
        if len(moves) >= BATCH:
            return 0.0
        wakes = [(move.wake_at - look.now).total_seconds() for move in moves if move.wake_at is not None]
        soonest = min([POLL_S, *wakes, *([] if look.next_wake_s is None else [look.next_wake_s])])
        return max(0.0, soonest - (self._clock.monotonic() - looked))

    def _move(self, look: Look, seen: Seen) -> Move:
        """Decide about one schedule. One that cannot be judged must not hold up the others: it waits a while."""
        try:
            spec = decode_spec(seen.spec)
            calendars = _calendars(look.calendars, spec)
            decision = decide(seen.name, spec.rule, spec.policies, seen.standing, look.now, calendars)
            return self._carry(seen, spec, decision, look.definitions.get(spec.target))
        except Exception as error:
            self._complain(seen, error)
            wake_at = None if seen.standing.paused else look.now + TROUBLE
            return Move(name=seen.name, version=seen.version, standing=seen.standing, wake_at=wake_at)

    def _carry(self, seen: Seen, spec: Spec, decision: Decision, definition: TaskDefinition | None) -> Move:
        """The move that carries out a decision."""
        made = template(spec, definition)
        fires, jobs, cancels, live = [], [], [], list(seen.live)
        if decision.passed_over is not None:
            first, last = decision.passed_over
            reason = f"missed, as were all until {last.isoformat()}; catchup is {spec.policies.catchup}"
            fires.append(Fired(first, PASSED, True, reason=reason))
        for fire in decision.fires:
            job_id = None
            if fire.action in {Action.START, Action.CANCEL_OLDER}:
                job = _run(made, JobId(self._ids.new_id()), seen.name, fire)
                job_id = job.id
                jobs.append(job)
                if fire.action is Action.CANCEL_OLDER:
                    cancels += live
                    live.clear()
                live.append(job_id)
            fires.append(Fired(fire.scheduled_for, fire.action, fire.is_catchup, job_id, fire.reason))
        return Move(
            name=seen.name,
            version=seen.version,
            standing=decision.standing,
            wake_at=decision.wake_at,
            awaits_end=decision.wakes_on_end,
            fires=tuple(fires),
            jobs=tuple(jobs),
            ended=seen.ended,
            cancels=tuple(cancels),
        )

    def _complain(self, seen: Seen, error: Exception) -> None:
        """Say what is wrong with a schedule once, not at every look."""
        told = f"{type(error).__name__}: {error}"
        if self._troubled.get(seen.name) != told:
            self._troubled[seen.name] = told
            _log.error("Schedule %r cannot be judged and starts nothing for now. %s", seen.name, told)


def _run(made: NewJob, id: JobId, schedule: str, fire: Fire) -> NewJob:
    tick = Tick(schedule, fire.scheduled_for, fire.is_catchup, fire.interval)
    return msgspec.structs.replace(made, id=id, at=fire.run_at, expires_at=fire.expires_at, tick=encode_tick(tick))


def _calendars(stored: Mapping[str, str], spec: Spec) -> dict[str, Calendar]:
    return {name: _calendar(stored[name]) for name in spec.calendar_names if name in stored}


@lru_cache(maxsize=256)
def _calendar(text: str) -> Calendar:
    return decode_calendar(text.encode())
