"""`tickwork cron explain`: words, the next times, and the days on which clocks change."""

from datetime import UTC, datetime

import pytest

from tests.cli.conftest import Cli

SUNDAYS_OF_MARCH = "30 2 * MAR SUN"  # in Berlin, clocks skip 02:30 on the last of them


def test_it_says_in_words_when_and_lists_the_next_times(cli: Cli) -> None:
    words, empty, titles, *rows = cli.ok("cron", "explain", "30 2 * * MON-FRI", "--next", "6").splitlines()
    assert words == "At 02:30 on weekdays, UTC."
    assert empty == ""
    assert titles.split() == ["DAY", "DATE", "TIME", "OFFSET", "AWAY"]
    assert len(rows) == 6
    for row in rows:
        day, date, time, offset, into, _ = row.split()
        assert (time, offset, into) == ("02:30", "+00:00", "in")
        assert datetime.fromisoformat(date).strftime("%a") == day != "Sun"


def test_days_on_which_clocks_change_are_marked(cli: Cli) -> None:
    words, _, titles, *rows = cli.ok(
        "cron", "explain", SUNDAYS_OF_MARCH, "--tz", "Europe/Berlin", "--next", "10"
    ).splitlines()
    assert words.startswith("At 02:30 on Sunday in March, Europe/Berlin; a time that clocks skip runs right after")
    assert titles.endswith("CLOCKS CHANGE")
    odd = [row for row in rows if "->" in row]
    assert odd
    assert all("03:00" in row and "+02:00" in row and row.endswith("02:00 -> 03:00, 1h forward") for row in odd)
    assert all("02:30" in row and "+01:00" in row for row in rows if row not in odd)


def test_seconds_are_shown_where_there_are_some(cli: Cli) -> None:
    assert " 12:00:30  " in cli.ok("cron", "explain", "30 0 12 * * *", "--next", "1")


def test_json_has_instants_and_what_the_clock_shows(cli: Cli) -> None:
    told = cli.json("cron", "explain", SUNDAYS_OF_MARCH, "--tz", "Europe/Berlin", "--dst", "shift", "--next", "9")
    assert {name: told[name] for name in ("expression", "tz", "dialect", "dst")} == {
        "expression": SUNDAYS_OF_MARCH,
        "tz": "Europe/Berlin",
        "dialect": "standard",
        "dst": "shift",
    }
    assert told["explanation"].startswith("At 02:30 on Sunday in March, Europe/Berlin")
    assert len(told["next"]) == 9
    for one in told["next"]:
        due, local = datetime.fromisoformat(one["due_at"]), datetime.fromisoformat(one["local"])
        assert due == local
        assert due > datetime.now(UTC)
        assert (local.strftime("%H:%M") == "03:30") == (one["clock_change"] == "02:00 -> 03:00, 1h forward")


def test_quartz_and_spread_times(cli: Cli) -> None:
    told = cli.ok("cron", "explain", "0 0 12 ? * 6#3 2099", "--dialect", "quartz", "--next", "20")
    assert told.startswith("At 12:00 on the third Friday of the month in 2099, UTC.\n")
    assert told.count("\nFri  2099-") == 12
    same = [cli.ok("cron", "explain", "H H(0-5) * * *", "--name", "backup", "--next", "0") for _ in range(2)]
    assert same[0] == same[1]


def test_one_that_is_over_says_so(cli: Cli) -> None:
    assert cli.ok("cron", "explain", "0 0 12 1 1 ? 2020", "--dialect", "quartz").endswith("\nNo further occurrences.\n")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["0 0 31 2 *"], "cron '0 0 31 2 *' is never due: no year has such a day. Check the day and the month."),
        (["61 * * * *"], "cron '61 * * * *': the minute '61' is not one; it takes 0-59."),
        (["@reboot"], "cron '@reboot': a schedule fires at instants, and no instant is a reboot"),
        (["H * * * *"], "cron 'H * * * *': H is spread by the name of the schedule; say it: --name NAME"),
        (["* * * * *", "--tz", "Europe/Berln"], "did you mean"),
        (["* * * * *", "--dst", "maybe"], "--dst"),
        (["* * * * *", "--next", "5000"], "--next"),
        ([], "EXPRESSION"),
    ],
)
def test_refusals_say_what_to_do(cli: Cli, arguments: list[str], error: str) -> None:
    result = cli("cron", "explain", *arguments)
    assert result.exit_code == 2
    assert error in result.stderr


def test_expressions_of_aws_and_a_policy_that_has_no_effect(cli: Cli) -> None:
    result = cli("cron", "explain", "cron(0 2 * * ? *)", "--dialect", "aws", "--dst", "both", "--next", "1")
    assert result.exit_code == 0
    assert result.stdout.startswith("At 02:00 every day, UTC.")
    assert result.stderr == "warning: dst='both' has no effect: the clocks of UTC do not change.\n"
