"""Durations as people write them; what is ambiguous is refused by the name of its option."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.text.duration import format_duration, parse_duration, parse_rate
from tickwork.errors import InvalidOption


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("250ms", timedelta(milliseconds=250)),
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("2h", timedelta(hours=2)),
        ("3d", timedelta(days=3)),
        ("0s", timedelta(0)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        ("1h 30m", timedelta(hours=1, minutes=30)),
        (" 1d2h3m4s5ms ", timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=5)),
        ("1.5s", timedelta(seconds=1.5)),
        ("0.1s", timedelta(milliseconds=100)),
        ("1.5h", timedelta(minutes=90)),
        ("90m", timedelta(minutes=90)),
        ("0.001ms", timedelta(microseconds=1)),
    ],
)
def test_a_duration_means_what_it_says(text: str, duration: timedelta) -> None:
    assert parse_duration(text, what="delay") == duration


@given(st.timedeltas(min_value=timedelta(0)))
def test_a_timedelta_is_taken_as_it_is(duration: timedelta) -> None:
    assert parse_duration(duration, what="delay") == duration


@pytest.mark.parametrize("number", [30, 0, -1, 1.5, "30", " 1.5 ", "-5"])
def test_a_bare_number_is_refused_and_a_unit_asked_for(number: object) -> None:
    with pytest.raises(InvalidOption, match=r"delay: .*Say '.*s' or timedelta\(seconds=.*\)"):
        parse_duration(number, what="delay")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    ["5 parsecs", "", " ", "s", "5M", "30m1h", "1m1m", "1h-5m", "--5s", "1,5s", ".5s", "1e3s", "٣s", None, True, b"5s"],
)
def test_other_texts_are_refused_with_the_option_and_the_units(text: object) -> None:
    with pytest.raises(InvalidOption, match=r"timeout: .* is not a duration\. Use d, h, m, s, ms"):
        parse_duration(text, what="timeout")  # type: ignore[arg-type]


def test_a_negative_duration_is_refused_unless_it_is_allowed() -> None:
    for value in ("-5m", timedelta(minutes=-5)):
        with pytest.raises(InvalidOption, match=r"delay: .* is negative"):
            parse_duration(value, what="delay")
        assert parse_duration(value, what="delay", allow_negative=True) == timedelta(minutes=-5)


@pytest.mark.parametrize("text", ["999999999999d", "9999999999d", "-999999999999d", "999999999d999999999999h"])
def test_a_duration_too_long_for_a_timedelta_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match=r"delay: .* is too long; 999,999,999 days is the most"):
        parse_duration(text, what="delay", allow_negative=True)


def test_thousands_of_digits_are_refused_at_once() -> None:
    with pytest.raises(InvalidOption, match="is not a duration"):
        parse_duration("9" * 100_000 + "s", what="delay")


@given(st.text("0123456789.dhms -", max_size=20))
def test_any_text_is_a_duration_or_an_invalid_option(text: str) -> None:
    with suppress(InvalidOption):
        assert parse_duration(text, what="delay") >= timedelta(0)


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(microseconds=250), "0.25ms"),
        (timedelta(milliseconds=250), "250ms"),
        (timedelta(milliseconds=999, microseconds=999), "999.999ms"),
        (timedelta(seconds=1), "1s"),
        (timedelta(seconds=1.5), "1.5s"),
        (timedelta(seconds=10), "10s"),
        (timedelta(seconds=59.9999), "59.999s"),
        (timedelta(minutes=1), "1m"),
        (timedelta(seconds=90), "1m30s"),
        (timedelta(hours=1, minutes=30, seconds=59), "1h30m"),
        (timedelta(hours=2, seconds=59), "2h"),
        (timedelta(days=3, hours=4), "3d4h"),
        (timedelta(days=100), "100d"),
        (timedelta(minutes=-90), "-1h30m"),
    ],
)
def test_a_duration_is_written_as_people_say_it(duration: timedelta, text: str) -> None:
    assert format_duration(duration) == text


@given(st.timedeltas())
def test_what_is_written_can_be_read_and_is_never_longer_than_the_duration(duration: timedelta) -> None:
    read = parse_duration(format_duration(duration), what="delay", allow_negative=True)
    assert abs(read) <= abs(duration)
    assert abs(duration - read) <= max(abs(duration) / 24, timedelta(microseconds=1))


@pytest.mark.parametrize(
    ("text", "per_second"),
    [("50/s", 50.0), ("10/m", 10 / 60), ("1000/h", 1000 / 3600), ("0.5/s", 0.5), (" 6/m ", 0.1)],
)
def test_a_rate_is_a_number_per_second(text: str, per_second: float) -> None:
    assert parse_rate(text) == pytest.approx(per_second)


@pytest.mark.parametrize("text", ["50", "50/parsec", "/s", "50/d", "-5/s", "0/s", "0.0/m", "", "5/s/s", 50, None])
def test_other_rates_are_refused_with_the_option_and_the_units(text: object) -> None:
    with pytest.raises(InvalidOption, match=r"rate: .* is not a rate\. Say how many per s, m or h"):
        parse_rate(text)  # type: ignore[arg-type]
