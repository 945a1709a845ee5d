"""One true sentence for every situation that a job can be in."""

import traceback
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tickwork.core.ids import JobId
from tickwork.core.job import JobState, JobView, Policy, WorkerView
from tickwork.core.limits.breaker import breaker
from tickwork.core.limits.gates import Gate, Hold, read_gate
from tickwork.core.limits.job_limits import JobLimits, LimitKey, LimitUse
from tickwork.core.limits.limits import concurrency, rate, sequence
from tickwork.core.option_parsing import to_us
from tickwork.core.placement import read_offer
from tickwork.core.recurrence.zones import EPOCH
from tickwork.core.why import RUNNABLE, explain, gist

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
    creator=None,
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
    occurrence=None,
    job_limits=None,
)
WORKER = WorkerView("w1", "host", 1, "0", ("mail",), ("send",), 2, "running", NOW, NOW + MINUTE, 0)


def runnable(job: JobView, now: datetime, hold: Hold | None = None, gates: Sequence[Gate] = ()) -> bool:
    """Return whether a claim by a worker that serves everything would take the job."""
    return explain(job, (), now, hold, gates).startswith(RUNNABLE)


def why(*workers: WorkerView, **changed: Any) -> str:
    return explain(replace(JOB, **changed), workers, NOW)


def test_a_job_waits_for_its_time() -> None:
    said = why(WORKER, run_at=NOW + 90 * MINUTE)
    assert said == "it waits for its time: due in 1h30m, at 2026-11-15 13:30:00 UTC"


def test_a_job_waits_for_its_retry() -> None:
    assert "it waits for its retry after failure 2: due in 1m" in why(WORKER, run_at=NOW + MINUTE, failures=2)


def test_a_job_whose_deadline_passed_is_about_to_expire() -> None:
    assert why(WORKER, expires_at=NOW) == "its deadline has passed; it is about to end as expired"


def test_a_job_that_no_worker_can_run_says_what_to_start() -> None:
    assert why() == f"{RUNNABLE}, but no worker is running; start one: tickwork worker MODULE_OR_FILE"


@pytest.mark.parametrize("state", ["lost", "draining"])
def test_a_worker_that_takes_no_jobs_does_not_count(state: str) -> None:
    assert "no worker is running" in why(replace(WORKER, state=state))


def test_a_queue_that_no_worker_serves_is_named() -> None:
    said = why(replace(WORKER, queues=("default", "bulk")))
    assert "no worker serves its queue 'mail' (they serve: bulk, default); start one with -q mail" in said


def test_a_task_that_is_not_known_is_named() -> None:
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


def held(
    rule: Any, key: str = "", gate: Gate | None = None, job_limits: JobLimits | None = None, **changed: Any
) -> str:
    hold = Hold(LimitKey("stripe", key), rule, gate, None, 0, (), 0)
    return explain(replace(JOB, job_limits=job_limits), [WORKER], NOW, replace(hold, **changed))


def a_gate(kind: str, **given: Any) -> Gate:
    return read_gate(kind, {"task": "send", "by": "ada@host", **given}, to_us(NOW - EPOCH))


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            held(concurrency(2), "acme", live=2, holders=(JobId("7"), JobId("8")), ahead=1200),
            "it waits for the limit 'stripe', 2 at once for 'acme': 2 taken, by 7, 8; 1,200 jobs wait ahead of it",
        ),
        (
            held(sequence("k"), "acme", live=1, holders=(JobId("7"),), ahead=1),
            "it waits for the limit 'stripe', one at a time, in order for 'acme': 1 taken, by 7; "
            "1 job waits ahead of it",
        ),
        (
            held(sequence("k"), "acme", head=JobId("7"), head_due=NOW + 9 * MINUTE, ahead=1),
            "it waits for the limit 'stripe', one at a time, in order for 'acme': job 7, which comes before it, waits "
            "for its next attempt: due in 9m, at 2026-11-15 12:09:00 UTC; 1 job waits ahead of it",
        ),
        (
            held(sequence("k"), "acme", head=JobId("7"), head_due=NOW),
            "it waits for the limit 'stripe', one at a time, in order for 'acme': job 7, which comes before it, waits "
            "for its next attempt: due now",
        ),
        (held(concurrency(2)), "it waits for the limit 'stripe', 2 at once: others go first"),
        (
            held(rate("100/15m", burst=5), opens_at=NOW + 9 * MINUTE),
            "it waits for the limit 'stripe', 100/15m, burst 5: it opens in 9m, at 2026-11-15 12:09:00 UTC",
        ),
        (held(rate("10/s"), opens_at=NOW), "it waits for the limit 'stripe', 10/s, burst 1: it opens now"),
        (
            held(breaker(), opens_at=NOW + MINUTE),
            "it waits for the breaker 'stripe', 50 failures in 1m pause 5m: "
            "one job tries in 1m, at 2026-11-15 12:01:00 UTC",
        ),
        (
            held(concurrency(2), "acme", job_limits=JobLimits(uses=(LimitUse("stripe", "acme", 3),))),
            "it weighs 3, which is more than the limit 'stripe', 2 at once for 'acme', ever lets through; "
            "raise the limit, or cancel it",
        ),
        (held(None), "it waited for the limit 'stripe', which is gone; it is about to be let through"),
        (
            held(rate("5/s"), gate=a_gate("slow", rate="5/s"), opens_at=NOW + MINUTE, ahead=2),
            "the gate 'slow task=send' (by ada@host) slows it down to 5/s: it opens in 1m, at 2026-11-15 12:01:00 UTC; "
            "2 jobs wait ahead of it",
        ),
        (
            held(None, gate=a_gate("pause", until="1h", reason="the bank is closed")),
            "the gate 'pause task=send' (by ada@host, the bank is closed) pauses it until 2026-11-15 13:00:00 UTC",
        ),
    ],
)
def test_what_holds_a_job_is_named_with_who_is_inside_and_when_it_opens(said: str, sentence: str) -> None:
    assert said == sentence


