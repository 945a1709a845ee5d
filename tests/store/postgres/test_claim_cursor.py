"""A claim on PostgreSQL does not walk over what was claimed before, and finds what became visible behind it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import msgspec
import psycopg
import pytest

from tests.store.builders import a_job, claim, claim_one, insert_one, jobs, register, succeeded
from tickwork.core.ids import WorkerId
from tickwork.core.job import LOWEST_PRIORITY, NewJob
from tickwork.core.limits.job_limits import JobLimits, LimitUse
from tickwork.core.limits.limits import concurrency, sequence
from tickwork.errors import StoreError
from tickwork.store.claim.types import ClaimPlan
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.claim.claim_cursor import (
    AGAIN_S,
    FRONT,
    LONGEST_S,
    PLACES,
    SHARE,
    ClaimCursor,
    CursorPosition,
)
from tickwork.store.postgres.claim.limited_round import PostgresClaimTx
from tickwork.store.postgres.claim.positions import LATE_US, asked_for
from tickwork.store.postgres.limit_openings import KEPT, SETTLED_S, ReleasedHolds
from tickwork.testing import VirtualClock

HIGH, LOW = ("default", 2), ("default", 8)
_LATE = timedelta(microseconds=LATE_US)
FIRST, SECOND, THIRD = CursorPosition(1, "a"), CursorPosition(1, "b"), CursorPosition(2, "a")


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
def bounds(times: Times) -> ClaimCursor:
    return ClaimCursor(times)


@pytest.fixture
def released_holds(times: Times) -> ReleasedHolds:
    return ReleasedHolds(times)


class TestBounds:
    def test_the_first_claim_begins_at_the_front(self, bounds: ClaimCursor) -> None:
        assert bounds.begin() == {}

    def test_the_next_one_begins_behind_the_last_job_of_each_place(self, bounds: ClaimCursor) -> None:
        bounds.begin()
        bounds.took([(HIGH, FIRST), (HIGH, THIRD), (LOW, SECOND)], claimed=True)
        assert bounds.begin() == {HIGH: THIRD, LOW: SECOND}

    def test_a_place_that_gave_nothing_keeps_its_bound(self, bounds: ClaimCursor) -> None:
        bounds.begin()
        bounds.took([(HIGH, FIRST)], claimed=True)
        bounds.begin()
        bounds.took([(LOW, THIRD)], claimed=True)
        assert bounds.begin() == {HIGH: FIRST, LOW: THIRD}

    def test_places_that_were_read_last_come_last(self, bounds: ClaimCursor) -> None:
        bounds.begin()
        bounds.took([(HIGH, FIRST), (LOW, FIRST)], claimed=True)
        bounds.begin()
        bounds.took([(HIGH, THIRD)], claimed=True)
        assert list(bounds.begin()) == [LOW, HIGH]

    def test_only_a_limited_number_of_places_are_remembered(self, bounds: ClaimCursor) -> None:
        bounds.begin()
        bounds.took([((f"q{number}", 5), FIRST) for number in range(PLACES + 10)], claimed=True)
        assert len(bounds.begin()) == PLACES
        assert (f"q{PLACES + 9}", 5) in bounds.begin()

    def test_after_a_while_a_claim_begins_at_the_front_again(self, bounds: ClaimCursor, times: Times) -> None:
        bounds.begin()
        bounds.took([(HIGH, THIRD)], claimed=True)
        times.now += AGAIN_S * 0.99
        assert bounds.begin() == {HIGH: THIRD}
        bounds.took([], claimed=False)
        assert bounds.again_s() == pytest.approx(AGAIN_S * 0.01)
        times.now += AGAIN_S * 0.02
        assert bounds.begin() == {HIGH: FRONT}

    def test_one_that_found_a_job_behind_the_bound_goes_on_from_there(self, bounds: ClaimCursor, times: Times) -> None:
        bounds.begin()
        bounds.took([(HIGH, THIRD)], claimed=True)
        times.now += AGAIN_S
        bounds.begin()
        bounds.took([(HIGH, FIRST)], claimed=True)
        assert bounds.begin() == {HIGH: FIRST}, "there may be more"

    def test_one_that_takes_long_is_not_repeated_soon(self, bounds: ClaimCursor, times: Times) -> None:
        for _ in range(2):
            self.walk(bounds, times, 0.2)
        assert self.left(bounds) == pytest.approx(0.2 * SHARE)
        self.walk(bounds, times, 60)
        self.walk(bounds, times, 60)
        assert self.left(bounds) == pytest.approx(LONGEST_S), "but not never"

    def test_a_single_stall_is_no_walk(self, bounds: ClaimCursor, times: Times) -> None:
        """It may have waited for a lock, for a connection or for the disk."""
        self.walk(bounds, times, 0.001)
        self.walk(bounds, times, 5)
        assert self.left(bounds) == pytest.approx(AGAIN_S)

    def walk(self, bounds: ClaimCursor, times: Times, seconds: float) -> None:
        # The time of the next look at the front is not public.
        times.now = max(times.now, bounds._front_at)
        assert THIRD not in bounds.begin().values()
        times.now += seconds
        bounds.took([(HIGH, THIRD)], claimed=True)

    def left(self, bounds: ClaimCursor) -> float | None:
        """In how many seconds one that does not begin at the front is told to come again."""
        bounds.begin()
        bounds.took([], claimed=False)
        return bounds.again_s()

    def test_what_a_claim_takes_anyway_is_no_way_from_the_front(self, bounds: ClaimCursor, times: Times) -> None:
        """The store may be far away, or others wait for the same locks."""
        for seconds in (0.5, 0.5, 0.5):
            self.walk(bounds, times, seconds)
            bounds.begin()
            times.now += 0.5
            bounds.took([], claimed=True)
        times.now = bounds._front_at
        self.walk(bounds, times, 0.5)
        self.walk(bounds, times, 0.5)
        assert self.left(bounds) == pytest.approx(AGAIN_S)

    def test_a_claim_that_began_at_the_front_and_took_nothing_need_not_look_again(self, bounds: ClaimCursor) -> None:
        bounds.begin()
        bounds.took([(HIGH, FIRST)], claimed=False)
        assert bounds.again_s() is None

    def test_a_claim_that_took_jobs_looks_again_for_what_others_had_locked(self, bounds: ClaimCursor) -> None:
        bounds.begin()
        bounds.took([(HIGH, FIRST)], claimed=True)
        assert bounds.again_s() == pytest.approx(AGAIN_S)

    def test_a_claim_that_failed_changes_nothing(self, bounds: ClaimCursor) -> None:
        bounds.begin()
        assert bounds.begin() == {}


class TestOvers:
    def test_a_count_begins_behind_what_was_seen_to_be_over(self, released_holds: ReleasedHolds) -> None:
        assert released_holds.after(["a", "b"]) == [0, 0]
        released_holds.learn({"a": 7}, {"a"})
        assert released_holds.after(["a", "b"]) == [7, 0]

    def test_now_and_then_all_are_counted(self, released_holds: ReleasedHolds, times: Times) -> None:
        released_holds.learn({"a": 7}, {"a"})
        times.now += LONGEST_S / 2
        released_holds.learn({"a": 9}, set())
        times.now += LONGEST_S / 2
        assert released_holds.after(["a"]) == [0], "though it was looked at in between"
        released_holds.learn({"a": 9}, set())
        assert released_holds.after(["a"]) == [0], "what was counted from a number on is no count of all"
        released_holds.learn({"a": 9}, {"a"})
        assert released_holds.after(["a"]) == [9]

    def test_a_database_that_knows_less_than_it_did_is_believed(self, released_holds: ReleasedHolds) -> None:
        released_holds.learn({"a": 1000, "b": 900}, {"a", "b"})
        released_holds.learn({"a": 905, "c": 906}, {"c"})
        assert released_holds.after(["a", "b", "c"]) == [0, 0, 906], "what was counted from too late a number on is not"

    def test_nothing_is_learnt_of_a_limit_that_may_be_new_to_others_too(
        self, released_holds: ReleasedHolds, times: Times
    ) -> None:
        """They take holds without its lock until they know of it."""
        assert released_holds.locked({"a"}, ()) == set()
        times.now += SETTLED_S
        assert released_holds.locked({"a", "b"}, ()) == {"a"}

    def test_what_was_known_of_a_limit_is_forgotten_with_it(self, released_holds: ReleasedHolds, times: Times) -> None:
        released_holds.locked({"a", "b"}, ())
        times.now += SETTLED_S
        released_holds.learn({"a": 7}, {"a"})
        released_holds.locked((), {"a", "b"})
        assert released_holds.after(["a"]) == [0]
        assert released_holds.locked({"a", "b"}, ()) == set()

    def test_it_does_not_grow_without_end(self, released_holds: ReleasedHolds) -> None:
        released_holds.learn({f"k{number}": number for number in range(KEPT)}, set())
        released_holds.learn({f"k{KEPT}": KEPT}, set())
        assert len(released_holds._known) <= KEPT
        assert released_holds.after([f"k{KEPT}"]) == [KEPT]


# -- on a real database


@pytest.fixture
def worker(postgres: PostgresStore) -> WorkerId:
    return register(postgres)


def test_a_job_that_was_committed_late_is_claimed_although_later_ones_were_claimed_before(
    postgres: PostgresStore, worker: WorkerId
) -> None:
    """Its transaction stored it first, and committed last."""
    bounds = postgres.claims.rounds.cursors.of(worker, ("t",))
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


@contextmanager
def snapshot(store: PostgresStore) -> Iterator[None]:
    """Hold a snapshot: rows that are deleted meanwhile are not vacuumed."""
    with psycopg.connect(store.url) as holder:
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT 1")
        yield


def work_off(
    store: PostgresStore, worker: WorkerId, make: Callable[[int], list[NewJob]], clock: VirtualClock | None = None
) -> None:
    """Enqueue, claim and finish jobs by the hundred, over some seconds if there is a clock."""
    for _ in range(20):
        store.insert_jobs(make(500))
        store.finish_attempts([succeeded(one) for one in claim(store, 500, worker)])
        if clock is not None:
            clock.advance(_LATE)


def test_while_a_snapshot_is_held_a_claim_does_not_walk_over_what_was_claimed(
    postgres: PostgresStore, worker: WorkerId
) -> None:
    with snapshot(postgres):
        work_off(postgres, worker, jobs)
        _check_that_a_bound_spares_a_walk(postgres, worker)


# -- limited jobs


def test_lanes_that_were_read_are_looked_at_one_by_one_and_others_between_them() -> None:
    reached = {("a:|x", 5): FIRST, ("a", 1): SECOND, ("a:|y", 2): THIRD, ("ab:|z", 5): FIRST}
    asked = asked_for(["a", "ab"], reached)
    assert asked["firsts"] == '{"a:","a:|x","a:|y","ab:","ab:|z"}'
    assert asked["untils"] == '{"a:|x","a:|y","a;","ab:|z","ab;"}'
    assert asked["places"].count('"a:|x"') == asked["places"].count('"ab:|z"') == LOWEST_PRIORITY + 1
    assert asked_for(["a"], reached)["firsts"] == '{"a:","a:|x","a:|y"}', "others' queues are none of its business"


def test_only_a_limited_number_of_lanes_are_looked_at_one_by_one_and_those_read_last() -> None:
    asked = asked_for(["a"], {(f"a:|{number:02}", 5): FIRST for number in range(20)})
    assert asked["firsts"].count("|") == 8
    assert '"a:|19"' in asked["firsts"]


def limited(count: int) -> list[NewJob]:
    """Return `count` jobs under a limit, with ten keys in turn."""
    return [a_job(job_limits=JobLimits(uses=(LimitUse("some", str(number % 10), 1),))) for number in range(count)]


@pytest.fixture
def limit(postgres: PostgresStore, clock: VirtualClock) -> None:
    """A limit that everybody knows."""
    postgres.limits.declare_limits({"some": concurrency(250)})
    postgres.claims.rounds.openings.released_holds.locked(["some"], ())
    clock.advance(timedelta(seconds=SETTLED_S))


@pytest.mark.usefixtures("limit")
def test_nor_does_a_claim_of_jobs_with_limits_or_a_count_of_what_they_take(
    postgres: PostgresStore, worker: WorkerId, clock: VirtualClock
) -> None:
    with snapshot(postgres):
        work_off(postgres, worker, limited, clock)
        postgres.insert_jobs(limited(20))
        claim(postgres, 10, worker)  # it learns that there is nothing before these
        postgres.claims.rounds.cursors.of(worker, ("t",))._front_at = float("inf")
        with_bounds = _blocks_read(postgres, worker, "queue", "holds")
        postgres.claims.rounds.openings.released_holds._known = {}
        postgres.insert_jobs(limited(10))
        without = _blocks_read(postgres, register(postgres), "queue", "holds")
    for with_bound, from_the_front in zip(with_bounds, without, strict=True):
        assert with_bound * 3 < from_the_front, f"{with_bounds} blocks with bounds, {without} from the front"


@pytest.mark.usefixtures("limit")
def test_nor_does_a_plain_claim_walk_over_jobs_with_limits_that_are_over(
    postgres: PostgresStore, worker: WorkerId, clock: VirtualClock
) -> None:
    with snapshot(postgres):
        work_off(postgres, worker, limited, clock)
        for _ in range(3):  # the first ones are still on their guard
            postgres.insert_jobs(jobs(1))
            claim_one(postgres, worker)
        _check_that_a_bound_spares_a_walk(postgres, worker)
    postgres.insert_jobs(limited(1))
    assert len(claim(postgres, 10, worker)) == 1, "and a new one is found at once"


@pytest.mark.usefixtures("limit")
def test_one_with_a_limit_that_was_committed_late_is_found_too(
    postgres: PostgresStore, worker: WorkerId, clock: VirtualClock
) -> None:
    with psycopg.connect(postgres.url) as slow:
        (late,) = postgres.insert_jobs(limited(1), slow)
        clock.advance(2 * _LATE)
        postgres.insert_jobs(limited(1))
        assert len(claim(postgres, 10, worker)) == 1
        postgres.claims.rounds.cursors.of(worker, ("t",))._front_at = float("inf")
        assert claim(postgres, 10, worker) == []
    assert claim(postgres, 10, worker) == [], "passed by, for now"
    postgres.claims.rounds.cursors.of(worker, ("t",))._front_at = 0.0  # the while is over
    assert claim_one(postgres, worker).job_id == late


def test_where_order_counts_a_late_one_is_not_passed_by(
    postgres: PostgresStore, worker: WorkerId, clock: VirtualClock
) -> None:
    postgres.limits.declare_limits({"line": sequence("number")})
    first, second, third = (
        a_job(job_limits=JobLimits(uses=(LimitUse("line", str(number), 1),), sequence=True)) for number in range(3)
    )
    with psycopg.connect(postgres.url) as slow:
        postgres.insert_jobs([first], slow)
        clock.advance(2 * _LATE)
        postgres.insert_jobs([second])
        assert claim_one(postgres, worker).job_id == second.id
        postgres.claims.rounds.cursors.of(worker, ("t",))._front_at = float("inf")
        clock.advance(2 * _LATE)
        postgres.insert_jobs([third])
        assert claim_one(postgres, worker).job_id == third.id
    assert claim_one(postgres, worker).job_id == first.id


@pytest.mark.usefixtures("limit")
def test_a_claim_finds_jobs_that_another_looked_at_and_left(
    postgres: PostgresStore, worker: WorkerId, clock: VirtualClock
) -> None:
    """Not for a moment: the claim of the other one is not over yet."""
    waiting = postgres.insert_jobs(limited(20))
    clock.advance(2 * _LATE)
    claim(postgres, 1, worker)
    postgres.claims.rounds.cursors.of(worker, ("t",))._front_at = float("inf")
    with psycopg.connect(postgres.url) as other:
        other.execute(f'SELECT FROM "{postgres.schema.name}".queue ORDER BY run_at, job_id LIMIT 5 FOR UPDATE')
        assert [one.job_id for one in claim(postgres, 9, worker)] == waiting[6:15]
    assert [one.job_id for one in claim(postgres, 5, worker)] == waiting[1:6]


@pytest.mark.usefixtures("limit")
def test_who_claims_from_one_queue_says_nothing_of_another(
    postgres: PostgresStore, worker: WorkerId, clock: VirtualClock
) -> None:
    """A server claims for all who ask over REST, each for their own queues."""
    waiting = postgres.insert_jobs([msgspec.structs.replace(one, queue="other") for one in limited(3)])
    clock.advance(2 * _LATE)
    for at_front in (False, True):
        assert len(postgres.claim_jobs(worker, ["other"], ["t"], 1).jobs) == 1
        bounds = postgres.claims.rounds.cursors.of(worker, ("t",))
        bounds._front_at = 0.0 if at_front else float("inf")
        assert postgres.claim_jobs(worker, ["default"], ["t"], 1).jobs == []
        bounds._front_at = float("inf")
    assert [one.job_id for one in postgres.claim_jobs(worker, ["other"], ["t"], 1).jobs] == waiting[2:]


def test_what_a_claim_that_failed_saw_to_be_over_still_counts(
    postgres: PostgresStore, worker: WorkerId, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stored ends and counted without them; then all of it was taken back."""
    postgres.limits.declare_limits({"some": concurrency(2)})
    postgres.claims.rounds.openings.released_holds.locked(["some"], ())
    clock.advance(timedelta(seconds=SETTLED_S))
    postgres.insert_jobs([*limited(1), *limited(1), *limited(1)])
    first, _ = claim(postgres, 10, worker)
    postgres.claims.rounds.memory_of(worker).is_guarded = True

    def failing(ground: PostgresClaimTx, plan: ClaimPlan) -> int:
        raise StoreError("the server went away")

    with monkeypatch.context() as patched:
        patched.setattr(PostgresClaimTx, "apply", failing)
        with pytest.raises(StoreError):
            postgres.exchange(worker, [succeeded(first)], [], queues=["default"], tasks=["t"], limit=10)
    postgres.insert_jobs(limited(1))
    assert claim(postgres, 10, worker) == []
    exchanged = postgres.exchange(worker, [succeeded(first)], [], queues=["default"], tasks=["t"], limit=10)
    assert exchanged.claims is not None
    assert len(exchanged.claims.jobs) == 1


