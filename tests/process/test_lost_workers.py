"""Jobs that take their whole worker down: they end, and what ran beside them is run again and never blamed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.harness import PATH, Workers, die_with_the_tests
from tests.waiting import eventually
from tickwork import Job, Tickwork

pytestmark = pytest.mark.process

LEASE_S = 1.0
MOST = 8  # workers that are started in one test

PROGRAM = """
import os, sys, time
from tickwork import Tickwork

app = Tickwork(sys.argv[1])

@app.task(retries=0)
def leaves():
    os._exit(3)

with app.worker(concurrency=2, lease="1s"):
    time.sleep(60)
"""


def test_a_job_that_kills_its_supervisor_ends_as_failed_and_its_neighbour_succeeds(workers: Workers) -> None:
    deadly, neighbour = workers.job("kill_the_worker"), workers.job("work", n=1, seconds=1.0)
    started = 0
    while deadly.state not in ("failed", "succeeded"):
        started += 1
        assert started <= MOST, f"it runs for ever: {[one.state for one in deadly.attempts()]}"
        worker = workers.start(slots=2, processes=1, lease_s=LEASE_S, wait=False)
        eventually(lambda worker=worker: not worker.is_running() or ended(deadly), 60, "it takes the worker down")
    assert [one.state for one in deadly.attempts()] == ["lost"] * 4
    assert "its worker died 4 times in a row while running it" in str(deadly.error)
    assert neighbour.wait(timeout=60) == "succeeded"
    assert neighbour.view.failures == neighbour.view.crashes == 0
    assert len(workers.witness.events(deadly.id, "start")) == 4


def ended(job: Job) -> bool:
    return job.state in ("failed", "succeeded")


def test_a_job_that_leaves_the_process_of_its_worker_ends_as_failed(store_url: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    app = Tickwork(store_url)
    job = app.named("leaves").options(retries=0).enqueue()
    for _ in range(MOST):
        if ended(job):
            break
        with subprocess.Popen(
            [sys.executable, str(program), store_url],
            env={**os.environ, "PYTHONPATH": PATH},
            preexec_fn=die_with_the_tests,  # noqa: PLW1509
        ) as process:
            eventually(lambda process=process: process.poll() is not None or ended(job), 60, "the worker is gone")
            process.kill()
    assert (job.state, [one.state for one in job.attempts()]) == ("failed", ["lost"] * 4)
    app.close()
