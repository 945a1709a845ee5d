"""How long ended jobs are kept, by the rules of a setting."""

from datetime import timedelta

import pytest

from tickwork.core.retention import FOREVER, Retention, read_retention
from tickwork.errors import InvalidInput

DAY = timedelta(days=1)


def test_the_default_setting_says_what_retention_is_by_default() -> None:
    assert read_retention("7d, failed=30d") == Retention() == read_retention("")


def test_the_narrowest_rule_counts() -> None:
    kept = read_retention(
        "1d, failed=2d, queue:mail=3d, queue:mail/failed=4d, task:audit=forever, task:audit/cancelled=6d"
    )
    assert kept.age("any", "any", "succeeded") == DAY
    assert kept.age("any", "any", "failed") == 2 * DAY
    assert kept.age("any", "mail", "succeeded") == 3 * DAY
    assert kept.age("any", "mail", "failed") == 4 * DAY
    assert kept.age("audit", "mail", "failed") == FOREVER
    assert kept.age("audit", "mail", "cancelled") == 6 * DAY
    assert kept.shortest() == DAY


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("7", "7"),
        ("-1d", "retention"),
        ("faild=3d", "no state 'faild'"),
        ("task:x/faild=3d", "no state 'faild'"),
        ("running=3d", "no state 'running'"),
        ("tasks:x=3d", "is not a rule of retention"),
        ("task:=3d", "is not a rule of retention"),
        ("queue:a=", "is not a rule of retention"),
    ],
)
def test_what_is_no_rule_is_refused(text: str, error: str) -> None:
    with pytest.raises(InvalidInput, match=error):
        read_retention(text)
