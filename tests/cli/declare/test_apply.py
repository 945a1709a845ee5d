"""`tickwork apply`: schedules and calendars from a file."""

from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tickwork import Tickwork, calendar, cron, every

FILE = """\
calendars:
  holidays: {yearly: ["12-25"], weekdays: [sat, sun]}
schedules:
  heartbeat:
    shell: date -u
    every: 1m
  report:
    description: The daily report
    task: report
    args: {to: ada@example.org, n: 3}
    cron: 0 8 * * *
    tz: Europe/Berlin
    overlap: queue
    jitter: 5s
    start: 2026-01-01T00:00:00Z
    calendars: [holidays]
    queue: slow
    retries: 5
    paused: true
"""


@pytest.fixture
def given(tmp_path: Path, file_url: str) -> Path:
    path = tmp_path / "work.yaml"
    path.write_text(FILE)
    return path


def test_a_file_is_stored_as_it_says(cli: Cli, given: Path, file_url: str) -> None:
    assert cli.ok("apply", str(given)).splitlines()[-1] == "3 changes."
    app = Tickwork(file_url)
    assert app.calendars() == {"holidays": calendar(yearly=["12-25"], weekdays=["sat", "sun"])}
    report, heartbeat = app.schedules["report"], app.schedules["heartbeat"]
    assert (report.rule, report.state) == (cron("0 8 * * *", tz="Europe/Berlin"), "paused")
    assert (report.policies.overlap, report.spec.options.queue, report.spec.options.retries) == ("queue", "slow", 5)
    assert (report.spec.target, report.spec.args) == ("report", '{"to":"ada@example.org","n":3}')
    assert report.spec.description == "The daily report"
    assert (heartbeat.rule, heartbeat.spec.target) == (every("1m"), "shell")
    assert heartbeat.spec.args == '{"command":"date -u"}'
    app.close()


def test_the_same_file_again_changes_nothing(cli: Cli, given: Path) -> None:
    cli.ok("apply", str(given))
    assert {one["change"] for one in cli.json("apply", str(given))["items"]} == {"unchanged"}


def test_a_dry_run_stores_nothing(cli: Cli, given: Path) -> None:
    assert "3 changes, not made" in cli.ok("apply", str(given), "--dry-run")
    assert cli.json("schedules", "list") == {"items": []}


