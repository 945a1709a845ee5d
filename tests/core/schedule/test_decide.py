"""The decision at an instant: catch-up, overlap, spread, end; case by case, and against a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.schedule.states import edited, new_standing, put_on_hold, resumed, run_ended
from tickwork.core.recurrence.base_rule import RuleValue
from tickwork.core.recurrence.calendar import calendar
from tickwork.core.recurrence.cron import cron
from tickwork.core.recurrence.interval import after, at, every
from tickwork.core.schedule.decide import FireAction, ScheduleDecision, decide, next_due, rule_of
from tickwork.core.schedule.policy import SchedulePolicies, read_policies
from tickwork.core.schedule.state import GRACE, ScheduleState
from tickwork.errors import InvalidOption

T0 = datetime.fromisoformat("2026-11-16T10:00:00Z")
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
MINUTELY = cron("* * * * *")


class Schedule:
    """A schedule that keeps its standing between two looks, as the store does."""

    def __init__(self, rule: RuleValue = MINUTELY, *, created_at: datetime = T0, **policies: Any) -> None:
        self.rule = rule
        self.policies = read_policies(policies)
        self.standing = new_standing(created_at, self.policies)

    def look(self, now: datetime, **kwargs: Any) -> ScheduleDecision:
        decision = decide("report", self.rule, self.policies, self.standing, now, **kwargs)
        self.standing = decision.standing
        return decision

    def run_ends(self, now: datetime) -> None:
        self.standing = run_ended(self.standing, now)


def told(decision: ScheduleDecision) -> list[tuple[int, str, bool]]:
    """Which minute, what became of it, and whether it was caught up."""
    return [(int((fire.scheduled_for - T0) / MINUTE), fire.action.value, fire.is_catchup) for fire in decision.fires]


def test_an_occurrence_fires_once_however_often_one_looks() -> None:
    schedule = Schedule()
    assert schedule.look(T0 + 30 * SECOND).wake_at == T0 + MINUTE
    fired = schedule.look(T0 + MINUTE)
    assert told(fired) == [(1, "start", False)]
    assert fired.wake_at == T0 + 2 * MINUTE
    assert schedule.look(T0 + MINUTE).fires == ()
    assert schedule.look(T0 + MINUTE - timedelta(hours=1)).fires == ()  # the clock was put back
    assert schedule.standing.handled_at == T0 + MINUTE


@pytest.mark.parametrize(
    ("catchup", "expected"),
    [("all", [1, 2, 3, 4, 5]), ("latest", [5]), ("none", [])],
)
def test_what_was_due_while_nothing_ran_is_caught_up_by_policy(catchup: str, expected: list[int]) -> None:
    schedule = Schedule(catchup=catchup, overlap="allow")
    decision = schedule.look(T0 + 5 * MINUTE + GRACE)
    assert told(decision) == [(minute, "start", True) for minute in expected]
    assert decision.wake_at == T0 + 6 * MINUTE
    dropped = sorted({1, 2, 3, 4, 5} - set(expected))
    assert decision.passed_over == ((T0 + dropped[0] * MINUTE, T0 + dropped[-1] * MINUTE) if dropped else None)


def test_a_start_in_the_past_is_caught_up_however_recent_it_is() -> None:
    for catchup, expected in (("all", [1, 2, 3]), ("latest", [3]), ("none", [])):
        created_at = T0 + 3 * MINUTE + 2 * SECOND
        schedule = Schedule(created_at=created_at, start=T0 + 30 * SECOND, catchup=catchup, overlap="allow")
        assert told(schedule.look(created_at)) == [(minute, "start", True) for minute in expected]


def test_an_occurrence_that_is_late_within_the_grace_is_not_missed() -> None:
    schedule = Schedule(catchup="none")
    assert told(schedule.look(T0 + MINUTE + GRACE - SECOND)) == [(1, "start", False)]


def test_the_latest_gives_way_to_one_that_is_on_time() -> None:
    schedule = Schedule()
    assert told(schedule.look(T0 + 5 * MINUTE)) == [(5, "start", False)]


def test_catching_up_on_all_is_bounded_by_number_and_by_age() -> None:
    by_number = Schedule(catchup="all", catchup_limit=3, overlap="allow").look(T0 + 60 * MINUTE + GRACE)
    assert told(by_number) == [(minute, "start", True) for minute in (58, 59, 60)]
    assert by_number.passed_over == (T0 + MINUTE, T0 + 57 * MINUTE)
    by_age = Schedule(catchup="all", catchup_age="2m", overlap="allow").look(T0 + 60 * MINUTE + GRACE)
    assert told(by_age) == [(minute, "start", True) for minute in (59, 60)]
    just_so_old = Schedule(every("1h"), catchup="all", catchup_age="1h").look(T0 + timedelta(hours=2))
    assert told(just_so_old) == [(60, "start", True), (120, "skip", False)]


def test_a_year_of_missed_minutes_costs_no_more_than_an_hour() -> None:
    schedule = Schedule(catchup="all", catchup_age="365d")
    decision = schedule.look(T0 + timedelta(days=365))
    assert len(decision.fires) == 101  # the newest hundred, and one that is on time
    assert decision.standing.handled_at == T0 + timedelta(days=365)


def test_missed_ones_run_one_after_another() -> None:
    schedule = Schedule(catchup="all")
    decision = schedule.look(T0 + 3 * MINUTE + GRACE)
    assert told(decision) == [(1, "start", True), (2, "queue", True), (3, "queue", True)]
    assert decision.wakes_on_end
    assert told(schedule.look(T0 + 4 * MINUTE)) == [(4, "skip", False)]
    for minute in (2, 3):
        schedule.run_ends(T0 + 4 * MINUTE + minute * SECOND)
        again = schedule.look(T0 + 4 * MINUTE + minute * SECOND)
        assert told(again) == [(minute, "start", True)]
    assert not again.wakes_on_end
    assert schedule.standing.run_count == 3


@pytest.mark.parametrize(
    ("overlap", "second", "third"),
    [
        ("allow", "start", "start"),
        ("skip", "skip", "skip"),
        ("queue", "queue", "skip"),
        ("cancel", "cancel_older", "cancel_older"),
    ],
)
def test_an_occurrence_while_a_run_lives(overlap: str, second: str, third: str) -> None:
    schedule = Schedule(overlap=overlap)
    assert told(schedule.look(T0 + MINUTE)) == [(1, "start", False)]
    assert told(schedule.look(T0 + 2 * MINUTE)) == [(2, second, False)]
    replaced = [(2, "skip", False)] if overlap == "cancel" else []
    assert told(schedule.look(T0 + 3 * MINUTE)) == [*replaced, (3, third, False)]


def test_a_queued_one_starts_when_the_run_ends_and_reasons_are_given() -> None:
    schedule = Schedule(overlap="queue")
    schedule.look(T0 + MINUTE)
    assert schedule.look(T0 + 2 * MINUTE).wakes_on_end
    skipped = schedule.look(T0 + 3 * MINUTE)
    assert skipped.fires[0].reason == "another one is queued already"
    schedule.run_ends(T0 + 3 * MINUTE + SECOND)
    assert told(schedule.look(T0 + 3 * MINUTE + SECOND)) == [(2, "start", False)]


def test_a_pause_is_a_time_of_missed_occurrences() -> None:
    schedule = Schedule(catchup="all", overlap="allow")
    schedule.standing = put_on_hold(schedule.standing)
    assert schedule.look(T0 + 2 * MINUTE) == ScheduleDecision((), schedule.standing, None)
    schedule.standing = resumed(schedule.standing, T0 + 2 * MINUTE + SECOND)
    assert told(schedule.look(T0 + 2 * MINUTE + SECOND)) == [(1, "start", True), (2, "start", True)]


def test_an_edit_never_fires_what_lies_before_it() -> None:
    schedule = Schedule(cron("0 0 1 1 *"), catchup="all")
    schedule.rule = MINUTELY
    schedule.standing = edited(schedule.standing, T0 + 10 * MINUTE + SECOND)
    assert schedule.look(T0 + 10 * MINUTE + SECOND).fires == ()
    assert told(schedule.look(T0 + 11 * MINUTE)) == [(11, "start", False)]


def test_start_and_end_are_the_first_and_last_instants() -> None:
    schedule = Schedule(start=T0 + 2 * MINUTE, end=T0 + 3 * MINUTE, overlap="allow")
    assert schedule.look(T0 + MINUTE).wake_at == T0 + 2 * MINUTE
    assert told(schedule.look(T0 + 2 * MINUTE)) == [(2, "start", False)]
    last = schedule.look(T0 + 3 * MINUTE)
    assert told(last) == [(3, "start", False)]
    assert last.wake_at is None
    assert schedule.look(T0 + 9 * MINUTE).fires == ()


def test_a_schedule_has_no_more_runs_than_it_may() -> None:
    schedule = Schedule(max_runs=2, catchup="all")
    decision = schedule.look(T0 + 5 * MINUTE + GRACE)
    assert told(decision) == [(1, "start", True), (2, "queue", True)]
    assert decision.wake_at is None
    schedule.run_ends(T0 + 6 * MINUTE)
    assert told(schedule.look(T0 + 6 * MINUTE)) == [(2, "start", True)]
    assert next_due("report", MINUTELY, schedule.policies, schedule.standing) is None


def test_a_run_that_cannot_start_in_time_does_not_start() -> None:
    schedule = Schedule(catchup="all", deadline="90s", overlap="allow")
    decision = schedule.look(T0 + 3 * MINUTE + GRACE)
    assert told(decision) == [(1, "skip", True), (2, "start", True), (3, "start", True)]
    assert decision.fires[0].reason == "its deadline has passed"
    assert decision.fires[2].expires_at == T0 + 3 * MINUTE + 90 * SECOND
    assert schedule.standing.run_count == 2


def test_jitter_differs_from_run_to_run_and_is_the_same_everywhere() -> None:
    schedule = Schedule(jitter="30s", overlap="allow", deadline="10s")
    fires = [schedule.look(T0 + minute * MINUTE).fires[0] for minute in range(1, 50)]
    delays = [fire.run_at - fire.scheduled_for for fire in fires]
    assert len(set(delays)) == len(delays)
    assert all(timedelta(0) <= delay < 30 * SECOND for delay in delays)
    assert max(delays) - min(delays) > 20 * SECOND
    assert all(fire.expires_at == fire.run_at + 10 * SECOND for fire in fires)
    again = Schedule(jitter="30s", overlap="allow", deadline="10s")
    assert [again.look(T0 + minute * MINUTE).fires[0] for minute in range(1, 50)] == fires


def test_a_window_spreads_schedules_and_each_keeps_its_place() -> None:
    policies = SchedulePolicies(window=timedelta(minutes=30), overlap="allow")
    places = []
    for number in range(300):
        standing = new_standing(T0, policies)
        fires = [decide(f"s{number}", MINUTELY, policies, standing, T0 + at * MINUTE).fires[-1] for at in (1, 2)]
        assert fires[0].interval == (T0, T0 + MINUTE)
        assert fires[0].run_at - fires[0].scheduled_for == fires[1].run_at - fires[1].scheduled_for
        places.append((fires[0].run_at - fires[0].scheduled_for) / timedelta(minutes=30))
    assert all(0 <= place < 1 for place in places)
    tenths = [sum(low <= place * 10 < low + 1 for place in places) for low in range(10)]
    assert min(tenths) > 10


def test_calendars_of_a_schedule_leave_days_out_for_any_rule() -> None:
    schedule = Schedule(every("6h"), calendars=["holidays"], overlap="allow")
    shared = {"holidays": calendar(dates=["2026-11-17"])}
    assert schedule.look(T0, calendars=shared).wake_at == T0 + timedelta(hours=2)
    schedule.look(T0 + timedelta(hours=2), calendars=shared)
    assert schedule.look(T0 + timedelta(hours=8), calendars=shared).wake_at == T0 + timedelta(hours=38)
    with pytest.raises(InvalidOption, match="calendars do not go with after"):
        rule_of("report", after("5m"), None, ("holidays",))


def test_a_fixed_delay_counts_from_the_last_end() -> None:
    schedule = Schedule(after("5m"))
    first = schedule.look(T0 + SECOND)
    assert told(first) == [(0, "start", False)]
    assert (first.wake_at, first.wakes_on_end) == (None, True)
    assert schedule.look(T0 + 60 * MINUTE).fires == ()  # it still runs
    schedule.run_ends(T0 + 60 * MINUTE)
    assert schedule.look(T0 + 61 * MINUTE).wake_at == T0 + 65 * MINUTE
    late = schedule.look(T0 + 600 * MINUTE)  # late, never missed
    assert told(late) == [(65, "start", False)]


def test_a_fixed_delay_goes_on_after_one_that_was_too_late() -> None:
    schedule = Schedule(after("5m"), deadline="1m")
    schedule.look(T0)
    schedule.run_ends(T0 + MINUTE)
    late = schedule.look(T0 + 30 * MINUTE)
    assert told(late) == [(6, "skip", False)]
    assert late.wake_at == T0 + 35 * MINUTE
    assert told(schedule.look(T0 + 35 * MINUTE)) == [(35, "start", False)]


def test_one_look_judges_a_bounded_number_and_asks_to_be_called_again() -> None:
    schedule = Schedule(every("1ms"), overlap="allow")
    first = schedule.look(T0 + 5 * SECOND)
    assert len(first.fires) == 1000
    assert first.wake_at == T0 + SECOND + timedelta(milliseconds=1)
    found = list(first.fires)
    for _ in range(4):
        found += schedule.look(T0 + 5 * SECOND).fires
    assert [fire.scheduled_for for fire in found] == [T0 + timedelta(milliseconds=1) * k for k in range(1, 5001)]


# ---- a naive model: every occurrence in a list, every rule a loop ----------------------------------------------------


@dataclass
class Model:
    """A schedule of instants that are known one by one."""

    dues: list[datetime]
    policies: SchedulePolicies
    active_since: datetime = T0
    judged: set[datetime] = field(default_factory=set)
    live: int = 0
    runs: int = 0
    waiting: list[tuple[datetime, bool]] = field(default_factory=list)
    paused: bool = False

    def look(self, now: datetime) -> list[tuple[datetime, str, bool]]:
        found: list[tuple[datetime, str, bool]] = []
        if self.paused:
            return found
        while self.waiting and (self.live == 0 or self.policies.overlap == "allow"):
            due, caught_up = self.waiting.pop(0)
            found.append((due, self.start(due, now), caught_up))
        open_ones = [due for due in self.dues if due <= now and due not in self.judged]
        self.judged.update(open_ones)
        missed = [due for due in open_ones if due <= self.active_since or due <= now - GRACE]
        on_time = [due for due in open_ones if due not in missed]
        for due in self.caught_up(missed, on_time, now):
            self.judge(found, due, True, now)
        for due in on_time:
            self.judge(found, due, False, now)
        return found

    def caught_up(self, missed: list[datetime], on_time: list[datetime], now: datetime) -> list[datetime]:
        if self.policies.catchup == "all":
            return [due for due in missed if due >= now - self.policies.catchup_age][-self.policies.catchup_limit :]
        return missed[-1:] if self.policies.catchup == "latest" and not on_time else []

    def judge(self, found: list[tuple[datetime, str, bool]], due: datetime, caught_up: bool, now: datetime) -> None:
        overlap = self.policies.overlap
        in_turn = caught_up and self.policies.catchup == "all"
        staying = self.in_turn()
        waiting = staying if overlap == "cancel" and not in_turn else self.waiting
        if self.policies.max_runs is not None and self.runs + len(waiting) >= self.policies.max_runs:
            return
        action = "skip"
        if overlap == "allow" or (self.live == 0 and not self.waiting):
            action = self.start(due, now)
        elif (in_turn or (overlap == "queue" and not self.waiting)) and not self.too_late(due, now):
            self.waiting.append((due, caught_up))
            action = "queue"
        elif not in_turn and overlap == "cancel" and not self.too_late(due, now):
            for one in [fire for fire in found if fire[1] == "start"]:
                self.live, self.runs = self.live - 1, self.runs - 1
                self.waiting.insert(0, (one[0], one[2]))
                found.remove(one)
                found += [(one[0], "queue", one[2])] if self.waiting[0] in self.in_turn() else []
            for waits in [one for one in self.waiting if one not in self.in_turn()]:
                found[:] = [fire for fire in found if fire[0] != waits[0]]
                found.append((waits[0], "skip", waits[1]))
            self.waiting = self.in_turn()
            if self.live:
                self.waiting.insert(0, (due, caught_up))
                action = "cancel_older"
            else:
                action = self.start(due, now)
        found.append((due, action, caught_up))

    def in_turn(self) -> list[tuple[datetime, bool]]:
        return [one for one in self.waiting if one[1] and self.policies.catchup == "all"]

    def start(self, due: datetime, now: datetime) -> str:
        if self.too_late(due, now):
            return "skip"
        self.live, self.runs = self.live + 1, self.runs + 1
        return "start"

    def too_late(self, due: datetime, now: datetime) -> bool:
        return self.policies.deadline is not None and due + self.policies.deadline < now


POLICIES = st.builds(
    SchedulePolicies,
    catchup=st.sampled_from(["all", "latest", "none"]),
    catchup_limit=st.integers(1, 6),
    catchup_age=st.sampled_from([timedelta(seconds=100), timedelta(days=1)]),
    overlap=st.sampled_from(["allow", "skip", "queue", "cancel"]),
    deadline=st.none() | st.sampled_from([timedelta(seconds=40), timedelta(seconds=200)]),
    max_runs=st.none() | st.integers(1, 12),
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["look"] * 4 + ["end", "end", "pause", "resume"]), st.integers(0, 150)), max_size=25
)


@given(st.sets(st.integers(1, 900), min_size=1, max_size=40), POLICIES, STEPS)
@settings(max_examples=150)
def test_decisions_agree_with_a_naive_model(
    seconds: set[int], policies: SchedulePolicies, steps: list[tuple[str, int]]
) -> None:
    dues = [T0 + second * SECOND for second in sorted(seconds)]
    rule, model, standing = at(*dues), Model(dues, policies), new_standing(T0, policies)
    now = T0
    for step, seconds_later in [*steps, ("resume", 0), ("look", 1000)]:
        now += seconds_later * SECOND
        if step == "end" and standing.live_count:
            standing, model.live = run_ended(standing, now), model.live - 1
        elif step == "pause":
            standing, model.paused = put_on_hold(standing), True
        elif step == "resume":
            model.active_since = now if model.paused else model.active_since
            standing, model.paused = resumed(standing, now), False
        elif step == "look":
            standing = look_and_compare(rule, policies, standing, model, now)


def look_and_compare(
    rule: RuleValue, policies: SchedulePolicies, standing: ScheduleState, model: Model, now: datetime
) -> ScheduleState:
    decision = decide("any", rule, policies, standing, now)
    found = [(fire.scheduled_for, fire.action.value, fire.is_catchup) for fire in decision.fires]
    assert found == model.look(now)
    after_it = decision.standing
    assert (after_it.live_count, after_it.run_count) == (model.live, model.runs)
    assert after_it.handled_at == max([T0, *model.judged])  # the last due instant, whatever time it is
    assert [(one.due_at, one.is_catchup) for one in after_it.waiting] == model.waiting
    if policies.overlap != "allow":
        starts = [fire for fire in decision.fires if fire.action is FireAction.START]
        assert len(starts) <= 1
    if not model.paused and decision.wake_at is not None:
        assert decision.wake_at == min(due for due in model.dues if due not in model.judged)
    assert msgspec.json.decode(msgspec.json.encode(after_it), type=ScheduleState) == after_it
    return after_it
