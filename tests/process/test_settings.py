"""Settings of the environment in real workers."""

from datetime import timedelta

import pytest

from tests.process.harness import Workers, settled
from tests.waiting import eventually

pytestmark = pytest.mark.process


def test_the_lease_is_a_setting(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TICKWORK_LEASE", "3s")
    first = workers.start(slots=1, processes=1)
    job = workers.job("work", n=1, seconds=5)
    workers.witnessed(job)
    first.kill_everything()
    workers.start(slots=1, processes=1)
    eventually(lambda: job.attempt == 2, 20, "the lease of 3 s is over, not one of 30 s")


def test_retention_is_a_setting(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TICKWORK_RETENTION", "1s")
    first = workers.start(slots=1, processes=1)
    job = workers.job("work", n=1)
    settled([job], 20)
    first.kill_everything()
    ended_at = job.view.ended_at
    assert ended_at is not None
    eventually(lambda: workers.app.store.now() > ended_at + timedelta(seconds=1), 5)
    workers.start(slots=1, processes=1)  # a pruner looks when it begins, and then once a minute
    eventually(lambda: workers.app.job(job.id) is None, 20, "it is pruned after a second, not after 7 days")
