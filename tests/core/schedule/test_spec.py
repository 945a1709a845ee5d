"""Specs: what they say of jobs, what they refuse, and that they come back from their stored form."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tickwork.core.job import Policy, TaskDefinition
from tickwork.core.occurrence import Occurrence, decode_occurrence, encode_occurrence
from tickwork.core.recurrence.calendar import calendar
from tickwork.core.recurrence.combine import all_of, any_of, except_on
from tickwork.core.recurrence.cron import cron
from tickwork.core.recurrence.interval import after, every
from tickwork.core.retry import RetryPolicy
from tickwork.core.schedule.policy import POLICIES
from tickwork.core.schedule.spec import ScheduledJobOptions, ScheduleSpec, decode_spec, encode_spec, new_spec, template
from tickwork.errors import InvalidInput, InvalidOption

MINUTES = every("1m")
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def test_policies_and_options_are_told_apart_by_their_names() -> None:
    spec = new_spec("s", "t", MINUTES, catchup="all", jitter="5s", queue="mail", retries=5, timeout="1m", paused=True)
    assert (spec.policies.catchup, spec.policies.jitter) == ("all", timedelta(seconds=5))
    assert spec.options == ScheduledJobOptions(queue="mail", retries=5, timeout=timedelta(minutes=1))
    assert spec.paused
    assert POLICIES.isdisjoint(ScheduledJobOptions.__struct_fields__)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"key": "k"}, "key is for a single job"),
        ({"delay": "5m"}, "delay is for a single job"),
        ({"quue": "mail"}, "did you mean 'queue'"),
        ({"overlap": "maybe"}, "overlap must be one of"),
        ({"expires": NOON}, "expires of a schedule's jobs is a duration"),
        ({"paused": "yes"}, "paused must be True or False"),
        ({"jitter": "1s", "window": "1m"}, "give one of them"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        new_spec("s", "t", MINUTES, **given)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201])
def test_a_name_can_be_shown_and_typed(name: str) -> None:
    with pytest.raises(InvalidOption, match="the name of a schedule"):
        new_spec(name, "t", MINUTES)


def test_calendars_do_not_go_with_a_fixed_delay() -> None:
    with pytest.raises(InvalidOption, match="calendars do not go with after"):
        new_spec("s", "t", after("1m"), calendars="holidays")


def test_it_comes_back_from_its_stored_form() -> None:
    days = calendar(weekdays=["sat"])
    rule = any_of(cron("0 9 * * *", tz="Europe/Berlin"), all_of(MINUTES, except_on("holidays", days)))
    spec = new_spec("s", "t", rule, b'{"to":"ada"}', start=NOON, calendars=["closed", days], expires="1h", labels=["x"])
    assert decode_spec(encode_spec(spec)) == spec
    assert spec.calendar_names == ("closed", "holidays")


@pytest.mark.parametrize("text", ["{}", "null", '{"version": 2, "spec": {}}', "no json"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="a stored schedule"):
        decode_spec(text)


def test_a_spec_of_a_newer_version_is_refused_with_what_to_do() -> None:
    text = encode_spec(new_spec("s", "t", MINUTES)).replace('"version":1', '"version":2')
    with pytest.raises(InvalidInput, match="Update it"):
        decode_spec(text)


def test_its_timing_is_what_decides_when_it_is_due() -> None:
    spec = new_spec("s", "t", MINUTES)
    same = [new_spec("s", "u", MINUTES, overlap="queue", queue="mail", jitter="1s")]
    others = [new_spec("s", "t", every("2m")), new_spec("s", "t", MINUTES, start=NOON)]
    others += [new_spec("s", "t", MINUTES, end=NOON), new_spec("s", "t", MINUTES, calendars="closed")]
    assert {one.timing for one in same} == {spec.timing}
    assert spec.timing not in {one.timing for one in others}


def test_jobs_are_as_their_task_has_it_but_for_what_the_schedule_says() -> None:
    policy = Policy(RetryPolicy(retries=7), timeout=timedelta(minutes=5), key_for=timedelta(hours=1))
    task = TaskDefinition("t", "reports", 8, policy, b"{}")
    job = template(new_spec("s", "t", MINUTES, b'{"n":1}', retries=1), task)
    assert (job.task, job.args, job.queue, job.priority, job.key) == ("t", b'{"n":1}', "reports", 8, None)
    assert (job.policy.retry.retries, job.policy.timeout) == (1, timedelta(minutes=5))


def test_without_a_definition_the_defaults_hold() -> None:
    job = template(new_spec("s", "t", MINUTES), None)
    assert (job.queue, job.priority, job.policy) == ("default", 5, Policy())


def test_a_tick_comes_back_from_its_stored_form() -> None:
    for occurrence in (Occurrence("s", NOON), Occurrence("s", NOON, True, (NOON, NOON + timedelta(hours=1)))):
        assert decode_occurrence(encode_occurrence(occurrence)) == occurrence


def test_a_spec_is_a_value() -> None:
    assert len({new_spec("s", "t", MINUTES), new_spec("s", "t", MINUTES)}) == 1
    assert isinstance(new_spec("s", "t", MINUTES), ScheduleSpec)
