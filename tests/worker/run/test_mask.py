"""The secrets of an attempt are masked in everything that is stored of it."""

import json
import textwrap
from base64 import b64encode, encodebytes, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote, urlencode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.worker.run.capture import OutputSink
from tickwork.worker.run.mask import SecretMask

VALUE = "hunter2-hunter2"


def mask(*values: str) -> SecretMask:
    made = SecretMask()
    for value in values:
        made.hide(value)
    return made


def test_a_value_is_hidden_wherever_it_stands() -> None:
    assert mask(VALUE).text(f"a {VALUE}{VALUE} b") == "a ****** b"
    assert mask(VALUE).text("nothing here") == "nothing here"


def test_of_values_that_contain_one_another_nothing_is_left() -> None:
    assert mask("abcd", "abcdefgh").text("abcdefgh abcd") == "*** ***"


@pytest.mark.parametrize("write", [repr, json.dumps, str])
def test_a_value_is_hidden_as_languages_write_it(write: object) -> None:
    value = 'first "line"\nsecond\tline'
    shown = mask(value).text(write(value))  # type: ignore[operator]
    assert "line" not in shown


def test_each_line_of_a_value_is_hidden() -> None:
    assert "MIIEvQIBADAN" not in mask("-----BEGIN KEY-----\nMIIEvQIBADAN\n").text("got MIIEvQIBADAN, why?")


def test_short_values_stay_since_they_are_everywhere() -> None:
    assert mask("abc").text("abcabc") == "abcabc"


@pytest.mark.parametrize(
    "write",
    [
        str.upper,
        str.title,
        lambda value: quote(value, safe=""),
        lambda value: quote(value, safe="").lower(),
        quote,
        lambda value: quote(value, safe="!*'()"),
        lambda value: quote(value, safe="!*'();/?:@&=+$,#"),
        lambda value: urlencode({"v": value}),
        ascii,
        lambda value: repr(value.encode()),
        lambda value: value.encode().hex(),
        lambda value: value.encode().hex().upper(),
        lambda value: b64encode(value.encode()).decode(),
        lambda value: urlsafe_b64encode(value.encode()).decode(),
        lambda value: b64encode(b"u:" + value.encode() + b"\n").decode(),
        lambda value: b64encode(b"ada:" + value.encode()).decode(),
    ],
)
@pytest.mark.parametrize("value", [VALUE, "p\u00e4ss/w\u00f6rt+\u0130 \u03a3"])
def test_a_value_is_hidden_in_other_cases_and_encodings(value: str, write: Callable[[str], str]) -> None:
    written = write(value)
    shown = mask(value).text(f"a {written} b")
    assert "***" in shown
    assert len(shown) <= 16, "at most a character or two of the ends of Base64 is left"


@pytest.mark.parametrize(
    "write",
    [
        lambda value: encodebytes(value.encode()).decode(),
        lambda value: encodebytes(value.encode() + b"\n").decode(),
        lambda value: textwrap.fill(b64encode(value.encode()).decode(), 64),
    ],
)
def test_the_lines_of_base64_of_a_long_value_are_hidden(write: Callable[[str], str]) -> None:
    value = "".join(f"{number:03}-Aa" for number in range(50))
    lines = mask(value).text(write(value)).split()
    assert all(len(line.replace("***", "")) <= 8 for line in lines), lines


def test_a_number_of_a_result_that_holds_a_value_is_hidden() -> None:
    shown = json.loads(mask("12345678").json(b'{"pin": 12345678, "more": [-9123456780, 1234, true, 0.12345678]}'))
    assert shown == {"pin": "***", "more": ["***", 1234, True, "***"]}
    assert mask("1234").json(b'{"count":91234,"text":"a 1234"}') == b'{"count":91234,"text":"a ***"}'


def test_what_only_looks_alike_stays_as_it_is() -> None:
    text = "a text without it, 0123456789abcdef, dGV4dA==, \u0130stanbul \u03a3"
    assert mask(VALUE).text(text) == text
    data = json.dumps({"text": text}, ensure_ascii=False).encode()
    assert mask(VALUE).json(data) is data


def test_a_line_of_a_value_is_hidden_in_a_result_too() -> None:
    data = msgspec.json.encode({"line": 'the "second" line'})
    assert msgspec.json.decode(mask('first\nthe "second" line').json(data)) == {"line": "***"}


def test_hiding_more_in_one_sink_leaves_others_alone() -> None:
    kept: list[str] = []
    shared = mask("shared-value")
    one, other = (OutputSink(lambda seq, text: kept.append(text), lambda sink: None, mask=shared) for _ in range(2))
    one.hide("own-value")
    assert one.masked("shared-value own-value") == "*** ***"
    assert other.masked("shared-value own-value") == "*** own-value"


@pytest.mark.parametrize("value", ["n123", '"quoted"', "back\\slash", "ünïcode", "u0041"])
def test_a_result_stays_json(value: str) -> None:
    result = {"stdout": f"x\n123 {value} y", "lines": [1, None, True, 0.5, f"{value}"], value: {}}
    shown = json.loads(mask(value).json(json.dumps(result).encode()))
    assert shown == {"stdout": "x\n123 *** y", "lines": [1, None, True, 0.5, "***"], "***": {}}


@given(st.text("ab*\n", max_size=40), st.lists(st.integers(1, 6), max_size=12), st.text("ab", min_size=4, max_size=6))
def test_a_value_that_is_written_and_passed_on_in_pieces_is_hidden_all_the_same(
    around: str, pieces: list[int], value: str
) -> None:
    kept: list[str] = []
    sink = OutputSink(lambda seq, text: kept.append(text), lambda sink: None)
    sink.hide(value)
    text = around.replace(value, "") + "|" + value + "|" + around.replace(value, "")
    at = 0
    for size in [*pieces, len(text)]:
        sink.write(text[at : at + size])
        sink.flush()
        at += size
    sink.flush(final=True)
    assert value not in "".join(kept)
    assert "|***|" in "".join(kept)
