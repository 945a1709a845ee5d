"""Schedules as users hold them: declared, made at run time, looked at, paused, run, backfilled; with a real worker."""

import asyncio
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.waiting import eventually
from tickwork import Tickwork, after, at, calendar, cron, current_job, every
from tickwork.core.schedule.spec import new_spec
from tickwork.errors import InvalidArguments, InvalidInput, InvalidOption, ScheduleNotFound

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def runs(app: Tickwork) -> list[dict[str, Any]]:
    """The jobs as the handlers of the task `note` saw them."""
    known: list[dict[str, Any]] = []

    @app.task
    def note(n: int = 0) -> None:
        job = current_job()
        known.append(
            {
                "n": n,
                "schedule": job.schedule,
                "scheduled_for": job.scheduled_for,
                "late_by": job.late_by,
                "is_catchup": job.is_catchup,
                "interval": job.interval,
            }
        )

    return known


class TestMaking:
    def test_a_schedule_starts_its_task_with_its_arguments(self, app: Tickwork, runs: list[dict[str, Any]]) -> None:
        with app.worker(concurrency=2):
            schedule = app.schedule("beat", "note", every("100ms"), kwargs={"n": 7}, overlap="allow")
            eventually(lambda: len(runs) >= 3)
        assert {(run["n"], run["schedule"], run["is_catchup"]) for run in runs} == {(7, "beat", False)}
        dues = sorted(run["scheduled_for"] for run in runs)
        assert {due.microsecond % 100_000 for due in dues} == {0}
        assert len(set(dues)) == len(dues)
        assert all(timedelta(0) <= run["late_by"] < timedelta(seconds=3) for run in runs)
        assert schedule.fires(1)[0].action == "start"

    def test_positions_names_and_options_go_beside_the_rule(self, app: Tickwork, runs: list[dict[str, Any]]) -> None:
        schedule = app.schedule("s", app.tasks["note"], "0 8 * * *", args=(3,), queue="slow", catchup="none")
        assert schedule.spec == new_spec("s", "note", cron("0 8 * * *").value, b'{"n":3}', queue="slow", catchup="none")

    def test_a_text_is_a_cron_expression_or_a_repeating_interval(self, app: Tickwork) -> None:
        assert app.schedule("a", "t", "*/5 * * * *").rule == cron("*/5 * * * *")
        repeating = "R5/2026-01-01T00:00:00Z/PT10M"
        assert app.schedule("b", "t", repeating).rule == every(repeating)

    @pytest.mark.parametrize("rule", [5, None, NOON, "not a rule"])
    def test_anything_else_is_refused(self, app: Tickwork, rule: Any) -> None:
        with pytest.raises(InvalidOption):
            app.schedule("s", "t", rule)

    def test_arguments_that_do_not_fit_are_refused_and_nothing_is_stored(
        self, app: Tickwork, runs: list[dict[str, Any]]
    ) -> None:
        with pytest.raises(InvalidArguments):
            app.schedule("s", "note", every("1h"), kwargs={"m": 1})
        assert len(app.schedules) == 0

    def test_a_calendar_must_be_there(self, app: Tickwork) -> None:
        with pytest.raises(InvalidInput, match=r"'closed', which is not in this store\. Nothing was stored"):
            app.schedule("s", "t", every("1h"), calendars="closed")
        app.put_calendar("closed", calendar(weekdays=["sun"]))
        app.schedule("s", "t", every("1h"), calendars="closed")
        assert list(app.calendars()) == ["closed"]

    def test_the_twins_do_the_same(self, app: Tickwork) -> None:
        async def use() -> list[datetime]:
            schedule = await app.schedule_async("s", "t", every("1h"))
            assert await schedule.pause_async(reason="quiet") is True
            assert await schedule.resume_async() is True
            return await schedule.next_async(2)

        assert len(asyncio.run(use())) == 2


