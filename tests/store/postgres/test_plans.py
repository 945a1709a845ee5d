"""Plans of PostgreSQL for the statements that decide throughput: index scans that read only the needed rows."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import sql

from tests.store.builders import HOUR, a_job, claim, insert_one, jobs, register, running, succeeded
from tests.store.effort import PostgresEffort
from tickwork.core.ids import WorkerId
from tickwork.store.postgres import PostgresStore, params
from tickwork.store.postgres.claim.claim_cursor import FRONT
from tickwork.store.postgres.claim.positions import guards
from tickwork.store.postgres.connection import connector
from tickwork.store.postgres.schema import statements

Plan = dict[str, Any]


@pytest.fixture
def schema(own_schema: str) -> str:
    return own_schema


@pytest.fixture
def worker(postgres: PostgresStore) -> WorkerId:
    return register(postgres)


def claim_values(store: PostgresStore, worker: WorkerId, limit: int = 10) -> dict[str, Any]:
    return {
        "now": store.transactions.test_time(),
        "worker": worker,
        "claim": 1,
        "places": params.text_array(["default"] * 10),
        "priorities": params.array(range(10)),
        "after_us": params.array([FRONT.run_at_us] * 10),
        "after_ids": params.array([FRONT.job_id] * 10),
        "queues": params.text_array(("default",)),
        **guards(["default"], {("default:|", 5): FRONT}),
        "tasks": params.text_array(("t",)),
        "limit": limit,
        "ahead_us": 250_000,
        "age_us": 0,
    }


def explain(
    connection: psycopg.Connection[Any], query: str, values: dict[str, Any], *, run: bool = False
) -> list[Plan]:
    """Every node of the plan; with `run` it is carried out, measured and rolled back."""
    how = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " if run else "EXPLAIN (FORMAT JSON) "
    with connection.transaction(force_rollback=True):
        row = connection.execute((how + query).encode(), values or None).fetchone()
    assert row is not None
    found = row[0] if not isinstance(row[0], str) else json.loads(row[0])
    return list(_nodes(found[0]["Plan"]))


def explain_prepared(connection: psycopg.Connection[Any], values: dict[str, Any]) -> list[Plan]:
    """Every node of the plan that the server keeps for the claim, carried out and rolled back."""
    found = connection.execute("SELECT name FROM pg_prepared_statements WHERE statement LIKE '%picked%'").fetchone()
    assert found is not None, "the claim is prepared"
    places = dict.fromkeys(re.findall(r"%\((\w+)\)s", statements("any")["claim_jobs"]))
    literals = sql.SQL(", ").join(sql.Literal(values[name]) for name in places)
    execute = sql.SQL("EXECUTE {} ({})").format(sql.Identifier(found[0]), literals)
    return explain(connection, execute.as_string(connection), {}, run=True)


def _nodes(plan: Plan) -> Iterator[Plan]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


def on(table: str, nodes: list[Plan]) -> list[Plan]:
    return [node for node in nodes if node.get("Relation Name") == table and node["Node Type"] != "ModifyTable"]


class TestClaim:
    @pytest.mark.parametrize("size", [0, 5000])
    @pytest.mark.parametrize("analysed", [False, True])
    def test_it_goes_by_indexes_whatever_the_planner_knows(
        self, postgres: PostgresStore, worker: WorkerId, size: int, analysed: bool
    ) -> None:
        postgres.insert_jobs(jobs(size))
        statement = statements(postgres.schema.name)["claim_jobs"]
        with postgres.transactions.pool.lend() as connection:
            if analysed:
                connection.execute(f'ANALYZE "{postgres.schema.name}".queue, "{postgres.schema.name}".jobs'.encode())
            nodes = explain(connection, statement, claim_values(postgres, worker))
        assert {node["Node Type"] for node in on("queue", nodes) + on("jobs", nodes)} <= {
            "Index Scan",
            "Index Only Scan",
            "Tid Scan",
        }
        assert {node.get("Index Name") for node in on("queue", nodes)} == {"queue_order", None}

    def test_behind_a_pooler_a_long_queue_is_read_by_index_too(self, postgres: PostgresStore, worker: WorkerId) -> None:
        postgres.insert_jobs(jobs(5000))
        statement = statements(postgres.schema.name)["claim_jobs"]
        with postgres.transactions.user_pool.lend() as connection:  # as it was configured by its administrator
            connection.execute(f'ANALYZE "{postgres.schema.name}".queue'.encode())
            nodes = explain(connection, statement, claim_values(postgres, worker))
        assert "Seq Scan" not in {node["Node Type"] for node in on("queue", nodes)}

    def test_a_statement_that_was_planned_for_an_empty_queue_is_right_for_a_long_one(
        self, postgres: PostgresStore, worker: WorkerId
    ) -> None:
        for _ in range(10):
            assert claim(postgres, 10, worker) == []
        postgres.insert_jobs(jobs(20_000))
        with postgres.transactions.pool.lend() as connection:
            nodes = explain_prepared(connection, claim_values(postgres, worker))
        assert nodes[0]["Actual Rows"] == 10
        assert sum(node["Actual Rows"] * node["Actual Loops"] for node in on("queue", nodes)) < 100
        assert nodes[0]["Shared Hit Blocks"] + nodes[0]["Shared Read Blocks"] < 1000

    def test_a_long_row_of_delayed_jobs_before_it_is_not_walked(
        self, postgres: PostgresStore, worker: WorkerId
    ) -> None:
        for priority in (0, 3):
            postgres.insert_jobs(jobs(10_000, priority=priority, delay=HOUR))
        insert_one(postgres, priority=9)
        statement = statements(postgres.schema.name)["claim_jobs"]
        with postgres.transactions.pool.lend() as connection:
            nodes = explain(connection, statement, claim_values(postgres, worker), run=True)
        assert nodes[0]["Actual Rows"] == 1
        assert sum(node["Actual Rows"] * node["Actual Loops"] for node in on("queue", nodes)) < 20
        assert nodes[0]["Shared Hit Blocks"] + nodes[0]["Shared Read Blocks"] < 500

    def test_statistics_that_say_all_is_empty_do_not_make_it_walk_a_long_queue(
        self, postgres: PostgresStore, worker: WorkerId
    ) -> None:
        """Autovacuum looks at a queue that has just been emptied, and a burst comes right after."""
        postgres.insert_jobs(jobs(2000))
        for _ in range(10):
            postgres.finish_attempts([succeeded(one) for one in claim(postgres, 200, worker)])
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            for table in ("queue", "running"):
                connection.execute(f'ANALYZE "{postgres.schema.name}".{table}'.encode())
        postgres.insert_jobs(jobs(20_000))
        with postgres.transactions.pool.lend() as connection:
            nodes = explain_prepared(connection, claim_values(postgres, worker))
        assert nodes[0]["Actual Rows"] == 10
        assert sum(node["Actual Rows"] * node["Actual Loops"] for node in on("queue", nodes)) < 100
        claimed = claim(postgres, 500, worker)
        claim(postgres, 5000, worker)
        values = {"now": postgres.transactions.test_time(), **params.endings([succeeded(one) for one in claimed[:10]])}
        with postgres.transactions.pool.lend() as connection:
            ending = explain(connection, statements(postgres.schema.name)["finish_attempts"], values, run=True)
        assert sum(node["Actual Rows"] * node["Actual Loops"] for node in on("running", ending)) < 100

    @pytest.mark.parametrize("limit", [1, 7])
    def test_no_more_rows_are_locked_than_claimed(self, postgres: PostgresStore, worker: WorkerId, limit: int) -> None:
        for priority in (1, 5, 9):
            postgres.insert_jobs(jobs(4, priority=priority))
        statement = statements(postgres.schema.name)["claim_jobs"]
        count = (
            f'SELECT count(*) FROM (SELECT FROM "{postgres.schema.name}".queue FOR UPDATE SKIP LOCKED) free'.encode()
        )
        with postgres.transactions.pool.lend() as connection, connection.transaction(force_rollback=True):
            connection.execute(statement.encode(), claim_values(postgres, worker, limit))
            with psycopg.connect(postgres.url) as other:
                assert other.execute(count).fetchone() == (12 - limit,)

    @pytest.mark.parametrize("forced", ["nestloop", "hashjoin", "mergejoin", "material", "sort", "indexscan"])
    def test_a_limit_of_one_claims_one_in_any_plan(
        self, postgres: PostgresStore, worker: WorkerId, forced: str
    ) -> None:
        """A planner that runs a limited sub-query several times would claim more than the limit."""
        postgres.insert_jobs(jobs(50))
        plans = ["seqscan", "indexscan", "bitmapscan", "hashjoin", "mergejoin", "nestloop", "material", "sort"]
        with postgres.transactions.pool.lend() as connection, connection.transaction():
            for plan in plans:
                allowed = "on" if plan == forced or (forced == "nestloop") == (plan == "seqscan") else "off"
                connection.execute(f"SET LOCAL enable_{plan} = {allowed}".encode())
            rows = connection.execute(
                postgres.transactions.sql["claim_jobs"].encode(), claim_values(postgres, worker, 1)
            ).fetchall()
        assert len(rows) == 1
        (queue,) = postgres.reads.queues()
        assert (queue.due, queue.running) == (49, 1)


def test_finishing_goes_by_indexes(postgres: PostgresStore) -> None:
    claimed = running(postgres, key="k")
    values = {"now": postgres.transactions.test_time(), **params.endings([succeeded(claimed)])}
    for verb in ("finish_attempts", "reclaim_attempts"):
        with postgres.transactions.pool.lend() as connection:
            nodes = explain(connection, statements(postgres.schema.name)[verb], values)
        for table in ("running", "keys", "jobs", "workers"):
            assert "Seq Scan" not in {node["Node Type"] for node in on(table, nodes)}, (verb, table)


def test_a_claim_reads_about_as_many_rows_as_it_claims(postgres: PostgresStore, worker: WorkerId) -> None:
    postgres.insert_jobs([a_job() for _ in range(300)])
    statement = statements(postgres.schema.name)["claim_jobs"]
    with postgres.transactions.pool.lend() as connection:
        nodes = explain(connection, statement, claim_values(postgres, worker, 100), run=True)
    read = [node["Actual Rows"] * node["Actual Loops"] for node in on("queue", nodes)]
    assert sum(read) < 220, "each is read once to be picked, and once to be taken out"


def test_statements_are_short_enough_for_the_drivers_cache(postgres: PostgresStore) -> None:
    ours_alone = {"claim_jobs", "reclaim_attempts"}  # never run on a connection of the user's
    assert {name for name, sql in postgres.transactions.sql.items() if len(sql) > 4096} <= ours_alone


def _finish(store: PostgresStore, n: int) -> None:
    store.insert_jobs(jobs(n))
    store.finish_attempts([succeeded(one) for one in claim(store, n)])


class Need(NamedTuple):
    """What reads everything without a switch of our sessions (see server.py): how the store is filled for it, what is
    done, and how many rows that reads at most with the switch."""

    fill: Callable[[PostgresStore], object]
    verb: Callable[[PostgresStore], object]
    most: int


_LAST_ONES = Need(lambda store: _finish(store, 8000), lambda store: store.reads.durations(), 2500)
NEEDS = {
    "enable_hashjoin": _LAST_ONES,
    "enable_mergejoin": _LAST_ONES,
    "enable_seqscan": Need(
        lambda store: store.insert_jobs(jobs(4000, delay=HOUR)), lambda store: store.expire_jobs(10), 100
    ),
}


@pytest.mark.parametrize("is_set", [True, False])
@pytest.mark.parametrize("switch", NEEDS)
def test_each_switch_of_the_planner_is_needed(
    open_postgres: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch, switch: str, is_set: bool
) -> None:
    need = NEEDS[switch]
    if not is_set:
        monkeypatch.delitem(connector._PLANS, switch)
    store = open_postgres()
    need.fill(store)
    with psycopg.connect(store.url, autocommit=True) as connection:
        for table in ("jobs", "queue", "finished"):
            connection.execute(f'ANALYZE "{store.schema.name}".{table}'.encode())
    read = PostgresEffort().of(lambda: need.verb(store))
    store.close()
    assert (read < need.most) is is_set, read
