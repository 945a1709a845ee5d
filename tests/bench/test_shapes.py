"""Every shape of the experiment keeps the promises that it is measured by, on numbers too small to say more."""

import io
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from rich.console import Console

from bench.places import SqlitePlace
from bench.shapes import bound, report
from bench.shapes.base import Claimed, Shape, Variant, new_jobs
from bench.shapes.measures import MEASURES, Sizes
from bench.shapes.postgres.append import Append
from bench.shapes.postgres.base import PostgresShape
from bench.shapes.run import measure_all
from bench.shapes.variants import VARIANTS, opened
from bench.shapes.worker import CLAIM, Worker
from tests.postgres_server import Postgres

BOUND = [variant for variant in VARIANTS if variant.bound]
TINY = Sizes(drain=150, latency=3, backlog=150, first=100, hold_s=0.2, read=150, repeat=1)

Open = Callable[..., Shape]


def name_of(variant: Variant) -> str:
    return f"{variant.store}-{variant.name.replace(' + ', '-')}"


each_variant = pytest.mark.parametrize("variant", VARIANTS, ids=name_of)
each_with_a_bound = pytest.mark.parametrize("variant", BOUND, ids=name_of)


@pytest.fixture(scope="module")
def database_url(postgres_server: Postgres) -> Iterator[str]:
    """One database for all: a schema of its own for each test takes a fraction of the time."""
    name = f"test_{uuid.uuid4().hex}"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)


@pytest.fixture
def schema_url(database_url: str) -> str:
    name = f"shape_{uuid.uuid4().hex}"
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
    return f"{database_url}?options=-csearch_path%3D{name}"


