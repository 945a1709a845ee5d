"""Rules of every kind, for properties that all of them have."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from hypothesis import strategies as st

from tickwork.core.recurrence.base_rule import RuleValue
from tickwork.core.recurrence.calendar import Calendar, calendar
from tickwork.core.recurrence.combine import AllOf, all_of, any_of, except_on
from tickwork.core.recurrence.cron import cron
from tickwork.core.recurrence.interval import at, every
from tickwork.core.recurrence.rrule import rrule

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Kathmandu"]
CRONS = ["*/7 * * * *", "30 2 * * *", "0 0 L * *", "15 1 * * FRI-MON", "0 0 15W * *", "H H * * *", "*/10 * * * * *"]
RRULES = ["FREQ=DAILY;BYHOUR=2;BYMINUTE=30", "FREQ=MONTHLY;BYDAY=-1FR", "FREQ=HOURLY;INTERVAL=5", "FREQ=YEARLY"]

instants = st.datetimes(
    datetime(2015, 1, 1),  # noqa: DTZ001 - Hypothesis wants the bounds without a zone
    datetime(2035, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
zones = st.sampled_from(ZONES)
policies = st.sampled_from(["once", "skip", "both", "shift"])
crons = st.builds(lambda text, tz, dst: cron(text, tz=tz, dst=dst, name="any"), st.sampled_from(CRONS), zones, policies)
rrules = st.builds(lambda text, tz, dst: rrule(text, tz=tz, dst=dst), st.sampled_from(RRULES), zones, policies)
everys = st.builds(
    lambda step, start: every(step, start=start),
    st.timedeltas(timedelta(seconds=1), timedelta(days=9)),
    st.none() | instants,
)
monthly = st.builds(lambda start: every(f"R/{start.isoformat()}/P1MT5M"), instants)
ats = st.builds(lambda some: at(*some), st.lists(instants, min_size=1, max_size=5))
simple: st.SearchStrategy[RuleValue] = st.one_of(crons, rrules, everys, monthly, ats)
calendars: st.SearchStrategy[Calendar] = st.builds(
    lambda dates, weekdays, tz: calendar(dates=dates, weekdays=weekdays, tz=tz),
    st.sets(st.dates(date(2015, 1, 1), date(2035, 1, 1)), max_size=5),
    st.sets(st.sampled_from(["mon", "wed", "sun"])),
    st.none() | zones,
)


def heeding(rule: RuleValue, left_out: Calendar) -> AllOf:
    return all_of(rule, except_on(left_out, "holidays"))


combined = st.builds(any_of, simple, simple) | st.builds(heeding, crons, calendars)
rules: st.SearchStrategy[RuleValue] = simple | combined
