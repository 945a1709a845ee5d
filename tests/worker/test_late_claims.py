"""A claim that was not answered, and is carried out long after the worker gave up waiting for it."""

from datetime import timedelta
from typing import Any

import pytest

from tests.worker.mock_pools import TASK, Pools, insert
from tests.worker.quiet import bare_worker
from tickwork.core.ids import JobId
from tickwork.core.job import JobState
from tickwork.errors import StoreUnreachable
from tickwork.store.sqlite import SqliteStore
from tickwork.testing import VirtualClock
from tickwork.worker.lease import Lease

LEASE = timedelta(seconds=30)
JOB = JobId("019a8f3e-1c2d-7abc-8def-000000000001")


def unanswered(*args: Any, **named: Any) -> Any:
    raise StoreUnreachable("no answer within 10 s")


def test_what_a_stopped_server_claims_when_it_goes_on_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock()
    store = SqliteStore(":memory:", clock=clock)
    lease = Lease(LEASE)
    worker = bare_worker(store, Pools(), [TASK], lease, clock, slots=4)
    worker.tick(clock.monotonic())
    with monkeypatch.context() as silent:
        silent.setattr(store, "exchange", unanswered)
        silent.setattr(store, "open_attempts", unanswered)
        for _ in range(30):  # for longer than a lease
            with pytest.raises(StoreUnreachable):
                worker.tick(clock.monotonic())
            clock.advance(timedelta(seconds=10))
            lease.until = clock.monotonic() + LEASE.total_seconds()  # it holds its jobs
    assert lease.worker is not None
    store.renew_lease(lease.worker, LEASE)
    with monkeypatch.context() as quiet:
        quiet.setattr(worker, "quiet", True)
        worker.tick(clock.monotonic())  # the store answers again, and has nothing that is not known
        insert(store, 1)
        assert len(store.claim_jobs(lease.worker, ["default"], ["t"], 1).jobs) == 1, "the late claim"
        clock.advance(timedelta(seconds=5))
        worker.tick(clock.monotonic())
    assert store.reads.get_jobs([JOB])[JOB].state is JobState.QUEUED
    assert [one.state for one in store.reads.attempts(JOB)] == ["released"]