def test_rules_of_all_kinds(cli: Cli, file_url: str, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(
        """\
calendars: {closed: {weekdays: [sun]}}
schedules:
  a: {task: t, every: R5/2026-01-01T00:00:00Z/PT10M}
  b: {task: t, after: 5m}
  c: {task: t, at: ["2026-12-24T18:00:00+01:00", "2026-12-25T18:00:00+01:00"]}
  d: {task: t, rrule: "FREQ=MONTHLY;BYDAY=-1FR", tz: Europe/Berlin}
  e: {task: t, any_of: [{cron: 0 9 * * *, tz: Asia/Tokyo}, {all_of: [{every: 1h}, {except_on: [closed]}]}]}
"""
    )
    cli.ok("apply", "rules.yaml")
    kinds = {one["name"]: one["rule"]["kind"] for one in cli.json("schedules", "list")["items"]}
    assert kinds == {"a": "every", "b": "after", "c": "at", "d": "rrule", "e": "any_of"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("works:\n  x: {}", "bad.yaml:1: works: it is not read by this version"),
        ("dags:\n  x: {}", "bad.yaml:2: dags.x.steps: it is missing."),
        ("schedules:\n  a: {task: t}\n  b: {every: 1m}", "bad.yaml:3: schedules.b: say what it starts"),
        (
            "schedules:\n  a: {task: t, every: 1m}\n  a: {task: t, every: 1m}",
            "bad.yaml:3: schedules.a: 'a' is given twice",
        ),
        ("schedules:\n  a:\n    task: t\n    cron: 0 0 31 2 *", "bad.yaml:4: schedules.a.cron:"),
        (
            "schedules:\n  a:\n    task: t\n    evry: 1m",
            "bad.yaml:4: schedules.a.evry: there is no such field here (did",
        ),
        ("schedules:\n  a: {task: t}", "bad.yaml:2: schedules.a: say when it is due"),
        ("schedules:\n  a: {every: 1m}", "bad.yaml:2: schedules.a: say what it starts"),
        ("schedules:\n  a: {task: t, every: 1m, cron: 0 8 * * *}", "not several"),
        ("schedules:\n  a: {task: t, every: 1m, overlap: maybe}", "overlap: it must be one of"),
        ("schedules:\n  a: {task: t, every: 1m, env: {A: b}}", "schedules.a.env: it goes with shell"),
        ("schedules:\n  a: {shell: ls, every: 1m, args: {}}", "schedules.a.args: it goes with task"),
        ("schedules:\n  a: {task: t, at: tomorrow}", "must be an instant"),
        ("schedules:\n  a: {task: t, every: 1d, tz: Europe/Berlin}", "schedules.a.tz: it does not go with every"),
        ("schedules:\n  a: {task: t, every: 1m, args: [ada]}", "schedules.a.args: it must be fields"),
        ("calendars:\n  c: {ics: [x]}", "calendars.c.ics: it must be a text"),
        ("calendars:\n  c: {days: [mon]}", "calendars.c.days: there is no such field here"),
        ("calendars:\n  c: {weekdays: [funday]}", "calendars.c: weekdays: 'fun' is not one"),
        ("schedules: [1]", "it must have fields"),
        ("schedules: {a: *x}", "aliases"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place_and_nothing_is_stored(
    cli: Cli, file_url: str, tmp_path: Path, text: str, words: str
) -> None:
    cli.ok("db", "upgrade")
    (tmp_path / "bad.yaml").write_text(text)
    result = cli("apply", "bad.yaml")
    assert result.exit_code == 2, result.output
    assert words in result.stderr.replace("\n", " ")
    assert cli.json("schedules", "list") == {"items": []}


def test_a_calendar_that_is_nowhere_is_refused(cli: Cli, file_url: str) -> None:
    text = "schedules: {a: {task: t, every: 1m, calendars: [nowhere]}}"
    result = cli("apply", "-", input=text)
    assert result.exit_code == 2
    assert "heeds the calendar 'nowhere'" in result.stderr


def test_where_a_calendar_is_nowhere_nothing_of_the_file_is_stored(cli: Cli, file_url: str) -> None:
    text = "calendars: {a: {weekdays: [sat]}}\nschedules: {s: {task: t, every: 1m, calendars: [b]}}"
    for arguments in (["--dry-run"], []):
        assert cli("apply", "-", *arguments, input=text).exit_code == 2
    app = Tickwork(file_url)
    assert app.calendars() == {}
    app.close()


def test_one_that_is_said_to_be_paused_is_paused_also_where_it_was_there(cli: Cli, file_url: str) -> None:
    text = "schedules: {s: {task: t, every: 1h}}"
    cli.ok("apply", "-", input=text)
    cli.ok("apply", "-", input=text.replace("1h", "1h, paused: true"))
    app = Tickwork(file_url)
    assert app.schedules["s"].state == "paused"
    app.close()


def test_a_file_that_is_not_there(cli: Cli, file_url: str) -> None:
    assert "cannot be read" in cli("apply", "nowhere.yaml").stderr


def test_dags_are_stored_and_what_will_not_work_yet_is_told(cli: Cli, file_url: str) -> None:
    text = 'dags: {d: {steps: {s: {http: {url: "https://example.org", auth: {bearer: "${secret.NOWHERE_SET}"}}}}}}'
    result = cli("apply", "-", input=text)
    assert (result.exit_code, "d     new, version 1" in result.stdout) == (0, True)
    assert len(result.stderr.splitlines()) == 1
    assert "the secret NOWHERE_SET is not set here: neither in a store" in result.stderr


def test_what_changes_is_told_field_by_field(cli: Cli, given: Path) -> None:
    cli.ok("apply", str(given))
    given.write_text(FILE.replace("0 8 * * *", "0 9 * * *").replace("retries: 5", "retries: 6"))
    items = {one["name"]: one for one in cli.json("apply", str(given), "--dry-run")["items"]}
    assert items["heartbeat"]["change"] == "unchanged"
    assert items["report"]["fields"] == [
        {"field": "cron", "old": "0 8 * * *", "new": "0 9 * * *"},
        {"field": "retries", "old": 5, "new": 6},
    ]
    told = cli.ok("apply", str(given))
    assert "~ schedule report  cron: 0 8 * * * -> 0 9 * * *\n" in told
    assert told.endswith("\n1 change.\n")
    assert cli.ok("apply", str(given)).endswith("\nNothing changed.\n")


def test_one_that_was_resumed_is_paused_again_and_that_is_told(cli: Cli, given: Path) -> None:
    cli.ok("apply", str(given))
    cli.ok("schedules", "resume", "report")
    assert "~ schedule report  paused: none -> true" in cli.ok("apply", str(given))
    assert "Nothing changed" in cli.ok("apply", str(given))


FOLDER = {
    "a.yaml": "calendars: {closed: {weekdays: [sun]}}\nschedules: {s: {task: t, every: 1h, calendars: [closed]}}",
    "b.json": '{"dags": {"d": {"schedule": {"every": "1h"}, "steps": {"x": {"task": "t"}}}}}',
    "c.yml": "hooks: {h: {style: github, secret: X, task: t}}",
    "README.md": "not: [this",
}


@pytest.fixture
def folder(tmp_path: Path, file_url: str) -> Path:
    path = tmp_path / "jobs"
    path.mkdir()
    for name, text in FOLDER.items():
        (path / name).write_text(text)
    return path


def there(cli: Cli) -> dict[str, list[str]]:
    kinds = {kind: [one["name"] for one in cli.json(kind, "list")["items"]] for kind in ("schedules", "dags", "hooks")}
    return {kind: names for kind, names in kinds.items() if names}


def test_the_files_of_a_folder_are_one_declaration(cli: Cli, folder: Path) -> None:
    items = [(one["kind"], one["name"], one["change"]) for one in cli.json("apply", str(folder))["items"]]
    names = [("dag", "d"), ("calendar", "closed"), ("schedule", "s"), ("schedule", "d"), ("hook", "h")]
    assert items == [(*one, "new") for one in names]
    assert "Nothing changed." in cli.ok("apply", str(folder))


def test_what_is_wrong_in_any_file_of_a_folder_keeps_all_of_it_out(cli: Cli, folder: Path) -> None:
    cli.ok("db", "upgrade")
    (folder / "b.json").write_text('{"schedules": {"s": {"task": "t", "every": "2h"}}}')
    (folder / "c.yml").write_text("hooks: {h: {style: github, task: t}}")
    result = cli("apply", str(folder))
    assert result.exit_code == 2
    assert "b.json:1: schedules.s: an earlier document or file declares it, too." in result.stderr
    assert "c.yml:1: hooks.h.secret: it is missing." in result.stderr
    assert there(cli) == {}


def test_a_folder_without_files_is_a_mistake(cli: Cli, tmp_path: Path, file_url: str) -> None:
    (tmp_path / "empty").mkdir()
    assert "has no files that end with .yaml" in cli("apply", "empty").stderr


def test_prune_deletes_what_is_gone_from_the_same_source_and_nothing_else(cli: Cli, folder: Path) -> None:
    cli.ok(
        "apply",
        "-",
        input="schedules: {mine: {task: t, every: 1h}}\nhooks: {mine: {style: github, secret: X, task: t}}",
    )
    cli.ok("apply", str(folder))
    before = there(cli)
    for name in FOLDER:
        (folder / name).unlink()
    (folder / "a.yaml").write_text("schedules: {s: {task: t, every: 1h}}")
    assert "Nothing" not in cli.ok("apply", str(folder)), "the calendar that s does not heed any more"
    assert there(cli) == before, "without --prune nothing is deleted"
    gone = [("dag", "d"), ("calendar", "closed"), ("schedule", "d"), ("hook", "h")]
    dry = cli.json("apply", str(folder), "--prune", "--dry-run")["items"]
    assert sorted((one["kind"], one["name"]) for one in dry if one["change"] == "gone") == sorted(gone)
    assert there(cli) == before
    assert "4 changes." in cli.ok("apply", str(folder), "--prune")
    assert there(cli) == {"schedules": ["mine", "s"], "hooks": ["mine"]}
    assert "Nothing changed." in cli.ok("apply", str(folder), "--prune")


def test_prune_refuses_before_anything_is_stored_what_a_schedule_needs(cli: Cli, folder: Path, file_url: str) -> None:
    cli.ok("apply", str(folder))
    app = Tickwork(file_url)
    app.schedule("by hand", "d", every("1h"))
    app.close()
    (folder / "b.json").unlink()
    (folder / "c.yml").write_text("hooks: {new: {style: github, secret: X, task: t}}")
    result = cli("apply", str(folder), "--prune")
    assert result.exit_code == 2
    assert "dag 'd' is gone from" in result.stderr
    assert "schedule 'by hand' still needs it" in result.stderr
    assert there(cli)["hooks"] == ["h"]


def test_a_source_may_have_a_name_of_its_own(cli: Cli, folder: Path) -> None:
    cli.ok("apply", str(folder / "a.yaml"), "--source", "shop")
    assert "say --source NAME" in cli("apply", "-", "--prune", input="").stderr
    told = cli.ok("apply", "-", "--prune", "--source", "shop", input="calendars: {closed: {weekdays: [sun]}}")
    assert "schedule  s       gone" in told
    assert there(cli) == {}


def test_what_another_source_has_taken_over_is_not_deleted(cli: Cli, folder: Path) -> None:
    cli.ok("apply", "-", "--source", "one", input="schedules: {s: {task: t, every: 1h}}")
    cli.ok("apply", "-", "--source", "two", input="schedules: {s: {task: t, every: 2h}}")
    cli.ok("apply", "-", "--source", "one", "--prune", input="calendars: {c: {weekdays: [sun]}}")
    assert there(cli) == {"schedules": ["s"]}


def test_an_approval_that_says_its_default_is_the_same_version_again(cli: Cli, app: Tickwork) -> None:
    approve = "approve: {text: go, default: reject}"
    steps = f"ask: {{{approve}}}, then: {{task: t, needs: ask, run_if: all_succeeded, queue: default}}"
    Path("work.yaml").write_text(f"dags: {{d: {{steps: {{{steps}}}}}}}")
    assert "new, version 1" in cli.ok("apply", "work.yaml")
    assert "Nothing changed." in cli.ok("apply", "work.yaml")


def test_the_parameters_of_a_stored_dag_are_checked_and_an_unknown_dag_is_a_warning(cli: Cli, tmp_path: Path) -> None:
    dag = tmp_path / "dag.yaml"
    dag.write_text("dags: {etl: {params: {day: string}, steps: {a: {task: fetch}}}}")
    cli.ok("apply", str(dag))
    schedule = tmp_path / "schedule.yaml"
    schedule.write_text("schedules:\n  s: {dag: etl, every: 1h, args: {dya: x}}\n")
    result = cli("apply", str(schedule))
    assert result.exit_code == 2
    assert f"{schedule}:2: schedules.s.args.dya: there is no parameter 'dya' (did you mean 'day'?)." in result.stderr
    assert cli.json("schedules", "list") == {"items": []}
    schedule.write_text("schedules: {s: {dag: elt, every: 1h, args: {dya: x}}}")
    result = cli("apply", str(schedule))
    assert result.exit_code == 0
    assert "warning: No dag 'elt' is stored yet. Did you mean 'etl'?" in result.stderr