@pytest.fixture
def session(variant: Variant, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens sessions on tables of their own, each under the name of a worker with a lease."""
    url = request.getfixturevalue("schema_url") if variant.store == "postgres" else f"sqlite:///{tmp_path}/shape.db"
    with opened(variant, url) as first:
        first.create()
    with ExitStack() as stack:

        def make(worker: str = "one") -> Shape:
            shape = stack.enter_context(opened(variant, url, worker))
            shape.register()
            return shape

        yield make


@each_variant
def test_every_job_is_finished_exactly_once(variant: Variant, session: Open) -> None:
    shape, batches = session(), [new_jobs(130) for _ in range(3)]
    worker = Worker(shape)

    for jobs in batches:
        shape.insert(jobs)
        worker.turn()
        shape.tend()
    worker.work(until=1 << 62, limit_s=10)
    shape.tend()

    assert sorted(shape.ended()) == sorted(job.job_id for jobs in batches for job in jobs)
    assert shape.query(shape.depth) == 0


@each_variant
def test_claims_go_by_priority_and_then_by_age(variant: Variant, session: Open) -> None:
    shape, jobs = session(), new_jobs(20)
    shape.insert(jobs[:10])
    shape.insert(jobs[10:])

    first, rest = shape.claim(5), shape.claim(CLAIM)

    expected = [job.job_id for job in sorted(jobs, key=lambda job: job.priority)]
    assert [claim.job_id for claim in first + rest] == expected
    assert {claim.attempt for claim in first + rest} == {1}


@each_variant
def test_a_stale_finish_is_refused(variant: Variant, session: Open) -> None:
    slow, fast, jobs = session("slow"), session("fast"), new_jobs(2)
    slow.insert(jobs)
    late = slow.claim(CLAIM)
    assert slow.reclaim() == 2
    current = fast.claim(CLAIM)

    assert [claim.attempt for claim in current] == [2, 2]
    assert slow.finish(late) == []
    assert sorted(fast.finish(current)) == sorted(job.job_id for job in jobs)
    assert fast.finish(current) == []
    assert sorted(fast.ended()) == sorted(job.job_id for job in jobs)


@each_variant
def test_a_batch_with_one_stale_attempt_finishes_the_others(variant: Variant, session: Open) -> None:
    slow, fast = session("slow"), session("fast")
    slow.insert(new_jobs(1))
    late = slow.claim(CLAIM)
    slow.reclaim()
    current = fast.claim(CLAIM)
    slow.insert(new_jobs(1))
    other = slow.claim(CLAIM)

    closed, _ = slow.finish_and_claim([*late, *other], CLAIM)

    assert closed == [other[0].job_id]
    assert fast.finish(current) == [current[0].job_id]


@each_variant
def test_a_worker_whose_lease_is_past_claims_nothing(variant: Variant, session: Open) -> None:
    shape = session()
    shape.insert(new_jobs(1))

    shape.register(lease_s=-1)
    assert shape.claim(CLAIM) == []
    shape.register()
    assert len(shape.claim(CLAIM)) == 1


@each_with_a_bound
def test_a_job_that_becomes_visible_behind_the_bound_is_still_claimed(
    variant: Variant, session: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bound, "LAG", timedelta(0))
    now_s = [0.0]
    producer, shape, late = session(), session(), new_jobs(CLAIM + 50)
    assert isinstance(producer, PostgresShape)
    assert isinstance(shape, PostgresShape)
    shape.bound = bound.Bound(True, lambda: now_s[0])

    with producer.connection.transaction():
        producer.insert(late)
        shape.insert(new_jobs(10))
        assert len(shape.claim(CLAIM)) == 10
    assert shape.claim(CLAIM) == []  # the bound has passed them: that is what it is for

    now_s[0] = bound.SWEEP_S
    found = shape.claim(CLAIM) + shape.claim(CLAIM)
    assert sorted(claim.job_id for claim in found) == sorted(job.job_id for job in late)


@each_with_a_bound
def test_statistics_of_empty_tables_do_not_lead_to_reading_all_of_them(variant: Variant, session: Open) -> None:
    """Autovacuum finds a queue whose jobs are all done empty, however many dead rows are in it."""
    shape = session()
    assert isinstance(shape, PostgresShape)
    shape.insert(new_jobs(CLAIM))
    shape.finish(shape.claim(CLAIM))
    shape.connection.execute("ANALYZE")
    shape.insert(new_jobs(CLAIM))
    claims = shape.claim(CLAIM)

    plans = shape.plans(claims, CLAIM)

    nodes = [node for plan in plans for node in nodes_of(plan)]
    by_index = [node for node in nodes if "Index Name" in node]
    assert by_index
    assert [node for node in by_index if "Index Cond" not in node] == []
    assert "Seq Scan" not in {node["Node Type"] for node in nodes}


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes_of(child)


@pytest.mark.parametrize("variant", [variant for variant in BOUND if variant.shape == "append"], ids=name_of)
def test_a_slot_is_emptied_once_everything_in_it_has_ended(variant: Variant, session: Open) -> None:
    shape = session()
    assert isinstance(shape, Append)
    shape.insert(new_jobs(2))
    shape.tend()
    (held,) = shape.claim(1)
    shape.finish(shape.claim(1))

    shape.tend()
    assert shape.query("SELECT count(*) FROM ready_0") == 2
    shape.finish([held])
    shape.tend()
    assert shape.query("SELECT (SELECT count(*) FROM ready_0) + (SELECT count(*) FROM claims_0)") == 0
    assert shape.finish([held]) == []


def test_a_sweep_that_took_long_comes_again_the_later() -> None:
    now_s, store_now = [0.0], datetime(2026, 1, 1, tzinfo=UTC)
    claim = Claimed(new_jobs(1)[0].job_id, 1, 0, 5, store_now, "", "")
    remembered = bound.Bound(True, lambda: now_s[0])
    remembered.begin()
    remembered.end([claim], store_now)

    def is_a_sweep(at_s: float) -> bool:
        now_s[0] = at_s
        return remembered.begin()[5] == bound.OPEN

    assert not is_a_sweep(bound.SWEEP_S - 1)
    assert is_a_sweep(bound.SWEEP_S)
    now_s[0] = bound.SWEEP_S + 1  # so long did it take
    remembered.end([], None)
    assert not is_a_sweep(bound.SWEEP_S + 1 / bound.SWEEP_SHARE)
    assert is_a_sweep(bound.SWEEP_S + 1 + 1 / bound.SWEEP_SHARE)


@pytest.mark.process
def test_everything_is_measured_and_nothing_is_left(tmp_path: Path) -> None:
    variant = Variant("sqlite", "split", "set", fused=True)
    folder = tmp_path / "place"
    folder.mkdir()

    (outcome,) = measure_all([SqlitePlace(folder)], [variant], TINY, Console(file=io.StringIO()))

    assert outcome.errors == {}
    assert outcome.samples.keys() == MEASURES.keys() - {"drain_by_two"}
    assert all(value > 0 for measure in MEASURES for value in outcome.figures(measure).values())
    assert [table.row_count for table in report.tables([outcome])] == [1, 1]
    assert report.write([outcome], {}, tmp_path / "out.json").stat().st_size > 0
    assert list(folder.iterdir()) == []
