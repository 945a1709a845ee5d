"""One strict JSON for both stores: what may be stored comes back as it was, and all else is refused with its place."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.arguments.payload import PAYLOAD_LIMIT, RESULT_LIMIT, decode, encode, pack, unpack
from tickwork.core.arguments.unstorable import brief
from tickwork.errors import InvalidPayload

EARLY, LATE = datetime(1900, 1, 1), datetime(2200, 1, 1)  # noqa: DTZ001 - Hypothesis adds the zones
NAIVE = datetime(2026, 11, 15)  # noqa: DTZ001 - to be refused

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
hashables = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
    st.datetimes(EARLY, LATE, timezones=st.timezones()),
    st.dates(),
    st.times(timezones=st.none() | st.just(UTC)),
    st.timedeltas(),
    st.uuids(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.binary(max_size=20),
    texts.map(Path),
)
keys = texts | texts.map("${}".format) | st.sampled_from(["$dict", "$set", "$datetime", "$"])
values = st.recursive(
    hashables | st.sets(hashables, max_size=4) | st.frozensets(hashables, max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=12,
)


def stored(value: Any) -> bytes:
    return encode(value, what="argument 'to' of task 'send_email'", limit_bytes=PAYLOAD_LIMIT)


def refusal(value: Any) -> str:
    with pytest.raises(InvalidPayload) as refused:
        stored(value)
    return str(refused.value)


def same(one: Any, other: Any) -> bool:
    """Equal and of the same types all the way down. Zones may turn into their offset."""
    if type(one) is not type(other):
        return False
    match one:
        case dict():
            return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
        case list():
            return len(one) == len(other) and all(map(same, one, other))
        case set() | frozenset():
            return len(one) == len(other) and all(any(same(a, b) for b in other) for a in one)
        case datetime():
            return not (one - other) and one.utcoffset() == other.utcoffset()
    return bool(one == other)


@given(values)
def test_every_value_of_a_supported_type_comes_back_equal_and_of_the_same_type(value: Any) -> None:
    assert same(decode(stored(value)), value)


@given(values)
def test_unpack_undoes_pack_without_any_bytes_in_between(value: Any) -> None:
    assert same(unpack(pack(value)), value)


@given(values)
def test_what_is_written_is_plain_utf8_json(value: Any) -> None:
    json.loads(stored(value).decode("utf-8"), parse_constant=pytest.fail)


def test_json_values_are_written_as_they_are_and_compactly() -> None:
    assert stored({"a": [1, 2.5, "é", None, True]}) == '{"a":[1,2.5,"é",null,true]}'.encode()


def test_other_values_are_written_under_a_tag() -> None:
    noon = datetime(2026, 11, 15, 12, tzinfo=UTC)
    assert stored(noon) == b'{"$datetime":"2026-11-15T12:00:00+00:00"}'
    assert stored([date(2026, 11, 15), time(12, 30)]) == b'[{"$date":"2026-11-15"},{"$time":"12:30:00"}]'
    assert stored(timedelta(minutes=1.5)) == b'{"$timedelta":"PT90S"}'
    assert stored(UUID(int=1)) == b'{"$uuid":"00000000-0000-0000-0000-000000000001"}'
    assert stored([Decimal("1.10"), b"\0\xff"]) == b'[{"$decimal":"1.10"},{"$bytes":"AP8="}]'
    assert stored([{1}, frozenset(), Path("a/b")]) == b'[{"$set":[1]},{"$frozenset":[]},{"$path":"a/b"}]'


@pytest.mark.parametrize("value", [{"$x": 1}, {"$dict": {}}, {"$dict": {"$dict": 1}}, {"$uuid": "no"}, {"$": {"$": 1}}])
def test_a_dict_that_looks_like_a_tag_comes_back_as_that_dict(value: dict[str, Any]) -> None:
    assert decode(stored(value)) == value
    assert decode(stored({"inside": [value], "$and": value})) == {"inside": [value], "$and": value}


def test_a_tuple_comes_back_as_a_list() -> None:
    assert decode(stored((1, (2, 3)))) == [1, [2, 3]]


def test_a_datetime_in_the_hour_that_its_zone_repeats_keeps_its_instant() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    for fold in (0, 1):
        late = datetime(2026, 10, 25, 2, 30, tzinfo=berlin, fold=fold)
        assert decode(stored(late)).astimezone(UTC) == late.astimezone(UTC)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity")])
def test_nan_and_infinity_are_refused_with_their_place(bad: Any) -> None:
    assert refusal({"items": [0, 1, 2, {"price": bad}]}) == (
        "argument 'to' of task 'send_email' cannot be stored: "
        "at $.items[3].price, NaN and Infinity are not JSON; pass None or a string."
    )


def test_nul_characters_are_refused_in_texts_and_in_keys() -> None:
    assert "at $.name, the text 'a\\x00b' holds a NUL character" in refusal({"name": "a\0b"})
    assert 'at $["a\\u0000b"], ' in refusal({"a\0b": 1})
    assert "holds a NUL character" in refusal(Path("a\0b"))


def test_the_text_backslash_u0000_is_no_nul_character() -> None:
    assert decode(stored({"code": "\\u0000"})) == {"code": "\\u0000"}


def test_lone_surrogates_are_refused_in_texts_and_in_keys() -> None:
    assert "at $[0].name, the text '\\ud800' holds a lone surrogate" in refusal([{"name": "\ud800"}])
    assert 'at $["\\udfff"], ' in refusal({"\udfff": 1})


@pytest.mark.parametrize("bad", [2**63, -(2**63) - 1, 10**30, pytest.param(10**5000, id="huge")])
def test_integers_beyond_64_bits_are_refused_and_a_string_is_suggested(bad: int) -> None:
    assert "at $.n[1], an integer does not fit into 64 bits; pass it as a string" in refusal({"n": [1, bad]})


@pytest.mark.parametrize("edge", [2**63 - 1, -(2**63)])
def test_integers_of_64_bits_are_taken(edge: int) -> None:
    assert decode(stored(edge)) == edge


def nested(levels: int, core: Any = None) -> Any:
    value = core
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def test_64_levels_are_taken_and_65_are_refused() -> None:
    assert decode(stored(nested(64))) == nested(64)
    assert "nested more than 64 levels deep" in refusal(nested(65))


def test_a_value_far_too_deep_or_inside_itself_is_refused_and_crashes_nothing() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert "nested more than 64 levels deep" in refusal(nested(100_000))
    assert "nested more than 64 levels deep" in refusal(loop)


def test_many_brackets_in_a_text_are_not_depth() -> None:
    assert decode(stored(["[{" * 500])) == ["[{" * 500]


@pytest.mark.parametrize("key", [1, True, None, 1.5, (1, 2), UUID(int=1), pytest.param(10**5000, id="huge")])
def test_keys_that_are_not_strings_are_refused(key: Any) -> None:
    assert f"at $.by, the key {brief(key)} is not a string" in refusal({"by": {key: 1}})


def test_naive_datetimes_are_refused_and_a_zone_is_asked_for() -> None:
    assert "at $[0], the datetime 2026-11-15 00:00:00 has no zone; give it one" in refusal([NAIVE])


def test_a_time_in_a_zone_whose_offset_depends_on_the_day_is_refused() -> None:
    assert "depends on the day" in refusal(time(12, tzinfo=ZoneInfo("Europe/Berlin")))


@dataclass
class Point:
    x: int


class Row(msgspec.Struct):
    x: int


class Color(Enum):
    RED = "red"


@pytest.mark.parametrize("value", [Point(1), Row(1), Color.RED])
def test_records_and_enums_without_a_hint_are_refused_and_a_hint_is_asked_for(value: Any) -> None:
    said = refusal({"at": value})
    assert f"at $.at, a {type(value).__name__} has no JSON of its own; annotate the parameter" in said


class Shout(str):
    pass


@pytest.mark.parametrize("value", [object(), 1j, range(3), Shout("a"), OrderedDict(a=1), bytearray(b"a"), len])
def test_other_types_are_refused_by_name(value: Any) -> None:
    assert f"{type(value).__qualname__} has no JSON" in refusal([value])


def test_tuples_in_a_set_are_refused_because_lists_could_not_come_back_into_it() -> None:
    assert "a tuple inside a set" in refusal({(1, 2)})


def test_a_value_over_the_cap_is_refused_with_both_sizes() -> None:
    assert refusal("x" * 300_110) == (
        "argument 'to' of task 'send_email' is 300,112 bytes; "
        "the cap is 262,144: store it elsewhere and pass a reference."
    )
    assert len(stored("x" * (PAYLOAD_LIMIT - 2))) == PAYLOAD_LIMIT
    assert RESULT_LIMIT == 1024 * 1024


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"nan",
        b"NaN",
        b"1e999",
        b'"\xff"',
        b'"\\ud800"',
        b'"a\\u0000b"',
        b'{"a\\u0000":1}',
        b"[1] x",
        b"9223372036854775808",
        b"1" * 5000,
        b"[" * 65 + b"]" * 65,
        b"[" * 100_000,
        b'{"$nonsense":1}',
        b'{"$uuid":"x"}',
        b'{"$uuid":1}',
        b'{"$decimal":"x"}',
        b'{"$decimal":"NaN"}',
        b'{"$bytes":"*"}',
        b'{"$set":1}',
        b'{"$set":[[]]}',
        b'{"$dict":1}',
        b'{"$datetime":"2026-11-15T00:00:00"}',
        b'{"$datetime":5}',
        b'{"$timedelta":"soon"}',
        b'{"$path":null}',
    ],
)
def test_what_encode_cannot_have_written_is_refused_by_decode(data: bytes) -> None:
    with pytest.raises(InvalidPayload, match=r"a stored value|tag"):
        decode(data)


@given(st.binary(max_size=40) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_decode_reads_any_bytes_or_says_that_it_cannot(data: bytes) -> None:
    with suppress(InvalidPayload):
        decode(data)


def test_zones_with_odd_offsets_come_back_to_the_second() -> None:
    odd = timezone(timedelta(minutes=53, seconds=28))
    assert decode(stored(datetime(1890, 1, 1, tzinfo=odd))) == datetime(1890, 1, 1, tzinfo=odd)
