"""Debounce and throttle, as options that the engine has."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.job_options import Options
from tickwork.core.limits.debounce import debounce, limits_of, options_of, throttle
from tickwork.core.limits.task_limits import TaskLimits, decode_task_limits, encode_task_limits
from tickwork.errors import InvalidOption


def test_a_debounced_call_replaces_the_one_before_and_starts_the_wait_again() -> None:
    options = options_of(debounce("5s", key="account"), "sync", {"account": 7})
    assert options == {"key": "debounce:sync:7", "if_exists": "follow", "delay": timedelta(seconds=5)}


def test_jobs_that_follow_each_other_have_limits_of_their_own() -> None:
    line, rate = limits_of(throttle("1m", key="account", trailing=True), "sync")
    assert (line.name, line.said, line.key) == ("task:sync#throttle", "one at a time, in order", "account")
    assert (rate.name, rate.said, rate.key) == ("task:sync#throttle-rate", "1/m", "account")
    (line,) = limits_of(debounce("5s"), "sync")
    assert (line.name, line.said, line.key) == ("task:sync#debounce", "one at a time, in order", None)
    assert limits_of(throttle("1m"), "sync") == limits_of(None, "sync") == ()


def test_a_throttled_call_keeps_its_key_for_a_while_after_it_ended() -> None:
    options = options_of(throttle("1m", key="tenant"), "sync", {}, tenant="acme")
    assert options == {"key": "throttle:sync:acme", "key_for": timedelta(minutes=1)}
    assert options_of(throttle("1m"), "sync", {})["key"] == "throttle:sync:"


@given(st.text(min_size=1, max_size=200).filter(str.isprintable), st.text())
def test_the_options_are_ones_that_the_engine_takes(task: str, account: str) -> None:
    for merging in (debounce("5s", key="account"), throttle("1m", key="account")):
        options = options_of(merging, task, {"account": account})
        assert options.pop("if_exists", "follow") == "follow"
        assert Options().updated(options).key == options["key"]


def test_debounces_and_throttles_come_back_from_the_store() -> None:
    stored = '{"version":1,"limits":{"merging":{"kind":"debounce","wait":"PT5S","key":"account"}}}'
    assert encode_task_limits(TaskLimits(merging=debounce("5s", key="account"))) == stored
    for merging in (debounce("5s", key="account"), throttle("1m"), throttle("1m", trailing=True)):
        assert decode_task_limits(encode_task_limits(TaskLimits(merging=merging))).merging == merging


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: debounce("0s"), "debounce: '0s' is not from 1ms to 365d"),
        (lambda: throttle(5), "throttle: 5 of what"),  # type: ignore[arg-type]
        (lambda: throttle("32d", trailing=True), "throttle: '32d' is not from 1ms to 31d"),
        (lambda: debounce("5s", key="."), "the key of a debounce or throttle: '.' names nothing"),
    ],
)
def test_others_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        make()
