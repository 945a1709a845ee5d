"""Limits as they are declared and stored, and the slots that jobs take of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tickwork
from tickwork.core.limits.job_limits import LimitUse
from tickwork.core.limits.limit_keys import key_text
from tickwork.core.limits.limits import (
    AnyLimit,
    Concurrency,
    Rate,
    Shared,
    concurrency,
    limit_uses,
    rate,
    read_limits,
    sequence,
)
from tickwork.core.option_parsing import VersionedJson
from tickwork.errors import InvalidArguments, InvalidInput, InvalidOption

ORDER = {"order": {"customer": {"id": 7}, "lines": [{"sku": "a"}, {"sku": "b"}], "size": 3}}

keys = st.sampled_from([None, "tenant", "label:region", "order", "order.customer.id", "arg:order.lines.0.sku"])
weights = st.integers(1, 5) | st.just("order.size")
names = st.none() | st.sampled_from(["stripe", "mail"])
limits = st.builds(Concurrency, capacity=st.integers(5, 99), key=keys, weight=weights, name=names) | st.builds(
    Rate,
    count=st.integers(1, 999),
    period=st.timedeltas(timedelta(seconds=1), timedelta(days=31)),
    burst=st.integers(4, 99),
    key=keys,
    weight=weights,
    name=names,
)


def test_the_makers_are_public() -> None:
    assert (tickwork.concurrency, tickwork.rate) == (concurrency, rate)


@pytest.mark.parametrize(
    ("pace", "count", "period", "burst"),
    [
        ("10/s", 10, timedelta(seconds=1), 1),
        ("1000/h", 1000, timedelta(hours=1), 0),
        ("100/15m", 100, timedelta(minutes=15), 0),
        ("5000/s", 5000, timedelta(seconds=1), 500),
        ("1/d", 1, timedelta(days=1), 0),
        (" 3/1m30s ", 3, timedelta(seconds=90), 0),
    ],
)
def test_a_rate_is_read_as_people_write_it(pace: str, count: int, period: timedelta, burst: int) -> None:
    assert rate(pace) == Rate(count=count, period=period, burst=burst)


def test_the_burst_is_what_100_ms_let_through_unless_it_is_said() -> None:
    assert rate("200/s").burst == 20
    assert rate("200/s", burst=0).burst == 0
    assert rate("10/m", weight=4).burst == 3  # a job of weight 4 can start


def test_the_interval_of_a_rate_is_never_too_short() -> None:
    assert rate("7/s").interval_us == 142_858
    assert rate("10/s").interval_us == 100_000


@pytest.mark.parametrize("pace", ["10", "10/", "/s", "x/s", "1.5/s", "-1/s", "10/year", "10/s/s", "", 10, None])
def test_other_rates_are_refused_with_what_to_write(pace: Any) -> None:
    with pytest.raises(InvalidOption, match=r"is not a rate\. Say how many in what time, such as '10/s'"):
        rate(pace)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rate("0/s"), "the number of a rate must be a whole number from 1"),
        (lambda: rate("10/0s"), "a period is more than 0 and at most 31 days"),
        (lambda: rate("10/32d"), "a period is more than 0 and at most 31 days"),
        (lambda: rate("10001/s"), "10,000 a second is the most"),
        (lambda: rate("10/s", burst=-1), "burst must be a whole number from 0"),
        (
            lambda: rate("10/s", burst=1, weight=3),
            "a weight of 3 is above what the limit lets through at once, 2; raise",
        ),
        (lambda: rate("10/s", weight="order.size"), "say burst="),
        (lambda: concurrency(0), "concurrency must be a whole number from 1 to 1,000,000, not 0"),
        (lambda: concurrency(True), "concurrency must be a whole number"),
        (lambda: concurrency(2, weight=3), "a weight of 3 is above what the limit lets through at once, 2; raise the"),
        (lambda: concurrency(2, weight=0), "the weight under a limit must be a whole number from 1"),
        (lambda: concurrency(2, weight="tenant"), "the weight 'tenant' is not found in arguments"),
        (lambda: concurrency(2, key=""), "the key of a limit must be a printable text"),
        (lambda: concurrency(2, key="order..id"), "'order..id' names nothing"),
        (lambda: concurrency(2, key="label:"), "'label:' names nothing"),
        (lambda: concurrency(2, name="x" * 201), "the name of a limit must be a printable text of 1 to 200"),
        (lambda: Concurrency(capacity=2, in_order=True), "a sequence runs one at a time"),
        (lambda: sequence("account", on_retry="skip"), "on_retry of a sequence is 'wait' or 'pass', not 'skip'"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        make()


def test_limits_without_a_name_are_their_owners_own() -> None:
    given_limits = [concurrency(2, key="order.customer.id"), "stripe", rate("10/s", name="mail"), sequence("order.id")]
    read = read_limits("task:pay", given_limits, ["order"])
    assert [limit.name for limit in read] == ["task:pay#1", "stripe", "mail", "task:pay#sequence"]
    assert read[1] == Shared(name="stripe")


def test_tenant_is_a_parameter_where_there_is_one_of_that_name() -> None:
    limited = [concurrency(2, key="tenant")]
    assert read_limits("task:sync", limited, ["tenant"])[0].key == "arg:tenant"
    assert read_limits("task:sync", limited, ["account"])[0].key == "tenant"
    assert read_limits("queue:mail", limited)[0].key == "tenant"


@pytest.mark.parametrize(
    ("given_limits", "message"),
    [
        (concurrency(2), "limits of task:pay must be a list such as"),
        ("stripe", "limits of task:pay must be a list such as"),
        ([5], "5 is no limit. Use concurrency"),
        ([concurrency(2, key="ordr.id")], r"'ordr.id' is no parameter of the task; did you mean 'order'\?"),
        ([concurrency(2, weight="size")], r"'size' is no parameter of the task; there are: order\."),
        (["stripe", rate("1/s", name="stripe")], "name 'stripe' twice"),
    ],
)
def test_limits_that_do_not_fit_their_task_are_refused(given_limits: Any, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        read_limits("task:pay", given_limits, ["order"])


def test_a_job_is_stamped_with_its_slots() -> None:
    read = read_limits(
        "task:pay",
        [
            concurrency(9),
            concurrency(9, key="order.customer.id", weight="order.size"),
            rate("10/s", key="tenant", name="stripe"),
            concurrency(2, key="label:region"),
            concurrency(2, key="order.lines.1.sku"),
        ],
        ["order"],
    )
    assert limit_uses(read, ORDER, tenant="acme", labels=("vip", "region:eu")) == (
        LimitUse("task:pay#1", "", 1),
        LimitUse("task:pay#2", "7", 3),
        LimitUse("stripe", "acme", 1),
        LimitUse("task:pay#4", "eu", 1),
        LimitUse("task:pay#5", "b", 1),
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("eu", "eu"),
        ("", ""),
        (7, "7"),
        ("7", "7"),
        (7.0, "7"),
        (7.5, "7.5"),
        (1e300, "1e+300"),
        (True, "true"),
        (None, "null"),
        ({"$uuid": "0b5f"}, "0b5f"),
        ({"$decimal": "1.50"}, "1.50"),
    ],
)
def test_keys_are_written_so_that_people_can_read_them(value: Any, text: str) -> None:
    assert key_text("x", {"x": value}, None, ()) == text


@pytest.mark.parametrize("key", ["x.y", "x.y.z", "x.0", "y", "tenant", "label:region"])
def test_jobs_without_the_value_share_one_key(key: str) -> None:
    assert key_text(key, {"x": {"w": 1}}, None, ("vip",)) == "null"


@pytest.mark.parametrize(("value", "kind"), [({"a": 1, "b": 2}, "an object"), ([1], "a list"), ({"a": 1}, "an object")])
def test_objects_and_lists_are_no_keys(value: Any, kind: str) -> None:
    with pytest.raises(InvalidArguments, match=f"the key 'x' of this job is {kind}, .* Nothing was stored"):
        key_text("x", {"x": value}, None, ())


@given(st.text(max_size=300), st.text(max_size=300))
def test_keys_are_short_printable_and_differ_as_their_values_do(one: str, other: str) -> None:
    texts = [key_text("x", {"x": value}, None, ()) for value in (one, other)]
    assert all(len(text) <= 120 and text.isprintable() for text in texts)
    assert (texts[0] == texts[1]) == (one == other)


def test_a_long_key_keeps_its_beginning() -> None:
    text = key_text("x", {"x": "https://example.org/" + "a" * 1000}, None, ())
    assert text.startswith("https://example.org/aaa")
    assert "…" in text


@pytest.mark.parametrize("size", [0, -1, 1.5, "3", None, True])
def test_a_weight_that_is_none_is_refused(size: Any) -> None:
    read = read_limits("task:pay", [concurrency(9, weight="order.size")])
    with pytest.raises(
        InvalidArguments, match=r"the weight 'order\.size' of this job is .*; it must be a whole number"
    ):
        limit_uses(read, {"order": {"size": size}})


def test_a_job_that_could_never_start_is_refused_at_enqueue() -> None:
    read = read_limits("task:pay", [concurrency(2, weight="order.size")])
    with pytest.raises(InvalidArguments, match=r"a weight of 3 is above .* 'task:pay#1' .* could never start"):
        limit_uses(read, ORDER)
    paced = read_limits("task:pay", [rate("10/s", weight="order.size", burst=1)])
    with pytest.raises(InvalidArguments, match="raise its burst"):
        limit_uses(paced, ORDER)


LIMITS = VersionedJson("limits", msgspec.json.Decoder(tuple[AnyLimit, ...]))


@given(st.lists(limits, max_size=4).map(tuple))
def test_limits_come_back_from_the_store(some: tuple[AnyLimit, ...]) -> None:
    assert LIMITS.decode(LIMITS.encode(some)) == some


def test_the_stored_form_is_this_one() -> None:
    """Rows that were written by this version must be readable by every later one."""
    some = read_limits("task:pay", [concurrency(2, key="tenant"), rate("10/s"), "stripe", sequence("order.id")])
    assert LIMITS.encode(some) == (
        b'{"version":1,"limits":['
        b'{"kind":"concurrency","name":"task:pay#1","key":"tenant","weight":1,"capacity":2,"in_order":false,'
        b'"on_retry":"wait"},'
        b'{"kind":"rate","name":"task:pay#2","key":null,"weight":1,"count":10,"period":"PT1S","burst":1},'
        b'{"kind":"shared","name":"stripe","key":null,"weight":1},'
        b'{"kind":"concurrency","name":"task:pay#sequence","key":"order.id","weight":1,"capacity":1,"in_order":true,'
        b'"on_retry":"wait"}]}'
    )


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (b"", "stored limits cannot be read"),
        (b'{"limits":[]}', "stored limits: version 0; this Tickwork reads 1"),
        (b'{"version":2,"limits":[]}', "stored limits: version 2; this Tickwork reads 1"),
        (b'{"version":1}', "stored limits cannot be read"),
        (b'{"version":1,"limits":[{"kind":"moon"}]}', "Was it written by a newer Tickwork"),
        (b'{"version":1,"limits":[{"kind":"concurrency","capacity":0}]}', "concurrency must be a whole number"),
    ],
)
def test_what_cannot_be_read_says_so(stored: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        LIMITS.decode(stored)
