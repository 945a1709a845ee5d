"""Every hot verb does the same work on a store ten times as large: the plan of each of its statements is right."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple

import psycopg
import pytest

from tests.store.builders import (
    HOUR,
    MICROSECOND,
    SECOND,
    a_job,
    abandoned,
    again,
    claim,
    failed,
    jobs,
    register,
    succeeded,
)
from tests.store.effort import PostgresEffort, SqliteEffort, Verb, effort_on, nodes
from tickwork.core.blob_ref import BlobRef
from tickwork.core.ids import JobId, WorkerId
from tickwork.core.job import JobFilter, JobState, NewJob, QueuedReason
from tickwork.core.limits.job_limits import JobLimits, LimitUse
from tickwork.core.limits.limits import concurrency
from tickwork.core.notify.state import EndedMark
from tickwork.core.recurrence.interval import every
from tickwork.core.retention import Retention
from tickwork.core.schedule.spec import new_spec
from tickwork.core.stats.rollups import minute_of
from tickwork.store.attempt_types import Finish, NewLog, OpenAttempt, Progress
from tickwork.store.base import Store
from tickwork.store.claim import sparse_scan
from tickwork.store.limits import LimitedCapacity
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.reads import read_verbs as postgres_reads
from tickwork.store.reads import job_search, stats
from tickwork.store.schedules import Fired, ScheduleMove
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.reads import read_verbs as sqlite_reads
from tickwork.testing import VirtualClock

pytestmark = pytest.mark.xdist_group("plans")  # the stores are filled once

SMALL, LARGE = 1_000, 10_000  # the smaller one is as much as `due_tasks` looks at
FEW = 10
PAGE = 5
SLACK = 60  # rows or steps, however large the store is
FOR_EVER = timedelta(days=1000)


class Filled(NamedTuple):
    """A store with a few failed, cancelled and running jobs, and then, newer, `size` each that are queued, succeeded
    and delayed, the delayed ones with a key."""

    store: Store
    clock: VirtualClock
    worker: WorkerId
    failed: list[JobId]
    first_delayed: JobId
    first_key: str


def fill(store: Store, clock: VirtualClock, size: int) -> Filled:
    worker = register(store, lease=FOR_EVER)
    dead = _end(store, worker, FEW, failed)
    store.cancel_jobs(store.insert_jobs(jobs(FEW)))
    store.insert_jobs(jobs(FEW))
    assert len(claim(store, FEW, worker)) == FEW
    store.insert_jobs(jobs(size, queue="other"))
    for _ in range(0, size, SMALL // 10):
        _end(store, worker, SMALL // 10, succeeded)
        clock.advance(MICROSECOND)
    keyed = [a_job(delay=HOUR * (number + 1), key=f"{size}-{number}") for number in range(size)]
    (first, *_) = store.insert_jobs(keyed)
    _schedule(store, clock, size)
    _hold(store, worker, size)
    return Filled(store, clock, worker, dead, first, keyed[0].key or "")


def limited(limit: str, key: str = "") -> NewJob:
    return a_job(queue="limited", job_limits=JobLimits(uses=(LimitUse(limit, key, 1),)))


def _hold(store: Store, worker: WorkerId, size: int) -> None:
    """Jobs that a full limit holds, and behind them a few that could run under keys of their own."""
    store.limits.declare_limits({"full": concurrency(1), "keyed": concurrency(1)})
    store.insert_jobs([limited("full") for _ in range(size)])
    assert len(claim(store, PAGE, worker, queues=["limited"])) == 1
    while any(one.name == "limited" and one.due for one in store.reads.queues()):
        claim(store, PAGE, worker, queues=["limited"])


def _schedule(store: Store, clock: VirtualClock, size: int) -> None:
    """Schedules of which a few are due, and a few wait for runs that live."""
    specs = [new_spec(f"{number:05}", "t", every("1h")) for number in range(size)]
    store.schedules.put_schedules(specs)
    seen = sorted(store.schedules.look_at_schedules(size).schedules, key=lambda one: one.name)
    moves = [
        ScheduleMove(
            name=one.name,
            version=one.version,
            standing=one.standing,
            wake_at=clock.now() + (HOUR * 24 * 365 if number >= FEW else SECOND * 0),
            awaits_end=number < FEW,
            jobs=(a_job(queue="scheduled", at=clock.now()),),
        )
        for number, one in enumerate(seen)
    ]
    assert len(store.schedules.move_schedules(moves)) == size


def _end(store: Store, worker: WorkerId, count: int, how: Callable[..., object]) -> list[JobId]:
    store.insert_jobs(jobs(count))
    claimed = claim(store, count, worker)
    assert store.finish_attempts([how(one) for one in claimed]) == {one.job_id for one in claimed}  # type: ignore[misc]
    return [one.job_id for one in claimed]


# -- what is measured


def page(*, below_delayed: bool = False, **which: object) -> Callable[[Filled], object]:
    return lambda on: on.store.reads.list_jobs(
        JobFilter(**which),  # type: ignore[arg-type]
        PAGE,
        on.first_delayed if below_delayed else None,
    )


def bounded(look: Callable[[Filled], object]) -> Callable[[Filled], object]:
    """The same, walking no further than the small store goes."""

    def call(on: Filled) -> object:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("WALK", "SCATTERED", "ERRORS"):
                patch.setattr(job_search, name, SMALL // 10)
            for module in (sqlite_reads, postgres_reads):
                patch.setattr(module, "COUNTED", SMALL // 10)
            return look(on)

    return call


def settled(look: Callable[[Filled], object]) -> Callable[[Filled], object]:
    """The same, where all that happened is long enough ago to be counted."""

    def call(on: Filled) -> object:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stats, "SETTLED", -HOUR)
            return look(on)

    return call


def count_events(on: Filled) -> None:
    page = on.store.stats.count_events(on.store.stats.rollup_marks(), PAGE)
    assert page.is_full
    assert sum(one.rows for one in page.counted if one.what == "enqueued") == PAGE


def find(**which: object) -> Callable[[Filled], object]:
    return bounded(lambda on: on.store.reads.find_jobs(JobFilter(**which), PAGE))  # type: ignore[arg-type]


def claim_and_finish(on: Filled) -> None:
    claimed = claim(on.store, PAGE, on.worker, queues=["other"])
    assert len(claimed) == PAGE
    assert len(on.store.finish_attempts([succeeded(one) for one in claimed])) == PAGE


def exchange(on: Filled) -> None:
    claimed = claim(on.store, PAGE, on.worker, queues=["other"])
    endings = [succeeded(one) for one in claimed]
    done = on.store.exchange(on.worker, endings, [], queues=["other"], tasks=["t"], limit=PAGE)
    assert len(done.finished) == PAGE
    assert done.claims is not None
    assert len(done.claims.jobs) == PAGE
    on.store.finish_attempts([succeeded(one) for one in done.claims.jobs])


def take_back(on: Filled) -> None:
    """A worker falls silent, and the reaper takes back what it held."""
    silent = register(on.store, lease=SECOND)
    on.store.insert_jobs(jobs(PAGE, queue="silent"))
    assert len(claim(on.store, PAGE, silent, queues=["silent"])) == PAGE
    on.clock.advance(2 * SECOND)
    lost = on.store.expired_attempts(PAGE)
    assert len(on.store.reclaim_attempts([abandoned(one) for one in lost])) == PAGE


def claim_beside_held(on: Filled) -> None:
    on.store.insert_jobs([limited("keyed", str(number)) for number in range(PAGE)])
    claimed = claim(on.store, PAGE, on.worker, queues=["limited"])
    assert len(claimed) == PAGE
    on.store.finish_attempts([succeeded(one) for one in claimed])


def search_among_others(on: Filled) -> None:
    """A step of a search for a task of which there are no jobs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_scan, "WALK", SMALL // 10)
        assert (
            on.store.claim_jobs(on.worker, ["other"], ["u"], PAGE, capacity=LimitedCapacity(PAGE, search="all")).jobs
            == []
        )


