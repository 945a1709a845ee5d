"""Limits are exact whatever happens to workers and database, as a reader of the tables sees.

The storm lasts LIMIT_SECONDS, which is 5 unless the environment says otherwise; 120, with 20 workers on PostgreSQL, is
what we hold ourselves to.
"""

import os
import random
import signal
import time
from collections import Counter
from itertools import groupby
from typing import Any

import pytest

from tests.postgres_server import PostgresServer
from tests.process.harness import WorkerProcess, Workers
from tests.process.ledger import Ledger, Observer, Step
from tests.process.storm import LEASE_S, Storm
from tests.waiting import eventually
from tickwork.errors import StoreError

pytestmark = pytest.mark.process

SECONDS = int(os.environ.get("LIMIT_SECONDS", "5"))
SEED = int(os.environ.get("LIMIT_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
ACCOUNTS, LIMIT = "abcde", 3
BACKLOG = 150
TARGET = "tests.process.limited_tasks"


@pytest.fixture
def workers(watched_workers: Workers) -> Workers:
    return watched_workers


def top_up(workers: Workers, task: Any, rng: random.Random, ledger: Ledger) -> None:
    """Keep enough jobs waiting; jobs for a database that is down are inserted later."""
    try:
        if ledger.count("queue") < BACKLOG:
            task.enqueue_many([(rng.choice(ACCOUNTS), rng.uniform(0.02, 0.3)) for _ in range(BACKLOG)])
    except StoreError:
        pass


def most_at_once(steps: list[Step]) -> dict[str, int]:
    """The most leases of each key, as claims and ends follow each other."""
    live: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for step in steps:
        account = str(step.account)
        live[account] += 1 if step.what == "claim" else -1
        most[account] = max(most[account], live[account])
    assert set(live.values()) == {0}, f"a lease is left: {live}"
    return dict(most)


def most_handlers_at_once(workers: Workers, accepted: dict[tuple[str, int], str]) -> dict[str, int]:
    """The most handlers of each key at once, of those whose end was accepted: they had their lease all along."""
    events = [one for one in workers.witness.events() if one.key in accepted]
    live: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for one in sorted(events, key=lambda event: event.at_ns):
        account = accepted[one.key]
        live[account] += 1 if one.event == "start" else -1
        most[account] = max(most[account], live[account])
    return dict(most)


@pytest.mark.timeout(SECONDS + 240)
def test_no_limit_is_ever_exceeded_and_no_slot_is_lost_in_a_storm(
    workers: Workers, server: PostgresServer | None, ledger: Ledger, request: pytest.FixtureRequest
) -> None:
    print(f"LIMIT_SEED={SEED}")
    rng = random.Random(SEED)
    storm = Storm(workers, server, 20 if server and SECONDS >= 60 else 6, rng, TARGET)
    task = workers.app.named("visit")
    observer = Observer(ledger.url, LIMIT)
    request.addfinalizer(observer.stop)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        top_up(workers, task, rng, ledger)
        time.sleep(rng.uniform(0.05, 0.5))
        storm.strike()
    storm.resume(time.monotonic() + 60)
    heir = storm.start()
    workers.wait_for(heir)
    top_up(workers, task, rng, ledger)  # on a slow machine everything has ended meanwhile
    eventually(lambda: len(ledger.running()) >= LIMIT, 20, "jobs run")
    for worker in storm.alive:
        worker.kill_everything()
    killed, orphans = time.monotonic(), holders(ledger, heir)
    eventually(lambda: not orphans & ledger.running(), LEASE_S + 15, "no slot stays taken by the dead")
    freed_s = time.monotonic() - killed
    for _ in range(3):
        workers.wait_for(storm.start())
    eventually(lambda: ledger.count("queue") + ledger.count("running") == 0, 120, "everything ended, nothing is parked")

    seen = observer.stop()
    steps = ledger.steps()
    print(f"{ledger.kind}: {ledger.count('jobs'):,} jobs, {len(steps) // 2:,} claims, {dict(storm.did)}")
    print(f"samples: {seen}; {len(orphans)} orphans freed in {freed_s:.1f} s")
    assert seen["too_many"] == []
    assert max(seen["most"].values()) == LIMIT, "the limit was reached, and seen to be"
    assert set(most_at_once(steps).values()) == {LIMIT}
    assert freed_s < LEASE_S + 5
    ended_once(ledger)
    accepted = {(step.job, step.attempt): str(step.account) for step in last_steps(steps).values()}
    assert max(most_handlers_at_once(workers, accepted).values()) <= LIMIT
    assert [(one.live, one.held) for one in workers.app.limits() if "visit" in one.name] == [(0, 0)]


def holders(ledger: Ledger, heir: WorkerProcess) -> set[tuple[str, int]]:
    """The attempts of all workers but one."""
    pids = "SELECT r.job_id, r.attempt, w.pid FROM tickwork.running r JOIN tickwork.workers w ON w.id = r.worker"
    return {(str(job), attempt) for job, attempt, pid in ledger.read(pids) if pid != heir.pid}


def ended_once(ledger: Ledger) -> None:
    """Each job has succeeded, at its last attempt alone."""
    states = ledger.read("SELECT state, count(*) FROM tickwork.finished GROUP BY state")
    assert states == [("succeeded", ledger.count("jobs"))]
    assert ledger.read("SELECT * FROM tickwork.attempts WHERE state = 'succeeded'") == []


def last_steps(steps: list[Step]) -> dict[str, Step]:
    return {step.job: step for step in steps if step.what == "end"}


# -- rates


@pytest.mark.timeout(120)
def test_a_rate_holds_in_every_window_whatever_workers_do(workers: Workers, ledger: Ledger) -> None:
    print(f"LIMIT_SEED={SEED}")
    rng = random.Random(SEED)
    started = [workers.start(slots=10, processes=1, target=TARGET, wait=False) for _ in range(5)]
    for worker in started:
        workers.wait_for(worker)
    count = 50 * max(SECONDS // 2, 4)
    workers.app.named("call").enqueue_many([(n,) for n in range(count)])
    while ledger.count("finished") < count:
        (paused,) = rng.sample(started, 1)
        paused.signal(signal.SIGSTOP)
        time.sleep(rng.uniform(0.05, 0.5))
        paused.signal(signal.SIGCONT)
    starts = sorted(step.claimed_at for step in ledger.steps() if step.what == "claim")
    fullest = max(sum(at <= one < at + 1 for one in starts) for at in starts)
    took_s = starts[-1] - starts[0]
    print(f"{ledger.kind}: {len(starts)} starts in {took_s:.1f} s, at most {fullest} in a second")
    assert len(starts) == count
    assert 45 <= fullest <= 55


# -- sequences


@pytest.mark.timeout(120)
def test_a_sequence_is_in_order_and_one_at_a_time_while_workers_are_killed(workers: Workers, ledger: Ledger) -> None:
    print(f"LIMIT_SEED={SEED}")
    rng = random.Random(SEED)
    definer = workers.start(target=TARGET)
    definer.kill_everything()
    rows = [(account, rng.uniform(0, 0.1), rng.random() < 0.2) for account in ACCOUNTS for _ in range(4 * SECONDS)]
    rng.shuffle(rows)
    workers.app.named("post").enqueue_many(rows)
    storm = Storm(workers, None, 4, rng, TARGET)
    until = time.monotonic() + 90
    while ledger.count("queue") + ledger.count("running"):
        assert time.monotonic() < until, "everything ended"
        time.sleep(rng.uniform(0.2, 0.6))
        if sum(storm.did.values()) < 4 * SECONDS:
            storm.strike()
        storm.resume(time.monotonic())
    steps = ledger.steps()
    print(f"{ledger.kind}: {len(rows)} jobs, {len(steps) // 2} claims, {dict(storm.did)}")
    ended_once(ledger)
    assert set(most_at_once(steps).values()) == {1}
    for account in ACCOUNTS:
        in_order([step for step in steps if step.account == account])


def in_order(steps: list[Step]) -> None:
    """The jobs start in the order in which they were enqueued, and between two attempts of one no other starts."""
    claims = [step for step in steps if step.what == "claim"]
    first_places = {step.job: step.place for step in claims if step.attempt == 1}
    started = [job for job, _ in groupby(step.job for step in claims)]
    assert started == sorted(first_places, key=lambda job: first_places[job])
