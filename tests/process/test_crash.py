"""Jobs that end their own process: the cause is found and runs alone, and the other jobs are not charged."""

import os
import signal

import pytest

from tests.process.harness import Workers, consistent, gone, settled
from tests.waiting import eventually
from tickwork import JobFailed

pytestmark = pytest.mark.process


@pytest.mark.timeout(120)
def test_a_job_that_kills_its_process_is_quarantined_and_the_innocent_succeed(workers: Workers) -> None:
    worker = workers.start(slots=10, processes=2)
    innocent = workers.app.named("work").enqueue_many([{"n": n, "seconds": 0.3} for n in range(25)])
    poison = workers.job("poison")
    innocent += workers.app.named("work").enqueue_many([{"n": n, "seconds": 0.3} for n in range(25, 50)])

    with pytest.raises(JobFailed, match=r"crashed: .* was killed by SIGKILL \(crash 3 of 3 while running alone\)"):
        poison.result(timeout=60)
    view = poison.view
    assert (view.failures, view.crashes) == (0, 3)
    attempts = poison.attempts()
    assert {one.state for one in attempts} == {"lost"}
    assert 3 <= len(attempts) <= 4, "at most once beside others, and three times alone"
    assert len({one.pid for one in workers.witness.events(poison.id)}) == len(attempts), "in a new process each time"

    settled(innocent, within_s=60)
    for job in innocent:
        consistent(job)
        assert (job.view.failures, job.view.crashes) == (0, 0)
    assert worker.is_running()
    assert [job.id for job in workers.app.jobs(state="failed")] == [poison.id]


def test_leaving_through_the_back_door_is_a_crash_too(workers: Workers) -> None:
    workers.start(slots=2, processes=1)
    with pytest.raises(JobFailed, match=r"crashed: .* exited with code 3"):
        workers.job("leaves").result(timeout=30)
    settled([workers.job("work", n=1)], within_s=10)


def test_a_handler_that_cuts_its_process_off_is_ended_when_its_time_is_up(workers: Workers) -> None:
    worker = workers.start(slots=2, processes=1)
    job = workers.app.named("closes_everything").options(timeout="500ms").enqueue()
    assert job.wait(timeout=30) == "failed"
    assert worker.is_running()
    settled([workers.job("work", n=1)], within_s=10)


def test_a_redriven_job_has_its_crashes_forgiven(workers: Workers) -> None:
    workers.start(slots=1, processes=1)
    job = workers.job("leaves")
    assert job.wait(timeout=30) == "failed"
    assert workers.app.redrive(job) == 1
    assert job.wait(timeout=30) == "failed"
    assert (job.view.crashes, len(job.attempts())) == (3, 6)


def test_a_worker_whose_code_does_not_load_any_more_gives_its_jobs_back_and_says_why(workers: Workers) -> None:
    """A deploy broke the file under a running worker, and its children die. It must not take the jobs down with it."""
    file = workers.witness.path.with_name("shop.py")
    good = (
        "import os, time\nfrom tickwork import Tickwork, current_job\napp = Tickwork()\n"
        "@app.task\ndef lingers() -> int:\n"
        "    time.sleep(1000 if current_job().attempt == 1 else 0)\n    return current_job().attempt\n"
    )
    file.write_text(good)
    worker = workers.start(slots=2, processes=1, target=str(file))
    jobs = [workers.job("lingers") for _ in range(2)]
    eventually(lambda: all(job.state == "running" for job in jobs))
    file.write_text("raise RuntimeError('half a deploy')\n")
    (child,) = worker.children()
    os.kill(child, signal.SIGKILL)
    assert worker.wait(60) != 0
    assert "half a deploy" in worker.said()
    for job in jobs:
        assert (job.state, job.view.failures, job.view.crashes) == ("queued", 0, 0)
    file.write_text(good)
    workers.start(slots=2, processes=1, target=str(file))
    settled(jobs, within_s=20)


def test_code_that_does_not_load_at_all_ends_the_worker_at_once(workers: Workers) -> None:
    file = workers.witness.path.with_name("shop.py")
    file.write_text("from tickwork import Tickwork\napp = Tickwork()\nimport no_such_module\n")
    worker = workers.start(target=str(file), wait=False)
    assert worker.wait(20) != 0
    assert "No module named 'no_such_module'" in worker.said()
    assert "child_pool.py" not in worker.said(), "the user's traceback, not ours"


def test_a_worker_whose_fork_server_is_killed_loses_its_children_and_goes_on(workers: Workers) -> None:
    worker = workers.start(slots=2, processes=2)
    job = workers.job("lingers")
    workers.witnessed(job)
    before, (fork_server,) = worker.children(), worker.fork_servers()
    os.kill(fork_server, signal.SIGKILL)
    settled([job], within_s=20)
    assert job.attempt == 2
    assert all(map(gone, before))
    after = eventually(lambda: len(found := worker.children()) >= 2 and found, 10)
    worker.kill()
    eventually(lambda: all(map(gone, after)), 5, "those that were born later do not outlive it either")
