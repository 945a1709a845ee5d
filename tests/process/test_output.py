"""The output of handlers survives every kind of end."""

import json
import os
import re
import signal

import pytest

from tests.process.forging_tasks import WAYS
from tests.process.harness import Workers, gone, settled
from tests.waiting import eventually
from tests.worker.job_helpers import output_of
from tickwork.worker.run.capture import LOG_LIMIT

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


@pytest.mark.parametrize("how", ["exit", "kill", "segfault", "hang"])
def test_everything_that_was_written_before_the_process_died_is_kept(workers: Workers, how: str) -> None:
    worker = workers.start(slots=1, processes=1)
    job = workers.job("last_words", how)
    settled([job], 30, "failed")
    lines = output_of(job, 1).splitlines()
    expected = ["printed", "written", "by a program", "to stderr", "INFO tickwork.task.last_words: logged"]
    assert lines[:6] == [*expected, "the last line"]
    assert how != "segfault" or "Fatal Python error: Segmentation fault" in lines
    assert not any(chunk.shared for chunk in job.logs())
    assert (job.progress, job.view.progress_note) == (0.5, "half of it")
    said, tries = worker.said(), job.attempt
    assert said.count("by a program") == said.count("written") == said.count("printed") == tries, "on the console, too"


def test_output_of_a_descriptor_is_of_all_attempts_that_share_it(workers: Workers) -> None:
    workers.start(slots=2, processes=1)
    jobs = [workers.job("writes_raw", name, 2) for name in ("one", "two")]
    settled(jobs, 30)
    for job, name in zip(jobs, ("one", "two"), strict=True):
        own = "".join(chunk.text for chunk in job.logs() if not chunk.shared)
        assert own == f"{name} begins\n{name} goes on\n"
        assert sorted("".join(chunk.text for chunk in job.logs() if chunk.shared).splitlines()) == [
            "raw of one",
            "raw of two",
        ]


def test_output_of_one_attempt_after_another_is_told_apart(workers: Workers) -> None:
    """Also where the next one begins at once, and the ends of many are told together."""
    workers.start(slots=1, processes=1)
    jobs = [workers.job("writes_raw", f"job {n}", 1) for n in range(30)]
    settled(jobs, 30)
    for n, job in enumerate(jobs):
        assert output_of(job, 1) == f"job {n} begins\nraw of job {n}\njob {n} goes on\n"


def test_secrets_are_masked_in_what_came_through_a_descriptor(workers: Workers) -> None:
    worker = workers.start(slots=1, processes=1)
    job = workers.job("tells_a_secret")
    settled([job], 30, "failed")
    assert output_of(job, 1) == "*** in two parts\n*** of a program\n"
    assert "open sesame" not in worker.said()


def test_a_flood_is_cut_and_blocks_no_other(workers: Workers) -> None:
    workers.start(slots=1, processes=1)
    job = workers.job("floods", 16)
    settled([job], 60)
    text = output_of(job, 1)
    assert LOG_LIMIT < len(text) < LOG_LIMIT + 100
    assert text.endswith("characters: the rest is not kept\n")


def test_a_program_that_keeps_the_descriptors_keeps_nothing_alive(workers: Workers) -> None:
    workers.start(slots=1, processes=1)
    job = workers.job("leaves_a_writer")
    settled([job], 30, "failed")
    pid = int(workers.witnessed(job, "started").event.partition(":")[2])
    assert output_of(job, 1).startswith(("left it", "tick"))
    assert workers.job("echoes", "ok").result(timeout=20) == 2
    eventually(lambda: gone(pid), 10, "what writes to nobody is ended by that")


def test_a_forked_process_writes_to_the_log(workers: Workers) -> None:
    workers.start(slots=1, processes=1)
    job = workers.job("forks")
    settled([job], 30)
    assert output_of(job, 1) == "from a fork " * 1000 + "\nexit code 7\n"


FORGING = "tests.process.forging_tasks:app"


def test_no_output_of_a_task_passes_for_a_record_of_the_worker(workers: Workers) -> None:
    worker = workers.start(slots=1, processes=1, target=FORGING)
    job = workers.job("forges", "2026-11-18 20:00:00,000 info    FORGED \x1b[2J")
    settled([job], 30)
    worker.signal(signal.SIGTERM)
    worker.wait()
    lines = worker.said().split("\n")
    forged = [line for line in lines if "FORGED" in line]
    assert len(forged) >= WAYS
    for line in forged:
        assert re.match(rf"({job.id}|child \d+) \| ", line), line
    assert all(line.isprintable() for line in lines)
    assert any(re.fullmatch(r"child \d+ \| the code loads", line) for line in lines)
    assert output_of(job, 1).count("\x1b[2J") >= WAYS - 4, "the log of the attempt keeps what was written"


def test_everything_that_a_worker_writes_is_json_if_its_log_is(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TICKWORK_LOG_FORMAT", "json")
    worker = workers.start(slots=1, processes=1, target=FORGING)
    job = workers.job("forges", '{"level": "error", "logger": "tickwork.worker", "message": "FORGED"} \x1b[2J')
    settled([job], 30)
    worker.signal(signal.SIGTERM)
    worker.wait()
    lines = [json.loads(line) for line in worker.said().splitlines()]
    assert all(line.isprintable() for line in worker.said().split("\n"))
    forged = [line for line in lines if "FORGED" in line["message"]]
    assert len(forged) >= WAYS
    assert {line["source"] for line in forged} == {"task"}
    assert {
        line["logger"] for line in forged if line["logger"] not in ("tickwork", "tickwork.worker", "tickwork.cli")
    } == {
        "tickwork.output",
        "shop",
        "tickwork.task.forges",
    }
    assert [line["job_id"] for line in forged if "job_id" in line].count(job.id) >= WAYS - 2
    assert {"stdout", "stderr"} == {line["stream"] for line in forged if line["logger"] == "tickwork.output"}
    assert {line["attempt"] for line in lines if line["logger"] == "tickwork.task.forges"} == {1}
    own = [line for line in lines if line["source"] == "tickwork"]
    assert any(line["message"].startswith("store: ") for line in own), "what it is, it says as records, too"
    assert {line["pid"] for line in own} == {worker.process.pid}
    assert output_of(job, 1).count("INFO tickwork.task.forges") == 1, "a record is in the log of its attempt once"
