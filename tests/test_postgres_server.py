"""Tests of the PostgreSQL that other tests run on, and of the rule that those are never skipped."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.postgres_server import Postgres, PostgresFailed, PostgresServer, wait_for

TOP = Path(__file__).parent.parent


@pytest.fixture(params=["newest", "wheel"])
def own_server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """A server that the test may stop and kill: the one this machine would choose, and the one out of the wheel."""
    source = "wheel" if request.param == "wheel" else None
    with PostgresServer(fsync=True, settings={"work_mem": "5MB"}, source=source) as server:
        yield server


def ask(url: str, question: str) -> object:
    with psycopg.connect(url, connect_timeout=10) as connection:
        row = connection.execute(question.encode()).fetchone()
    return row and row[0]


def keep_a_note(url: str) -> None:
    with psycopg.connect(url, connect_timeout=10) as connection:
        connection.execute("CREATE TABLE notes AS SELECT 'kept' AS text")


def test_the_shared_server_answers(postgres_server: Postgres) -> None:
    assert ask(postgres_server.url(), "SELECT 1") == 1


def test_a_database_is_made_from_a_template_and_dropped(postgres_server: Postgres, postgres_url: str) -> None:
    keep_a_note(postgres_url)
    template = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]
    copy = postgres_server.create_database(f"{template}_copy", template=str(template))

    assert ask(copy, "SELECT text FROM notes") == "kept"
    postgres_server.drop_database(f"{template}_copy")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        ask(copy, "SELECT 1")


def test_an_own_server_is_as_asked_and_keeps_its_data_over_a_restart(own_server: PostgresServer) -> None:
    major = own_server.binaries.major
    assert ask(own_server.url(), "SELECT current_setting('server_version_num')::int / 10000") == major
    assert ask(own_server.socket_url(), "SHOW work_mem") == "5MB"
    assert ask(own_server.url(), "SHOW fsync") == "on"
    keep_a_note(own_server.url())
    own_server.restart()
    assert ask(own_server.url(), "SELECT text FROM notes") == "kept"


def test_a_closed_server_leaves_neither_processes_nor_its_folder() -> None:
    with PostgresServer() as server:
        folder, pid = server.folder, server.pid
    assert pid is not None
    assert not Path(f"/proc/{pid}").exists()
    assert not folder.exists()


def test_a_server_that_cannot_start_says_why_and_leaves_nothing() -> None:
    server = PostgresServer(settings={"shared_buffers": "many"})
    with pytest.raises(PostgresFailed, match='invalid value for parameter "shared_buffers"'), server:
        pass
    with pytest.raises(PostgresFailed, match="does not exist"):
        _ = server.folder


@pytest.mark.process
def test_what_was_committed_survives_a_killed_postmaster(own_server: PostgresServer) -> None:
    keep_a_note(own_server.url())
    with psycopg.connect(own_server.url()) as busy:
        busy.execute("SELECT 1")
        own_server.kill9_postmaster()
        with pytest.raises(psycopg.OperationalError):
            busy.execute("SELECT 1")
    own_server.start()
    assert ask(own_server.url(), "SELECT text FROM notes") == "kept"


@pytest.mark.process
def test_a_server_does_not_outlive_its_maker() -> None:
    program = "import time; from tests.postgres_server import PostgresServer; server = PostgresServer(); "
    program += "server.start(); print(server.folder, server.pid, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], cwd=TOP, stdout=subprocess.PIPE, text=True) as maker:
        assert maker.stdout is not None
        folder, pid = maker.stdout.readline().split()
        maker.kill()
    assert wait_for(lambda: not Path(folder).exists() and not Path(f"/proc/{pid}").exists(), 20)


@pytest.mark.parametrize(
    "code",
    [
        "import pytest\n\ndef test_x(postgres_server_or_not): ...\n\n"
        "@pytest.fixture\ndef postgres_server_or_not(): pytest.skip()",
        "import pytest\n\n@pytest.mark.parametrize('store', ['postgres'])\ndef test_x(store): pytest.skip()",
        "import pytest\n\npytest.importorskip('psycopg_not_there')",
    ],
    ids=["by-fixture", "by-parameter", "by-module"],
)
def test_a_skipped_test_of_postgres_is_a_failure(code: str, tmp_path: Path) -> None:
    assert run_pytest(tmp_path, code) in {pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED}


def test_other_tests_may_be_skipped(tmp_path: Path) -> None:
    code = "import pytest\n\n@pytest.mark.parametrize('store', ['sqlite'])\ndef test_x(store): pytest.skip()"
    assert run_pytest(tmp_path, code) == pytest.ExitCode.OK


def run_pytest(folder: Path, code: str) -> int:
    """Run `code` as a test module under our conftest and return pytest's exit code."""
    module = folder / "test_code.py"
    module.write_text(code)
    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "--rootdir", str(folder), "-c", os.devnull]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, module], cwd=TOP, timeout=50, check=False
    ).returncode
