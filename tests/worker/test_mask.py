"""What an attempt was given as a secret is in nothing that is stored of it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.worker.capture import Sink
from tickwork.worker.mask import Mask

VALUE = "hunter2-hunter2"


def mask(*values: str) -> Mask:
    made = Mask()
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
    sink = Sink(lambda seq, text: kept.append(text), lambda sink: None)
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
