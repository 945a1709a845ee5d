"""`tickwork import`: what it prints, what it stores, and that what was imported runs."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.conftest import Cli
from tests.cli.programs import program
from tests.importers.traces import montage_trace
from tests.waiting import eventually
from tickwork import Tickwork, every
from tickwork.core.text.yaml_loader import read_yaml
from tickwork.declare.export import specs_as_yaml
from tickwork.importers.crontab import read_crontab

CRONTAB = """\
MAILTO=ops@example.org
# Rotate the logs
*/15 * * * * /usr/local/bin/rotate --all
61 * * * * never
0 3 * * 1-5 tee /dev/stderr%dear log
"""
CRONJOB = """\
kind: CronJob
metadata: {name: beat}
spec:
  schedule: "@every 1s"
  jobTemplate: {spec: {template: {spec: {containers: [
    {image: busybox, command: [sh, -c, 'echo "$(WHO) $TICKWORK_SCHEDULED_FOR"'], env: [{name: WHO, value: beat}]}]}}}}
---
kind: CronJob
metadata: {name: broken}
spec: {schedule: "0 0 31 2 *"}
"""


@pytest.fixture
def crontab(tmp_path: Path) -> Path:
    path = tmp_path / "crontab"
    path.write_text(CRONTAB)
    return path


def test_a_dry_run_says_what_would_be_imported_and_stores_nothing(cli: Cli, file_url: str, crontab: Path) -> None:
    result = cli("import", "crontab", "crontab", "--tz", "Europe/Berlin", "--dry-run")
    assert result.exit_code == 1
    assert result.stdout.startswith("Would import 2 schedules:\n\nNAME")
    assert (
        "\nrotate      Every 15th minute of every hour, Europe/Berlin  /usr/local/bin/rotate --all\n" in result.stdout
    )
    assert "\nDifferences from the original:\n  crontab:1: mail to ops@example.org is not sent yet;" in result.stderr
    assert "\nNot imported (1):\n  crontab:4: cron '61 * * * *': the minute '61' is not one; " in result.stderr
    assert not Path("tickwork.db").exists()


def test_an_import_is_stored_and_a_second_one_changes_it(cli: Cli, app: Tickwork, crontab: Path) -> None:
    for tz in ("UTC", "Europe/Berlin"):
        result = cli("import", "crontab", "crontab", "--tz", tz, "--prefix", "web1", "--url", app.url)
        assert result.exit_code == 1
        assert result.stdout.startswith("Imported 2 schedules:\n")
        assert result.stdout.endswith("tickwork worker --allow-shell\n")
        assert sorted(app.schedules) == ["web1-rotate", "web1-tee-stderr"]
        spec = app.schedules["web1-rotate"].spec
        assert (spec.rule.zone, spec.description) == (tz, "Rotate the logs")


def test_an_import_takes_no_schedule_from_another_owner(cli: Cli, app: Tickwork, crontab: Path) -> None:
    app.schedule("rotate", "rotate_keys", every("1h"))
    result = cli("import", "crontab", "crontab", "--tz", "UTC", "--url", app.url)
    assert result.exit_code == 1
    assert "rotate: another schedule has this name, for rotate_keys. Give a --prefix." in result.stderr
    assert app.schedules["rotate"].spec.target == "rotate_keys"
    assert "tee-stderr" in app.schedules


def test_what_an_import_changes_is_said(cli: Cli, app: Tickwork, crontab: Path) -> None:
    for tz, said in (("UTC", False), ("Europe/Berlin", True)):
        result = cli("import", "crontab", "crontab", "--tz", tz, "--url", app.url)
        assert ("rotate: was there before and was changed" in result.stderr) is said


def test_json_has_all_of_it(cli: Cli, crontab: Path) -> None:
    result = cli("import", "crontab", "crontab", "--tz", "UTC", "--dry-run", "--json")
    told = json.loads(result.stdout)
    assert result.exit_code == 1
    assert result.stderr == ""
    assert told["stored"] is False
    assert [one["name"] for one in told["schedules"]] == ["rotate", "tee-stderr"]
    assert told["schedules"][1]["args"] == {"command": "tee /dev/stderr", "stdin": "dear log\n"}
    assert told["schedules"][0]["options"] == {"retries": 0, "labels": ["mailto:ops@example.org"]}
    assert [one["where"] for one in told["notes"]] == ["crontab:1", "crontab"]
    assert [one["where"] for one in told["errors"]] == ["crontab:4"]


def test_yaml_goes_to_stdout_and_remarks_do_not(cli: Cli, crontab: Path) -> None:
    result = cli("import", "crontab", "crontab", "--tz", "Europe/Berlin", "--yaml")
    (document,) = read_yaml(result.stdout, file="stdout")
    assert document.value == {
        "schedules": {
            "rotate": {
                "description": "Rotate the logs",
                "shell": "/usr/local/bin/rotate --all",
                "cron": "*/15 * * * *",
                "tz": "Europe/Berlin",
                "catchup": "none",
                "overlap": "allow",
                "retries": 0,
                "labels": ["mailto:ops@example.org"],
            },
            "tee-stderr": {
                "shell": "tee /dev/stderr",
                "stdin": "dear log\n",
                "cron": "0 3 * * 1-5",
                "tz": "Europe/Berlin",
                "catchup": "none",
                "overlap": "allow",
                "retries": 0,
                "labels": ["mailto:ops@example.org"],
            },
        }
    }
    assert "Not imported (1):" in result.stderr


def test_the_times_are_on_the_clock_of_this_machine_unless_said(
    cli: Cli, crontab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    result = cli("import", "crontab", "-", "--dry-run", input="0 1 * * * true\n")
    assert result.exit_code == 0
    assert "At 01:00 every day, America/New_York" in result.stdout
    assert "<stdin>: times are on the clock of this machine, America/New_York; --tz says another." in result.stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["crontab", "nowhere"], "nowhere cannot be read: No such file or directory."),
        (["crontab", "crontab", "--tz", "Mars/Olympus"], "Mars/Olympus"),
        (["k8s-cronjob", "nowhere.yaml"], "nowhere.yaml cannot be read: No such file or directory."),
        (["k8s-cronjob"], "missing argument 'FILE...'"),
        (["k8s-cronjob", "crontab"], "crontab:2: this is not YAML"),
    ],
)
def test_what_cannot_be_read_at_all_is_wrong_usage(cli: Cli, crontab: Path, arguments: list[str], error: str) -> None:
    crontab.write_text("a: 1\n  b: 2\n")
    result = cli("import", *arguments)
    assert result.exit_code == 2
    assert error in result.stderr


def test_nothing_to_import_is_said(cli: Cli, file_url: str) -> None:
    assert cli.ok("import", "crontab", "-", "--tz", "UTC", input="# nothing\n") == "Nothing to import.\n"
    assert cli("import", "crontab", "-", "--yaml", input="").stdout == "schedules: {}\n"
    assert not Path("tickwork.db").exists()


def test_what_was_imported_runs(cli: Cli, app: Tickwork, crontab: Path, tmp_path: Path) -> None:
    (tmp_path / "cronjobs.yaml").write_text(CRONJOB)
    assert "Not imported" in cli("import", "crontab", "crontab", "--tz", "UTC", "--url", app.url).stderr
    result = cli("import", "k8s-cronjob", "cronjobs.yaml", "--url", app.url)
    assert result.exit_code == 1
    assert "cronjobs.yaml:10: document 2, spec.jobTemplate.spec.template.spec.containers" in result.stderr
    with program(tmp_path, "worker", "--allow-shell", "--processes", "1", TICKWORK_URL=app.url):
        job = app.schedules["tee-stderr"].run()
        assert job.result(timeout=20) == {"exit_code": 0, "stdout": "dear log\n", "lines": ["dear log"]}
        beats = eventually(lambda: list(app.jobs(label="image:busybox", state="succeeded")), 20, "it fires by itself")
        dues = {fire.job_id: fire.due_at for fire in app.schedules["beat"].fires()}
        assert beats[0].result()["stdout"] == f"beat {dues[beats[0].id].isoformat()}\n"


@settings(max_examples=50)
@given(st.text(alphabet=st.characters(exclude_categories=["C", "Zl", "Zp"]), min_size=1).filter(str.strip))
def test_any_command_survives_yaml(command: str) -> None:
    """Whatever a crontab can say is read from the file that --yaml prints as it was."""
    imported = read_crontab(f"@daily :{command}".encode(), file="f", system=False, tz="UTC")
    (document,) = read_yaml(specs_as_yaml(imported.specs), file="f")
    (spec,) = imported.specs
    arguments = json.loads(spec.args)
    assert document.value["schedules"][spec.name]["shell"] == arguments["command"]
    assert document.value["schedules"][spec.name].get("stdin", "") == arguments.get("stdin", "")


def test_a_traced_workflow_is_printed_as_a_dag_that_can_be_checked(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_bytes(montage_trace(40, "1.4"))
    for arguments, file in ((["--scale", "0.01"], "dag.yaml"), (["--name", "trial", "--json"], "dag.json")):
        printed = cli.ok("import", "wfformat", str(tmp_path / "trace.json"), *arguments)
        (tmp_path / file).write_text(printed)
    assert cli.ok("check", str(tmp_path / "dag.yaml")) == "montage-40: 40 steps, ok\n"
    assert cli.ok("check", str(tmp_path / "dag.json")) == "trial: 40 steps, ok\n"
    assert not (tmp_path / "tickwork.db").exists()


def test_what_had_to_be_guessed_of_a_trace_is_told_beside_it(cli: Cli) -> None:
    result = cli("import", "wfformat", "-", input='{"workflow": {"tasks": [{"name": "a"}]}}')
    assert result.exit_code == 0
    assert "<stdin>: 1 of 1 have no run time" in result.stderr
    assert cli("import", "wfformat", "-", input="{}").exit_code == 2
