"""A claim on PostgreSQL does not walk over what was claimed before, and finds what became visible behind it."""

import psycopg
import pytest

from tests.store.builders import claim, claim_one, insert_one, jobs, register, succeeded
from tickwork.core.ids import WorkerId
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.bounds import AGAIN_S, FRONT, LONGEST_S, SHARE, Bound, Bounds

HIGH, LOW = ("default", 2), ("default", 8)
FIRST, SECOND, THIRD = Bound(1, "a"), Bound(1, "b"), Bound(2, "a")


class Times:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def bounds(times: Times) -> Bounds:
    return Bounds(times)


class TestBounds:
    def test_the_first_claim_begins_at_the_front(self, bounds: Bounds) -> None:
        assert bounds.begin([HIGH, LOW]) == [FRONT, FRONT]

    def test_the_next_one_begins_behind_the_last_job_of_each_place(self, bounds: Bounds) -> None:
        bounds.begin([HIGH, LOW])
        bounds.took([(HIGH, FIRST), (HIGH, THIRD), (LOW, SECOND)])
        assert bounds.begin([LOW, HIGH]) == [SECOND, THIRD]

    def test_a_place_that_gave_nothing_keeps_its_bound(self, bounds: Bounds) -> None:
        bounds.begin([HIGH, LOW])
        bounds.took([(HIGH, FIRST)])
        bounds.begin([HIGH, LOW])
        bounds.took([(LOW, THIRD)])
        assert bounds.begin([HIGH, LOW]) == [FIRST, THIRD]

    def test_after_a_while_a_claim_begins_at_the_front_again(self, bounds: Bounds, times: Times) -> None:
        bounds.begin([HIGH])
        bounds.took([(HIGH, THIRD)])
        assert bounds.again_s() == pytest.approx(AGAIN_S)
        times.now += AGAIN_S * 0.99
        assert bounds.begin([HIGH]) == [THIRD]
        times.now += AGAIN_S * 0.02
        assert bounds.begin([HIGH]) == [FRONT]

    def test_one_that_found_a_job_behind_the_bound_goes_on_from_there(self, bounds: Bounds, times: Times) -> None:
        bounds.begin([HIGH])
        bounds.took([(HIGH, THIRD)])
        times.now += AGAIN_S
        bounds.begin([HIGH])
        bounds.took([(HIGH, FIRST)])
        assert bounds.begin([HIGH]) == [FIRST], "there may be more"

    def test_one_that_takes_long_is_not_repeated_soon(self, bounds: Bounds, times: Times) -> None:
        for _ in range(2):
            self.walk(bounds, times, 0.2)
        assert bounds.again_s() == pytest.approx(0.2 * SHARE)
        self.walk(bounds, times, 60)
        self.walk(bounds, times, 60)
        assert bounds.again_s() == pytest.approx(LONGEST_S), "but not never"

    def test_a_single_stall_is_no_walk(self, bounds: Bounds, times: Times) -> None:
        """It may have waited for a lock, for a connection or for the disk."""
        self.walk(bounds, times, 0.001)
        self.walk(bounds, times, 5)
        assert bounds.again_s() == pytest.approx(AGAIN_S)

    def walk(self, bounds: Bounds, times: Times, seconds: float) -> None:
        times.now = max(times.now, bounds._front_at)
        assert bounds.begin([HIGH]) == [FRONT]
        times.now += seconds
        bounds.took([(HIGH, THIRD)])

    def test_whoever_passed_by_nothing_need_not_look_again(self, bounds: Bounds) -> None:
        bounds.begin([HIGH])
        bounds.took([])
        assert bounds.again_s() is None

    def test_a_claim_that_failed_changes_nothing(self, bounds: Bounds) -> None:
        bounds.begin([HIGH])
        assert bounds.begin([HIGH]) == [FRONT]


# -- on a real database


@pytest.fixture
def worker(postgres: PostgresStore) -> WorkerId:
    return register(postgres)


def test_a_job_that_was_committed_late_is_claimed_although_later_ones_were_claimed_before(
    postgres: PostgresStore, worker: WorkerId
) -> None:
    """Its transaction stored it first, and committed last."""
    bounds = postgres._bounds_of(worker, ("t",))
    claim(postgres, 10, worker)
    with psycopg.connect(postgres.url) as slow:
        late = insert_one_in(postgres, slow)
        later = insert_one(postgres)
        assert claim_one(postgres, worker).job_id == later
    assert claim(postgres, 10, worker) == [], "passed by, for now"
    again_s = bounds.again_s()
    assert again_s is not None
    assert again_s <= AGAIN_S, "and that is known"
    bounds._front_at = 0.0  # the while is over
    assert claim_one(postgres, worker).job_id == late


def insert_one_in(store: PostgresStore, tx: object) -> str:
    (job,) = jobs(1)
    (job_id,) = store.insert_jobs([job], tx)
    return job_id


def test_another_worker_finds_it_at_once(postgres: PostgresStore, worker: WorkerId) -> None:
    claim(postgres, 10, worker)
    with psycopg.connect(postgres.url) as slow:
        late = insert_one_in(postgres, slow)
        insert_one(postgres)
        claim_one(postgres, worker)
    assert claim_one(postgres, register(postgres)).job_id == late


def test_while_a_snapshot_is_held_a_claim_does_not_walk_over_what_was_claimed(
    postgres: PostgresStore, worker: WorkerId
) -> None:
    with psycopg.connect(postgres.url) as holder:
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT 1")
        for _ in range(20):
            postgres.insert_jobs(jobs(500))
            postgres.finish_attempts([succeeded(one) for one in claim(postgres, 500, worker)])
        postgres._bounds_of(worker, ("t",))._front_at = float("inf")
        postgres.insert_jobs(jobs(10))
        with_bound = _blocks_read(postgres, worker)
        postgres.insert_jobs(jobs(10))
        without = _blocks_read(postgres, register(postgres))
    assert with_bound * 3 < without, f"{with_bound} blocks with the bound, {without} from the front"


def _blocks_read(store: PostgresStore, worker: WorkerId) -> int:
    """How many blocks of the queue one claim looked at."""

    def blocks() -> int:
        with psycopg.connect(store.url, autocommit=True) as connection:
            row = connection.execute(
                "SELECT sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read) FROM pg_statio_all_tables "
                "WHERE relname = 'queue' AND schemaname = %s",
                [store.schema.name],
            ).fetchone()
        assert row is not None
        return int(row[0])

    _report(store)
    before = blocks()
    assert len(claim(store, 10, worker)) == 10
    _report(store)
    return blocks() - before


def _report(store: PostgresStore) -> None:
    """Have every connection of the store report its statistics now, by ending it."""
    store._pool.close()
