"""Crontabs as people have them, and line by line what becomes of them."""

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.importers.crontab_texts import ANACRON, CERTBOT, DEBIAN, E2SCRUB, FEDORA, LARAVEL, MDADM, PHP
from tickwork.core.recurrence.cron import Cron
from tickwork.core.schedule.spec import ScheduleSpec
from tickwork.errors import InvalidInput
from tickwork.importers.crontab import read_crontab, read_entry, read_setting, split_percent
from tickwork.importers.result import FILE_LIMIT, ImportResult


def read(text: str, *, system: bool = False, tz: str = "UTC", prefix: str | None = None) -> ImportResult:
    return read_crontab(text.encode(), file="crontab", system=system, tz=tz, prefix=prefix)


def only(text: str, **how: Any) -> ScheduleSpec:
    imported = read(text, **how)
    assert imported.errors == []
    (spec,) = imported.specs
    return spec


def arguments(spec: ScheduleSpec) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(spec.args)
    return found


def expression(spec: ScheduleSpec) -> str:
    assert isinstance(spec.rule, Cron)
    return spec.rule.expression


def told(imported: ImportResult) -> tuple[list[str], list[str]]:
    return list(map(str, imported.notes)), list(map(str, imported.errors))


@pytest.mark.parametrize(
    ("text", "system", "found"),
    [
        (
            DEBIAN,
            True,
            {
                "run-parts-cron.hourly": "17 * * * *",
                "run-parts-cron.daily": "25 6 * * *",
                "run-parts-cron.weekly": "47 6 * * 7",
                "run-parts-cron.monthly": "52 6 1 * *",
            },
        ),
        (E2SCRUB, True, {"e2scrub_all_cron": "30 3 * * 0", "e2scrub_all": "10 3 * * *"}),
        (PHP, True, {"sessionclean": "09,39 * * * *"}),
        (ANACRON, True, {"invoke-rc.d-anacron-start": "30 7-23 * * *"}),
        (CERTBOT, True, {"certbot-renew": "0 */12 * * *"}),
        (MDADM, True, {"checkarray": "57 0 * * 0"}),
        (FEDORA, True, {"run-parts-cron.hourly": "01 * * * *", "sa1-1-1": "*/10 * * * *"}),
        (LARAVEL, False, {"php-artisan-schedule-run": "* * * * *"}),
    ],
    ids=["debian", "e2scrub", "php", "anacron", "certbot", "mdadm", "fedora", "laravel"],
)
def test_crontabs_of_the_world(text: str, system: bool, found: dict[str, str]) -> None:
    imported = read(text, system=system)
    assert imported.errors == []
    assert {spec.name: expression(spec) for spec in imported.specs} == found
    assert {spec.target for spec in imported.specs} == {"shell"}


def test_a_command_runs_as_with_cron_once_each_time_and_not_again() -> None:
    spec = only("5 4 * * * /usr/bin/true", tz="Europe/Berlin")
    assert spec.rule == Cron(expression="5 4 * * *", tz="Europe/Berlin")
    assert arguments(spec) == {"command": "/usr/bin/true"}
    assert (spec.policies.overlap, spec.policies.catchup) == ("allow", "none")
    assert spec.options.retries == 0
    assert not spec.paused


def test_settings_hold_for_the_lines_below_them() -> None:
    first, second, third = read(
        """
        0 0 * * * first
        HOME = /srv/shop
        LANG="de_DE.UTF-8"
        'GREETING' = ' hello '
        SHELL=/bin/bash
        0 0 * * * second
        LANG=C
        EMPTY=
        0 0 * * * third  LANG=kept
        """
    ).specs
    assert arguments(first) == {"command": "first"}
    assert arguments(second) == {
        "command": "second",
        "env": {"HOME": "/srv/shop", "LANG": "de_DE.UTF-8", "GREETING": " hello "},
        "cwd": "/srv/shop",
        "interpreter": "/bin/bash",
    }
    assert arguments(third)["env"] == {"HOME": "/srv/shop", "LANG": "C", "GREETING": " hello ", "EMPTY": ""}
    assert arguments(third)["command"] == "third  LANG=kept"


