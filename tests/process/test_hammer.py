"""Many processes on one SQLite file at the same time."""

import subprocess
import sys
import textwrap
from pathlib import Path

import apsw
import pytest

from tests.process.harness import Workers, consistent, settled
from tickwork import Tickwork

pytestmark = pytest.mark.process

PROCESSES, EACH = 16, 40
PROGRAM = textwrap.dedent("""
    import sys
    from tickwork import Tickwork

    app = Tickwork(sys.argv[1])
    number, each = int(sys.argv[2]), int(sys.argv[3])
    task = app.named("work")
    for n in range(each // 2):
        task.enqueue(n=number * each + n)
    with app.connection() as tx:
        task.options(tx=tx).enqueue_many([{"n": number * each + n} for n in range(each // 2, each)])
""")


@pytest.mark.timeout(120)
def test_sixteen_processes_enqueue_while_workers_drain(tmp_path: Path) -> None:
    workers = Workers(f"sqlite:///{tmp_path}/tickwork.db", tmp_path)
    try:
        workers.app.jobs()  # makes the file
        workers.start(slots=4, processes=2)
        callers = [
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, workers.url, str(number), str(EACH)], stderr=subprocess.PIPE
            )
            for number in range(PROCESSES)
        ]
        for caller in callers:
            _, said = caller.communicate(timeout=90)
            assert caller.returncode == 0, said.decode()
        jobs = [job for page in pages(workers.app) for job in page]
        settled(jobs, within_s=60)
        assert sorted(job.result()["n"] for job in jobs) == list(range(PROCESSES * EACH))
        for job in jobs:
            consistent(job)
            assert job.attempt == 1
    finally:
        workers.close()
    file = apsw.Connection(str(tmp_path / "tickwork.db"))
    assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    file.close()


def pages(app: Tickwork) -> list:  # type: ignore[type-arg]
    found = [app.jobs(limit=500)]
    while found[-1].next_cursor:
        found.append(app.jobs(limit=500, cursor=found[-1].next_cursor))
    return found
