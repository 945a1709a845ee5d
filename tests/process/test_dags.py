"""Dags whose workers die: each run ends as its steps say, nothing runs twice to an end, nothing is half there.

What stands in the tables is judged by plain SQL from outside (dag_checks.py), in the middle of it all and at the end.
DAG_RUNS runs go through the storm, 200 unless the environment says otherwise; 10,000 is what we hold ourselves to.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import psycopg
import pytest

from tests.postgres_server import PostgresServer
from tests.process import dag_tasks
from tests.process.dag_checks import Parents, accepted_twice, claimed_out_of_time, wrong
from tests.process.dag_tasks import ETL_PARENTS, LATTICE_JOBS, LATTICE_PARENTS, WIDE_PARENTS, lattice_result
from tests.process.harness import Workers
from tests.process.ledger import Ledger, sqlite_connection
from tests.process.storm import LEASE_S, Storm
from tests.waiting import eventually
from tickwork.api.runs import Run
from tickwork.config import load_settings

pytestmark = pytest.mark.process

RUNS = int(os.environ.get("DAG_RUNS", "200"))
SEED = int(os.environ.get("DAG_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
TARGET = "tests.process.dag_tasks"
HIT_EVERY_S = 2.0 if RUNS <= 1000 else 8.0  # each worker, on average
LOOKS_S = 30.0  # how often a store with many runs is looked at, in a storm


@pytest.fixture
def workers(watched_workers: Workers) -> Iterator[Workers]:
    """Workers on the store of the ledger, into which the dags of dag_tasks.py are enqueued."""
    dag_tasks.app.settings = load_settings({"url": watched_workers.url})
    yield watched_workers
    dag_tasks.app.close()


@pytest.fixture
def rng() -> random.Random:
    print(f"DAG_SEED={SEED}")
    return random.Random(SEED)


class Weather:
    """A storm over runs of one dag, and a look at all of them again and again. A worker is hit every few seconds."""

    def __init__(self, storm: Storm, ledger: Ledger, parents: Parents, rng: random.Random) -> None:
        self.storm = storm
        self.looks = 0
        self._ledger = ledger
        self._parents = parents
        self._rng = rng
        self._look_at = 0.0

    def until(self, over: Callable[[], bool], within_s: float, what: str) -> None:
        """Strike until a condition holds, and no process is left paused."""
        deadline = time.monotonic() + within_s
        while not over():
            assert time.monotonic() < deadline, f"not within {within_s:.0f} s: {what}; {self.storm.did}"
            time.sleep(self._rng.uniform(0, 2 * HIT_EVERY_S / len(self.storm.alive)))
            self.storm.strike()
            self._look()
        self.storm.resume(time.monotonic() + 60)
        assert wrong(self._ledger, self._parents) == {}

    def _look(self) -> None:
        if RUNS <= 1000 or time.monotonic() > self._look_at:
            assert wrong(self._ledger, self._parents) == {}
            self.looks += 1
            self._look_at = time.monotonic() + LOOKS_S


def ended(ledger: Ledger) -> int:
    """Return the number of runs that have ended and are not queued again."""
    ((count,),) = ledger.read("SELECT count(*) FROM tickwork.finished f JOIN tickwork.runs u ON u.id = f.job_id")
    return int(count)


def jobs_of_steps(ledger: Ledger) -> Counter[str]:
    """Return the number of jobs of each step, in all runs."""
    rows = ledger.read("SELECT step, count(*) FROM tickwork.jobs WHERE run IS NOT NULL GROUP BY step")
    return Counter(dict(rows))


# -- tour/05


@pytest.mark.timeout(180)
def test_a_pipeline_ends_right_and_is_rerun_while_its_workers_are_killed(
    workers: Workers, ledger: Ledger, rng: random.Random, tmp_path: Path
) -> None:
    count = 12
    weather = Weather(Storm(workers, None, 2, rng, TARGET, pauses=False), ledger, ETL_PARENTS, rng)
    runs = [dag_tasks.etl.enqueue(day=f"2026-11-{n:02}") for n in range(1, count + 1)]
    weather.until(lambda: ended(ledger) == count, 60, "all runs failed")
    for run in runs:
        assert isinstance(run, Run)
        assert run.state == "failed"
        assert {name: step.state for name, step in run.steps.items()} == {
            "extract": "succeeded",
            "transform": "succeeded",
            "load": "failed",
            "tell": "succeeded",
        }
        assert run.steps["transform"].result == [10, 20, 30]

    (tmp_path / dag_tasks.WAREHOUSE).touch()
    ((last_claim,),) = ledger.read("SELECT max(number) FROM proof")
    for run in runs:
        run.rerun()
    weather.until(lambda: ended(ledger) == count, 60, "all runs ended again")
    print(f"{ledger.kind}: {dict(weather.storm.did)}, {weather.looks} looks")
    for run in runs:
        assert run.result() == 60
        assert run.steps["tell"].state == "skipped"
    assert wrong(ledger, ETL_PARENTS) == {}
    assert jobs_of_steps(ledger) == {"extract": count, "transform": 3 * count, "load": count, "tell": count}
    assert claimed_since(ledger, last_claim) == {"load"}, "what succeeded stays"
    assert claimed_out_of_time(ledger) == []
    assert accepted_twice(ledger) == []
    was_told(workers, ledger)


def claimed_since(ledger: Ledger, number: int) -> set[str]:
    """The steps that were claimed after an entry of the ledger."""
    query = f"""SELECT DISTINCT j.step FROM proof p JOIN tickwork.jobs j ON j.id = p.job_id
                WHERE p.what = 'claim' AND p.number > {number} AND j.run IS NOT NULL"""
    return {step for (step,) in ledger.read(query)}


def was_told(workers: Workers, ledger: Ledger) -> None:
    """Each accepted attempt of a step is one whose handler told of its end."""
    query = """SELECT f.job_id, f.attempt FROM tickwork.finished f JOIN tickwork.jobs j ON j.id = f.job_id
               WHERE j.run IS NOT NULL AND f.state = 'succeeded'"""
    accepted = {(str(job), attempt) for job, attempt in ledger.read(query)}
    assert accepted <= {one.key for one in workers.witness.events(event="end")}


# -- many runs


@pytest.mark.timeout(120 + RUNS)
def test_many_runs_all_end_while_workers_are_killed_and_the_database_restarts(
    workers: Workers, server: PostgresServer | None, ledger: Ledger, rng: random.Random
) -> None:
    weather = Weather(Storm(workers, server, 4, rng, TARGET), ledger, LATTICE_PARENTS, rng)
    began = time.monotonic()
    runs = dag_tasks.lattice.enqueue_many([(n,) for n in range(RUNS)])
    weather.until(lambda: ended(ledger) == RUNS, 60 + RUNS, "all runs ended")
    took_s = time.monotonic() - began
    print(f"{ledger.kind}: {RUNS:,} runs in {took_s:.1f} s, {dict(weather.storm.did)}, {weather.looks} looks")
    assert sum(weather.storm.did.values()) >= 5
    assert wrong(ledger, LATTICE_PARENTS) == {}
    assert [run.result() for run in runs] == [lattice_result(n) for n in range(RUNS)]
    assert sum(jobs_of_steps(ledger).values()) == RUNS * LATTICE_JOBS
    assert ledger.count("queue") == ledger.count("running") == 0
    assert claimed_out_of_time(ledger) == []
    assert accepted_twice(ledger) == []
    was_told(workers, ledger)


# -- a large map


_HESITATE = {
    "sqlite": """
        CREATE VIEW long_way (n) AS
            WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 100000000) SELECT n FROM c;
        CREATE TRIGGER hesitation AFTER INSERT ON tickwork_jobs WHEN NEW.step = 'double' AND NEW.idx = 2500 BEGIN
            SELECT count(*) FROM long_way;
        END;
    """,
    "postgres": """
        CREATE FUNCTION hesitate() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM pg_sleep(1.5);
            RETURN NULL;
        END $$;
        CREATE TRIGGER hesitation AFTER INSERT ON tickwork.jobs FOR EACH ROW
            WHEN (NEW.step = 'double' AND NEW.idx = 2500) EXECUTE FUNCTION hesitate();
    """,
}
_HESITATE_NO_MORE = {"sqlite": "DROP TRIGGER hesitation", "postgres": "DROP TRIGGER hesitation ON tickwork.jobs"}


class Hesitation:
    """Delay the store while it inserts the instances of a map, long enough for a kill."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._run(_HESITATE[ledger.kind])

    def end(self) -> None:
        self._run(_HESITATE_NO_MORE[self._ledger.kind])

    def _run(self, script: str) -> None:
        if self._ledger.kind == "sqlite":
            with closing(sqlite_connection(self._ledger.url)) as connection:
                connection.execute(script)
        else:
            with psycopg.connect(self._ledger.url) as postgres:
                postgres.execute(script.encode())

    def is_going_on(self) -> bool:
        """Whether a process keeps the file locked for longer than any commit takes, or sleeps."""
        if self._ledger.kind == "postgres":
            return bool(self._ledger.read("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"))
        with closing(sqlite_connection(self._ledger.url, wait_s=0.5)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except apsw.BusyError:
                return True
            connection.execute("ROLLBACK")
        return False


@pytest.mark.timeout(180)
def test_a_worker_killed_while_it_expands_a_map_leaves_nothing_half_there(
    workers: Workers, server: PostgresServer | None, ledger: Ledger
) -> None:
    """On PostgreSQL the database falls with the first worker. The second may have sent its commit before it dies."""
    count, seen = 5_000, list[int]()
    run = dag_tasks.wide.enqueue(count)
    hesitation = Hesitation(ledger)
    while seen in ([], [0]):
        worker = workers.start(lease_s=LEASE_S, target=TARGET, wait=False)
        eventually(hesitation.is_going_on, 30, "the map is being stored")
        worker.kill()
        if server and not seen:
            server.restart("immediate")
        eventually(lambda: not hesitation.is_going_on(), 30, "its transaction is over")
        seen.append(jobs_of_steps(ledger)["double"])
        assert wrong(ledger, WIDE_PARENTS) == {}
    hesitation.end()
    print(f"{ledger.kind}: {seen} instances after the kills")
    assert seen in ([0, 0], [0, count] if server else [])
    workers.start(lease_s=LEASE_S, target=TARGET)

    assert run.result(timeout=60) == count * (count - 1)
    assert jobs_of_steps(ledger) == {"many": 1, "double": count, "reduced": 1}
    assert wrong(ledger, WIDE_PARENTS) == {}
    assert claimed_out_of_time(ledger) == []
    assert accepted_twice(ledger) == []


# -- cancels


@pytest.mark.timeout(180)
def test_cancelled_runs_end_and_release_nothing_more_while_their_workers_are_killed(
    workers: Workers, ledger: Ledger, rng: random.Random
) -> None:
    count = 120
    weather = Weather(Storm(workers, None, 3, rng, TARGET), ledger, LATTICE_PARENTS, rng)
    runs = dag_tasks.lattice.enqueue_many([(n,) for n in range(count)])
    left, jobs = list(runs), dict[str, int]()

    def cancel_some() -> bool:
        for run in rng.sample(left, min(30, len(left))):
            left.remove(run)
            run.cancel()
            jobs[run.id] = jobs_of_run(ledger, run.id)
        return not left

    weather.until(cancel_some, 60, "all runs were cancelled")
    weather.until(lambda: not ledger.count("queue") + ledger.count("running"), 60, "all runs ended")
    states = Counter(run.state for run in runs)
    begun = sum(number > 0 for number in jobs.values())
    print(f"{ledger.kind}: {dict(states)}, {begun} had begun, {dict(weather.storm.did)}")
    assert states.keys() <= {"cancelled", "succeeded"}
    assert begun
    assert states["cancelled"]
    assert {id: jobs_of_run(ledger, id) for id in jobs} == jobs
    assert wrong(ledger, LATTICE_PARENTS) == {}
    assert claimed_out_of_time(ledger) == []
    assert accepted_twice(ledger) == []


def jobs_of_run(ledger: Ledger, run: str) -> int:
    ((count,),) = ledger.read(f"SELECT count(*) FROM tickwork.jobs WHERE run = '{run}'")
    return int(count)


# -- whether the checks see anything


DAMAGE = [
    ("counts its parents", "UPDATE tickwork_steps SET pending = 1 WHERE step = 'joined'"),
    ("counts its jobs", "DELETE FROM tickwork_jobs WHERE step = 'mapped' AND idx = 1"),
    ("counts its jobs", "UPDATE tickwork_steps SET bad = 1 WHERE step = 'first'"),
    ("state of a step", "UPDATE tickwork_steps SET state = 'open' WHERE step = 'left'"),
    ("counts its steps", "UPDATE tickwork_runs SET open = 1 WHERE open = 0"),
    ("counts its steps", "UPDATE tickwork_runs SET failed = 1"),
    ("state of a run", "UPDATE tickwork_finished SET state = 'failed' WHERE job_id IN (SELECT id FROM tickwork_runs)"),
    ("state of a run", "DELETE FROM tickwork_running WHERE worker = ''"),
    ("nothing of it does", "DELETE FROM tickwork_queue"),
    ("its run or its step", "UPDATE tickwork_steps SET state = 'succeeded' WHERE state = 'open'"),
]


@pytest.mark.parametrize("kind", ["sqlite"])
def test_the_checks_see_damage(workers: Workers, ledger: Ledger, tmp_path: Path) -> None:
    worker = workers.start(target=TARGET)
    assert dag_tasks.lattice.enqueue(1).result(timeout=30) == lattice_result(1)
    dag_tasks.app.pause(task="spread")
    going = dag_tasks.lattice.enqueue(2)
    assert isinstance(going, Run)
    eventually(lambda: going.steps["stumble"].state == "succeeded", 30)
    worker.kill_everything()
    for number, (what, damage) in enumerate(DAMAGE):
        copy = Ledger(f"sqlite:///{tmp_path}/copy{number}.db")
        ledger.read(f"VACUUM INTO '{tmp_path}/copy{number}.db'")
        assert wrong(copy, LATTICE_PARENTS) == {}
        copy.read(damage)
        assert any(what in found for found in wrong(copy, LATTICE_PARENTS)), damage
