"""Workers that claim side by side keep each other busy, and none stands idle beside jobs that it could start."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.process.harness import Workers
from tests.process.witness import Event
from tests.waiting import eventually

pytestmark = pytest.mark.process

ACCOUNTS, JOBS, LAST = 40, 2_400, 200
LONGEST_S = 4.0  # a worker that finds nothing looks again after 5 s


def longest_gap_s(starts: list[Event], until_ns: int) -> float:
    """The longest time in which a process started nothing, from its first start on."""
    by_process: dict[int, list[int]] = defaultdict(list)
    for one in starts:
        by_process[one.pid].append(one.at_ns)
    gaps = [
        later - earlier
        for times in by_process.values()
        for earlier, later in zip(times, [*times[1:], until_ns], strict=True)
    ]
    return max(gaps) / 1e9


@pytest.mark.timeout(180)
@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
def test_no_worker_stands_idle_beside_hundreds_of_jobs_under_free_keys(workers: Workers) -> None:
    post = workers.app.task(name="post", sequence="account")(_post)
    accounts = [f"account{number % ACCOUNTS}" for number in range(JOBS)]
    post.enqueue_many([(account, 0.05, False) for account in accounts])
    for _ in range(3):
        workers.start(slots=8, processes=1, target="tests.process.limited_tasks", wait=False)
    eventually(lambda: len(workers.witness.events(event="start")) >= JOBS - LAST, 120, "all but the last jobs started")
    starts = sorted(workers.witness.events(event="start"), key=lambda one: one.at_ns)[: JOBS - LAST]
    assert len({one.pid for one in starts}) == 3
    assert longest_gap_s(starts, starts[-1].at_ns) < LONGEST_S


def _post(account: str, seconds: float, fails: bool) -> None:
    """What is enqueued; workers run the one of limited_tasks.py."""