def test_cron_tz_is_the_zone_of_the_lines_below_and_tz_is_only_the_commands() -> None:
    imported = read(
        "TZ=Asia/Tokyo\n0 1 * * * a\nCRON_TZ=America/New_York\n0 1 * * * b\nCRON_TZ=\n0 1 * * * c\n", tz="UTC"
    )
    assert [spec.rule.zone for spec in imported.specs] == ["UTC", "America/New_York", "UTC"]
    assert arguments(imported.specs[0])["env"] == {"TZ": "Asia/Tokyo"}
    assert told(imported)[0][0] == (
        "crontab:1: TZ is for the commands alone, as with cron. For the times, say CRON_TZ or --tz."
    )


def test_times_of_an_unknown_zone_are_not_guessed() -> None:
    imported = read("CRON_TZ=Europe/Berln\n0 1 * * * a\nCRON_TZ=Europe/Berlin\n0 1 * * * b\n")
    assert [spec.name for spec in imported.specs] == ["b"]
    _, errors = told(imported)
    assert errors[0].startswith("crontab:1: CRON_TZ")
    assert "Europe/Berlin" in errors[0]
    assert errors[1] == "crontab:2: the CRON_TZ above it cannot be read, so its times are unknown."


def test_mail_is_a_label_and_is_said_not_to_be_sent() -> None:
    imported = read('MAILTO=ops@example.org\nMAILFROM=x\n0 1 * * * a\nMAILTO=""\n0 1 * * * b\n')
    assert [spec.options.labels for spec in imported.specs] == [("mailto:ops@example.org",), ()]
    assert told(imported)[0][:2] == [
        "crontab:1: mail to ops@example.org is not sent yet; its schedules have the label mailto:ops@example.org.",
        "crontab:2: MAILFROM is about mail, which is not sent yet.",
    ]


def test_users_are_noted_once_each() -> None:
    imported = read("0 1 * * * root a\n0 2 * * * root b\n@daily www-data c\n", system=True)
    assert [spec.options.labels for spec in imported.specs] == [("user:root",), ("user:root",), ("user:www-data",)]
    users = [note for note in told(imported)[0] if "ran as" in note]
    assert [note.partition(",")[0] for note in users] == ["crontab:1: ran as root", "crontab:3: ran as www-data"]


def test_random_delays_are_jitter_and_random_times_are_spread_by_name() -> None:
    imported = read("RANDOM_DELAY=45\n0~30 ~ * * * a\n")
    assert imported.specs[0].policies.jitter == timedelta(minutes=45)
    assert expression(imported.specs[0]) == "H(0-30) H * * *"


def test_every_bad_line_is_told_and_the_others_are_kept() -> None:
    imported = read_crontab(
        b"\n".join(
            [
                b"0 1 * * * good",
                b"61 * * * * never",
                b"0 0 31 2 * never",
                b"@reboot start",
                b"@dayly typo",
                b"0 1 * *",
                b"0 1 * * *",
                b"0 1 * * * % only input",
                b"hello world",
                b"0 1 * * * caf\xe9",
                b"0 1 * * * root cmd",
                b"0 1 * * * nul\0",
                b"1 * * * * * cmd",
                b"0 0 12 * * 1-5 cmd",
                b"RANDOM_DELAY=soon",
                b"0 2 * * * good too\r",
            ]
        ),
        file="crontab",
        system=False,
        tz="UTC",
    )
    assert [arguments(spec)["command"] for spec in imported.specs] == ["good", "good too"]
    _, errors = told(imported)
    assert [int(error.split(":")[1]) for error in errors] == list(range(2, 16))
    says = [
        "the minute '61' is not one",
        "is never due",
        "no instant is a reboot",
        "did you mean @daily?",
        "neither NAME=VALUE nor a time",
        "there is no command after the time.",
        "there is no command after the time.",
        "neither NAME=VALUE nor a time",
        "it is not UTF-8 at byte 14",
        "say --system",
        "NUL",
        "it has six fields before the command",
        "it has six fields before the command",
        "a number of minutes",
    ]
    for error, text in zip(errors, says, strict=True):
        assert text in error


