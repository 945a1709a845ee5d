"""One true sentence for every situation that a job can be in."""

import traceback
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tickwork.core.ids import JobId
from tickwork.core.job import JobState, JobView, Policy, WorkerView
from tickwork.core.why import RUNNABLE, explain, gist, runnable

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
JOB = JobView(
    id=JobId("1"),
    task="send",
    queue="mail",
    priority=5,
    state=JobState.QUEUED,
    args=b"{}",
    policy=Policy(),
    key=None,
    collection=None,
    labels=(),
    parent=None,
    trace=None,
    created_at=NOW - MINUTE,
    run_at=NOW - MINUTE,
    expires_at=None,
    attempt=0,
    failures=0,
    crashes=0,
    alone=False,
    worker=None,
    started_at=None,
    ended_at=None,
    cancel_requested=False,
    progress=None,
    progress_note=None,
    result=None,
    error=None,
    discarded=False,
    tick=None,
    flow=None,
)
WORKER = WorkerView("w1", "host", 1, "0", ("mail",), ("send",), 2, "running", NOW, NOW + MINUTE, 0)


def why(*workers: WorkerView, **changed: Any) -> str:
    return explain(replace(JOB, **changed), workers, NOW)


def test_a_job_waits_for_its_time() -> None:
    said = why(WORKER, run_at=NOW + 90 * MINUTE)
    assert said == "it waits for its time: due in 1h30m, at 2026-11-15 13:30:00 UTC"


def test_a_job_waits_for_its_retry() -> None:
    assert "it waits for its retry after failure 2: due in 1m" in why(WORKER, run_at=NOW + MINUTE, failures=2)


def test_a_job_whose_deadline_passed_is_about_to_expire() -> None:
    assert why(WORKER, expires_at=NOW) == "its deadline has passed; it is about to end as expired"


def test_a_job_that_nobody_could_run_says_what_to_start() -> None:
    assert why() == f"{RUNNABLE}, but no worker is running; start one: tickwork worker MODULE_OR_FILE"


@pytest.mark.parametrize("state", ["lost", "draining"])
def test_a_worker_that_takes_no_jobs_does_not_count(state: str) -> None:
    assert "no worker is running" in why(replace(WORKER, state=state))


def test_a_queue_that_nobody_serves_is_named() -> None:
    said = why(replace(WORKER, queues=("default", "bulk")))
    assert "no worker serves its queue 'mail' (they serve: bulk, default); start one with -q mail" in said


def test_a_task_that_nobody_knows_is_named() -> None:
    assert "no worker of queue 'mail' knows the task 'send'" in why(replace(WORKER, tasks=("other",)))


def test_a_task_known_only_in_another_queue_is_not_known_here() -> None:
    elsewhere = replace(WORKER, queues=("default",))
    assert "knows the task" in why(replace(WORKER, tasks=("other",)), elsewhere)


def test_all_slots_may_be_taken() -> None:
    said = why(replace(WORKER, running=2), replace(WORKER, id="w2", running=3), replace(WORKER, tasks=()))
    assert said == f"{RUNNABLE}, but all 4 slots of the 2 worker(s) that can run it are taken"


def test_a_job_may_be_about_to_be_taken() -> None:
    assert why(WORKER) == f"{RUNNABLE}, but no worker has taken it yet"


def test_a_running_job_says_where_and_since_when() -> None:
    said = why(state=JobState.RUNNING, attempt=2, worker="w1", started_at=NOW - MINUTE)
    assert said == "it is running: attempt 2 on worker w1 for 1m"


def test_a_running_job_that_was_cancelled_says_so() -> None:
    said = why(state=JobState.RUNNING, attempt=1, worker="w1", started_at=NOW, cancel_requested=True)
    assert said.endswith("; it was asked to stop")


def test_an_ended_job_says_how_it_ended_with_the_last_line_of_its_error() -> None:
    error = "Traceback (most recent call last):\n  ...\nValueError: no such card\n"
    said = why(state=JobState.FAILED, attempt=3, ended_at=NOW, error=error)
    assert said == "it ended as failed at 2026-11-15 12:00:00 UTC after 3 attempt(s): ValueError: no such card"


def test_of_a_group_of_exceptions_the_last_one_is_told() -> None:
    group = ExceptionGroup("two", [ValueError("one"), TypeError("other")])
    assert gist("".join(traceback.format_exception(group))) == "TypeError: other"


def test_a_very_long_line_is_cut() -> None:
    assert len(gist("ValueError: " + "x" * 10_000)) == 300


@pytest.mark.parametrize("error", [None, "", " \n ", "+---\n"])
def test_an_ended_job_without_an_error_just_says_how_it_ended(error: str | None) -> None:
    said = why(state=JobState.SUCCEEDED, attempt=1, ended_at=NOW, error=error)
    assert said == "it ended as succeeded at 2026-11-15 12:00:00 UTC after 1 attempt(s)"


def test_it_can_run_exactly_from_its_time_until_its_deadline() -> None:
    def can_run(**changed: Any) -> bool:
        job = replace(JOB, **changed)
        assert runnable(job, NOW) == explain(job, (), NOW).startswith(RUNNABLE)
        return runnable(job, NOW)

    moment = timedelta(microseconds=1)
    assert can_run(run_at=NOW)
    assert not can_run(run_at=NOW + moment)
    assert can_run(expires_at=NOW + moment)
    assert not can_run(expires_at=NOW)
    assert not can_run(state=JobState.RUNNING)
    assert not can_run(state=JobState.SUCCEEDED)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("ValueError: x", "ValueError: x"),
        (
            'Traceback (most recent call last):\n  File "a.py", line 1\n    f()\nValueError: first\nLINE 1: x\n   ^',
            "ValueError: first",
        ),
        ("its worker went silent", "its worker went silent"),
        ("", ""),
    ],
)
def test_the_gist_of_an_error_is_the_line_that_names_it(error: str, told: str) -> None:
    assert gist(error) == told
