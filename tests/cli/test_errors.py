"""A user's mistake is one sentence with the next step and an exit code that scripts can use, never a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.cli.conftest import Cli
from tickwork import JobNotFound
from tickwork.cli.jobs import jobs
from tickwork.cli.main import main, report
from tickwork.errors import SchemaMismatch, StoreUnreachable

UNKNOWN_ID = "019a8f3e-1c2d-7abc-8def-0123456789ab"

MISTAKES = {
    "jobs show nope": (3, "error: there is no job 'nope': ids look like 019a8f3e-"),
    f"jobs show {UNKNOWN_ID}": (3, f"error: job {UNKNOWN_ID} is not in sqlite:///"),
    f"jobs why {UNKNOWN_ID}": (3, f"error: job {UNKNOWN_ID} is not in sqlite:///"),
    f"jobs logs -f {UNKNOWN_ID}": (3, f"error: job {UNKNOWN_ID} is not in sqlite:///"),
    f"jobs cancel {UNKNOWN_ID}": (3, f"error: job {UNKNOWN_ID} is not in sqlite:///"),
    f"jobs retry {UNKNOWN_ID}": (3, f"error: job {UNKNOWN_ID} is not in sqlite:///"),
    f"dead redrive {UNKNOWN_ID}": (3, f"error: job {UNKNOWN_ID} is not in sqlite:///"),
    "--url mysql://root@host/x jobs list": (2, "names no store"),
    "--url sqlite:// jobs list": (2, "error: 'sqlite://' names no file."),
    "jobs list --url sqlite:///other.db": (4, "error: there is no store in "),
    "enqueue add --url sqlite:////no/folder/x.db": (4, "error: /no/folder/x.db cannot be opened: "),
    "jobs list --url sqlite:///notes.txt": (1, "notes.txt is not a SQLite database"),
    "doctor --url sqlite:///notes.txt": (1, "notes.txt is not a SQLite database"),
    "doctor --url postgresql://ada:secret@127.0.0.1:1/x": (
        4,
        "error: postgresql://ada@127.0.0.1:1/x cannot be reached",
    ),
    "enqueue add --in 5parsecs": (2, "error: --in: '5parsecs' is not a duration."),
    "enqueue add --in -5s": (2, "error: --in: '-5s' is negative"),
    "enqueue add --at tomorrow": (2, "error: --at: 'tomorrow' is not a time. Write it like 2027-01-01T06:00:00Z."),
    "enqueue add --at 2027-01-01T06:00": (2, "error: --at: 2027-01-01T06:00 of which zone?"),
    "enqueue add --in 1s --at 2027-01-01T06:00Z": (2, "error: --in and --at exclude each other: give one of them."),
    "enqueue add --priority soon": (2, "error: priority must be one of"),
    "enqueue add --timeout 3s": (
        2,
        "error: --timeout requires --wait. See: tickwork enqueue --help",
    ),
    "enqueue add 3": (2, "error: '3' is not KEY=VALUE."),
    "enqueue add a=1 a=2": (2, "error: the argument 'a' is given twice."),
    "enqueue add --json [1": (2, "error: --json is not JSON: "),
    "enqueue add --json 3": (2, "error: --json must be an object"),
    "jobs list --state flying": (2, "error: invalid value for '--state': 'flying' is not one of"),
    "jobs list --limit 0": (2, "error: invalid value for '--limit': 0 is not in the range"),
    "jobs list --cursor x": (2, "error: 'x' is not a cursor."),
    "jobs cancel": (2, "error: select jobs by id, or by filters"),
    "jobs retry": (2, "error: missing argument 'ID...'. See: tickwork jobs retry --help"),
    "jobs lst": (2, "error: there is no command 'lst'; did you mean 'list'? See: tickwork jobs --help"),
    "jbos": (2, "error: there is no command 'jbos'; did you mean 'jobs'? See: tickwork --help"),
    "dead redrive --all --rate fast": (2, "error: rate: 'fast' is not a rate."),
    "dead discard": (
        2,
        "error: select dead letters by id, by filters such as --task, --error and --since, or with --all.",
    ),
    "worker shop.py --grace soon": (2, "error: --grace: 'soon' is not a duration."),
    "worker shop.py -q :3": (2, "error: ':3' is not a queue. Write NAME or NAME:WEIGHT, like mail:3."),
    "worker shop.py -c 0": (2, "error: invalid value for '-c' / '--concurrency': 0 is not in the range"),
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_line_on_stderr(cli: Cli, file_url: str, tmp_path: Path, line: str) -> None:
    (tmp_path / "notes.txt").write_text("not a database, though long enough to be taken for the header of one" * 20)
    cli.ok("db", "upgrade")
    code, text = MISTAKES[line]
    result = cli(*line.split())
    assert (result.exit_code, result.stdout) == (code, "")
    assert text in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert "secret" not in result.stderr


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("nothere", "error: there is no module 'nothere' in "),
        ("nothere.py", "error: there is no file nothere.py"),
        ("broken.py", "SyntaxError: '(' was never closed"),
        ("raises.py", 'raises.py", line 1, in <module>\n    1 / 0'),
        ("empty.py", "error: empty.py has no Tickwork app. Say which object it is: tickwork worker empty.py:app"),
    ],
)
def test_a_worker_shows_why_the_code_cannot_be_imported_and_none_of_our_own(
    file_url: str, tmp_path: Path, target: str, told: str
) -> None:
    (tmp_path / "broken.py").write_text("x = (")
    (tmp_path / "raises.py").write_text("1 / 0")
    (tmp_path / "empty.py").write_text("")
    command = [sys.executable, "-m", "tickwork", "worker", target, "--processes", "1"]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert result.returncode == 1
    assert told in result.stderr
    assert "tickwork/" not in result.stderr.replace("tickwork worker", "")
    assert "importlib" not in result.stderr


def test_exit_codes_tell_scripts_what_happened() -> None:
    assert report(JobNotFound("x")) == 3
    assert report(StoreUnreachable("x")) == 4
    assert report(SchemaMismatch("x")) == 1
    assert report(click.UsageError("x")) == 2
    assert report(click.Abort()) == 130


def test_an_unexpected_error_is_one_line_and_says_how_to_get_the_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert report(KeyError("x"), {}) == 1
    told = capsys.readouterr().err
    assert told == (
        "error: KeyError: 'x' (a bug in Tickwork). Please report it, with the traceback that TICKWORK_DEBUG=1 shows.\n"
    )


def test_with_debug_an_unexpected_error_shows_its_traceback(
    cli: Cli, file_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.ok("db", "upgrade")
    monkeypatch.setattr(jobs, "job_filter", lambda which: {}["gone"])
    assert "Traceback" not in cli("jobs", "list").stderr
    monkeypatch.setenv("TICKWORK_DEBUG", "1")
    assert "Traceback" in cli("jobs", "list").stderr
    assert "Traceback" not in cli("jobs", "show", "nope").stderr  # not even then, for a mistake of the user's


def test_ctrl_c_is_quiet(cli: Cli, file_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(which: object) -> None:
        raise KeyboardInterrupt

    cli.ok("db", "upgrade")
    monkeypatch.setattr(jobs, "job_filter", interrupted)
    result = cli("jobs", "list")
    assert (result.exit_code, result.stderr.strip()) == (130, "")


def test_a_pipe_without_a_reader_is_quiet(file_url: str) -> None:
    for arguments in ("--help", "db sql"):
        line = f"{sys.executable} -m tickwork {arguments} | true; exit ${{PIPESTATUS[0]}}"
        result = subprocess.run(["bash", "-c", line], check=False, capture_output=True, text=True)
        assert result.stderr == ""
        assert result.returncode in {0, 1}


def test_what_looks_at_a_store_does_not_make_one(cli: Cli, file_url: str, tmp_path: Path) -> None:
    for line in ("jobs list", "dead list", "queues", "workers", "doctor", "db status"):
        assert cli(*line.split()).exit_code == 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", ["jbos", "jobs show nope", "jobs list --url sqlite:///other.db", "worker no_such.py"]
)
def test_an_error_is_a_line_of_json_where_logs_are(tmp_path: Path, arguments: str) -> None:
    command = [sys.executable, "-m", "tickwork", *arguments.split()]
    environment = {**os.environ, "TICKWORK_LOG_FORMAT": "json", "TICKWORK_URL": f"sqlite:///{tmp_path}/x.db"}
    result = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=50
    )
    assert result.returncode != 0
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert lines
    assert lines[-1]["level"] == "error"


def test_what_a_service_says_at_its_start_is_json_where_logs_are(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tickwork", "server", "--port", "0"]
    environment = {**os.environ, "TICKWORK_LOG_FORMAT": "json", "TICKWORK_URL": f"sqlite:///{tmp_path}/x.db"}
    server = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    try:
        first = json.loads(server.stderr.readline())
        assert first["message"].startswith("server: http://127.0.0.1:")
    finally:
        server.terminate()
        rest = server.stderr.read()
        server.wait(20)
    assert all(json.loads(line) for line in rest.splitlines())


def test_main_is_what_python_m_runs() -> None:
    result = subprocess.run([sys.executable, "-m", "tickwork", "version"], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("tickwork ")
    assert main.name == "main"
