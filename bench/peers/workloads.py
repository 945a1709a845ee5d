"""The workloads, which are the same for all peers: a driver enqueues, workers run, and the benchmark reads the store.

A job counts as finished when its completion is stored, or if a peer stores no completions, when its handler ran.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import psycopg

from bench import witness
from bench.peers.catalog import Peer
from bench.peers.protocol import Driver, environment, running_driver
from bench.peers.workers import Workers, running_workers
from bench.rows import FULL as OURS_FULL
from bench.rows import QUICK as OURS_QUICK
from bench.rows import Sample, Sizes
from bench.rows.base import WARM_UP, rate
from bench.rows.promptness import promptness
from bench.worker import BenchFailed

# Some peers need seconds to set 1,000 timers.
FULL = replace(OURS_FULL, bulk=20_000, timers_lead_s=8.0, rest_s=2.0, idle_s=8.0)
QUICK = replace(OURS_QUICK, timers_lead_s=4.0)
LOOK_S = 0.01  # the interval of checks of the witness file, which are free, and then of the store
LIMIT_S = 90.0
DRAIN_S = 10.0  # approximate duration of the drain of a slow peer


class Database(Protocol):
    """A store of one measurement."""

    url: str
    folder: Path

    def one(self, query: str) -> Any: ...

    def settle(self) -> None: ...


class Place(Protocol):
    """Creates stores."""

    @property
    def name(self) -> str: ...

    def facts(self) -> dict[str, str]: ...

    def fresh(self) -> AbstractContextManager[Database]: ...


class NotAble(Exception):
    """The peer lacks the feature."""


@dataclass(frozen=True, slots=True)
class Bed:
    """A peer on an empty store, ready for one measurement."""

    peer: Peer
    database: Database
    driver: Driver
    witness: Path
    sizes: Sizes

    @contextmanager
    def workers(self) -> Iterator[Workers]:
        env = {**environment(self.database.url), **witness.env(self.witness)}
        commands = self.peer.commands(self.database.url)
        with running_workers(commands, self.database.folder, env) as workers:
            yield workers

    @contextmanager
    def warm_workers(self) -> Iterator[Workers]:
        """Run workers that have run some jobs and are idle."""
        with self.workers() as workers:
            self.driver.ask("enqueue", first=-WARM_UP, count=WARM_UP)
            self.wait_for_bodies(workers, WARM_UP)
            time.sleep(self.sizes.rest_s)  # until both processes have started and are idle
            yield workers

    def fill(self, count: int) -> None:
        """Enqueue jobs in the fastest way."""
        if self.driver.bulk:
            self.driver.ask("enqueue_many", first=0, count=count, batch=self.sizes.batch)
        else:
            self.driver.ask("enqueue", first=0, count=count)
        if self.peer.store == "postgres":
            _analyze(self.database.url)
        self.database.settle()

    def wait_for_bodies(self, workers: Workers, count: int) -> dict[int, int]:
        """Wait until `count` handlers ran; return their start times in nanoseconds, by job number."""

        def all_ran() -> bool:
            return witness.count(self.witness) >= count and len(witness.read(self.witness)) >= count

        workers.wait_until(all_ran, f"{count} bodies run", LIMIT_S, LOOK_S)
        return witness.read(self.witness)

    def wait_for_completions(self, workers: Workers, count: int) -> tuple[int, int]:
        """Wait for `count` completions; return the times of the first start and the last completion in nanoseconds."""
        ran_ns = self.wait_for_bodies(workers, count).values()
        if self.peer.stored is None:
            return min(ran_ns), max(ran_ns)
        asked_ns = [0]

        def all_stored() -> bool:
            asked_ns[0] = time.time_ns()  # the time of the query, not of its result
            return int(self.database.one(self.peer.stored or "")) >= count

        workers.wait_until(all_stored, f"{count} completions stored", LIMIT_S, LOOK_S)
        return min(ran_ns), max(asked_ns[0], *ran_ns)


def _analyze(url: str) -> None:
    """Run ANALYZE, as autovacuum would within a minute.

    The statistics matter: Procrastinate drained 290 to 330 jobs/s without and 460 to 660 with them, in two tries each.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ANALYZE")


@contextmanager
def made(peer: Peer, place: Place, sizes: Sizes) -> Iterator[Bed]:
    """Prepare a peer on a new, empty store for the duration of a block."""
    with place.fresh() as database:
        path = witness.make(database.folder)
        env = {**environment(database.url), **witness.env(path)}
        with running_driver(peer.python, peer.driver, database.folder, env) as driver:
            yield Bed(peer, database, driver, path, sizes)


