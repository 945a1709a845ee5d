"""Each test of the behaviour of a store runs on every way to have one: this directory is the definition of a Store."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.postgres_server import GivenPostgres, Postgres
from tests.store.interleaving import wipe
from tests.store.postgres.pooler import Pooler
from tests.store.stepping import Make, SteppedStore, Stepper, meet
from tickwork.store.base import Store
from tickwork.store.claim import bulk_park, choose, sparse_scan
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.claim import plan_values as postgres_plan
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.claim import limited_round as sqlite_round
from tickwork.testing import VirtualClock

KINDS = ["sqlite", "sqlite-stdlib", "postgres", "postgres-pooled"]

MANY = 1000  # more steps than any verb has

_schemas = count(1)


class EveryMeeting(Protocol):
    def __call__(self, make: Make, *, in_one_go: bool = False) -> int: ...


class OpensStore(Protocol):
    def __call__(self, **options: Any) -> Store: ...


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def open_store(kind: str, clock: VirtualClock, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpensStore]:
    """Opens the same store as often as it is called, as several processes would."""
    with ExitStack() as stack:
        if kind.startswith("sqlite"):
            open_one = _sqlite(tmp_path / "jobs.db", kind)
        else:
            open_one = request.getfixturevalue("open_postgres" if kind == "postgres" else "open_pooled_postgres")

        def open_store(**options: Any) -> Store:
            store = open_one(**{"clock": clock, **options})
            stack.callback(store.close)
            return store

        yield open_store


@pytest.fixture
def store(open_store: OpensStore) -> Store:
    return open_store()


def _sqlite(path: Path, kind: str) -> Callable[..., Store]:
    driver = "sqlite3" if kind == "sqlite-stdlib" else "apsw"
    return lambda **options: SqliteStore(str(path), **{"driver": driver, **options})


@pytest.fixture(scope="session")
def postgres_database(postgres_server: Postgres) -> Iterator[str]:
    """A database that the tests of this process share."""
    name = f"stores_{uuid.uuid4().hex}"
    yield postgres_server.create_database(name)
    if isinstance(postgres_server, GivenPostgres):  # one of our own goes as a whole, which is quicker
        postgres_server.drop_database(name)


@pytest.fixture(scope="session")
def shared_schema(postgres_database: str) -> str:
    store = PostgresStore(postgres_database, schema="shared", upgrade=True)
    store.now()
    store.close()
    return "shared"


@pytest.fixture
def schema(shared_schema: str, postgres_database: str) -> str:
    """The name of a schema with our tables, all of them empty."""
    tables = ["jobs", "queue", "running", "finished", "attempts", "keys", "logs", "saved", "workers", "tasks"]
    tables += [
        "schedules",
        "schedule_jobs",
        "fires",
        "calendars",
        "limits",
        "limit_states",
        "holds",
        "gates",
        "tenants",
    ]
    tables += ["dags", "runs", "steps"]
    tables += ["hooks", "deliveries", "declared"]
    tables += ["channels", "notifications"]
    tables += ["api_keys", "users", "sessions", "logins", "audit", "answers", "secrets"]
    tables += ["audit_links", "audit_sinks"]
    tables += ["operations"]
    tables += ["rollups", "rollup_marks", "clock"]
    with psycopg.connect(postgres_database) as connection:
        connection.execute("; ".join(f"DELETE FROM {shared_schema}.{table}" for table in tables).encode())
    return shared_schema


@pytest.fixture
def own_schema() -> str:
    """The name of a schema that does not exist yet, for modules that take it as their `schema`."""
    return f"test_{next(_schemas)}"


@pytest.fixture
def open_postgres(postgres_database: str, schema: str) -> Callable[..., PostgresStore]:
    return lambda **options: PostgresStore(postgres_database, **{"schema": schema, "upgrade": True, **options})


@pytest.fixture
def postgres(open_postgres: Callable[..., PostgresStore], clock: VirtualClock) -> Iterator[PostgresStore]:
    store = open_postgres(clock=clock)
    yield store
    store.close()


@pytest.fixture(scope="session")
def pooler(postgres_database: str) -> Iterator[Pooler]:
    with Pooler(urlsplit(postgres_database).port or 5432) as pooler:
        yield pooler


@pytest.fixture
def pooled_url(postgres_database: str, pooler: Pooler) -> str:
    parts = urlsplit(postgres_database)
    return parts._replace(netloc=f"{parts.username}@127.0.0.1:{pooler.port}").geturl()


@pytest.fixture
def open_pooled_postgres(pooled_url: str, schema: str, pooler: Pooler) -> Iterator[Callable[..., PostgresStore]]:
    yield lambda **options: PostgresStore(pooled_url, **{"schema": schema, "upgrade": True, **options})
    assert pooler.leftovers() == set(), "the store left session state behind, which a pooler gives to somebody else"


@pytest.fixture
def opens(postgres: PostgresStore, clock: VirtualClock) -> Iterator[Callable[[], SteppedStore]]:
    opened: list[SteppedStore] = []

    def open_one() -> SteppedStore:
        store = SteppedStore(postgres.url, schema=postgres.schema.name, clock=clock)
        store.now()
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def every_meeting(postgres: PostgresStore, opens: Callable[[], SteppedStore]) -> EveryMeeting:
    """Run what `make` makes in every way in which the two can meet, each time on an empty store.

    `in_one_go`: the second session goes as far as it can, and is not stopped on its way. It returns how many
    transactions had to be run again, after a deadlock or a conflict.
    """

    stores = opens(), opens()

    def meet_once(make: Make, first: int, second: int, *, in_turn: bool) -> tuple[bool, bool]:
        wipe(postgres)
        one, other, check = make()
        steppers = Stepper(stores[0], one), Stepper(stores[1], other)
        more = meet(*(steppers if in_turn else steppers[::-1]), first, second)
        answers = [stepper.answer for stepper in steppers]
        try:
            assert not any(isinstance(answer, Exception) for answer in answers)
            check(*answers)
        except AssertionError as error:
            order = ["one", "other"] if in_turn else ["other", "one"]
            raise AssertionError(f"{first} steps of {order[0]}, {second} of {order[1]}: {answers}") from error
        return more

    def run(make: Make, *, in_one_go: bool = False) -> int:
        for in_turn in (True, False):
            first, more = 0, True
            while more:
                second, rest = MANY if in_one_go else 0, True
                while rest:
                    more, rest = meet_once(make, first, second, in_turn=in_turn)
                    second += 1
                first += 1
            assert first > 1, "they met at more than one point"
        return sum(store.repeats for store in stores)

    return run


@pytest.fixture
def small_masses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs of a kind that are held are a mass, and little is looked at behind them."""
    for module in (bulk_park, choose):
        monkeypatch.setattr(module, "MANY", 2)
    monkeypatch.setattr(bulk_park, "FOUND_MOST", 2)
    for module in (bulk_park, sparse_scan):
        monkeypatch.setattr(module, "WALK", 3)
    for module in (postgres_plan, sqlite_round):
        monkeypatch.setattr(module, "BULK_WALK", 3)
