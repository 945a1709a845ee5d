"""`tickwork queues`, `workers`, `doctor` and `db`, on both stores."""

import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from random import Random

import apsw
import pytest

from tests.cli.conftest import Cli, Shop
from tests.waiting import eventually
from tickwork import Tickwork
from tickwork.cli.admin import doctor
from tickwork.cli.command import shown_url
from tickwork.core.ids import WorkerId
from tickwork.core.outcome import Succeeded, decide
from tickwork.store.attempt_types import Finish
from tickwork.store.base import WorkerRegistration
from tickwork.store.migrate import migrations
from tickwork.store.postgres.reads import read_verbs as postgres_reads
from tickwork.store.reads import queue_counts
from tickwork.store.sqlite.reads import read_verbs as sqlite_reads

MIGRATIONS = migrations("tickwork.store.sqlite")


def test_queues_show_what_stands_in_them(cli: Cli, shop: Shop) -> None:
    assert cli.ok("queues") == "No jobs in any queue.\n"
    shop.add.enqueue(1)
    shop.add.options(delay="1h").enqueue(1)
    lines = cli.ok("queues").splitlines()
    titles = ["QUEUE", "DUE", "LATER", "RUNNING", "HELD", "WORKERS", "WANTED", "OLDEST", "DUE", "FOR"]
    assert lines[0].split() == titles
    assert lines[1].split()[:7] == ["default", "1", "1", "0", "0", "0", "1"]
    (item,) = cli.json("queues")["items"]
    assert set(item) >= {"name", "due", "later", "running", "held", "oldest_due_at", "workers", "wanted"}


