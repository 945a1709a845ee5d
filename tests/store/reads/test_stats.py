"""Figures: what a store counts of what happened to jobs is what happened, once, however it is counted."""

from datetime import timedelta
from random import Random

import pytest

from tests.store.builders import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    a_job,
    again,
    claim,
    claim_one,
    ended,
    ending,
    failed,
    insert_one,
    register,
    running,
    succeeded,
    with_retries,
)
from tests.store.conftest import OpensStore
from tickwork.core.ids import first_id
from tickwork.core.job import JobFilter
from tickwork.core.outcome import Released
from tickwork.core.retention import Retention
from tickwork.core.stats.rollups import (
    ALL,
    COUNTS,
    EVER,
    KEPT,
    RollupCounts,
    begin,
    fold,
    minute_of,
    quantile,
    step_of,
)
from tickwork.services import stats_rollup
from tickwork.services.stats_rollup import StatsRollup
from tickwork.store.base import Store
from tickwork.testing import VirtualClock


@pytest.fixture
def now_ids(monkeypatch: pytest.MonkeyPatch, clock: VirtualClock) -> None:
    """Jobs have ids of when they were made, as in life."""
    from tests.store import builders

    ids = builders.IdMaker(lambda: clock.wall_us() // 1000, builders.SystemRandom().getrandbits)
    # Ids must be equal in both stores.
    monkeypatch.setattr(builders, "_ids", ids)


pytestmark = pytest.mark.usefixtures("now_ids")


def keep_books(store: Store, clock: VirtualClock) -> None:
    """Count until there is nothing more to count."""
    clock.advance(10 * SECOND)
    service = StatsRollup(store, clock)
    while service.tick(clock.monotonic()) == 0.0:
        pass


def summed(store: Store, span: int, queue: str = ALL, task: str = ALL) -> RollupCounts:
    whole = RollupCounts()
    for figures in store.stats.rollups(span, queue, task, 0).values():
        whole.add(figures)
    return whole


def test_a_job_that_is_tried_three_times_is_one_success_and_two_retries(store: Store, clock: VirtualClock) -> None:
    insert_one(store, policy=with_retries(5))
    for _ in range(2):
        one = claim_one(store)
        clock.advance(SECOND)
        store.finish_attempts([again(one)])
    one = claim_one(store)
    clock.advance(3 * SECOND)
    store.finish_attempts([succeeded(one)])
    keep_books(store, clock)
    found = summed(store, 1)
    assert (found.enqueued, found.started, found.succeeded, found.failed, found.retried) == (1, 3, 1, 0, 2)
    assert found.runs == {step_of(7, 10): 2, step_of(7, 30): 1}


def test_every_outcome_is_counted_as_what_it_is(store: Store, clock: VirtualClock) -> None:
    ended(store)
    ended(store, failed)
    store.cancel_jobs([insert_one(store)])
    insert_one(store, expires_at=clock.now() + SECOND)
    clock.advance(2 * SECOND)
    assert store.expire_jobs(10) == 1
    one = running(store)
    store.finish_attempts([ending(one, Released())])
    keep_books(store, clock)
    found = summed(store, 1)
    assert {name: getattr(found, name) for name in COUNTS} == {
        "enqueued": 5,
        "started": 3,
        "succeeded": 1,
        "failed": 1,
        "cancelled": 1,
        "dropped": 0,
        "expired": 1,
        "retried": 0,
    }


def test_figures_add_up_to_what_the_store_holds(
    store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hours of work, counted in small pages and at odd times, by services that do not know of each other."""
    monkeypatch.setattr(stats_rollup, "PAGE", 7)
    rng, worker, tries = Random(8), register(store, lease=DAY), 0
    for _ in range(40):
        about = [(rng.choice(["mail", "crm"]), rng.choice(["send", "push"])) for _ in range(rng.randrange(6))]
        store.insert_jobs([a_job(task, queue=queue) for queue, task in about])
        clock.advance(timedelta(seconds=rng.randrange(300)))
        for one in claim(store, rng.randrange(6), worker, queues=["mail", "crm"], tasks=["send", "push"]):
            clock.advance(timedelta(seconds=rng.randrange(30)))
            how = rng.choice([succeeded, succeeded, failed, again])
            tries += how is again
            store.finish_attempts([how(one)])  # type: ignore[operator]
        if rng.random() < 0.5:
            StatsRollup(store, clock).tick(clock.monotonic())
    keep_books(store, clock)
    jobs = store.reads.list_jobs(JobFilter(), 1000)
    for span in (EVER, *(span for span, kept in KEPT.items() if kept > timedelta(hours=4))):
        for queue in (ALL, "mail", "crm"):
            for task in (ALL, "send", "push"):
                ours = [one for one in jobs if queue in (ALL, one.queue) and task in (ALL, one.task)]
                found = summed(store, span, queue, task)
                assert found.enqueued == len(ours)
                for state in ("succeeded", "failed"):
                    assert getattr(found, state) == sum(one.state == state for one in ours)
    whole = summed(store, 60)
    assert whole.retried == tries
    assert whole.started == sum(one.attempt for one in jobs)
    assert sum(whole.runs.values()) == whole.started
    assert sum(whole.waits.values()) == whole.ended
    for minute, figures in store.stats.rollups(60, ALL, ALL, 0).items():
        made = [one for one in jobs if begin(minute_of(one.created_at), 60) == minute]
        assert figures.enqueued == len(made)


def test_of_two_who_count_the_same_one_counts(open_store: OpensStore, clock: VirtualClock) -> None:
    one, other = open_store(), open_store()
    ended(one)
    clock.advance(10 * SECOND)
    page, same = (store.stats.count_events(store.stats.rollup_marks(), 100) for store in (one, other))
    assert one.stats.add_rollups(page.marks, fold(page.counted, clock.now()))
    assert not other.stats.add_rollups(same.marks, fold(same.counted, clock.now()))
    assert summed(one, EVER).succeeded == 1


def test_what_has_just_happened_is_left_for_the_next_time(store: Store, clock: VirtualClock) -> None:
    """A transaction that began before may still be open."""
    ended(store)
    StatsRollup(store, clock).tick(clock.monotonic())
    assert summed(store, EVER) == RollupCounts()
    keep_books(store, clock)
    assert summed(store, EVER).succeeded == 1


def test_after_a_count_no_other_process_counts(open_store: OpensStore, clock: VirtualClock) -> None:
    one, other = open_store(), open_store()
    ended(one)
    keep_books(one, clock)
    ended(one)
    clock.advance(SECOND)
    before = other.stats.rollup_marks()
    StatsRollup(other, clock).tick(clock.monotonic())
    assert other.stats.rollup_marks() == before
    clock.advance(10 * SECOND)
    StatsRollup(other, clock).tick(clock.monotonic())
    assert other.stats.rollup_marks().version == before.version + 1


def test_a_store_where_nothing_happens_is_not_written_to(store: Store, clock: VirtualClock) -> None:
    keep_books(store, clock)
    assert store.stats.rollup_marks().version == 0
    ended(store)
    keep_books(store, clock)
    clock.advance(HOUR)
    keep_books(store, clock)
    assert store.stats.rollup_marks().version == 1


def test_figures_are_known_until_a_few_seconds_ago_unless_there_is_more_to_count(
    store: Store, clock: VirtualClock
) -> None:
    assert store.stats.counted_until() == clock.now() - 5 * SECOND
    began = clock.now()
    ended(store)
    clock.advance(MINUTE)
    assert store.stats.counted_until() <= began
    keep_books(store, clock)
    assert store.stats.counted_until() == clock.now() - 5 * SECOND
    clock.advance(DAY)
    assert store.stats.counted_until() == clock.now() - 5 * SECOND


def test_a_long_job_started_when_it_did(store: Store, clock: VirtualClock) -> None:
    clock.advance(10 * SECOND)
    insert_one(store)
    clock.advance(2 * SECOND)
    began = minute_of(clock.now())
    one = claim_one(store, lease=DAY)
    assert [(one.what, one.minute, one.rows) for one in store.stats.starting(10)] == [("started", began, 1)]
    clock.advance(HOUR)
    store.finish_attempts([succeeded(one)])
    keep_books(store, clock)
    assert store.stats.starting(10) == []
    minutes = store.stats.rollups(1, ALL, ALL, 0)
    assert minutes[began].started == 1
    assert 1.8 < (quantile(minutes[began].waits, 0.5) or 0) < 2.3
    assert minutes[began].succeeded == 0
    assert [figures.succeeded for minute, figures in minutes.items() if minute > began] == [1]


def test_a_job_that_is_retried_has_failed_all_the_same(store: Store, clock: VirtualClock) -> None:
    job_id = ended(store, failed)
    keep_books(store, clock)
    store.retry_jobs([job_id])
    store.finish_attempts([succeeded(claim_one(store))])
    keep_books(store, clock)
    found = summed(store, EVER)
    assert (found.failed, found.retried, found.succeeded, found.started) == (1, 0, 1, 2)


def test_a_queue_shows_what_went_through_it(store: Store, clock: VirtualClock) -> None:
    for queue in ("a", "b", "b"):
        ended(store, queue=queue)
    keep_books(store, clock)
    found = store.stats.queue_rollups(1, minute_of(clock.now()) - 30)
    assert {queue: sum(one.succeeded for one in minutes.values()) for queue, minutes in found.items()} == {
        "a": 1,
        "b": 2,
    }
    assert store.stats.queue_rollups(1, minute_of(clock.now()) + 1) == {}
    totals = {key: one.enqueued for key, one in store.stats.rollup_totals().items()}
    assert totals == {("a", "t"): 1, ("b", "t"): 2}


def test_old_figures_are_pruned_and_totals_stay(store: Store, clock: VirtualClock) -> None:
    ended(store)
    keep_books(store, clock)
    clock.advance(DAY)
    store.prune(Retention(), 1000)
    assert [summed(store, span).succeeded for span in (EVER, *KEPT)] == [1, 0, 0, 1, 1]
    clock.advance(9 * DAY)
    store.prune(Retention(), 1000)
    assert [summed(store, span).succeeded for span in (EVER, *KEPT)] == [1, 0, 0, 0, 0]


def test_a_crowd_is_counted_page_by_page(store: Store, clock: VirtualClock) -> None:
    for _ in range(10):
        ended(store)
        clock.advance(SECOND)
    clock.advance(10 * SECOND)
    marks, pages = store.stats.rollup_marks(), 0
    while True:
        page = store.stats.count_events(marks, 3)
        assert sum(one.rows for one in page.counted if one.what == "succeeded") <= 3 + 1
        assert store.stats.add_rollups(page.marks, fold(page.counted, clock.now()))
        marks, pages = store.stats.rollup_marks(), pages + 1
        if not page.is_full:
            break
    assert (pages, summed(store, EVER).succeeded, summed(store, EVER).enqueued) == (4, 10, 10)
    assert marks.created == first_id(clock.now() - 5 * SECOND)
