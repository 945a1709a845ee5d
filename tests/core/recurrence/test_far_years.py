"""At the ends of the calendar rules are refused, or have no occurrences: nothing overflows."""

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tickwork import after, calendar
from tickwork.core.recurrence.base_rule import RuleValue
from tickwork.core.recurrence.parse_rule import read_expression
from tickwork.core.text.duration import parse_spacing
from tickwork.errors import InvalidOption

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
LATE = datetime(7999, 12, 31, 12, tzinfo=UTC)
EARLY = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = ("UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Europe/Berlin")


def read(text: str, tz: str) -> RuleValue | None:
    try:
        return read_expression(text, tz=tz, dst="once", dialect="standard", name="n")
    except InvalidOption:
        return None


def look_around(rule: RuleValue) -> None:
    """Ask a rule for everything that is shown of it, now and at both ends of what there is."""
    rule.explain()
    for instant in (NOW, LATE, EARLY):
        later, earlier = rule.next(3, after=instant), rule.prev(3, before=instant)
        assert all(due > instant for due in later)
        assert all(due < instant for due in earlier)


years = st.sampled_from(["0000", "0001", "0002", "1583", "1969", "1970", "7999", "8000", "9998", "9999"])
days = st.sampled_from(["0101", "0102", "1230", "1231"])
times = st.sampled_from(["", "T000000", "T000000Z", "T235959", "T235959Z"])
dates = st.tuples(years, days, times).map("".join)
freqs = st.sampled_from(["YEARLY", "MONTHLY", "WEEKLY;BYDAY=MO", "DAILY", "HOURLY", "SECONDLY"])
spans = st.sampled_from(
    ["P1Y", "P1M", "P1D", "PT1H", "P1000Y", "P365000D", "P1M365000D", "P1000Y365000D", "P999999999D"]
)
isos = st.builds(
    "{}-{}T{}".format, years, st.sampled_from(["01-01", "12-31"]), st.sampled_from(["00:00Z", "23:59+14:00"])
)


@given(st.builds("FREQ={};UNTIL={}".format, freqs, dates), st.sampled_from(ZONES))
@example("FREQ=DAILY;UNTIL=99991231T235959Z", "Pacific/Kiritimati")
@example("FREQ=DAILY;UNTIL=00010101T000000Z", "Pacific/Pago_Pago")
@example("FREQ=DAILY;UNTIL=99991231", "UTC")
def test_an_until_is_kept_or_refused(text: str, tz: str) -> None:
    if rule := read(text, tz):
        look_around(rule)


@given(dates, st.sampled_from(["", ";TZID=Pacific/Kiritimati"]), freqs, st.sampled_from(ZONES))
@example("00010101T000000Z", "", "DAILY", "UTC")
@example("99991231T235959Z", "", "DAILY", "Pacific/Kiritimati")
def test_a_start_is_kept_or_refused(date: str, zone: str, freq: str, tz: str) -> None:
    if rule := read(f"DTSTART{zone}:{date}\nRRULE:FREQ={freq};COUNT=3", tz):
        look_around(rule)


@given(st.sampled_from(["R", "R1", "R3", "R999999999"]), isos, spans, isos)
@example("R", "1970-01-01T00:00Z", "P1M365000D", "1970-01-01T00:00Z")
def test_a_repeating_interval_is_kept_or_refused(often: str, start: str, span: str, end: str) -> None:
    for text in (f"{often}/{start}/{span}", f"{often}/{span}/{end}", f"{often}/{start}/{end}"):
        if rule := read(text, "UTC"):
            look_around(rule)


def test_an_until_after_our_years_is_the_end_of_them() -> None:
    rule = read_expression("FREQ=DAILY;UNTIL=99991231T235959Z", tz="UTC", dst="once", dialect="standard", name=None)
    assert rule.next(1, after=NOW) == [datetime(2026, 11, 19, tzinfo=UTC)]


def test_a_fixed_delay_has_no_occurrence_beyond_our_years() -> None:
    rule = after("365000d").value
    assert len(rule.next(100, after=NOW)) == 5
    assert rule.prev(100, before=NOW) == []


@pytest.mark.parametrize(("start", "end"), [("99991231", None), ("99991230", "99991231"), ("00010101", "00010102")])
def test_an_event_at_the_end_of_the_calendar_is_read_or_refused(start: str, end: str | None) -> None:
    lines = ["BEGIN:VEVENT", f"DTSTART;VALUE=DATE:{start}", *([f"DTEND;VALUE=DATE:{end}"] if end else []), "END:VEVENT"]
    if start.startswith("9"):
        with pytest.raises(InvalidOption, match="after the year 7999"):
            calendar(ics="\n".join(lines))
    else:
        assert calendar(ics="\n".join(lines)).dates


@pytest.mark.parametrize("rate", ["0.00000000000000000001/h", "0.0001/h", "0.01/h"])
def test_a_rate_that_spreads_jobs_over_centuries_is_refused(rate: str) -> None:
    with pytest.raises(InvalidOption, match="one job per day"):
        parse_spacing(rate)