def test_a_count_that_ended_somewhere_is_shown_with_a_plus(
    cli: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (sqlite_reads, postgres_reads, queue_counts):
        monkeypatch.setattr(module, "COUNTED", 3)
    for _ in range(4):
        shop.add.enqueue(1)
    assert cli.ok("queues").splitlines()[1].split()[:3] == ["default", "3+", "0"]
    assert cli.json("queues")["items"][0]["at_least"] == ["due"]


def test_queues_show_how_many_workers_they_want(cli: Cli, shop: Shop) -> None:
    """Jobs take a second each; ten slots would begin 300 of them within 30 seconds."""
    store = shop.app.store
    store.register_worker(
        WorkerRegistration(WorkerId("w"), "h", 1, "0", ("default",), ("add",), 10), [], timedelta(minutes=1)
    )
    job = shop.add.enqueue(1)
    (claimed,) = store.claim_jobs(WorkerId("w"), ["default"], ["add"], 1).jobs
    eventually(lambda: store.now() - job.view.started_at > timedelta(seconds=1))
    ending = decide(claimed, Succeeded(b"null"), Random(0))
    store.finish_attempts([Finish(claimed.job_id, claimed.attempt, claimed.claim, ending)])
    shop.add.enqueue_many([(1,)] * 900)
    (item,) = cli.json("queues")["items"]
    assert (item["due"], item["workers"]) == (900, 1)
    assert 3 <= item["wanted"] <= 5


def test_workers_show_who_works(cli: Cli, shop: Shop) -> None:
    assert cli.ok("workers") == "No worker is running. Start one: tickwork worker MODULE_OR_FILE\n"
    with shop.app.worker(concurrency=3, labels=["gpu", "region:eu"], resources="mem=8GB,cpu=0.5"):
        shop.add.enqueue(1).wait(timeout=10)
        lines = cli.ok("workers").splitlines()
        (item,) = cli.json("workers")["items"]
    assert lines[0].split() == ["WORKER", "STATE", "BUSY", "STARTED", "VERSION", "QUEUES", "LABELS", "TASKS"]
    assert "  running  0 of 3  " in lines[1]
    assert "  gpu, region:eu, cpu=0.5, mem=8000000000  " in lines[1]
    assert item["offer"] == ["gpu", "region:eu", "cpu=0.5", "mem=8000000000"]
    assert (item["slots"], item["queues"], item["tasks"]) == (
        3,
        ["default", "mail"],
        ["add", "send", "http", "smtp", "@canary"],
    )


def test_doctor_says_what_the_store_promises_and_that_nothing_is_wrong(cli: Cli, shop: Shop) -> None:
    said = cli.ok("doctor")
    for fact in ("store", "durability", "clock", "schema", "versions", "workers", "stuck leases", "oldest due job"):
        assert re.search(rf"^{fact}  +\S", said, re.MULTILINE)
    found = cli.json("doctor")
    assert set(found) == {"facts", "warnings"}
    assert found["facts"]["workers"] == "none"


def test_doctor_says_where_large_results_are(
    cli: Cli, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = cli.json("doctor")["facts"]["large_results"]
    if shop.app.url.startswith("sqlite"):
        assert said == f"over 1,048,576 bytes in {tmp_path}/tickwork.db-blobs"
    else:
        assert said.startswith("refused over 1,048,576 bytes; TICKWORK_BLOBS would name a folder")
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("TICKWORK_BLOBS", str(tmp_path / "file"))
    found = cli.json("doctor")
    assert found["facts"]["large_results"] == f"over 1,048,576 bytes in {tmp_path}/file"
    assert f"Large results cannot be kept: {tmp_path}/file is not a folder. Change that, or name another folder: " in (
        " ".join(found["warnings"])
    )
    monkeypatch.setenv("TICKWORK_BLOBS", "shop.storage:blobs")
    assert cli.json("doctor")["facts"]["large_results"] == "over 1,048,576 bytes in shop.storage:blobs"


def test_doctor_names_a_key_file_that_others_can_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TICKWORK_SECRET_KEY", raising=False)
    with_secret = Tickwork(f"sqlite:///{tmp_path}/jobs.db")
    with_secret.vault.put("A", "abcdefgh", "test")
    assert doctor.examine(with_secret)[1] == []
    key = tmp_path / "jobs.db-secret-key"
    key.chmod(0o640)
    (finding,) = doctor.examine(with_secret)[1]
    assert f"chmod 600 {key}" in finding
    with_secret.close()


@pytest.mark.parametrize("name", ["tickwork.toml", "pyproject.toml"])
def test_doctor_names_settings_that_others_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = tmp_path / name
    settings.write_text("namespace = 'a'\n" if name == "tickwork.toml" else "[tool.tickwork]\nnamespace = 'a'\n")
    app = Tickwork(f"sqlite:///{tmp_path}/jobs.db")
    tmp_path.chmod(0o755)
    settings.chmod(0o644)
    assert doctor.examine(app)[1] == []
    settings.chmod(0o646)
    (finding,) = doctor.examine(app)[1]
    assert f"chmod go-w {settings}" in finding
    settings.chmod(0o600)
    tmp_path.chmod(0o777)
    (finding,) = doctor.examine(app)[1]
    assert f"chmod go-w {tmp_path}" in finding
    tmp_path.chmod(0o1777)  # as /tmp: others cannot replace the file
    assert doctor.examine(app)[1] == []
    app.close()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_doctor_names_a_tls_key_that_others_can_read(cli: Cli, shop: Shop, tmp_path: Path, mode: int) -> None:
    key = tmp_path / "key.pem"
    key.touch()
    key.chmod(mode)
    warnings = cli.json("doctor", "--tls-key", str(key))["warnings"]
    assert any(f"chmod 600 {key}" in one for one in warnings) == (mode == 0o644)


def test_doctor_names_a_queue_that_no_worker_serves_and_exits_with_0(
    cli: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "LATE", timedelta(0))
    shop.send.enqueue("x")
    (warning,) = [text for text in cli.json("doctor")["warnings"] if "Queue mail" in text]
    assert re.fullmatch(
        r"Queue mail has 1 due job, the oldest for \S+, and no worker serves it. "
        r"Start one: tickwork worker MODULE_OR_FILE -q mail",
        warning,
    )


def test_an_upgrade_is_safe_to_repeat(cli: Cli, shop: Shop) -> None:
    newest = MIGRATIONS[-1].number
    assert cli.ok("db", "upgrade").endswith(f" is up to date, at version {newest}.\n")
    assert cli.json("db", "upgrade") == {"applied": [], "version": newest}
    status = cli.json("db", "status")
    applied = [{"number": one.number, "name": one.name, "state": "applied"} for one in MIGRATIONS]
    assert (status["up_to_date"], status["migrations"]) == (True, applied)


def test_a_postgres_database_without_our_tables_says_how_to_make_them(
    cli: Cli, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TICKWORK_URL", postgres_url)
    result = cli("db", "status")
    assert result.exit_code == 1
    assert result.stderr.endswith(" lacks 1 migration. Apply: tickwork db upgrade\n")
    for line in ("jobs list", "doctor"):
        result = cli(*line.split())
        assert result.exit_code == 1
        assert "tickwork db upgrade" in result.stderr
    assert cli.ok("db", "upgrade").startswith("Applied 1 (baseline).\n")
    assert cli("db", "status").exit_code == 0
    assert cli.ok("jobs", "list").startswith("No jobs yet.")


@pytest.mark.parametrize("schema", ["tickwork", "jobs"])
def test_the_sql_can_be_applied_by_hand_in_postgres(
    cli: Cli, postgres_url: str, monkeypatch: pytest.MonkeyPatch, schema: str
) -> None:
    import psycopg

    monkeypatch.setenv("TICKWORK_SCHEMA", schema)
    script = cli.ok("db", "sql", "--url", "postgresql://")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(script.encode())
    assert cli.json("db", "status", "--url", postgres_url)["up_to_date"]
    assert cli.json("db", "upgrade", "--url", postgres_url)["applied"] == []


def test_the_sql_can_be_applied_by_hand_in_sqlite(cli: Cli, tmp_path: Path) -> None:
    apsw.Connection(str(tmp_path / "hand.db")).execute(cli.ok("db", "sql"))
    assert cli.json("db", "status", "--url", "sqlite:///hand.db")["up_to_date"]


def test_a_database_of_another_program_is_left_alone_unless_it_is_adopted(cli: Cli, tmp_path: Path) -> None:
    apsw.Connection(str(tmp_path / "other.db")).execute("CREATE TABLE users (name)")
    result = cli("db", "upgrade", "--url", "sqlite:///other.db")
    assert result.exit_code == 1
    assert "is a database of another program" in result.stderr
    assert "up to date" in cli.ok("db", "upgrade", "--adopt", "--url", "sqlite:///other.db")


def test_a_password_is_never_shown() -> None:
    assert shown_url("postgresql://ada:se:cr@t@host/db") == "postgresql://ada:***@host/db"
    assert shown_url("postgresql://ada@host/db") == "postgresql://ada@host/db"
    assert shown_url("sqlite:///a@b.db") == "sqlite:///a@b.db"


def test_a_command_reads_the_url_before_and_after_its_name_and_from_a_file(cli: Cli, tmp_path: Path) -> None:
    Tickwork("sqlite:///here.db").store.close()
    assert cli.ok("--url", "sqlite:///here.db", "queues") == cli.ok("queues", "--url", "sqlite:///here.db")
    (tmp_path / "tickwork.toml").write_text('url = "sqlite:///here.db"')
    assert cli.ok("queues") == "No jobs in any queue.\n"


def test_a_warning_of_the_library_is_a_plain_line(tmp_path: Path) -> None:
    code = (
        "import logging; from tickwork.cli.command import log_to_stderr;"
        "log_to_stderr('%(level)s: %(message)s', logging.WARNING); logging.warning('a\\x1b')"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stderr == "warning: a\\x1b\n"
