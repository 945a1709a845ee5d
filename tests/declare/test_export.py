"""An exported declaration is read back as the same objects."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tickwork.core.hooks import Hook
from tickwork.core.recurrence.base_rule import RuleValue
from tickwork.core.recurrence.calendar import calendar
from tickwork.core.recurrence.combine import all_of, any_of, except_on
from tickwork.core.recurrence.cron import cron
from tickwork.core.recurrence.interval import after, at, every
from tickwork.core.recurrence.rrule import rrule
from tickwork.core.schedule.spec import ScheduleSpec, new_spec
from tickwork.core.text.yaml_loader import write_yaml
from tickwork.declare.export import declared_calendar, declared_hook, declared_schedule
from tickwork.declare.read_declarations import DeclaredWork, read_declared

START = datetime(2026, 1, 31, 9, 30, tzinfo=timezone(timedelta(hours=1)))
CLOSED = calendar(dates=["2026-12-31"], yearly=["12-25"], weekdays=["sat"], tz="Europe/Berlin")


def read(**kinds: Any) -> DeclaredWork:
    return read_declared(write_yaml(kinds), lambda task: None, file="f.yaml")


def again(spec: ScheduleSpec) -> ScheduleSpec:
    return read(schedules={spec.name: declared_schedule(spec)}).schedules[spec.name]


@pytest.mark.parametrize(
    "rule",
    [
        cron("30 2 * * MON-FRI"),
        cron("0 0 12 ? * 6#3 2099", tz="Asia/Tokyo", dst="both", dialect="quartz"),
        cron("H H(0-5) * * *", name="another"),
        every("90s"),
        every(timedelta(microseconds=1_500_001)),
        every("1h", start=START),
        every("R5/2026-01-31T09:30:00+01:00/P1MT0.5S"),
        every("R/2026-01-31T09:30:00+01:00/P14M3DT4H"),
        after("5m"),
        at(START, START + timedelta(days=1, microseconds=1)),
        rrule("FREQ=MONTHLY;BYDAY=-1FR", tz="Europe/Berlin", dst="skip"),
        rrule("FREQ=DAILY;COUNT=5", start=START, tz="Europe/Berlin"),
        any_of(cron("0 9 * * *", tz="Asia/Tokyo"), all_of(every("1h"), except_on("closed", CLOSED))),
        all_of(cron("0 9 * * *"), any_of(every("1h"), every("1d"))),
    ],
)
def test_rules(rule: RuleValue) -> None:
    spec = new_spec("s", "t", rule, b'{"to":"ada","n":[1,{"x":null}]}')
    assert again(spec) == spec


def test_policies_and_options() -> None:
    spec = new_spec(
        "s",
        "t",
        every("1h"),
        catchup="all",
        catchup_limit=7,
        catchup_age="3d",
        overlap="queue",
        jitter="1.5s",
        start=START,
        end=START.astimezone(UTC) + timedelta(days=3650),
        max_runs=9,
        deadline="5m",
        calendars=["closed", CLOSED],
        queue="slow",
        priority="high",
        retries=0,
        backoff="250ms",
        retry_on=[ConnectionError],
        give_up_on=[ValueError, KeyError],
        on_lost="fail",
        timeout="30s",
        expires="1h",
        collection="c",
        labels=["a", "b"],
        tenant="acme",
        needs={"gpu": True, "mem": "8GB", "cpu": 0.5},
        paused=True,
        description="é\nmore",
    )
    assert again(spec) == spec


def test_commands_and_dags() -> None:
    for args in (b'{"command":"date -u"}', b'{"command":["date","-u"],"env":{"A":"b"},"cwd":"/tmp"}', b'{"other":1}'):
        spec = new_spec("s", "shell", every("1h"), args)
        assert again(spec) == spec
    dag = read(schedules={"s": {"dag": "etl", "args": {"day": "x"}, "every": "1h"}}).schedules["s"]
    assert (dag.kind, dag.target) == ("dag", "etl")
    assert again(dag) == dag


def test_calendars_and_hooks() -> None:
    found = read(calendars={"c": declared_calendar(CLOSED)})
    assert found.calendars == {"c": CLOSED}
    hook = Hook(
        name="h",
        style="stripe",
        secret="STRIPE",
        target="ship",
        kind="dag",
        args='{"order":"${body.data.object.id}","n":1}',
        key="${body.id}",
        events=("a", "b"),
        window=timedelta(hours=2),
        description="é",
    )
    for one in (hook, Hook(name="h", style="github", secret="S", target="t")):
        assert read(hooks={"h": declared_hook(one)}).hooks == {"h": one}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"secret": "s3cret value"}, "hooks.h.secret: name the secret"),
        ({"style": "gitlab"}, "hooks.h.style: it must be one of github, stripe, generic"),
        ({"dag": "d"}, "either task or dag"),
        ({"args": {"n": "${params.n}"}}, r"hooks.h.args.n: ${params.n} names no value: there are ${body}, ${event}"),
        ({"key": "${body.id"}, "hooks.h.key: a ${ is not closed"),
        ({"window": "1m"}, "window must be from 10m to 30d"),
        ({"task": "shell", "args": {"command": "echo ${body.x}"}}, "a value may not say what is run"),
        ({"eventz": ["a"]}, "there is no such field here (did you mean 'events'?)"),
    ],
)
def test_what_is_wrong_with_a_hook_is_told_with_its_place(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the words are looked at
        read(hooks={"h": {"style": "github", "secret": "S", "task": "t", **fields}})
    assert words in str(caught.value)


def test_a_command_may_be_given_values_of_a_message_through_env() -> None:
    args = {"command": 'echo "$X"', "env": {"X": "${body.x}"}}
    assert "h" in read(hooks={"h": {"style": "github", "secret": "S", "task": "shell", "args": args}}).hooks
