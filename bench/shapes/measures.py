"""The measurements of each variant. Every measurement has a database of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.places import Database
from bench.shapes import processes
from bench.shapes.base import Shape, ShapeFailed, Variant, new_jobs
from bench.shapes.variants import opened
from bench.shapes.worker import CLAIM, Worker, fill
from bench.stats import per_job, percentile

WINDOW_S = 10.0
PAUSE_S = 0.005  # between two timed jobs, so that the waiting process waits again
READERS = 4
LIMIT_S = 120.0  # a longer drain is stopped, and its rate counts the jobs done until then


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of all measurements."""

    drain: int = 40_000
    latency: int = 200
    backlog: int = 1_000_000
    first: int = 20_000
    hold_s: float = 180.0
    read: int = 40_000
    repeat: int = 3


Figures = dict[str, float]
Measurement = Callable[[Variant, Database, Sizes], Figures]


def drain(variant: Variant, database: Database, sizes: Sizes) -> Figures:
    """Enqueue jobs, then finish them in one process: measure the rates, and the total cost of a job."""
    with opened(variant, database.url) as shape:
        shape.create()
        tallied = dict.fromkeys(shape.tally, 0.0)
    database.settle()
    before = _counters(database, tallied)
    with opened(variant, database.url) as filler:
        insert_s = fill(filler, sizes.drain)
        filler.settle()
    with opened(variant, database.url) as shape:
        took = Worker(shape).work(sizes.drain, LIMIT_S)
        _check_all_ended_once(shape, sizes.drain)
    after = _counters(database, {name: filler.tally[name] + shape.tally[name] for name in tallied})
    return {"per_s": sizes.drain / took, "insert_per_s": sizes.drain / insert_s, **per_job(before, after, sizes.drain)}


def drain_by_two(variant: Variant, database: Database, sizes: Sizes) -> Figures:
    """Measure a drain by two processes."""
    with opened(variant, database.url) as shape:
        _fill_up(shape, database, sizes.drain)
        with processes.beside(processes.drain, variant, database.url, 2) as pipes:
            began = time.monotonic()
            for pipe in pipes:
                pipe.send("go")
            done = sum(processes.heard(pipe) for pipe in pipes)
            took = time.monotonic() - began
        _check_all_ended_once(shape, sizes.drain)
    return {"per_s": done / took}


def latency(variant: Variant, database: Database, sizes: Sizes) -> Figures:
    """Measure the time from just before the insert of a job to its claim by a waiting process."""
    took_ms: list[float] = []
    with opened(variant, database.url) as shape:
        shape.create()
        with processes.beside(processes.serve, variant, database.url, 1) as (pipe,):
            for _ in range(sizes.latency):
                time.sleep(PAUSE_S)
                began = time.monotonic()
                shape.insert(new_jobs(1))
                pipe.send("bell")
                took_ms.append((processes.heard(pipe) - began) * 1000)
    return {"p50_ms": percentile(took_ms, 50), "p99_ms": percentile(took_ms, 99)}


def backlog(variant: Variant, database: Database, sizes: Sizes) -> Figures:
    """Measure a drain of the first jobs of a very long queue."""
    with opened(variant, database.url) as shape:
        _fill_up(shape, database, sizes.backlog)
    with opened(variant, database.url) as shape:
        worker = Worker(shape)
        took = worker.work(sizes.first, LIMIT_S)
    return {"per_s": worker.finished / took}


def hold(variant: Variant, database: Database, sizes: Sizes) -> Figures:
    """Insert and finish a hundred jobs at a time, as fast as possible, while another session's transaction stays open.

    The first and the last seconds are compared, because the number of dead rows that cannot be removed grows.
    """
    with ExitStack() as stack:
        producer, consumer, other = (stack.enter_context(opened(variant, database.url)) for _ in range(3))
        producer.create()
        worker = Worker(consumer)
        other.hold()
        began = time.monotonic()
        marks: list[tuple[float, int]] = []  # when each turn ended, and how many jobs were finished by then
        while (at := time.monotonic() - began) < sizes.hold_s:
            producer.insert(new_jobs(CLAIM))
            worker.turn()
            marks.append((time.monotonic() - began, worker.finished))
        window = min(WINDOW_S, sizes.hold_s / 2)
        first = [turn for turn, (ended, _) in enumerate(marks) if ended <= window]
        last = [turn for turn, (ended, _) in enumerate(marks) if ended > at - window]
        log_mb = _log_mb(database)
    return {
        **{f"first_{name}": value for name, value in _pace(first, marks, worker.claim_ms).items()},
        **{f"last_{name}": value for name, value in _pace(last, marks, worker.claim_ms).items()},
        "claim_max_ms": max(worker.claim_ms),
        **log_mb,
    }


def readers(variant: Variant, database: Database, sizes: Sizes) -> Figures:
    """Measure a drain beside four processes that read the whole history continuously."""
    with opened(variant, database.url) as shape:
        _fill_up(shape, database, sizes.read + sizes.read // 2)
    with opened(variant, database.url) as shape:
        worker = Worker(shape)
        worker.work(sizes.read // 2, LIMIT_S)
        before = worker.finished
        with processes.beside(processes.read, variant, database.url, READERS):
            took = worker.work(before + sizes.read, LIMIT_S)
    return {"per_s": (worker.finished - before) / took}


def _fill_up(shape: Shape, database: Database, count: int) -> None:
    shape.create()
    fill(shape, count)
    shape.settle()
    database.settle()


def _pace(turns: list[int], marks: list[tuple[float, int]], claim_ms: list[float]) -> Figures:
    """Return the rates of some consecutive turns."""
    if len(turns) < 2:
        raise ShapeFailed("A claim took longer than what was to be measured.")
    (began, before), (ended, after) = marks[turns[0]], marks[turns[-1]]
    p99 = percentile([claim_ms[turn] for turn in turns], 99)
    return {"per_s": (after - before) / (ended - began), "claim_p99_ms": p99}


def _check_all_ended_once(shape: Shape, count: int) -> None:
    ended = shape.ended()
    if len(ended) != count or len(set(ended)) != count:
        raise ShapeFailed(f"{len(ended)} endings of {len(set(ended))} jobs are stored; {count} jobs were queued.")


def _counters(database: Database, tally: dict[str, float]) -> dict[str, float]:
    """Return the counters of the database, after all sessions have reported theirs, and the counters of sessions."""
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
        "AND backend_type = 'client backend'"
    )
    deadline = time.monotonic() + 5.0
    while not tally and database.one(others) and time.monotonic() < deadline:
        time.sleep(0.01)
    return {**database.counters(), **tally}


def _log_mb(database: Database) -> Figures:
    """Return the size of SQLite's write-ahead log, which cannot be reset while there is a reader."""
    path = Path(database.url.removeprefix("sqlite:///") + "-wal")
    return {"log_mb": path.stat().st_size / 1e6} if path.exists() else {}


MEASURES: dict[str, Measurement] = {
    "drain": drain,
    "drain_by_two": drain_by_two,
    "latency": latency,
    "backlog": backlog,
    "hold": hold,
    "readers": readers,
}


def applies(measure: str, variant: Variant) -> bool:
    """Return whether a measurement is meaningful for a variant."""
    if measure == "drain_by_two" and variant.store == "sqlite":
        return False  # SQLite has one writer at a time, so a second process would only wait
    return measure in {"drain", "latency"} or not variant.only_drain
