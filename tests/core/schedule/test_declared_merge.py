"""The owner of each field of a declared schedule: the code, or the user who edited it at run time."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.recurrence.interval import every
from tickwork.core.schedule.spec import ScheduleSpec, merge, new_spec

MINUTES, HOURS, DAYS = every("1m"), every("1h"), every("1d")


def spec(rule: Any = MINUTES, target: str = "t", args: bytes = b"{}", **given: Any) -> ScheduleSpec:
    return new_spec("s", target, rule, args, **given)


def test_declared_for_the_first_time_code_says_it_all() -> None:
    assert merge(None, spec(HOURS, queue="mail"), spec(MINUTES)) == spec(MINUTES)


def test_an_edit_that_code_did_not_touch_stays() -> None:
    edited = spec(HOURS, queue="mail", overlap="queue")
    assert merge(spec(), edited, spec()) == edited


def test_what_code_changed_takes_its_new_value() -> None:
    assert merge(spec(MINUTES), spec(HOURS), spec(DAYS)) == spec(DAYS)


def test_fields_are_judged_one_by_one() -> None:
    base = spec(MINUTES, catchup="all", queue="a", retries=1)
    edited = spec(HOURS, catchup="none", queue="a", retries=9)
    declared = spec(MINUTES, catchup="latest", queue="b", retries=1)
    assert merge(base, edited, declared) == spec(HOURS, catchup="latest", queue="b", retries=9)


def test_what_code_takes_back_is_taken_back() -> None:
    assert merge(spec(jitter="5s", queue="a"), spec(jitter="5s", queue="a"), spec()) == spec()


def test_arguments_go_with_their_target() -> None:
    base, edited = spec(args=b'{"n":1}'), spec(args=b'{"n":2}')
    assert merge(base, edited, spec(target="u", args=b'{"n":1}')) == spec(target="u", args=b'{"n":1}')


def test_an_edit_that_does_not_go_with_the_declaration_gives_way() -> None:
    declared = spec(window="1h")
    assert merge(spec(), spec(jitter="5s"), declared) == declared


_SPECS = st.builds(
    spec,
    st.sampled_from([MINUTES, HOURS, DAYS]),
    catchup=st.sampled_from(["all", "latest", "none"]),
    overlap=st.sampled_from(["skip", "queue"]),
    queue=st.sampled_from([None, "a", "b"]),
)


@given(_SPECS, _SPECS, _SPECS)
def test_the_same_declaration_again_changes_nothing(
    base: ScheduleSpec, current: ScheduleSpec, declared: ScheduleSpec
) -> None:
    once = merge(base, current, declared)
    assert merge(declared, once, declared) == once


@given(_SPECS, _SPECS)
def test_who_did_not_edit_gets_what_code_says(base: ScheduleSpec, declared: ScheduleSpec) -> None:
    assert merge(base, base, declared) == declared