def _check_that_a_bound_spares_a_walk(store: PostgresStore, worker: WorkerId) -> None:
    """Compare a plain claim of a worker that has bounds with that of a new one."""
    store.claims.rounds.cursors.of(worker, ("t",))._front_at = float("inf")
    store.insert_jobs(jobs(10))
    (with_bound,) = _blocks_read(store, worker, "queue")
    store.insert_jobs(jobs(10))
    (without,) = _blocks_read(store, register(store), "queue")
    assert with_bound * 3 < without, f"{with_bound} blocks with the bound, {without} from the front"


def _blocks_read(store: PostgresStore, worker: WorkerId, *tables: str) -> list[int]:
    """Return the number of blocks of each table that one claim read."""

    def blocks() -> list[int]:
        with psycopg.connect(store.url, autocommit=True) as connection:
            rows = connection.execute(
                "SELECT relname, heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read "
                "FROM pg_statio_all_tables WHERE schemaname = %s",
                [store.schema.name],
            ).fetchall()
        counts: dict[str, int] = dict(rows)
        return [counts[table] for table in tables]

    _report(store)
    before = blocks()
    assert len(claim(store, 10, worker)) == 10
    _report(store)
    return [after - earlier for earlier, after in zip(before, blocks(), strict=True)]


def _report(store: PostgresStore) -> None:
    """End every connection of the store, so that it reports its statistics."""
    store.transactions.connections.close()
