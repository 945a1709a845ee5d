"""Cron expressions: known facts, what is refused and with which words, and what is said of them."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import pytest

from tickwork.core.recurrence.cron import Cron, cron
from tickwork.core.recurrence.cron_parser import Dialect
from tickwork.errors import InvalidOption

START = datetime.fromisoformat("2026-11-16T10:07:30Z")  # a Monday


def dues(rule: Cron, n: int = 3) -> list[str]:
    return [due.strftime("%a %Y-%m-%d %H:%M:%S") for due in rule.next(n, after=START)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* * * * *", ["Mon 2026-11-16 10:08:00", "Mon 2026-11-16 10:09:00"]),
        ("*/20 * * * *", ["Mon 2026-11-16 10:20:00", "Mon 2026-11-16 10:40:00"]),
        ("5/20 * * * *", ["Mon 2026-11-16 10:25:00", "Mon 2026-11-16 10:45:00"]),
        ("0 8-17 * * MON-FRI", ["Mon 2026-11-16 11:00:00", "Mon 2026-11-16 12:00:00"]),
        ("0 9 13 * FRI", ["Fri 2026-11-20 09:00:00", "Fri 2026-11-27 09:00:00"]),  # the 13th or a Friday
        ("0 9 13 * *", ["Sun 2026-12-13 09:00:00", "Wed 2027-01-13 09:00:00"]),
        ("0 9 1-7 * */7", ["Sun 2026-12-06 09:00:00", "Sun 2027-01-03 09:00:00"]),  # a star: the first Sunday
        ("0 0 * * 7", ["Sun 2026-11-22 00:00:00", "Sun 2026-11-29 00:00:00"]),
        ("0 0 * * FRI-MON", ["Fri 2026-11-20 00:00:00", "Sat 2026-11-21 00:00:00"]),
        ("0 0 * * sat-sun", ["Sat 2026-11-21 00:00:00", "Sun 2026-11-22 00:00:00"]),
        ("0 22-2/2 * * *", ["Mon 2026-11-16 22:00:00", "Tue 2026-11-17 00:00:00"]),
        ("0 0 1 NOV-FEB *", ["Tue 2026-12-01 00:00:00", "Fri 2027-01-01 00:00:00"]),
        ("50-10/10 10 * * *", ["Mon 2026-11-16 10:10:00", "Mon 2026-11-16 10:50:00"]),
        ("7-7/15 * * * *", ["Mon 2026-11-16 11:07:00", "Mon 2026-11-16 12:07:00"]),
        ("0 0 L * *", ["Mon 2026-11-30 00:00:00", "Thu 2026-12-31 00:00:00"]),
        ("0 0 LW 1 *", ["Fri 2027-01-29 00:00:00", "Mon 2028-01-31 00:00:00"]),
        ("0 0 15W * *", ["Tue 2026-12-15 00:00:00", "Fri 2027-01-15 00:00:00"]),
        ("0 0 1W 5 *", ["Mon 2027-05-03 00:00:00", "Mon 2028-05-01 00:00:00"]),  # Saturday, 1 May: not back into April
        ("0 0 31W 1,10 *", ["Fri 2027-01-29 00:00:00", "Fri 2027-10-29 00:00:00"]),  # Sundays: not on into the next
        ("0 0 31,15W 11 *", ["Mon 2027-11-15 00:00:00", "Wed 2028-11-15 00:00:00"]),
        ("0 0 L-3 * *", ["Fri 2026-11-27 00:00:00", "Mon 2026-12-28 00:00:00"]),
        ("0 0 * * 5L", ["Fri 2026-11-27 00:00:00", "Fri 2026-12-25 00:00:00"]),
        ("0 0 * * FRIL", ["Fri 2026-11-27 00:00:00", "Fri 2026-12-25 00:00:00"]),
        ("0 0 * * MON#2", ["Mon 2026-12-14 00:00:00", "Mon 2027-01-11 00:00:00"]),
        ("0 0 29 2 *", ["Tue 2028-02-29 00:00:00", "Sun 2032-02-29 00:00:00"]),
        ("0 0 29 2 */7", ["Sun 2032-02-29 00:00:00", "Sun 2060-02-29 00:00:00"]),
        ("15,45 30 10 * * *", ["Mon 2026-11-16 10:30:15", "Mon 2026-11-16 10:30:45"]),
        ("*/20 * * * * *", ["Mon 2026-11-16 10:07:40", "Mon 2026-11-16 10:08:00"]),
        ("@hourly", ["Mon 2026-11-16 11:00:00", "Mon 2026-11-16 12:00:00"]),
        ("@daily", ["Tue 2026-11-17 00:00:00", "Wed 2026-11-18 00:00:00"]),
        ("@midnight", ["Tue 2026-11-17 00:00:00", "Wed 2026-11-18 00:00:00"]),
        ("@weekly", ["Sun 2026-11-22 00:00:00", "Sun 2026-11-29 00:00:00"]),
        ("@monthly", ["Tue 2026-12-01 00:00:00", "Fri 2027-01-01 00:00:00"]),
        ("@yearly", ["Fri 2027-01-01 00:00:00", "Sat 2028-01-01 00:00:00"]),
        ("@ANNUALLY", ["Fri 2027-01-01 00:00:00", "Sat 2028-01-01 00:00:00"]),
    ],
)
def test_an_expression_is_due_when_it_says(text: str, expected: list[str]) -> None:
    assert dues(cron(text), 2) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 0 12 ? * 2-6", ["Mon 2026-11-16 12:00:00", "Tue 2026-11-17 12:00:00"]),  # 1 is Sunday
        ("0 0 12 ? * L", ["Sat 2026-11-21 12:00:00", "Sat 2026-11-28 12:00:00"]),
        ("0 0 12 ? * 6L", ["Fri 2026-11-27 12:00:00", "Fri 2026-12-25 12:00:00"]),
        ("0 0 12 ? * 2#3", ["Mon 2026-11-16 12:00:00", "Mon 2026-12-21 12:00:00"]),
        ("0 0 12 15 * ?", ["Tue 2026-12-15 12:00:00", "Fri 2027-01-15 12:00:00"]),
        ("0 0 0 1 1 ? 2030", ["Tue 2030-01-01 00:00:00"]),
        ("0 0 0 1 1 ? 2025-2029/2", ["Fri 2027-01-01 00:00:00", "Mon 2029-01-01 00:00:00"]),
        ("0 0 0 29 2 ? 2027,2040", ["Wed 2040-02-29 00:00:00"]),
    ],
)
def test_quartz_has_seconds_years_and_its_own_weekdays(text: str, expected: list[str]) -> None:
    assert dues(cron(text, dialect="quartz"), 2) == expected


def test_an_expression_with_years_looks_back_too() -> None:
    rule = cron("0 0 0 1 1 ? 2025-2029/2,2044", dialect="quartz")
    back = rule.prev(4, before=datetime.fromisoformat("2090-01-01T00:00Z"))
    assert [due.year for due in back] == [2044, 2029, 2027, 2025]


REFUSALS: list[tuple[str, Dialect, str]] = [
    ("0 0 31 2 *", "standard", "is never due: no year has such a day. Check the day and the month"),
    ("0 0 30 2 *", "standard", "is never due"),
    ("0 0 31 4,6 *", "standard", "is never due"),
    ("0 0 31W 2 *", "standard", "is never due"),
    ("0 0 L-30 2 *", "standard", "is never due"),
    ("0 0 30 2 */2", "standard", "is never due"),
    ("0 0 0 29 2 ? 2025-2027", "quartz", "is never due"),
    ("@reboot", "standard", "no instant is a reboot; enqueue the job when you start"),
    ("@every 90s", "standard", r"a fixed rate is not cron; say every\('90s'\)"),
    ("@dayly", "standard", r"did you mean @daily\?$"),
    ("@", "standard", "the aliases are @yearly"),
    ("60 * * * *", "standard", r"the minute '60' is not one; it takes 0-59\."),
    ("* 24 * * *", "standard", "the hour '24' is not one; it takes 0-23"),
    ("* * 0 * *", "standard", "the day of the month '0' is not one; it takes 1-31"),
    ("* * * 13 *", "standard", "the month '13'"),
    ("* * * FEV *", "standard", r"the month 'FEV' is not one; did you mean FEB\?"),
    ("* * * * 8", "standard", r"it takes 0-7 \(0 and 7 are Sunday\)"),
    ("0 0 0 ? * 0", "quartz", r"it takes 1-7 \(1 is Sunday\)"),
    ("*/90 * * * *", "standard", r"a step of 90, which must be from 1 to 60; every\(\.\.\.\) takes any interval"),
    ("*/0 * * * *", "standard", "a step of 0"),
    ("* * * *", "standard", "it has 4 fields; write 5"),
    ("", "standard", "it has 0 fields"),
    ("0 0 0 1 1 ? 2026", "standard", "7 fields; if this is Quartz with a year, say dialect='quartz'"),
    ("0 0 1 1 *", "quartz", "it has 5 fields; Quartz has 6"),
    ("0 0 0 1 * MON", "quartz", "a day of the month or a day of the week; put a \\? in place of the other"),
    ("0 0 ? 1 * ?", "quartz", "Quartz knows \\? only for the day"),
    ("0 0 0 1 1 ? 1969", "quartz", "the year '1969' is not one"),
    ("0 0 0 1 1 ? 2030-2029", "quartz", "ends before it begins"),
    ("0 0 ? * MON", "standard", r"the day of the month '\?' is Quartz or AWS .*say dialect='quartz' or dialect='aws'"),
    ("0 0 1 * ?", "standard", r"the day of the week '\?' is Quartz or AWS"),
    ("0 0 ?/5 * MON", "standard", r"the day of the month '\?/5'"),
    ("0 15 10 ? * MON-FRI", "standard", "say dialect='quartz'"),
    ("0 0/5 14 * * ?", "standard", "say dialect='quartz'"),
    ("0 2 * * ? *", "standard", "say dialect='quartz' or dialect='aws'"),
    ("0 10 ? * 2-6 *", "standard", "say dialect='quartz' or dialect='aws'"),
    ("cron(0 2 * * ? *)", "standard", "the notation of AWS EventBridge; say dialect='aws'"),
    ("cron(0 2 * * ? *)", "quartz", "say dialect='aws'"),
    ("rate(5 minutes)", "aws", r"a rate is not cron; say every\('5m'\)"),
    ("rate(1 day)", "standard", r"a rate is not cron; say every\('1d'\)"),
    ("at(2026-12-24T18:00:00)", "aws", "one instant is not cron"),
    ("0 2 * * ?", "aws", "it has 5 fields; AWS has 6: minute hour day month weekday year"),
    ("0 2 1 * MON *", "aws", r"AWS EventBridge takes a day of the month or .*put a \? in place of the other"),
    ("0 2 ? * 0 *", "aws", r"it takes 1-7 \(1 is Sunday\)"),
    ("0 0 * * MON#6", "standard", "there are 1 to 5"),
    ("0 0 1-L * *", "standard", "the day of the month '1-L' cannot be read"),
    ("0 0 * * L", "standard", "the day of the week 'L' cannot be read"),
    ("L * * * *", "standard", "the minute 'L' cannot be read"),
    ("1,,2 * * * *", "standard", "the minute '' cannot be read"),
    ("H(30-10) * * * *", "standard", r"H\(30-10\) ends before it begins"),
    ("CRON_TZ=Europe/Berlin 0 0 * * *", "standard", "say tz='Europe/Berlin' beside it"),
    ("0,1" * 200 + " * * * *", "standard", "longer than 500 characters"),
]


@pytest.mark.parametrize(("text", "dialect", "message"), REFUSALS)
@pytest.mark.timeout(10)  # a search that does not end takes minutes
def test_what_cannot_be_is_refused_at_once_with_the_reason(text: str, dialect: Dialect, message: str) -> None:
    with pytest.raises(InvalidOption, match=message) as refused:
        cron(text, dialect=dialect)
    assert text[:40] in str(refused.value)


def test_zones_policies_and_dialects_that_there_are_not_are_refused() -> None:
    with pytest.raises(InvalidOption, match=r"there is no zone 'europe/Berln'; did you mean 'Europe/Berlin'\?"):
        cron("* * * * *", tz="europe/Berln")
    with pytest.raises(InvalidOption, match="there is no zone 'localtime'"):
        cron("* * * * *", tz="localtime")
    with pytest.raises(InvalidOption, match=r"there is no zone '\.\./\.\./etc/passwd'"):
        cron("* * * * *", tz="../../etc/passwd")
    with pytest.raises(InvalidOption, match="dst must be one of 'once', 'skip', 'both', 'shift', not 'twice'"):
        cron("* * * * *", dst="twice")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="dialect must be one of 'standard', 'quartz', 'aws', not 'azure'"):
        cron("* * * * *", dialect="azure")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match=r"after is .* without a zone"):
        cron("* * * * *").next(1, after=datetime.fromisoformat("2026-01-01"))


def test_h_spreads_schedules_over_the_hour_and_each_stays_where_it_is() -> None:
    minutes = Counter(
        due.minute for number in range(3000) for due in cron("H * * * *", name=f"report-{number}").next(after=START)
    )
    assert set(minutes) == set(range(60))
    assert max(minutes.values()) < 2 * 3000 / 60
    assert dues(cron("H * * * *", name="nightly")) == dues(cron("? * * * *", name="nightly"))
    # Written down: it must be the same on every machine and in every version.
    assert dues(cron("H H * * *", name="nightly"), 1) == ["Tue 2026-11-17 05:15:00"]


@pytest.mark.parametrize("name", ["a", "b", "nightly"])
def test_h_keeps_to_its_range_and_step(name: str) -> None:
    quarters = cron("H/15 * * * *", name=name).next(4, after=START)
    assert len({due.minute % 15 for due in quarters}) == 1
    assert len({due.minute for due in quarters}) == 4
    assert cron("H(0-29) * * * *", name=name).next(after=START)[0].minute < 30
    assert len({due.minute for due in cron("H(0-29)/10 * * * *", name=name).next(6, after=START)}) == 3
    assert cron("0 0 H * *", name=name).next(after=START)[0].day <= 28
    assert cron("0 0 * * H(MON-FRI)", name=name).next(after=START)[0].weekday() < 5


def test_h_waits_for_the_name_of_its_schedule() -> None:
    rule = cron("H 3 * * *", tz="Europe/Berlin")
    with pytest.raises(InvalidOption, match=r"H is spread by the name of the schedule; for a preview, say name="):
        rule.next(after=START)
    assert rule.of_schedule("nightly", None) == cron("H 3 * * *", tz="Europe/Berlin", name="nightly")
    assert "spread by the name" in rule.explain()


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (cron("30 2 * * 1-5"), "At 02:30 on weekdays, UTC"),
        (cron("0 0 15W * *"), "At 00:00 on the weekday nearest to day 15 of every month, UTC"),
        (cron("0 0 1,L-3 2 *"), "At 00:00 on day 1 and the day 3 before the last of February, UTC"),
        (cron("0 22 * * FRI-SUN"), "At 22:00 on Friday, Saturday, and Sunday, UTC"),
        (
            cron("0 0 12 ? * 2-6 2027-2030", dialect="quartz"),
            "At 12:00 on weekdays in 2027 through 2030, UTC",
        ),
        (cron("*/15 * * * *", tz="Asia/Tokyo"), "Every 15th minute of every hour, Asia/Tokyo; it follows real time"),
        (
            cron("30 2 * * *", tz="Europe/Berlin", dst="skip"),
            "At 02:30 every day, Europe/Berlin; a time that clocks skip runs not at all, one that they repeat runs",
        ),
    ],
)
def test_an_expression_is_told_in_words(rule: Cron, words: str) -> None:
    assert rule.explain().startswith(words)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cron(0 2 * * ? *)", ["Tue 2026-11-17 02:00:00", "Wed 2026-11-18 02:00:00"]),
        ("0 11 ? * 2-6 *", ["Mon 2026-11-16 11:00:00", "Tue 2026-11-17 11:00:00"]),
        ("cron(0 18 ? * MON-FRI *)", ["Mon 2026-11-16 18:00:00", "Tue 2026-11-17 18:00:00"]),
        ("cron(0/30 20-23 ? * 2#1 *)", ["Mon 2026-12-07 20:00:00", "Mon 2026-12-07 20:30:00"]),
        ("cron(0 9 L * ? *)", ["Mon 2026-11-30 09:00:00", "Thu 2026-12-31 09:00:00"]),
        ("cron(0 9 15W * ? 2027)", ["Fri 2027-01-15 09:00:00", "Mon 2027-02-15 09:00:00"]),
        ("cron(0 9 ? * 6L 2199)", ["Fri 2199-01-25 09:00:00", "Fri 2199-02-22 09:00:00"]),
    ],
)
def test_expressions_of_aws(text: str, expected: list[str]) -> None:
    assert dues(cron(text, dialect="aws"), 2) == expected


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (cron("30 2 * * *", dst="both"), "the clocks of UTC do not change"),
        (cron("30 2 * * *", tz="Asia/Tokyo", dst="skip"), "the clocks of Asia/Tokyo do not change"),
        (cron("*/5 * * * *", tz="Europe/Berlin", dst="skip"), "follows real time"),
        (cron("30 2 * * *", tz="Europe/Berlin", dst="skip"), None),
        (cron("*/5 * * * *", tz="Europe/Berlin"), None),
    ],
)
def test_a_policy_for_clocks_that_has_no_effect_is_known(rule: Cron, reason: str | None) -> None:
    assert (rule.idle_dst is None) if reason is None else (reason in (rule.idle_dst or ""))
