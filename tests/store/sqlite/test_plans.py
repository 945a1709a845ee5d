"""Plans of SQLite for the statements that decide throughput: by key, in order, without a sort."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.builders import HOUR, claim_one, insert_one, jobs
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.transactions import SQL

PLACES = '[["default", 5]]'
CLAIM = {"places": PLACES, "after": 0, "until": 1, "tasks": '["t"]', "now": 1, "limit": 10}


@pytest.fixture(params=["apsw", "sqlite3"])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "jobs.db"), driver=request.param)
    store.insert_jobs(jobs(1000))
    yield store
    store.close()


def plan(store: SqliteStore, statement: str, values: object) -> list[str]:
    # Plans need the connection of the store, with its pragmas.
    with store._file.reading() as connection:
        return [row[-1] for row in connection.run(f"EXPLAIN QUERY PLAN {SQL[statement]}", values)]  # type: ignore[arg-type]


def test_a_claim_reads_one_range_of_the_queue_in_its_order(store: SqliteStore) -> None:
    steps = plan(store, "pick_due", CLAIM)
    assert steps[0].startswith("SCAN place")
    assert steps[1].startswith("SEARCH q USING PRIMARY KEY (queue=? AND priority=? AND run_at>? AND run_at<?)")
    assert any(step.startswith("SEARCH j USING PRIMARY KEY (id=?)") for step in steps)
    assert not any("TEMP B-TREE" in step or step.startswith(("SCAN q", "SCAN j ")) for step in steps)


@pytest.mark.parametrize(
    ("statement", "values", "table", "index"),
    [
        (
            "next_due",
            {"places": PLACES, "after": 0, "now": 1},
            "q",
            "PRIMARY KEY (queue=? AND priority=? AND run_at>?)",
        ),
        ("leave_queue", ("default", 5, 0, ""), "tickwork_queue", "tickwork_queue_job"),
        ("current_attempts", {"claims": "{}"}, "r", "PRIMARY KEY"),
        ("expired_current_attempts", {"claims": "{}", "now": 0}, "r", "PRIMARY KEY"),
        ("leave_running", ("",), "tickwork_running", "PRIMARY KEY"),
        ("holds_of", ("[]",), "h", "tickwork_holds_job"),
        ("free_hold", ("", "", 1), "tickwork_holds", "PRIMARY KEY"),
        ("dequeue_expired", (0, 10), "tickwork_queue", "tickwork_queue_expiry"),
        ("expired_attempts", {"now": 0, "limit": 10}, "tickwork_workers", "tickwork_workers_lease"),
        ("key_holder", ("k", 0), "k", "PRIMARY KEY"),
    ],
)
def test_no_table_is_read_from_end_to_end(
    store: SqliteStore, statement: str, values: object, table: str, index: str
) -> None:
    steps = plan(store, statement, values)
    assert any(step.startswith(f"SEARCH {table} USING") and index in step for step in steps), steps
    assert not any(step.startswith(f"SCAN {table}") for step in steps), steps


def test_a_long_row_of_delayed_jobs_before_it_is_not_walked(store: SqliteStore) -> None:
    store.insert_jobs(jobs(5000, priority=0, delay=HOUR, queue="q"))
    due = insert_one(store, priority=9, queue="q")
    assert claim_one(store, queues=["q"]).job_id == due
