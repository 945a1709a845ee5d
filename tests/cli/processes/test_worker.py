"""`tickwork worker` as a real process."""

import signal
from pathlib import Path

from tests.cli.conftest import Cli
from tests.cli.programs import gone, program
from tests.waiting import eventually
from tickwork import Tickwork

SHOP = """
import sys, time
from tickwork import Tickwork
app = Tickwork()

@app.task
def add(a: int, b: int) -> int:
    return a + b

@app.task
def nap(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"

@app.task(queue="mail")
def send(to: str) -> None: ...
"""


HAS = ("--label", "gpu", "--resource", "mem=8GB", "--resource", "cpu=2")


def test_it_says_at_its_start_what_it_serves_and_drains_on_sigterm(tmp_path: Path, file_url: str) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    app = Tickwork(file_url)
    job = app.named("nap").enqueue(seconds=0.5)
    with program(tmp_path, "worker", "shop.py", "-c", "4", "--processes", "1", "-q", "default:2", *HAS) as worker:
        worker.says("which this worker does not serve: -q mail")
        assert f"store      SQLite {_sqlite()} (through apsw), {tmp_path}/tickwork.db\n" in worker.said
        assert "durability synchronous=FULL: " in worker.said
        assert (
            "tasks      @canary, add, http, nap, send, smtp\n"
            "queues     default:2\nslots      4 in 1 process\npid        " in worker.said
        )
        assert "has        gpu, cpu=2, mem=8000000000\n" in worker.said
        assert f"pid        {worker.process.pid} " in worker.said
        assert app.named("add").enqueue(a=1, b=2).result(timeout=10) == 3
        eventually(lambda: job.state != "queued")
        tree = worker.tree()
        assert worker.end() == 0
        assert job.state == "succeeded"
        gone(tree)
    app.close()


def test_it_runs_the_dags_of_its_code_and_of_files(cli: Cli, tmp_path: Path, file_url: str) -> None:
    dag = "\n@app.dag\ndef sum_up(a: int = 1) -> int:\n    return add(add(a, 2), 3)\n"
    (tmp_path / "shop.py").write_text(SHOP + dag)
    (tmp_path / "work.yaml").write_text(
        "dags: {hello: {steps: {greet: {shell: echo hello}, stumble: {shell: exit 3, retries: 0}}}}"
    )
    assert "hello  new, version 1" in cli.ok("apply", "work.yaml")
    with program(tmp_path, "worker", "shop.py", "--processes", "1", "--allow-shell") as worker:
        worker.says("pid  ")
        eventually(lambda: "sum_up" in cli.ok("dags", "list"))
        assert cli.ok("run", "sum_up", "a=5", "--wait", "--timeout", "20s") == "10\n"
        result = cli("run", "hello", "--wait", "--timeout", "20s")
        assert (result.exit_code, "1 step failed" in result.stderr) == (1, True)
        assert worker.end() == 0


def test_a_url_that_the_code_overrules_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP.replace("Tickwork()", "Tickwork('sqlite:///mine.db')"))
    with program(tmp_path, "worker", "shop.py", "--processes", "1", "--url", "sqlite:///yours.db") as worker:
        assert worker.process.wait(20) == 2
        assert "--url is sqlite:///yours.db, but the code names another store" in worker.said
        assert not (tmp_path / "yours.db").exists()


def test_told_to_stop_while_it_imports_it_leaves_with_0(tmp_path: Path, file_url: str) -> None:
    (tmp_path / "slow.py").write_text("import time; print('importing', flush=True); time.sleep(30)")
    with program(tmp_path, "worker", "slow.py", "--processes", "1") as worker:
        worker.says("importing")
        tree = worker.tree()
        assert worker.end(signal.SIGTERM) == 0
        gone(tree)


def _sqlite() -> str:
    import apsw

    return str(apsw.sqlite_lib_version())