@pytest.mark.parametrize(
    ("kind", "given", "sentence"),
    [
        ("pause", {}, "the gate 'pause task=send' (by ada@host) pauses it until it is resumed"),
        ("drop", {}, "the gate 'drop task=send' (by ada@host) drops it; it is about to end as dropped"),
    ],
)
def test_a_gate_that_would_hold_a_job_is_named_before_any_claim_met_it(
    kind: str, given: dict[str, Any], sentence: str
) -> None:
    gates = [a_gate(kind, **given), a_gate("pause", task="other")]
    assert explain(JOB, [WORKER], NOW, None, gates) == sentence
    assert not runnable(JOB, NOW, None, gates)


def test_a_job_that_a_gate_diverts_is_judged_in_the_other_queue() -> None:
    divert, spare = a_gate("divert", to="spare"), replace(WORKER, queues=("spare",))
    assert explain(JOB, [spare], NOW, None, [divert]) == (
        f"{RUNNABLE} in the queue 'spare', where the gate 'divert task=send' (by ada@host) sends it, "
        f"but no worker has taken it yet"
    )
    assert "no worker serves its queue 'spare'" in explain(JOB, [WORKER], NOW, None, [divert])
    paused = a_gate("pause", task=None, queue="spare")
    assert "the gate 'pause queue=spare'" in explain(JOB, [spare], NOW, None, [divert, paused])
    assert runnable(JOB, NOW, None, [divert])
    assert not runnable(JOB, NOW, None, [divert, paused])


def test_gates_for_others_gates_that_ended_and_those_that_only_slow_down_keep_nothing() -> None:
    gates = [a_gate("pause", tenant="acme"), a_gate("pause", until="1s"), a_gate("slow", rate="5/s")]
    later = NOW + MINUTE
    assert runnable(JOB, later, None, gates)
    assert not runnable(replace(JOB, job_limits=JobLimits(tenant="acme")), later, None, gates)


def test_needs_that_no_worker_offers_are_named_with_what_to_start() -> None:
    needy = JobLimits(needs="cpu=2 gpu mem=8000000000 region:eu")
    said = why(WORKER, job_limits=needy)
    assert said == (
        f"{RUNNABLE}, but no worker that knows its task has what it needs (cpu=2 gpu mem=8000000000 region:eu); "
        f"start one with --label gpu --label region:eu --resource cpu=2,mem=8000000000"
    )
    able = replace(WORKER, offer=read_offer(["region:eu"], "cpu=4,mem=16GB,gpu=1"))
    assert why(WORKER, able, job_limits=needy) == f"{RUNNABLE}, but no worker has taken it yet"
    assert "all 2 slots of the 1 worker(s)" in why(WORKER, replace(able, running=2), job_limits=needy)


def test_it_can_run_exactly_from_its_time_until_its_deadline() -> None:
    def can_run(**changed: Any) -> bool:
        job = replace(JOB, **changed)
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


REMOTE = replace(WORKER, id="bash-1/1", host="bash-1", pid=0, slots=1, state="remote", running=1)


def test_a_running_one_names_the_worker_that_has_it_over_rest() -> None:
    said = why(REMOTE, state=JobState.RUNNING, worker="bash-1/1", attempt=2, started_at=NOW - MINUTE)
    assert said == "it is running: attempt 2 on bash-1 for 1m"


def test_workers_over_rest_count_while_they_work() -> None:
    assert why(REMOTE).endswith("all 1 slots of the 1 worker(s) that can run it are taken")
    assert why(replace(REMOTE, tasks=())).endswith("all 1 slots of the 1 worker(s) that can run it are taken")
    assert "knows the task 'send'" in why(replace(REMOTE, tasks=("other",)))