class TestDeclaring:
    def test_a_decorated_task_is_scheduled_when_a_worker_starts(self, app: Tickwork) -> None:
        count = Counter[str]()

        @app.task(schedule=every("100ms"), catchup="none", overlap="allow", retries=0)
        def beat() -> None:
            count["beat"] += 1

        with pytest.raises(ScheduleNotFound, match="is stored when a worker"):
            app.schedules["beat"]
        with app.worker(concurrency=2):
            eventually(lambda: count["beat"] >= 2)
            assert app.schedules.undeclared() == []
        schedule = app.schedules["beat"]
        assert (schedule.policies.catchup, schedule.view.is_declared) == ("none", True)

    def test_a_schedule_that_code_declares_no_more_is_noticed(self, app: Tickwork) -> None:
        app.task(schedule=every("1h"), name="old")(lambda: None)
        with app.worker():
            eventually(lambda: "old" in app.schedules)
        newer = Tickwork(app.url)
        newer.task(name="other")(lambda: None)
        assert newer.schedules.undeclared() == [], "nobody runs who could declare it"
        with newer.worker():
            eventually(lambda: any(worker.state == "running" for worker in newer.store.reads.workers()))
            eventually(lambda: newer.schedules.undeclared() == ["old"])
        newer.close()

    def test_a_policy_without_a_schedule_is_refused(self, app: Tickwork) -> None:
        with pytest.raises(InvalidOption, match="catchup is a policy of a schedule: give schedule="):
            app.task(catchup="all")(lambda: None)

    def test_a_task_that_needs_arguments_is_refused_when_a_worker_starts(self, app: Tickwork) -> None:
        @app.task(schedule=every("1h"))
        def needy(to: str) -> None: ...

        with (
            pytest.raises(InvalidArguments, match=r"task 'needy' has a schedule, which gives it no arguments"),
            app.worker(),
        ):
            pass

    def test_a_bad_rule_is_refused_where_it_is_written(self, app: Tickwork) -> None:
        with pytest.raises(InvalidOption):
            app.task(schedule="0 0 31 2 *")(lambda: None)


class TestLooking:
    def test_schedules_are_found_by_name(self, app: Tickwork) -> None:
        for name in ("b", "a"):
            app.schedule(name, "t", every("1h"))
        assert list(app.schedules) == ["a", "b"]
        assert len(app.schedules) == 2
        assert app.schedules["a"].name == "a"
        assert app.schedules.get("nobody's") is None
        assert "a" in app.schedules
        with pytest.raises(ScheduleNotFound, match="there is no schedule"):
            app.schedules["nobody's"]

    def test_next_says_when_it_is_due(self, app: Tickwork) -> None:
        schedule = app.schedule("s", "t", every("1h"), max_runs=2)
        first, second = schedule.next(5)
        assert second - first == HOUR
        assert app.store.now() < first <= app.store.now() + HOUR

    def test_next_heeds_start_end_and_calendars(self, app: Tickwork) -> None:
        start = app.store.now() + timedelta(days=400)
        day = (start + timedelta(days=1)).date()
        app.put_calendar("closed", calendar(dates=[day]))
        rule = cron("0 12 * * *")
        schedule = app.schedule("s", "t", rule, start=start, end=start + timedelta(days=4), calendars="closed")
        expected = [due for due in rule.next(4, after=start) if due.date() != day]
        assert schedule.next(10) == [due for due in expected if due <= start + timedelta(days=4)]

    def test_its_state_is_active_paused_or_ended(self, app: Tickwork) -> None:
        schedule = app.schedule("s", "t", every("1h"))
        assert schedule.state == "active"
        assert schedule.pause("too loud") is True
        assert schedule.pause() is False
        assert (schedule.state, schedule.view.paused_why) == ("paused", "too loud")
        assert schedule.resume() is True
        past = app.schedule("once", "t", at(app.store.now() - HOUR))
        assert past.state == "ended"

    def test_what_was_deleted_is_gone(self, app: Tickwork) -> None:
        schedule = app.schedule("s", "t", every("1h"))
        assert schedule.delete() is True
        assert schedule.delete() is False
        with pytest.raises(ScheduleNotFound):
            schedule.pause()
        with pytest.raises(ScheduleNotFound):
            _ = schedule.state


