"""Exactly once: schedulers that are killed every second fire what the rules say, nothing missed and nothing twice.

The oracle shares no code with the scheduler: it knows the periods, counts seconds, and reads the tables itself. It runs
for SCHEDULE_SECONDS, which is 20 unless the environment says otherwise; 180 is what we hold ourselves to.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from tests.process.harness import die_with_the_tests
from tests.process.ledger import sqlite_connection
from tests.waiting import eventually
from tickwork import Tickwork
from tickwork.core.recurrence.cron import cron
from tickwork.core.recurrence.interval import every
from tickwork.core.schedule.spec import ScheduleSpec, new_spec

pytestmark = pytest.mark.process

SECONDS = int(os.environ.get("SCHEDULE_SECONDS", "20"))
PERIODS = [1, 1, 1, 2, 3, 5, 7, 10, 13, 20, 30, 60]
CRONS = {1: "* * * * * *", 2: "*/2 * * * * *", 5: "*/5 * * * * *", 10: "*/10 * * * * *", 30: "*/30 * * * * *"}
COUNT = 50
ROOT = Path(__file__).parents[2]


class Crowd:
    """Schedulers on one store, of which any may be killed and restarted."""

    def __init__(self, url: str, size: int) -> None:
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self._environment = {**os.environ, "PYTHONPATH": path}
        self._url = url
        self._processes = [self._start() for _ in range(size)]
        self.kills = 0

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.process.scheduler_process", self._url],
            stdin=subprocess.PIPE,
            env=self._environment,
            cwd=ROOT,
            preexec_fn=die_with_the_tests,  # noqa: PLW1509  # started before any thread is
        )

    def kill_one(self, rng: random.Random) -> None:
        """Kill one with -9, at whatever moment this is, and start another in its place."""
        at = rng.randrange(len(self._processes))
        assert self._processes[at].poll() is None, "a scheduler ended by itself"
        self._end(self._processes[at])
        self._processes[at] = self._start()
        self.kills += 1

    def close(self) -> None:
        for process in self._processes:
            self._end(process)

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        if process.stdin is not None:
            process.stdin.close()


@contextmanager
def crowd(url: str, size: int) -> Iterator[Crowd]:
    found = Crowd(url, size)
    try:
        yield found
    finally:
        found.close()


def schedules(start: datetime, end: datetime) -> tuple[list[ScheduleSpec], dict[str, int]]:
    """Schedules from every second to every minute, and the period of each in seconds."""
    policies = {"start": start, "end": end, "catchup": "all", "overlap": "allow"}
    specs, periods = [], {}
    for n in range(COUNT):
        by_cron = n % 3 == 0
        seconds = list(CRONS)[n % len(CRONS)] if by_cron else PERIODS[n % len(PERIODS)]
        rule = cron(CRONS[seconds]) if by_cron else every(f"{seconds}s")
        name = f"{'cron' if by_cron else 'every'}-{n}"
        specs.append(new_spec(name, "t", rule, **policies))
        periods[name] = seconds
    return specs, periods


def expected(name: str, seconds: int, start: int, end: int) -> list[int]:
    """Seconds since the epoch at which a schedule is due, counted one by one."""
    anchor = 0 if name.startswith("cron") else start  # cron counts from the full minute, a rate from its start
    return [at for at in range(start, end + 1) if (at - anchor) % seconds == 0]


def recorded(url: str) -> list[tuple[str, float, str, str | None]]:
    """Every fire, and every job that a schedule made, read from the tables themselves."""
    if url.startswith("sqlite"):
        connection = sqlite_connection(url)
        rows = connection.execute("SELECT schedule, due_at / 1e6, action, job_id FROM tickwork_fires").fetchall()
        connection.close()
        return rows
    with psycopg.connect(url) as postgres:
        query = "SELECT schedule, extract(epoch FROM due_at)::float8, action, job_id::text FROM tickwork.fires"
        return list(postgres.execute(query).fetchall())


def stored_jobs(url: str) -> list[str]:
    if url.startswith("sqlite"):
        connection = sqlite_connection(url)
        rows = connection.execute("SELECT id FROM tickwork_jobs WHERE occurrence IS NOT NULL").fetchall()
        connection.close()
    else:
        with psycopg.connect(url) as postgres:
            rows = postgres.execute("SELECT id::text FROM tickwork.jobs WHERE occurrence IS NOT NULL").fetchall()
    return [job_id for (job_id,) in rows]


@pytest.mark.timeout(SECONDS + 120)
def test_schedulers_that_are_killed_every_second_fire_what_the_rules_say(app: Tickwork, store_url: str) -> None:
    rng = random.Random(5)
    with crowd(store_url, 3 if store_url.startswith("sqlite") else 5) as schedulers:
        start = (app.store.now() + timedelta(seconds=4)).replace(microsecond=0)
        end = start + timedelta(seconds=SECONDS)
        specs, periods = schedules(start, end)
        app.put_schedules(specs)
        until = time.monotonic() + (end - app.store.now()).total_seconds()
        while time.monotonic() < until:
            time.sleep(rng.uniform(0.9, 1.1))
            schedulers.kill_one(rng)
        eventually(lambda: all(view.wake_at is None for view in app.schedules.views()), 40, "all is judged")
        assert schedulers.kills >= SECONDS * 0.7
    fires = recorded(store_url)
    began, ended = int(start.timestamp()), int(end.timestamp())
    for name, seconds in periods.items():
        found = sorted(due for schedule, due, _, _ in fires if schedule == name)
        assert found == expected(name, seconds, began, ended), name
    assert Counter(action for _, _, action, _ in fires) == {"start": len(fires)}
    jobs = [job_id for _, _, _, job_id in fires]
    assert len(set(jobs)) == len(jobs), "two occurrences share a job"
    assert sorted(stored_jobs(store_url)) == sorted(str(job_id) for job_id in jobs), "a job without a fire, or none"
    print(f"{len(fires):,} occurrences, {schedulers.kills} kills, {datetime.now(UTC):%H:%M:%S}")