def put_aside_and_go_on(on: Filled) -> None:
    """One key is taken, others wait for it, and come one after the other."""
    on.store.insert_jobs([limited("keyed", "same") for _ in range(3)])
    for _ in range(3):
        (one,) = claim(on.store, PAGE, on.worker, queues=["limited"])
        on.store.finish_attempts([succeeded(one)])


def prune(on: Filled) -> None:
    on.clock.advance(SECOND)
    assert on.store.prune(Retention(ended=timedelta(0), failed=timedelta(0)), PAGE).count == PAGE


def why(on: Filled) -> None:
    on.store.reads.get_jobs([on.first_delayed])
    on.store.reads.workers()
    on.store.now()


def cancel_and_retry(on: Filled) -> None:
    (job_id,) = on.store.insert_jobs([a_job(queue="nobody's")])
    assert on.store.cancel_jobs([job_id]) == [job_id]
    assert on.store.retry_jobs([job_id]) == [job_id]


def look_and_move(on: Filled) -> None:
    look = on.store.schedules.look_at_schedules(PAGE)
    assert len(look.schedules) == PAGE
    moves = [
        ScheduleMove(
            name=seen.name,
            version=seen.version,
            standing=seen.standing,
            wake_at=look.now,
            awaits_end=True,
            fires=(Fired(look.now + timedelta(microseconds=seen.version), "start", False),),
            jobs=(a_job(queue="scheduled", at=look.now),),
        )
        for seen in look.schedules
    ]
    assert len(on.store.schedules.move_schedules(moves)) == PAGE


