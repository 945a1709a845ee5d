"""What handlers wrote survives whatever ends them."""

import os
import signal

import pytest

from tests.process.harness import Workers
from tests.worker.fixtures import eventually, output_of

pytestmark = pytest.mark.process

WRITTEN = "".join(f"line {n}\n" for n in range(300)) + "to stderr\n"


def test_output_is_readable_while_it_runs_and_survives_the_death_of_the_worker(workers: Workers) -> None:
    worker = workers.start(lease_s=2)
    job = workers.job("writes", lines=300)
    workers.witnessed(job)
    eventually(lambda: output_of(job, 1) == WRITTEN, 5, "it is stored within a moment")
    assert job.state == "running"
    worker.kill_everything()
    assert output_of(job, 1) == WRITTEN
    job.cancel()


@pytest.mark.parametrize("how", ["child", "timeout", "drain", "cancel"])
def test_output_survives_the_death_of_its_process_a_moment_after_it_was_written(workers: Workers, how: str) -> None:
    """Also what is not stored yet: the supervisor has it, and lives."""
    worker = workers.start(slots=2, processes=1, grace="0s")
    timeout = "300ms" if how == "timeout" else None
    job = workers.app.named("writes").options(timeout=timeout, retries=0).enqueue(lines=300)
    event = workers.witnessed(job)
    if how == "child":
        os.kill(event.pid, signal.SIGKILL)
    elif how == "drain":
        worker.signal(signal.SIGTERM)
    elif how == "cancel":
        job.cancel()
    eventually(lambda: job.attempts()[0].ended_at is not None, 15, "the attempt ended")
    assert output_of(job, 1) == WRITTEN
    job.cancel()