def test_the_system_form_wants_a_user() -> None:
    _, errors = told(read("0 1 * * * /usr/bin/true\n0 1 * * * root\n0 1 * * *\n", system=True))
    assert errors == [
        "crontab:1: '/usr/bin/true' is not a user; in the system form one stands before the command.",
        "crontab:2: there is no command after the time and the user.",
        "crontab:3: '' is not a user; in the system form one stands before the command.",
    ]


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("# Tidy up\n0 1 * * * a", "Tidy up"),
        ("#Tidy up,\n#  all of it\n0 1 * * * a", "Tidy up, all of it"),
        ("# Tidy up\n\n0 1 * * * a", None),
        ("# m h  dom mon dow   command\n0 1 * * * a", None),
        ("# minute hour mday month wday command\n0 1 * * * a", None),
        ("#0 2 * * * old\n0 1 * * * a", None),
        ("# ------------\n# Tidy up\n0 1 * * * a", "Tidy up"),
        ("# Tidy up\nX=1\n0 1 * * * a", None),
    ],
)
def test_a_comment_just_above_a_line_describes_it(text: str, description: str | None) -> None:
    assert only(text).description == description


def test_names_are_unique_and_do_not_depend_on_what_follows() -> None:
    text = "0 1 * * * backup /a\n0 2 * * * backup /a > x\n0 3 * * * backup /a\n0 4 * * * backup /a\n"
    names = [spec.name for spec in read(text).specs]
    assert len(set(names)) == 4
    assert names[0] == "backup-a"
    assert all(name.startswith("backup-a-") for name in names[1:])
    assert [spec.name for spec in read(text + "0 5 * * * backup /a\n").specs][:4] == names
    assert read(text, prefix="web1").specs[0].name == "web1-backup-a"


def test_a_file_that_is_too_large_is_refused_at_once() -> None:
    with pytest.raises(InvalidInput, match=r"Is it the right file\?"):
        read_crontab(b"#" * (FILE_LIMIT + 1), file="crontab", system=False, tz="UTC")


@pytest.mark.parametrize(
    ("text", "command", "stdin"),
    [
        ("date", "date", None),
        (r"date +\%F", "date +%F", None),
        ("cat%", "cat", ""),
        ("cat%one", "cat", "one\n"),
        ("mail ada%Dear Ada,%%all well%", "mail ada", "Dear Ada,\n\nall well\n"),
        (r"a\%b%c\%d%e", "a%b", "c%d\ne\n"),
        (r"printf '\\n' %x", r"printf '\\n' ", "x\n"),
        (r"echo \\%x", r"echo \\", "x\n"),
        (r"echo \n", r"echo \n", None),
    ],
)
def test_percent_signs_are_line_ends_and_the_first_ends_the_command(text: str, command: str, stdin: str | None) -> None:
    assert split_percent(text) == (command, stdin)


@given(command=st.text(alphabet="ab% /").filter(str.strip), lines=st.none() | st.lists(st.text(alphabet="ab% ")))
def test_what_is_escaped_comes_back(command: str, lines: list[str] | None) -> None:
    """Written as a crontab has to be, a command and its input are read as they were."""
    parts = [command, *(lines or [""])] if lines is not None else [command]
    text = "%".join(part.replace("%", r"\%") for part in parts)
    got, stdin = split_percent(text)
    assert got == command
    given_in = None if lines is None else "\n".join(lines)
    assert stdin == (given_in if not given_in or given_in.endswith("\n") else f"{given_in}\n")


@given(
    name=st.from_regex(r"[A-Z_][A-Z0-9_]{0,10}", fullmatch=True),
    value=st.text(alphabet=st.characters(exclude_categories=["C", "Z"], exclude_characters="'\"")),
)
def test_settings_come_back_whatever_the_quotes(name: str, value: str) -> None:
    for line in (f"{name}={value}", f'{name} = "{value}"', f"  '{name}'='{value}'  "):
        assert read_setting(line) == (name, value)


@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_make_it_fail(data: bytes, system: bool) -> None:
    imported = read_crontab(data, file="crontab", system=system, tz="UTC")
    assert len({spec.name for spec in imported.specs}) == len(imported.specs)


@given(st.text(alphabet="*0123456789,-/~@=% abroot\"'#\n"), st.booleans())
def test_no_text_makes_it_fail(text: str, system: bool) -> None:
    imported = read_crontab(text.encode(), file="crontab", system=system, tz="UTC")
    for spec in imported.specs:
        assert arguments(spec)["command"]


def test_an_entry_is_not_taken_for_a_setting() -> None:
    for line in ("* * * * * A=1 cmd", "@daily A=1 cmd", "0 0 * * * A=1", "#A=1"):
        assert read_setting(line) is None
    assert read_entry("* * * * * A=1 cmd", system=False).command == "A=1 cmd"
