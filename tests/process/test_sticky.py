"""Jobs of one key run in the same process of the same worker, and go elsewhere when that one is gone."""

import signal
import time
from collections import Counter

import pytest

from tests.process.harness import Workers, settled
from tickwork import Job

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]
ACCOUNTS = [f"account-{n}" for n in range(60)]


def places(workers: Workers, rounds: int) -> dict[str, Counter[int]]:
    """In which processes the jobs of each account ran, when they come in one after the other."""
    jobs: list[tuple[str, Job]] = []
    for _ in range(rounds):
        for account in ACCOUNTS:
            jobs.append((account, workers.job("sticks", account=account)))
            time.sleep(0.01)  # else all slots of a process are taken now and then, and its jobs run elsewhere
    settled([job for _, job in jobs], within_s=30)
    return {one: Counter(job.result() for account, job in jobs if account == one) for one in ACCOUNTS}


def at_home(found: dict[str, Counter[int]]) -> dict[str, int]:
    """The process of each account. Some of its jobs may have run elsewhere, for it had no free slot in time."""
    strays = sum(counts.total() - max(counts.values()) for counts in found.values())
    assert strays <= sum(counts.total() for counts in found.values()) // 10
    return {account: counts.most_common(1)[0][0] for account, counts in found.items()}


def test_jobs_of_a_key_run_in_one_process_until_its_worker_leaves(workers: Workers) -> None:
    staying, leaving = workers.start(slots=8, processes=2), workers.start(slots=8, processes=2)
    time.sleep(1.1)  # a worker looks once a second who the others are
    before = at_home(places(workers, 6))
    assert set(before.values()) == {*staying.children(), *leaving.children()}, "and all processes have some"
    leaving.signal(signal.SIGTERM)
    assert leaving.wait(15) == 0
    after = at_home(places(workers, 6))
    stayed = [account for account in ACCOUNTS if before[account] in staying.children()]
    assert len(stayed) < len(ACCOUNTS)
    assert {account: after[account] for account in stayed} == {account: before[account] for account in stayed}
