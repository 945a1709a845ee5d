"""Rules as users hold them: previews that start now, and names that `tickwork` brings along."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import tickwork
from tickwork import InvalidInput, Rule, after, all_of, any_of, at, calendar, cron, every, except_on, rrule


def test_a_preview_starts_now_unless_it_is_told_when() -> None:
    began = datetime.now(UTC)
    dues = every("1h").next(3)
    assert began < dues[0] <= began + timedelta(hours=1, minutes=1)
    assert len(cron("*/15 * * * *").next(4)) == 4
    assert every("1h").prev(1)[0] <= datetime.now(UTC)
    told = datetime(2026, 11, 14, tzinfo=UTC)
    assert cron("0 8-17 * * MON-FRI").next(1, after=told) == [datetime(2026, 11, 16, 8, tzinfo=UTC)]
    assert cron("0 8-17 * * MON-FRI").prev(1, before=told) == [datetime(2026, 11, 13, 17, tzinfo=UTC)]


def test_rules_are_combined_compared_and_told() -> None:
    workdays = all_of(cron("0 9 * * *"), except_on("holidays", calendar(weekdays=["sat", "sun"])))
    friday = datetime(2026, 11, 13, 12, tzinfo=UTC)
    assert workdays.next(1, after=friday, calendars={"holidays": calendar(dates=["2026-11-16"])})[0].day == 17
    assert any_of(cron("@daily"), rrule("FREQ=DAILY")).next(2, after=friday)[1].day == 15
    assert at(friday) == at(friday)
    assert after("5m") != after("6m")
    assert cron("30 2 * * MON-FRI").explain() == "At 02:30 on weekdays, UTC"


def test_what_is_no_rule_is_refused_with_a_hint() -> None:
    with pytest.raises(InvalidInput, match=r"any_of takes rules such as cron\(\.\.\.\), not '@daily'"):
        any_of("@daily")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"all_of takes rules such as cron\(\.\.\.\)"):
        all_of(cron("@daily"), "holidays")  # type: ignore[arg-type]


def test_every_public_name_can_be_had() -> None:
    assert all(getattr(tickwork, name) is not None for name in tickwork.__all__)
    assert isinstance(tickwork.cron("@daily"), Rule)


def test_a_policy_for_clocks_that_has_no_effect_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="dst='skip' has no effect: the clocks of UTC do not change"):
        cron("30 2 * * *", dst="skip")
