"""`tickwork dev`: a changed file restarts the worker, and all of its processes end together."""

import os
import signal
from pathlib import Path

import pytest

from tests.cli.programs import gone, program
from tests.waiting import eventually
from tickwork import Tickwork
from tickwork.cli.processes.dev import fingerprint, folder_of

SHOP = """
import time
from tickwork import Tickwork
app = Tickwork()

@app.task(queue="mail")
def answer() -> int:
    return 1

@app.task
def stubborn() -> None:
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass
"""


def test_a_fingerprint_sees_python_files_and_skips_environments(tmp_path: Path) -> None:
    for name in ("a.py", "b.txt", "pkg/c.py", ".git/d.py", "pkg/__pycache__/e.py", "env/pyvenv.cfg", "env/f.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    before = fingerprint(tmp_path)
    assert sorted(before) == [str(tmp_path / "a.py"), str(tmp_path / "pkg/c.py")]
    os.utime(tmp_path / "pkg/c.py", ns=(1, 1))
    assert fingerprint(tmp_path) != before


def test_the_folder_of_a_file_is_its_own_and_that_of_a_module_the_current_one(tmp_path: Path) -> None:
    assert folder_of(f"{tmp_path}/sub/shop.py:app") == tmp_path / "sub"
    assert folder_of("shop.tasks") == tmp_path


def test_without_a_file_it_idles_and_ends_with_0(tmp_path: Path, file_url: str) -> None:
    with program(tmp_path, "dev", "--port", "0") as dev:
        dev.says("tasks      @canary, @sleep, http")
        tree = dev.tree()
        assert len(tree) > 2
        assert dev.end() == 0
        gone(tree)


def test_it_starts_where_commands_are_switched_off_and_runs_none(tmp_path: Path, file_url: str) -> None:
    with program(tmp_path, "dev", "--port", "0", TICKWORK_BUILTIN_OFF="shell, smtp") as dev:
        dev.says("tasks      @canary, http")
        assert "--allow-shell" not in dev.said
        assert "shell " not in dev.said
        assert dev.end() == 0


def test_a_store_that_cannot_be_opened_ends_it_with_its_own_code(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    with program(tmp_path, "dev", "shop.py", "--port", "0", "--url", "sqlite:////no/folder/x.db") as dev:
        assert dev.process.wait(20) == 4
        assert "error: /no/folder/x.db cannot be opened" in dev.said


@pytest.mark.process
def test_a_change_restarts_it_and_a_syntax_error_waits_for_the_next_change(tmp_path: Path, file_url: str) -> None:
    app, shop = Tickwork(file_url), tmp_path / "shop.py"
    shop.write_text(SHOP)
    with program(tmp_path, "dev", "shop.py", "--port", "0") as dev:
        dev.says("slots ")
        assert app.named("answer").enqueue().result(timeout=10) == 1  # its queue is served without being named
        written_ns = shop.stat().st_mtime_ns
        shop.write_text(SHOP.replace("return 1", "return ("))
        os.utime(shop, ns=(written_ns + 1000, written_ns + 1000))  # to compiled files that is the same second
        dev.says("SyntaxError")
        dev.says("dev: waiting for a file to change")
        assert "Traceback" not in dev.said
        shop.write_text(SHOP.replace("return 1", "return 22"))
        dev.says("slots ", times=2)
        assert app.named("answer").enqueue().result(timeout=10) == 22
        (tmp_path / "helper.py").write_text("")
        dev.says("dev: helper.py changed: restarting")
        dev.says("slots ", times=3)
        tree = dev.tree()
        assert dev.end(signal.SIGINT) == 0
        gone(tree)
    app.close()


@pytest.mark.process
def test_sigterm_ends_the_whole_tree_whatever_runs(tmp_path: Path, file_url: str) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    app = Tickwork(file_url)
    with program(tmp_path, "dev", "shop.py", "--port", "0") as dev:
        job = app.named("stubborn").enqueue()
        dev.says("slots ")
        eventually(lambda: job.state == "running", 15)
        tree = dev.tree()
        assert dev.end() == 0
        gone(tree)
    app.close()


@pytest.mark.process
def test_killed_it_takes_the_whole_tree_with_it(tmp_path: Path, file_url: str) -> None:
    with program(tmp_path, "dev", "--port", "0") as dev:
        dev.says("slots ")
        tree = dev.tree()
        assert dev.end(signal.SIGKILL) == -signal.SIGKILL
        gone(tree, within_s=15)
