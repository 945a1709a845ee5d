"""What the tests of workers share: a store of each kind, an app on it, and waiting for a condition."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from random import Random
from typing import TypeVar

import psycopg
import pytest

from tests.postgres_server import Postgres
from tickwork import Job, Tickwork
from tickwork.core.ids import WorkerId
from tickwork.core.outcome import Abandoned, decide
from tickwork.store.attempts import Finish
from tickwork.worker.run.capture import STRIDE

Value = TypeVar("Value")


def eventually(condition: Callable[[], Value], within_s: float = 10.0, what: str = "") -> Value:
    """Ask until the answer is true, and return it; fail when that takes longer than `within_s`."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"not true within {within_s:g} s: {what or condition}; it is {value!r}")
        time.sleep(0.005)
    return value


def output_of(job: Job, attempt: int | None = None) -> str:
    """What the handlers of a job wrote, in one piece, or one attempt of it."""
    chunks = job.logs()
    while more := job.logs(after=(chunks[-1].attempt, chunks[-1].seq) if chunks else (0, -1)):
        chunks += more
    for number, group in groupby(chunks, key=lambda chunk: chunk.attempt):
        own = [chunk.seq // STRIDE for chunk in group if chunk.seq % STRIDE == 0]  # the others came by a descriptor
        first = 0 if own[:1] == [0] else 1  # over REST chunks are counted from 0
        assert own == list(range(first, first + len(own))), f"a piece of attempt {number} is missing"
    return "".join(chunk.text for chunk in chunks if attempt in (None, chunk.attempt))


def supersede(job: Job) -> None:
    """Take a running job away from its worker, as the reaper does when a lease ran out."""
    view, store = job.view, job._client.store
    (held,) = [one for one in store.open_attempts(WorkerId(str(view.worker))) if one.job_id == job.id]
    lost = decide(view.policy, view.failures, view.crashes, view.alone, Abandoned(), Random(1), view.losses)
    assert store.finish_attempts([Finish(view.id, view.attempt, held.claim, lost)]) == {view.id}


@pytest.fixture(scope="session")
def postgres_database(postgres_server: Postgres) -> str:
    """One database with our schema for all tests; each finds it empty, which is quicker than to make another."""
    url = postgres_server.create_database(f"workers_{uuid.uuid4().hex}")
    app = Tickwork(url, upgrade=True)
    app.store.now()
    app.close()
    return url


def empty(url: str) -> None:
    """Delete everything that is in the tables of a PostgreSQL store."""
    with psycopg.connect(url) as connection:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'tickwork' AND tablename <> 'migrations'"
        for (table,) in connection.execute(query).fetchall():
            connection.execute(f'DELETE FROM tickwork."{table}"')  # type: ignore[arg-type]


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store: a new SQLite file, and a PostgreSQL database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/tickwork.db"
    url: str = request.getfixturevalue("postgres_database")
    empty(url)
    return url


@pytest.fixture
def app(store_url: str) -> Iterator[Tickwork]:
    """An app of the test's own on that store."""
    app = Tickwork(store_url)
    yield app
    with suppress(Exception):  # a test may have closed it, or broken its store
        app.close()