def jobs_to_drain(per_s: int, most: int) -> int:
    """Return `most`, or for a slow peer the jobs that take it about `DRAIN_S` (less in a quick run), in hundreds."""
    seconds = DRAIN_S * most / FULL.drain
    return min(most, max(100, round(per_s * seconds / 100) * 100))


def enqueue_one_by_one(bed: Bed) -> Sample:
    count = bed.sizes.one_by_one
    return Sample(rate(count, bed.driver.ask("enqueue", first=0, count=count).seconds), {"jobs": count})


def enqueue_in_bulk(bed: Bed) -> Sample:
    if not bed.driver.bulk:
        raise NotAble("no bulk")
    count = bed.sizes.bulk
    answer = bed.driver.ask("enqueue_many", first=0, count=count, batch=bed.sizes.batch)
    return Sample(rate(count, answer.seconds), {"jobs": count})


def drain(bed: Bed) -> Sample:
    """Measure from the first start to the last completion, for jobs enqueued before the workers were started."""
    count = jobs_to_drain(bed.peer.per_s, bed.sizes.drain)
    bed.fill(count)
    with bed.workers() as workers:
        first_ns, last_ns = bed.wait_for_completions(workers, count)
    return Sample(rate(count, (last_ns - first_ns) / 1e9), {"jobs": count})


def start_latency(bed: Bed) -> Sample:
    """Measure from just before the enqueue to the handler's first line, on idle workers."""
    count = round(bed.sizes.latency_s * bed.sizes.latency_per_s)
    with bed.warm_workers() as workers:
        sent_ns = bed.driver.ask("pace", count=count, per_s=bed.sizes.latency_per_s).at_ns
        ran_ns = bed.wait_for_bodies(workers, WARM_UP + count)
    return promptness([(ran_ns[number] - at_ns) / 1e6 for number, at_ns in enumerate(sent_ns)])


def timer_lateness(bed: Bed) -> Sample:
    """Measure from the due time to the handler's first line, for timers set while the workers ran."""
    if not bed.driver.timers:
        raise NotAble("no timers")
    sizes = bed.sizes
    with bed.warm_workers() as workers:
        asked = {"count": sizes.timers, "lead_s": sizes.timers_lead_s, "over_s": sizes.timers_s}
        due_ns = bed.driver.ask("timers", **asked).at_ns
        ran_ns = bed.wait_for_bodies(workers, WARM_UP + sizes.timers)
    late = promptness([(ran_ns[number] - at_ns) / 1e6 for number, at_ns in enumerate(due_ns)])
    return Sample({**late.figures, "earliest": late.extra["earliest_ms"]}, late.extra)


def footprint(bed: Bed) -> Sample:
    """Measure from the start of the workers to the completion of a queued job, then memory and CPU while idle."""
    bed.driver.ask("enqueue", first=0, count=1)
    began_ns = time.time_ns()
    with bed.workers() as workers:
        _, done_ns = bed.wait_for_completions(workers, 1)
        time.sleep(bed.sizes.rest_s)
        used_s, began = workers.cpu_s(), time.monotonic()
        time.sleep(bed.sizes.idle_s)
        idle = (workers.cpu_s() - used_s) / (time.monotonic() - began)
        memory_mb = workers.pss_mb()
    if memory_mb <= 0:
        raise BenchFailed("The workers were gone before they were weighed.")
    return Sample({"cold_s": (done_ns - began_ns) / 1e9, "pss_mb": memory_mb, "cpu_percent": idle * 100})


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload, which is one table, sorted by the first figure; too early counts as much as too late."""

    name: str
    title: str
    measure: Callable[[Bed], Sample]
    columns: dict[str, str]  # a heading for each figure
    best: Literal["most", "least"]


_MS = {"p50": "p50 ms", "p95": "p95 ms", "p99": "p99 ms"}
WORKLOADS = (
    Workload("enqueue", "Enqueue one by one", enqueue_one_by_one, {"per_s": "jobs/s"}, "most"),
    Workload("bulk", "Enqueue in bulk, 1,000 a call", enqueue_in_bulk, {"per_s": "jobs/s"}, "most"),
    Workload("drain", "Drain, 2 processes", drain, {"per_s": "jobs/s"}, "most"),
    Workload("latency", "Start latency, 10 jobs/s", start_latency, _MS, "least"),
    Workload("timers", "Lateness of timers", timer_lateness, {**_MS, "earliest": "earliest ms"}, "least"),
    Workload(
        "footprint",
        "Footprint: cold start to the first job done, idle memory and processor",
        footprint,
        {"cold_s": "cold start s", "pss_mb": "idle PSS MB", "cpu_percent": "idle CPU %"},
        "least",
    ),
)
