"""Definition of a benchmark row, and helpers that all rows use.

A row is measured several times. It provides, for ours and for raw, a context manager that yields a measuring function.
Costly state that a measurement does not use up, such as a million queued jobs, is set up once; all other state is set
up for each measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from bench import witness
from bench.places import Database, Place
from bench.raw.base import Raw
from bench.raw.postgres import RawPostgres
from bench.raw.sqlite import RawSqlite
from bench.tasks import make_app
from bench.worker import WorkerProcess, running_worker, wait_until
from tickwork import Tickwork
from tickwork.task import Enqueues

LOOK_S = 0.25  # the interval at which completions are counted, long enough not to affect the figures
START_LIMIT_S = 30.0
SLOWEST = 200  # jobs per second; a slower measurement is aborted
WARM_UP = 10  # jobs before a worker counts as warm: both children have run something


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of all measurements."""

    one_by_one: int = 2_000
    bulk: int = 50_000
    batch: int = 1_000
    drain: int = 20_000
    backlog: int = 1_000_000
    latency_s: float = 10.0
    latency_per_s: float = 10.0
    timers: int = 1_000
    timers_s: float = 10.0
    timers_lead_s: float = 3.0  # enough to store all timers before the first is due
    steady_per_s: float = 5_000.0
    steady_batch: int = 50
    steady_s: float = 10.0
    rest_s: float = 10.0  # before an idle worker is measured
    idle_s: float = 20.0  # while it is measured
    schedules: int = 10_000
    ticks: int = 100
    limited_keys: int = 1_000
    held: tuple[int, ...] = (0, 10_000, 100_000)
    claims: int = 50  # that are timed
    tenant_jobs: int = 100_000
    tenant_s: float = 10.0
    tenant_per_s: float = 20.0
    dag_chain: int = 100
    dag_fan: int = 1_000
    dag_fan_large: int = 10_000
    dag_runs: int = 10_000
    dag_small: int = 1_000
    dag_large: int = 10_000
    http_per_s: float = 500.0
    http_s: float = 10.0
    http_polls: int = 1_000
    idle_fleets: int = 10
    idle_slots_s: float = 5.0


FULL = Sizes()
QUICK = Sizes(
    one_by_one=500,
    bulk=10_000,
    drain=5_000,
    backlog=100_000,
    latency_s=3.0,
    timers=200,
    timers_s=2.0,
    timers_lead_s=2.0,
    steady_s=3.0,
    rest_s=2.0,
    idle_s=5.0,
    schedules=1_000,
    ticks=20,
    held=(0, 1_000, 10_000),
    claims=10,
    tenant_jobs=10_000,
    tenant_s=3.0,
    dag_fan_large=2_000,
    dag_runs=200,
    http_s=3.0,
    http_polls=100,
    idle_fleets=1,
    idle_slots_s=1.0,
)


@dataclass(frozen=True, slots=True)
class Sample:
    """The result of one measurement: the figures of its row, and additional ones. Names end in their unit."""

    figures: dict[str, float]
    extra: dict[str, float] = field(default_factory=dict)


Measure = Callable[[], Sample]
Block = Callable[[Place, Sizes], AbstractContextManager[Measure]]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table. `raw` is None if there is no raw measurement; `raw_once`: measure raw once, as it is slow.

    `targets`: the upper limits of figures, by store.
    """

    name: str
    title: str
    unit: Literal["jobs/s", "ms", "s", "MB, %", "%"]
    ours: Block
    raw: Block | None = None
    raw_once: bool = False
    targets: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def each_time_anew(measure: Callable[[Database, Sizes], Sample]) -> Block:
    """Return a block in which each measurement gets an empty database of its own."""

    @contextmanager
    def block(place: Place, sizes: Sizes) -> Iterator[Measure]:
        def once() -> Sample:
            with place.fresh() as database:
                return measure(database, sizes)

        yield once

    return block


@contextmanager
def opened(database: Database) -> Iterator[Tickwork]:
    """Open our app on a database, and create its tables."""
    app = make_app(database.url, upgrade=True)
    try:
        app.store.upgrade()
        yield app
    finally:
        app.close()


@contextmanager
def serving(database: Database) -> Iterator[tuple[Tickwork, Callable[[], dict[int, int]], WorkerProcess]]:
    """Run a warm, idle worker; yield the app, a function that returns start times in ns by number, and the worker."""
    path = witness.make(database.folder)
    with opened(database) as app, running_worker(database.url, database.folder, witness.env(path)) as worker:
        warm_up(app, database, worker)
        yield app, lambda: witness.read(path), worker


def warm_up(app: Tickwork, database: Database, worker: WorkerProcess) -> None:
    """Run a few jobs, with numbers below 0."""
    for number in range(WARM_UP):
        app.tasks["stamp"].enqueue(-1 - number)
    wait_until(lambda: database.finished() >= WARM_UP, "the first jobs done", START_LIMIT_S, worker, LOOK_S)


def fill(app: Tickwork, task: str, count: int, batch: int, first: int = 0) -> list[str]:
    """Enqueue jobs in batches, numbered from `first` on; return their ids."""
    return fill_with(app.tasks[task], [(number,) for number in range(first, first + count)], batch)


def fill_with(task: Enqueues[..., Any], rows: Sequence[tuple[Any, ...]], batch: int) -> list[str]:
    """Enqueue jobs with these arguments in batches; return their ids."""
    ids: list[str] = []
    for start in range(0, len(rows), batch):
        ids += [job.id for job in task.enqueue_many(rows[start : start + batch])]
    return ids


def raw_of(database: Database) -> Raw:
    return RawSqlite(database.url) if database.url.startswith("sqlite") else RawPostgres(database.url)


def rate(count: int, seconds: float) -> dict[str, float]:
    return {"per_s": count / seconds}