def just_now(on: Filled) -> tuple[EndedMark, datetime]:
    """The moment after the last end: what notifications look at, again and again."""
    return EndedMark(on.clock.now() + MICROSECOND), on.clock.now() + SECOND


VERBS: dict[str, Callable[[Filled], object]] = {
    "look at schedules and move them": look_and_move,
    "list schedules": lambda on: on.store.schedules.list_schedules(PAGE),
    "get schedules": lambda on: on.store.schedules.get_schedules(["00007"]),
    "fires of a schedule": lambda on: on.store.schedules.fires("00007", PAGE),
    "pause and resume": lambda on: (
        on.store.schedules.pause_schedules(["00500"]),
        on.store.schedules.resume_schedules(["00500"]),
    ),
    "insert": lambda on: on.store.insert_jobs(jobs(PAGE, queue="nobody's")),
    "insert with a key": lambda on: on.store.insert_jobs([a_job(queue="nobody's", key=a_job().id)]),
    "insert with a taken key": lambda on: on.store.insert_jobs([a_job(key=on.first_key)]),
    "claim and finish": claim_and_finish,
    "exchange": exchange,
    "claim beside held jobs": claim_beside_held,
    "search among others": search_among_others,
    "put aside and go on": put_aside_and_go_on,
    "claim, and nothing is due": lambda on: claim(on.store, PAGE, on.worker),
    "claim ahead": lambda on: claim(on.store, PAGE, on.worker, ahead=timedelta(milliseconds=250)),
    "due tasks": lambda on: on.store.reads.due_tasks(["default"]),
    "backlog": lambda on: on.store.reads.backlog(["other", "default"], ["t"], 100),
    "waiting kinds": lambda on: on.store.reads.waiting_kinds("other", 100),
    "durations": lambda on: on.store.reads.durations(),
    "heartbeat": lambda on: on.store.renew_lease(on.worker, FOR_EVER),
    "cancel requests": lambda on: on.store.cancel_requests(on.worker),
    "open attempts": lambda on: on.store.open_attempts(on.worker),
    "reap": take_back,
    "expire": lambda on: on.store.expire_jobs(PAGE),
    "see what failed": lambda on: on.store.notifications.ended_jobs(*just_now(on), PAGE, badly=True),
    "see what ended": lambda on: on.store.notifications.ended_jobs(*just_now(on), PAGE, badly=False),
    "see what waits": lambda on: on.store.notifications.waiting_jobs(on.clock.now(), on.clock.now() + SECOND, PAGE),
    "see what was missed": lambda on: on.store.notifications.missed_fires(
        on.clock.now(), on.clock.now() + SECOND, PAGE
    ),
    "prune, and nothing is old": lambda on: on.store.prune(Retention(), PAGE),
    "prune": prune,
    "unused blobs": lambda on: on.store.unused_blobs([BlobRef.of(b"x", one, 1).key for one in on.failed]),
    "cancel and retry": cancel_and_retry,
    "why": why,
    "find key": lambda on: on.store.reads.find_key(on.first_key),
    "find key that nobody has": lambda on: on.store.reads.find_key("nobody's"),
    "attempts and logs": lambda on: (on.store.reads.attempts(on.failed[0]), on.store.reads.logs(on.failed[0])),
    "list": page(),
    "list a task": page(task="t"),
    "list runs": page(runs=True),
    "list runs that run": page(runs=True, state=JobState.RUNNING),
    "list runs that succeeded": page(runs=True, state=JobState.SUCCEEDED),
    "list runs of a dag": page(runs=True, task="dag"),
    "list queued": page(state=JobState.QUEUED, below_delayed=True),
    "list running": page(state=JobState.RUNNING),
    "list succeeded": page(state=JobState.SUCCEEDED),
    "list failed": page(state=JobState.FAILED),
    "list dead": page(dead=True),
    "list dead of a task": page(dead=True, task="t"),
    "list by key": page(key="nobody's"),
    "list by collection": page(collection="nobody's"),
    "find by label": find(label="nobody's"),
    "find by queue": find(queue="nobody's"),
    "find by queue, queued": find(queue="other", state=JobState.QUEUED, label="nobody's"),
    "find by task and state": find(task="nobody's", state=JobState.SUCCEEDED),
    "find of another task": find(task="t", state=JobState.CANCELLED, label="nobody's"),
    "find succeeded with a label": find(state=JobState.SUCCEEDED, label="nobody's"),
    "find queued with a label": find(state=JobState.QUEUED, label="nobody's"),
    "find dead with a label": find(dead=True, label="nobody's"),
    "find runs of a task": find(runs=True, task="t"),
    "find by a run": find(run="019a8f3e-1c2d-7abc-8def-0123456789ab"),
    "find by when": find(until=datetime(2020, 1, 1, tzinfo=UTC), label="nobody's"),
    "find retrying": find(waits=QueuedReason.RETRYING),
    "find delayed with a label": find(waits=QueuedReason.DELAYED, label="nobody's"),
    "find by a beginning of a task": find(tasks="nobody"),
    "find by tenant": find(tenant="nobody"),
    "find by error": find(error="nobody"),
    "find by worker": find(worker="nobody", state=JobState.RUNNING),
    "count": bounded(lambda on: on.store.reads.count_jobs(JobFilter(), SMALL // 10)),
    "count with a label": bounded(lambda on: on.store.reads.count_jobs(JobFilter(label="nobody's"), SMALL // 10)),
    "count a task": bounded(lambda on: on.store.reads.count_jobs(JobFilter(task="t"), SMALL // 10)),
    # Ids have the time of the machine's clock, and the store was filled while the clock of the test stood still.
    "see what changed, and nothing did": lambda on: on.store.reads.happenings(on.clock.now() + HOUR, 100),
    "see what changed": lambda on: on.store.reads.happenings(on.clock.now() - HOUR, 100),
    "topics": lambda on: on.store.reads.topics(),
    "queue names": lambda on: on.store.reads.queue_names(),
    "find failures": bounded(lambda on: on.store.reads.find_failures(JobFilter(label="nobody's"), PAGE)),
    "search": bounded(lambda on: on.store.reads.search_jobs("t", PAGE)),
    "search in errors": bounded(lambda on: on.store.reads.search_jobs("broke", PAGE)),
    "lease an operation, and there is none": lambda on: on.store.operations.lease_operation(HOUR),
    "ended among": lambda on: on.store.reads.ended_among(on.failed),
    "reschedule": lambda on: on.store.reschedule_jobs([on.first_delayed], delay=HOUR),
    "asked of a worker": lambda on: on.store.operations.asked_of(on.worker),
    "newest runs": lambda on: on.store.reads.newest_runs(["dag", "other"], PAGE),
    "newest runs before one": lambda on: on.store.reads.newest_runs(["dag"], PAGE, on.first_delayed),
    "grid": lambda on: on.store.reads.grid([on.first_delayed], ["a", "b"]),
    "events of a run": lambda on: on.store.reads.run_events(on.first_delayed, PAGE),
    "approvals": lambda on: on.store.reads.asked([(on.first_delayed, "a")]),
    "recent fires": lambda on: on.store.reads.recent_fires(["00007", "00008"], PAGE),
    "counts of fires": lambda on: on.store.reads.fire_counts("00007", datetime(2020, 1, 1, tzinfo=UTC), PAGE),
    "how late schedules are": lambda on: on.store.reads.schedules_late(),
    "what a worker runs": lambda on: on.store.reads.held_jobs(on.worker, PAGE),
    "queues": bounded(lambda on: on.store.reads.queues()),
    "keys of a limit": lambda on: on.store.limits.limit_keys("full", PAGE),
    "failed lately": lambda on: on.store.reads.failed_lately(on.clock.now() - HOUR, PAGE),
    "retried lately": lambda on: on.store.reads.retried_lately(on.clock.now() - HOUR, PAGE),
    "count for figures": settled(count_events),
    "rollups": lambda on: on.store.stats.rollups(1, "", "", minute_of(on.clock.now()) - 60),
    "figures of queues": lambda on: on.store.stats.queue_rollups(1, minute_of(on.clock.now()) - 30),
    "figures since the store was made": lambda on: on.store.stats.rollup_totals(),
    "until when figures are known": settled(lambda on: on.store.stats.counted_until()),
    "what starts now": lambda on: on.store.stats.starting(PAGE),
    "schedules that are due next": lambda on: on.store.schedules.waking_schedules(PAGE),
    "schedules that are paused": lambda on: on.store.schedules.paused_schedules(PAGE),
    "approvals that wait": lambda on: on.store.dags.waiting_approvals(PAGE),
}


# -- both stores, small and large


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def effort(kind: str) -> Iterator[SqliteEffort | PostgresEffort]:
    with effort_on(kind) as effort:
        yield effort


@pytest.fixture(scope="module")
def filled(
    kind: str,
    effort: SqliteEffort | PostgresEffort,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[tuple[Filled, Filled]]:
    with ExitStack() as stack:
        both: list[Filled] = []
        for size in (SMALL, LARGE):
            clock = VirtualClock()
            if kind == "sqlite":
                store: Store = SqliteStore(str(tmp_path_factory.mktemp("plans") / "jobs.db"), clock=clock)
            else:
                store = _postgres(request.getfixturevalue("postgres_database"), f"plans_{size}", clock)
            stack.callback(store.close)
            both.append(fill(store, clock, size))
        if kind == "postgres":
            with psycopg.connect(request.getfixturevalue("postgres_database"), autocommit=True) as connection:
                connection.execute("VACUUM ANALYZE")
        yield both[0], both[1]


def _postgres(url: str, schema: str, clock: VirtualClock) -> Store:
    return PostgresStore(url, schema=schema, clock=clock, upgrade=True)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_does_no_more_on_a_store_ten_times_as_large(
    verb: str, filled: tuple[Filled, Filled], effort: SqliteEffort | PostgresEffort
) -> None:
    call = VERBS[verb]
    for on in filled:
        call(on)  # what is remembered from the time before is remembered
    small, large = (effort.of(lambda on=on: call(on)) for on in filled)  # type: ignore[misc]
    assert small > 0
    assert large <= 2 * small + SLACK, f"{small} on the small store, {large} on the large one"


def test_without_lost_workers_the_reaper_does_not_look_at_what_runs(postgres: PostgresStore) -> None:
    """Dead rows of ended jobs accumulate there while a snapshot is open."""
    worker, effort = register(postgres, lease=FOR_EVER), PostgresEffort()
    before = effort.of(lambda: postgres.expired_attempts(PAGE))
    postgres.insert_jobs(jobs(5 * PAGE))
    assert len(claim(postgres, 5 * PAGE, worker)) == 5 * PAGE
    assert effort.of(lambda: postgres.expired_attempts(PAGE)) == before


# -- batches, planned by what statistics of empty tables say


def finish_batch(store: Store, worker: WorkerId, n: int, how: Callable[..., Finish] = succeeded) -> list[Finish]:
    store.insert_jobs(jobs(n))
    return [how(one) for one in claim(store, n, worker)]


def some_failed(store: Store, worker: WorkerId, n: int) -> list[JobId]:
    endings = finish_batch(store, worker, n, failed)
    return list(store.finish_attempts(endings))


def open_batch(store: Store, worker: WorkerId, n: int) -> list[OpenAttempt]:
    store.insert_jobs(jobs(n))
    claim(store, n, worker)
    return store.open_attempts(worker)


def keyed_jobs(n: int) -> list[NewJob]:
    return [limited("many", f"{n}-{number}") for number in range(n)]


# Each prepares, and gives what is measured.
BATCHES: dict[str, Callable[[Store, WorkerId, int], Verb]] = {
    "insert limited": lambda store, worker, n: lambda: store.insert_jobs(keyed_jobs(n)),
    "claim limited": lambda store, worker, n: (
        store.insert_jobs(keyed_jobs(n)),
        lambda: claim(store, n, worker, queues=["limited"]),
    )[1],
    "finish limited": lambda store, worker, n: partial(
        store.finish_attempts,
        (
            store.insert_jobs(keyed_jobs(n)),
            [succeeded(one) for one in claim(store, n, worker, queues=["limited"])],
        )[1],
    ),
    "put aside": lambda store, worker, n: (
        store.limits.declare_limits({"full": concurrency(1)}),
        store.insert_jobs([limited("full") for _ in range(n)]),
        lambda: claim(store, n, worker, queues=["limited"]),
    )[2],
    "insert": lambda store, worker, n: lambda: store.insert_jobs(jobs(n)),
    "insert with keys": lambda store, worker, n: lambda: store.insert_jobs([a_job(key=a_job().id) for _ in range(n)]),
    "claim": lambda store, worker, n: (store.insert_jobs(jobs(n)), lambda: claim(store, n, worker))[1],
    "finish": lambda store, worker, n: partial(store.finish_attempts, finish_batch(store, worker, n)),
    "finish, to be tried again": lambda store, worker, n: partial(
        store.finish_attempts, finish_batch(store, worker, n, again)
    ),
    "logs": lambda store, worker, n: partial(
        store.append_logs, [NewLog(one.job_id, one.claim, 0, "x") for one in open_batch(store, worker, n)]
    ),
    "progress": lambda store, worker, n: partial(
        store.set_progress, [Progress(one.job_id, one.claim, 0.5, None) for one in open_batch(store, worker, n)]
    ),
    "cancel": lambda store, worker, n: partial(store.cancel_jobs, store.insert_jobs(jobs(n))),
    "cancel what runs": lambda store, worker, n: partial(
        store.cancel_jobs, [one.job_id for one in open_batch(store, worker, n)]
    ),
    "retry": lambda store, worker, n: partial(store.retry_jobs, some_failed(store, worker, n)),
    "reschedule": lambda store, worker, n: partial(store.reschedule_jobs, store.insert_jobs(jobs(n)), delay=HOUR),
    "discard": lambda store, worker, n: partial(store.discard_jobs, some_failed(store, worker, n)),
    "replace": lambda store, worker, n: (
        (keys := [a_job().id for _ in range(n)]),
        store.insert_jobs([a_job(key=key) for key in keys]),
        lambda: store.insert_jobs([a_job(key=key, if_exists="replace") for key in keys]),
    )[2],
    "get": lambda store, worker, n: partial(store.reads.get_jobs, store.insert_jobs(jobs(n))),
}
FEW_OF_THEM, MANY_OF_THEM = 30, 300


@pytest.mark.parametrize("verb", BATCHES)
@pytest.mark.parametrize(("history", "running"), [(0, 0), (2000, 0), (2000, 1)])
def test_a_batch_costs_in_proportion_whatever_statistics_say(
    verb: str, history: int, running: int, postgres: PostgresStore
) -> None:
    """They are gathered at any moment: before the first job, or when a busy queue was just empty. Plans last longer."""
    prepare, effort = BATCHES[verb], PostgresEffort()
    worker = register(postgres, lease=FOR_EVER)
    postgres.limits.declare_limits({"many": concurrency(1)})
    if history:
        postgres.finish_attempts(finish_batch(postgres, worker, history)[: history - running])
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    few, many = (effort.of(prepare(postgres, worker, n)) for n in (FEW_OF_THEM, MANY_OF_THEM))
    assert few > 0
    assert many <= 1.5 * few * MANY_OF_THEM / FEW_OF_THEM, f"{few} rows were read for few, {many} for ten times as many"


@pytest.mark.parametrize("verb", BATCHES)
def test_a_batch_costs_in_proportion_where_statistics_know_a_few_rows(verb: str, postgres: PostgresStore) -> None:
    """For a table of 30 rows PostgreSQL would rather read all of them for each job than look each job up."""
    prepare, effort = BATCHES[verb], PostgresEffort()
    worker = register(postgres, lease=FOR_EVER)
    postgres.limits.declare_limits({"many": concurrency(1)})
    few = effort.of(prepare(postgres, worker, FEW_OF_THEM))
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("ANALYZE")
    many = effort.of(prepare(postgres, worker, MANY_OF_THEM))
    assert many <= 1.5 * few * MANY_OF_THEM / FEW_OF_THEM, f"{few} rows were read for few, {many} for ten times as many"


PAGES = [verb for verb in VERBS if verb.startswith(("list", "find", "search"))]


def test_no_page_of_jobs_has_helpers_started_for_it(postgres_database: str) -> None:
    """They take 5 ms to start; a page is read in less than one."""
    clock = VirtualClock()
    store = _postgres(postgres_database, "plans_parallel", clock)
    on = fill(store, clock, LARGE)
    effort = PostgresEffort()
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute("ANALYZE")
    plans = {verb: effort.plans(lambda verb=verb: VERBS[verb](on)) for verb in PAGES}  # type: ignore[misc]
    store.close()
    found = {verb: {node["Node Type"] for plan in plans[verb] for node in nodes(plan)} for verb in PAGES}
    assert all(found.values())
    assert {verb for verb in PAGES if found[verb] & {"Gather", "Gather Merge"}} == set()
