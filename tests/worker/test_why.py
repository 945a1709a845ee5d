"""`why` is true in each situation, and says "it can run now" exactly when a claim would take the job."""

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.waiting import eventually
from tickwork import Tickwork, current_job
from tickwork.core.ids import WorkerId
from tickwork.core.why import RUNNABLE
from tickwork.store.base import LEASE, WorkerRegistration


def test_why_is_true_in_each_situation(app: Tickwork) -> None:
    running, go_on = threading.Event(), threading.Event()

    @app.task(retries=1, backoff="1h")
    def work(how: str) -> None:
        if how == "waits":
            running.set()
            go_on.wait(20)
        if how == "fails" and current_job().attempt == 1:
            raise ValueError("the first time")

    job = work.enqueue("waits")
    assert job.why().startswith(f"{RUNNABLE}, but no worker is running")
    assert work.options(delay="1h").enqueue("").why().startswith("it waits for its time: due in 59m")

    with app.worker(concurrency=1):
        assert running.wait(10)
        elsewhere = work.options(queue="bulk").enqueue("")
        assert f"{RUNNABLE}, but no worker serves its queue 'bulk' (they serve: default)" in elsewhere.why()
        unknown = app.enqueue("other")
        assert f"{RUNNABLE}, but no worker of queue 'default' knows the task 'other'" in unknown.why()
        next_one = work.enqueue("")
        assert next_one.why() == f"{RUNNABLE}, but all 1 slots of the 1 worker(s) that can run it are taken"

        (worker,) = app.store.reads.workers()
        assert job.why().startswith(f"it is running: attempt 1 on {worker.host}:{worker.pid} for ")
        job.cancel()
        assert job.why().endswith("; it was asked to stop")
        go_on.set()
        assert job.wait(timeout=10) == "cancelled"
        assert "it ended as cancelled" in job.why()
        assert next_one.wait(timeout=10) == "succeeded"
        assert "it ended as succeeded" in next_one.why()

        failing = work.enqueue("fails")
        eventually(lambda: failing.view.failures == 1)
        assert failing.why().startswith("it waits for its retry after failure 1: due in ")
        failing.retry()
        assert failing.wait(timeout=10) == "succeeded"

    late = work.options(expires=datetime(2020, 1, 1, tzinfo=UTC)).enqueue("")
    assert late.why() == "its deadline has passed; it is about to end as expired"


# -- the two together: what `why` says of a job, and what a claim does with it

moments = st.sampled_from([timedelta(0), timedelta(microseconds=1), timedelta(milliseconds=2), timedelta(hours=1)])
asked = st.fixed_dictionaries(
    {},
    optional={
        "delay": moments,
        "expires": moments | st.just(datetime(2020, 1, 1, tzinfo=UTC)),
        "priority": st.integers(0, 9),
        "queue": st.sampled_from(["default", "mail"]),
    },
)
histories = st.lists(st.tuples(asked, st.sampled_from(["", "cancel", "claim", "retry"])), min_size=1, max_size=6)


@pytest.fixture
def shared(app: Tickwork) -> Tickwork:
    app.store.register_worker(
        WorkerRegistration(WorkerId("w"), "host", 1, "0", ("default", "mail"), ("work",), 1), [], LEASE
    )
    return app


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])  # one store does for all
@given(history=histories)
def test_why_says_that_it_can_run_exactly_when_a_claim_takes_it(shared: Tickwork, history: list[Any]) -> None:
    jobs = [shared.named("work").options(**options).enqueue() for options, _ in history]
    for job, (_, happens) in zip(jobs, history, strict=True):
        if happens == "cancel":
            job.cancel()
        elif happens == "retry":
            job.retry()
        elif happens == "claim":
            claim(shared, limit=1)
    time.sleep(0.006)  # past the sum of two short moments, so that no instant lies between the question and the claim
    said = {job.id for job in jobs if job.why().startswith(RUNNABLE)}
    taken = claim(shared, limit=1000)
    assert said == taken & {job.id for job in jobs}
    assert not any(job.why().startswith(RUNNABLE) for job in jobs)


def claim(app: Tickwork, limit: int) -> set[str]:
    """Claim as a worker that serves everything."""
    claims = app.store.claim_jobs(WorkerId("w"), ["mail", "default"], ["work"], limit)
    return {str(job.job_id) for job in claims.jobs}