class TestRunning:
    def test_run_starts_it_now_outside_of_its_rule(self, app: Tickwork, runs: list[dict[str, Any]]) -> None:
        schedule = app.schedule("s", "note", cron("0 0 1 1 *"), kwargs={"n": 3}, paused=True)
        with app.worker():
            job = schedule.run()
            job.result(timeout=10)
        assert (runs[0]["n"], runs[0]["schedule"]) == (3, "s")
        assert schedule.fires() == []

    def test_a_change_is_noticed_at_once_by_a_worker_of_this_process(
        self, app: Tickwork, runs: list[dict[str, Any]]
    ) -> None:
        with app.worker():
            app.schedule("s", "note", at(app.store.now() - HOUR), start=app.store.now() - 2 * HOUR)
            eventually(lambda: runs, within_s=0.9)
        assert runs[0]["is_catchup"] is True
        assert runs[0]["late_by"] >= HOUR

    def test_a_fixed_delay_counts_from_the_end_of_the_last_run(self, app: Tickwork) -> None:
        ends: list[datetime] = []

        @app.task(schedule=after("50ms"))
        def pause() -> None:
            ends.append(app.store.now())

        with app.worker():
            eventually(lambda: len(ends) >= 4, within_s=3.0)

    def test_a_run_that_is_cancelled_has_ended_before_the_next_one_starts(self, app: Tickwork) -> None:
        spans: list[tuple[float, float]] = []

        @app.task(schedule=every("300ms"), overlap="cancel", retries=0)
        def slow() -> None:
            began = time.monotonic()
            time.sleep(0.5)  # it does not look whether it was cancelled
            spans.append((began, time.monotonic()))

        with app.worker(concurrency=4):
            eventually(lambda: len(spans) >= 3, within_s=15.0)
        ordered = sorted(spans)
        assert all(end <= start for (_, end), (start, _) in pairwise(ordered))

    def test_a_job_knows_the_period_since_the_occurrence_before(
        self, app: Tickwork, runs: list[dict[str, Any]]
    ) -> None:
        with app.worker():
            app.schedule("s", "note", every("200ms"), window="100ms", overlap="allow")
            eventually(lambda: runs)
        start, end = runs[0]["interval"]
        assert (end, end - start) == (runs[0]["scheduled_for"], timedelta(milliseconds=200))


