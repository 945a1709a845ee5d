"""Decide what a schedule does at an instant: a pure function.

The scheduler reads a schedule with its version, calls `decide`, and stores the decision, with the jobs that it starts,
only if the version is still the same. An occurrence fires exactly once for two reasons: the new state includes every
instant that was decided, so a later decision skips it; and of two schedulers that read the same version, one stores
nothing. No lock is held while a decision is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache

import msgspec

from tickwork.core.recurrence.base_rule import NO_CALENDARS, Calendars, RuleValue, spread
from tickwork.core.recurrence.combine import all_of, except_on
from tickwork.core.recurrence.interval import After
from tickwork.core.recurrence.zones import TICK
from tickwork.core.schedule.policy import SchedulePolicies
from tickwork.core.schedule.state import ScheduleState, WaitingOccurrence, due_now, look_from, period
from tickwork.errors import InvalidOption

# delay until it is noticed that a failed run, which blocks the next ones, has succeeded after a rerun
RECHECK = timedelta(seconds=15)
Period = tuple[datetime, datetime] | None


class FireAction(StrEnum):
    """The action that a decision takes for an occurrence."""

    START = "start"
    SKIP = "skip"
    QUEUE = "queue"  # starts when the live runs have ended
    CANCEL_OLDER = "cancel_older"  # starts when the live runs have been cancelled and have ended


@dataclass(frozen=True, slots=True)
class FireDecision:
    """The decision about one occurrence. A waiting occurrence is decided again later, to start or to be skipped.

    The run starts at `run_at`, which is after `scheduled_for` by the jitter or its offset in the window, and not after
    `expires_at`. `interval` is the period that the run covers. `reason` says why the occurrence is skipped.
    """

    scheduled_for: datetime
    action: FireAction
    is_catchup: bool
    run_at: datetime
    expires_at: datetime | None
    interval: Period
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ScheduleDecision:
    """The fires of a schedule, its new state, and when to look again.

    `wake_at` is None if nothing more is due, unless `wakes_on_end`, which asks for another look when a run ends.
    `passed_over` are the first and last of the missed occurrences that the catch-up policy gave up.
    """

    fires: tuple[FireDecision, ...]
    standing: ScheduleState
    wake_at: datetime | None
    wakes_on_end: bool = False
    passed_over: tuple[datetime, datetime] | None = None


def decide(
    name: str,
    rule: RuleValue,
    policies: SchedulePolicies,
    standing: ScheduleState,
    now: datetime,
    calendars: Calendars = NO_CALENDARS,
) -> ScheduleDecision:
    """Decide about everything that is due for a schedule at `now`."""
    if standing.paused:
        return ScheduleDecision((), standing, None)
    rule = rule_of(name, rule, policies.start, policies.calendars)
    if standing.last_ended_at is not None and standing.last_ended_at > now:  # the store's clock was ahead then
        standing = msgspec.structs.replace(standing, last_ended_at=now)
    judge = _OccurrenceJudge(name, policies, standing, now, lambda due: period(rule, due, calendars))
    judge.start_waiting()
    if isinstance(rule, After):
        return _decide_after(rule, policies, now, judge)
    dues = due_now(rule, policies, standing, now, calendars)
    for due in dues.missed:
        judge.judge(due, is_catchup=True)
    for due in dues.on_time:
        judge.judge(due, is_catchup=False)
    after = msgspec.structs.replace(judge.standing(), handled_at=dues.handled_at)
    wake_at = _if_allowed(dues.upcoming, policies, after)
    waits = bool(after.waiting)
    if waits and standing.is_blocked:  # no live run will wake it: a rerun is found by looking again
        wake_at, waits = min(filter(None, (wake_at, now + RECHECK))), False
    return ScheduleDecision(tuple(judge.fires), after, wake_at, waits, dues.passed_over)


def next_due(
    name: str, rule: RuleValue, policies: SchedulePolicies, standing: ScheduleState, calendars: Calendars = NO_CALENDARS
) -> datetime | None:
    """Return the next occurrence after the last one that was handled, which may be before now."""
    rule = rule_of(name, rule, policies.start, policies.calendars)
    if isinstance(rule, After):
        due = _due_after_end(rule, policies, standing)
    else:
        due = rule.first_after(look_from(policies, standing), calendars)
    return _if_allowed(due, policies, standing)


def _if_allowed(due: datetime | None, policies: SchedulePolicies, standing: ScheduleState) -> datetime | None:
    """Return `due`; None if it is after the end of the schedule, or the schedule has started all its runs."""
    if due is None or (policies.end is not None and due > policies.end):
        return None
    return None if _has_all_runs(policies, standing.run_count + len(standing.waiting)) else due


def _has_all_runs(policies: SchedulePolicies, count: int) -> bool:
    return policies.max_runs is not None and count >= policies.max_runs


@lru_cache(maxsize=16_384)
def rule_of(name: str, rule: RuleValue, start: datetime | None, calendars: tuple[object, ...]) -> RuleValue:
    """Return the rule of a schedule of that name, with its start and the calendars of its policies."""
    own = rule.of_schedule(name, start)
    if not calendars:
        return own
    if isinstance(rule, After):
        raise InvalidOption("calendars do not go with after(...), which is due when a run ended, on whatever day.")
    return all_of(own, except_on(*calendars))  # type: ignore[arg-type]


def _due_after_end(rule: After, policies: SchedulePolicies, standing: ScheduleState) -> datetime | None:
    """Return when a fixed delay is over; None while a run is live. The first run is due at once."""
    if standing.live_count:
        return None
    due = standing.active_since if standing.last_ended_at is None else standing.last_ended_at + rule.delay
    return max(due, standing.handled_at + TICK, policies.start or due)


def _decide_after(rule: After, policies: SchedulePolicies, now: datetime, judge: _OccurrenceJudge) -> ScheduleDecision:
    """Decide about a fixed delay, which may be late but is never missed."""
    standing = judge.standing()
    if standing.is_blocked:
        return ScheduleDecision((), standing, now + RECHECK)
    due = _if_allowed(_due_after_end(rule, policies, standing), policies, standing)
    if due is not None and due <= now:
        judge.judge(due, is_catchup=False)
        standing = msgspec.structs.replace(judge.standing(), handled_at=due)
        if not standing.live_count:  # it was skipped: the next delay counts from here
            standing = msgspec.structs.replace(standing, last_ended_at=now)
        due = _if_allowed(_due_after_end(rule, policies, standing), policies, standing)
    return ScheduleDecision(tuple(judge.fires), standing, due, wakes_on_end=standing.live_count > 0)


class _OccurrenceJudge:
    """Decides about occurrences one by one, and counts the live runs and waiting occurrences."""

    def __init__(
        self,
        name: str,
        policies: SchedulePolicies,
        standing: ScheduleState,
        now: datetime,
        period_of: Callable[[datetime], Period],
    ) -> None:
        self.fires: list[FireDecision] = []
        self._period_of = period_of
        self._name = name
        self._policies = policies
        self._standing = standing
        self._now = now
        self._live_count = standing.live_count
        self._run_count = standing.run_count
        self._waiting = list(standing.waiting)

    def standing(self) -> ScheduleState:
        """Return the state after the decisions so far."""
        return msgspec.structs.replace(
            self._standing,
            run_count=self._run_count,
            live_count=self._live_count,
            waiting=tuple(self._waiting),
        )

    def start_waiting(self) -> None:
        """Start waiting occurrences; only one at a time unless runs may overlap."""
        while self._waiting and not self._standing.is_blocked and self._may_start:
            one = self._waiting.pop(0)
            if _has_all_runs(self._policies, self._run_count):
                self._add(one.due_at, FireAction.SKIP, one.is_catchup, "it has had all of its runs")
            else:
                self._add(one.due_at, FireAction.START, one.is_catchup)

    @property
    def _may_start(self) -> bool:
        return not self._live_count or self._policies.overlap == "allow"

    def judge(self, due: datetime, *, is_catchup: bool) -> None:
        """Decide about one occurrence."""
        in_turn = self._is_in_turn(is_catchup)
        waiting = len(self._waiting) if in_turn else len(self._waiting) - len(self._replaceable())
        if due in self._standing.started or _has_all_runs(self._policies, self._run_count + waiting):
            return
        action, reason = self._overlap(in_turn)
        if action is FireAction.CANCEL_OLDER and not self._is_too_late(due):
            self._give_way()
            action = action if self._live_count else FireAction.START
        self._add(due, action, is_catchup, reason)

    def _is_in_turn(self, is_catchup: bool) -> bool:
        """Return whether an occurrence is one of the missed ones that all run, one after another."""
        return is_catchup and self._policies.catchup == "all"

    def _replaceable(self) -> list[WaitingOccurrence]:
        """Return the waiting occurrences that a later one replaces."""
        if self._policies.overlap != "cancel":
            return []
        return [one for one in self._waiting if not self._is_in_turn(one.is_catchup)]

    def _overlap(self, in_turn: bool) -> tuple[FireAction, str | None]:
        """Return the action by the overlap policy, and the reason of a skip. `in_turn`: see `_is_in_turn`."""
        overlap = self._policies.overlap
        if overlap == "allow" or not (self._live_count or self._waiting or self._standing.is_blocked):
            return FireAction.START, None
        if self._policies.wait_for_previous:
            if len(self._waiting) >= self._policies.catchup_limit:
                return FireAction.SKIP, f"{len(self._waiting):,} wait already for the run before them to succeed"
            return FireAction.QUEUE, "the run before it has not succeeded yet"
        if in_turn:
            return FireAction.QUEUE, None
        if overlap == "cancel":
            return FireAction.CANCEL_OLDER, None
        if overlap == "queue" and not self._waiting:
            return FireAction.QUEUE, None
        return FireAction.SKIP, "an earlier run lives" if overlap == "skip" else "another one is queued already"

    def _add(self, due: datetime, action: FireAction, is_catchup: bool, reason: str | None = None) -> None:
        """Add the fire of an occurrence and count it. An occurrence past its deadline is skipped."""
        run_at = due + self._delay(due)
        expires_at = None if self._policies.deadline is None else run_at + self._policies.deadline
        if action is not FireAction.SKIP and self._is_too_late(due):
            action, reason = FireAction.SKIP, "its deadline has passed"
        if action is FireAction.QUEUE:
            self._waiting.append(WaitingOccurrence(due, is_catchup))
        elif action is FireAction.CANCEL_OLDER:
            self._waiting.insert(0, WaitingOccurrence(due, is_catchup))
        elif action is FireAction.START:
            self._run_count += 1
            self._live_count += 1
        interval = self._period_of(due) if action is FireAction.START else None
        self.fires.append(FireDecision(due, action, is_catchup, run_at, expires_at, interval, reason))

    def _give_way(self) -> None:
        """Cancel the starts of this decision and skip waiting occurrences, because a later occurrence replaces them.

        An occurrence has one fire in a decision, the last. Missed occurrences that all run are queued instead.
        """
        for fire in [fire for fire in self.fires if fire.action is FireAction.START]:
            self._run_count -= 1
            self._live_count -= 1
            self._waiting.insert(0, WaitingOccurrence(fire.scheduled_for, fire.is_catchup))
            self.fires.remove(fire)
            if self._is_in_turn(fire.is_catchup):
                self.fires.append(replace(fire, action=FireAction.QUEUE))
        for one in self._replaceable():
            self._waiting.remove(one)
            self.fires = [fire for fire in self.fires if fire.scheduled_for != one.due_at]
            self._add(one.due_at, FireAction.SKIP, one.is_catchup, "a later one came before it could start")

    def _is_too_late(self, due: datetime) -> bool:
        """Return whether the deadline of an occurrence has passed."""
        deadline = self._policies.deadline
        return deadline is not None and due + self._delay(due) + deadline < self._now

    def _delay(self, due: datetime) -> timedelta:
        """Return the delay of a run after its occurrence: its own jitter, or the schedule's offset in the window."""
        if self._policies.window:
            return TICK * spread(f"{self._name}\0window", self._policies.window // TICK)
        if self._policies.jitter:
            return TICK * spread(f"{self._name}\0{due.isoformat()}", self._policies.jitter // TICK)
        return timedelta(0)
