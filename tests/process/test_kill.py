"""Workers killed with -9 at random moments: nothing is lost, and no superseded result is accepted."""

import os
import random
import signal
import time

import pytest

from tests.process.harness import WorkerProcess, Workers, consistent, gone, settled
from tests.process.witness import Event
from tests.waiting import eventually
from tickwork import Job

pytestmark = pytest.mark.process

KILLS, JOBS = 50, 500
LEASE_S = 2.0


class Reign:
    """Keeps two workers alive, and kills processes of theirs while they run jobs."""

    def __init__(self, workers: Workers, rng: random.Random) -> None:
        self.workers = workers
        self.rng = rng
        self.alive = [self.start(), self.start()]
        for worker in self.alive:
            workers.wait_for(worker)
        self.kills: dict[str, int] = {"child": 0, "supervisor": 0, "everything": 0}
        self.killed_with: dict[str, int] = {}
        self.dead: list[int] = []

    def start(self) -> WorkerProcess:
        return self.workers.start(slots=4, processes=2, lease_s=LEASE_S, wait=False)

    def kill_one(self) -> None:
        """Kill a process that runs an attempt right now, and have it replaced."""
        victim, worker = eventually(self._victim, 30, "an attempt runs")
        how = self.rng.choice(list(self.kills))
        children = worker.children()
        if how == "child":
            os.kill(victim.pid, signal.SIGKILL)
        elif how == "supervisor":
            worker.kill()
        else:
            worker.kill_everything()
        eventually(lambda: gone(victim.pid), 5, "what was killed is gone")
        if how != "child":
            self.dead += children
            self.alive.remove(worker)
            self.alive.append(self.start())
        self.killed_with[victim.job] = self.killed_with.get(victim.job, 0) + 1
        ended = any(one.attempt == victim.attempt for one in self.workers.witness.events(victim.job, "end"))
        self.kills[how] += not ended  # else its end was told before the blow fell: that was no hit

    def _victim(self) -> tuple[Event, WorkerProcess] | None:
        """A running attempt and its worker. No job is hit a third time: dying alone so often would be its own fault."""
        holders = {child: worker for worker in self.alive for child in worker.children()}
        running = [
            one for one in self.workers.witness.running() if one.pid in holders and self.killed_with.get(one.job, 0) < 2
        ]
        if not running:
            return None
        chosen = self.rng.choice(running)
        return chosen, holders[chosen.pid]


@pytest.mark.timeout(240)
def test_kills_at_random_moments_lose_nothing(workers: Workers) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    reign = Reign(workers, rng)
    task, jobs = workers.app.named("work"), list[Job]()
    while sum(reign.kills.values()) < KILLS:
        rows = [{"n": len(jobs) + n, "seconds": rng.uniform(0.02, 0.3)} for n in range(JOBS // KILLS)]
        jobs += task.enqueue_many(rows)
        time.sleep(rng.uniform(0, 0.1))  # the random moment
        reign.kill_one()
    jobs += task.enqueue_many([{"n": n} for n in range(len(jobs), JOBS)])
    print(f"kills: {reign.kills}")

    settled(jobs, within_s=90)
    assert len(jobs) == len({job.id for job in jobs}) >= JOBS
    assert {job.result()["n"] for job in jobs} == set(range(len(jobs)))
    told = {(one.job, one.attempt, one.pid) for one in workers.witness.events(event="end")}
    for job in jobs:
        consistent(job)
        assert job.view.failures == 0
        assert (job.id, job.attempt, job.result()["pid"]) in told, "the accepted result is one that a handler returned"
    assert len(workers.witness.events(event="start")) >= JOBS + KILLS
    eventually(lambda: all(map(gone, reign.dead)), 5, "no child outlives its supervisor")
    assert workers.app.jobs(state="running") == []


@pytest.mark.parametrize("how", ["child", "supervisor", "everything"])
def test_what_a_handler_started_dies_with_it(workers: Workers, how: str) -> None:
    worker = workers.start(lease_s=LEASE_S)
    job = workers.job("with_grandchild")
    event = workers.witnessed(job, "started")
    grandchild = int(event.event.partition(":")[2])
    assert not gone(grandchild)
    children = worker.children()
    began = time.monotonic()
    if how == "child":
        os.kill(event.pid, signal.SIGKILL)
    elif how == "supervisor":
        worker.kill()
    else:
        worker.kill_everything()
    eventually(lambda: gone(grandchild), 5, "the grandchild is gone")
    eventually(lambda: gone(event.pid), 5)
    assert time.monotonic() - began < 2
    if how != "child":
        eventually(lambda: all(map(gone, children)), 5)


def test_an_orphan_is_taken_over_within_its_lease_and_five_seconds(workers: Workers) -> None:
    victim = workers.start(lease_s=LEASE_S)
    jobs = [workers.job("work", n=n, seconds=5) for n in range(4)]
    for job in jobs:
        workers.witnessed(job)
    workers.start(lease_s=LEASE_S)
    victim.kill()
    killed = time.monotonic_ns()
    for job in jobs:
        again = eventually(
            lambda job=job: [one for one in workers.witness.events(job.id, "start") if one.attempt == 2], 20
        )
        assert (again[0].at_ns - killed) / 1e9 < LEASE_S + 5
    settled(jobs, within_s=30)
    for job in jobs:
        consistent(job)
        assert [one.state for one in job.attempts()] == ["lost", "succeeded"]
        assert job.view.failures == job.view.crashes == 0


def test_a_worker_killed_between_its_claim_and_its_first_heartbeat_holds_nothing_for_long(workers: Workers) -> None:
    """Its lease runs from the claim itself: there is no moment at which a job is running without an end in sight."""
    for _ in range(3):
        job = workers.job("work", n=1, seconds=1000)
        worker = workers.start(lease_s=LEASE_S, wait=False)
        eventually(lambda job=job: job.state == "running", 20)
        worker.kill_everything()
        job.cancel()
    workers.start(lease_s=LEASE_S)
    eventually(lambda: workers.app.jobs(state="running") == [], 20, "nothing stays running for ever")


def test_children_that_die_while_they_load_are_replaced_and_no_job_is_charged(workers: Workers) -> None:
    worker = workers.start(processes=1, slots=2)
    for _ in range(3):
        jobs = [workers.job("work", n=n, seconds=0.3) for n in range(4)]
        workers.witnessed(jobs[0])
        for _ in range(2):  # the one that serves, and then the next one while it imports
            (child, *_) = eventually(worker.children, 10)
            os.kill(child, signal.SIGKILL)
            eventually(lambda child=child: gone(child), 5)
        settled(jobs, within_s=30)
        assert [job.view.failures for job in jobs] == [0] * 4
    assert worker.is_running()