class TestBackfill:
    def test_it_runs_each_occurrence_once_also_when_repeated(self, app: Tickwork, runs: list[dict[str, Any]]) -> None:
        schedule = app.schedule("s", "note", every("1h"), paused=True)
        with app.worker():
            first = schedule.backfill(NOON - 3 * HOUR, NOON, max_parallel=2)
            again = schedule.backfill(NOON - 3 * HOUR, NOON, max_parallel=2)
        dues = [NOON - n * HOUR for n in (3, 2, 1, 0)]
        assert [(one.due_at, one.state, one.is_new) for one in first] == [(due, "succeeded", True) for due in dues]
        assert [(one.due_at, one.state, one.is_new) for one in again] == [(due, "succeeded", False) for due in dues]
        assert [one.job and one.job.id for one in first] == [one.job and one.job.id for one in again]
        assert sorted(run["scheduled_for"] for run in runs) == dues
        assert all(run["is_catchup"] for run in runs)

    def test_with_force_it_runs_occurrences_again_that_succeeded(
        self, app: Tickwork, runs: list[dict[str, Any]]
    ) -> None:
        schedule = app.schedule("s", "note", every("1h"), paused=True)
        with app.worker():
            schedule.backfill(NOON, NOON)
            forced = schedule.backfill(NOON - HOUR, NOON, force=True)
            assert [one.is_new for one in forced] == [True, True]
            assert [one.is_new for one in schedule.backfill(NOON - HOUR, NOON)] == [False, False]
        assert sorted(run["scheduled_for"] for run in runs) == [NOON - HOUR, NOON, NOON]

    def test_a_failed_occurrence_is_told_and_tried_again(self, app: Tickwork) -> None:
        wrong = True

        @app.task(retries=0)
        def work() -> None:
            if wrong:
                raise ValueError("no")

        schedule = app.schedule("s", work, every("1h"), paused=True)
        with app.worker():
            (failed,) = schedule.backfill(NOON, NOON)
            wrong = False
            (again,) = schedule.backfill(NOON, NOON)
        assert (failed.state, failed.is_new, again.state, again.is_new) == ("failed", True, "succeeded", False)

    def test_with_wait_for_previous_it_stops_at_an_occurrence_that_fails_and_goes_on_when_repeated(
        self, app: Tickwork
    ) -> None:
        wrong, ran = {NOON - HOUR}, []

        @app.task(retries=0)
        def load() -> None:
            due = current_job().scheduled_for
            ran.append(due)
            if due in wrong:
                raise ValueError("no")

        schedule = app.schedule("s", load, every("1h"), paused=True, wait_for_previous=True)
        dues = [NOON - n * HOUR for n in (3, 2, 1, 0)]
        with app.worker(concurrency=4):
            eventually(lambda: app.store.reads.task_definition("load"))
            first = schedule.backfill(NOON - 3 * HOUR, NOON)
            assert [(one.due_at, one.state) for one in first] == list(
                zip(dues, ["succeeded", "succeeded", "failed", None], strict=True)
            )
            assert (first[-1].job, ran) == (None, dues[:3])
            again = schedule.backfill(NOON - 3 * HOUR, NOON)
            assert ([one.state for one in again][2:], ran[3:]) == (["failed", None], [NOON - HOUR])
            wrong.clear()
            mended = schedule.backfill(NOON - 3 * HOUR, NOON)
        assert [(one.state, one.is_new) for one in mended] == [("succeeded", False)] * 3 + [("succeeded", True)]
        assert ran[4:] == [NOON - HOUR, NOON]

    def test_with_wait_for_previous_it_goes_on_after_a_failed_job_that_was_discarded(self, app: Tickwork) -> None:
        ran = []

        @app.task(retries=0)
        def load() -> None:
            ran.append(current_job().scheduled_for)
            if ran[-1] == NOON - HOUR:
                raise ValueError("no")

        schedule = app.schedule("s", load, every("1h"), paused=True, wait_for_previous=True)
        with app.worker():
            eventually(lambda: app.store.reads.task_definition("load"))
            failed, _ = schedule.backfill(NOON - HOUR, NOON)
            assert failed.job is not None
            app.discard(failed.job)
            again = schedule.backfill(NOON - HOUR, NOON)
        assert [one.state for one in again] == ["failed", "succeeded"]
        assert ran == [NOON - HOUR, NOON]

    def test_with_wait_for_previous_nothing_runs_side_by_side(self, app: Tickwork) -> None:
        schedule = app.schedule("s", "t", every("1h"), paused=True, wait_for_previous=True)
        with pytest.raises(InvalidInput, match=r"one after another: max_parallel must be 1, not 2\."):
            schedule.backfill(NOON, NOON, max_parallel=2)
        assert app.jobs() == []

    def test_another_target_is_backfilled_again(self, app: Tickwork) -> None:
        for name in ("one", "two"):
            app.task(name=name)(lambda: None)
        with app.worker():
            for name in ("one", "two"):
                schedule = app.schedule("s", name, every("1h"), paused=True)
                assert [one.is_new for one in schedule.backfill(NOON, NOON)] == [True]

    def test_a_dry_run_starts_nothing(self, app: Tickwork) -> None:
        schedule = app.schedule("s", "t", every("1h"), paused=True)
        planned = schedule.backfill(NOON - HOUR, NOON, dry_run=True)
        assert [(one.due_at, one.job) for one in planned] == [(NOON - HOUR, None), (NOON, None)]
        assert schedule.occurrences(NOON - HOUR, NOON) == [NOON - HOUR, NOON]
        assert app.jobs() == []

    def test_what_makes_no_sense_is_refused(self, app: Tickwork) -> None:
        schedule = app.schedule("s", "t", every("1s"), paused=True)
        with pytest.raises(InvalidInput, match="before it starts"):
            schedule.backfill(NOON, NOON - HOUR)
        with pytest.raises(InvalidInput, match="more than 100,000"):
            schedule.backfill(NOON - 100 * HOUR, NOON)
        with pytest.raises(InvalidInput, match="at least 1"):
            schedule.backfill(NOON, NOON, max_parallel=0)
        with pytest.raises(InvalidInput, match="no occurrences to backfill"):
            app.schedule("a", "t", after("1s"), paused=True).backfill(NOON, NOON)


def test_a_schedule_whose_calendar_is_missing_is_shown_as_troubled_and_hides_no_other(app: Tickwork) -> None:
    app.store.schedules.put_schedules([new_spec("s", "t", every("1m").value, calendars="nowhere")])
    assert (app.schedules["s"].state, app.schedules["s"].next(3)) == ("troubled", [])
    assert [view.name for view in app.schedules.views()] == ["s"]
