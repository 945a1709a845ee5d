"""The raw loops: two processes that claim 100 and finish 100 jobs at a time. Frozen."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

from bench.raw.base import CLAIM, Raw

PROCESSES = 2
LIMIT_S = 120.0  # a loop that takes longer has failed
_spawn = multiprocessing.get_context("spawn")

Loop = Callable[[Raw, Pipe, Any], None]


class RawFailed(Exception):
    """A raw loop failed."""


def insert_one_by_one(raw: Raw, count: int) -> float:
    """Store jobs one by one from one process; return the seconds that it took."""
    with _table(raw) as connection:
        now = time.time()
        began = time.perf_counter()
        for _ in range(count):
            raw.insert_one(connection, now)
        return time.perf_counter() - began


def insert_in_bulk(raw: Raw, count: int, batch: int, *, create: bool = True) -> float:
    """Store jobs in batches from one process; return the seconds that it took."""
    with _table(raw, create=create) as connection:
        run_ats = [time.time()] * batch
        began = time.perf_counter()
        stored = sum(len(raw.insert_many(connection, run_ats)) for _ in range(count // batch))
        took = time.perf_counter() - began
    if stored != count:
        raise RawFailed(f"{stored} of {count} jobs were stored.")
    return took


def drain(raw: Raw, count: int) -> float:
    """Claim and finish `count` jobs from two processes; return the seconds from the first claim to the last finish."""
    share = count // PROCESSES
    with _processes(raw, _drain, share) as pipes:
        for pipe in pipes:
            pipe.send("go")
        spans = [_receive(pipe) for pipe in pipes]
    return float(max(end for _, end in spans) - min(start for start, _ in spans))


def serve(raw: Raw, seconds: float, enqueue: Callable[[Callable[[float], None]], None]) -> list[float]:
    """Run the jobs that `enqueue` stores when they are due, in two processes; return the lateness of each in seconds.

    `enqueue` gets a function that stores a job for a time and wakes the processes.
    """
    with _table(raw) as connection, _processes(raw, _serve, time.time() + seconds) as pipes:

        def put(run_at: float) -> None:
            raw.insert_one(connection, run_at)
            raw.call(connection, pipes)

        for pipe in pipes:
            pipe.send("go")
        enqueue(put)
        return [late for pipe in pipes for late in _receive(pipe)]


# -- in the processes


def _drain(raw: Raw, pipe: Pipe, share: int) -> None:
    connection = raw.connect()
    _ready(pipe)
    began, left = time.monotonic(), share
    while left > 0:
        ids = [id for id, _ in raw.claim(connection, time.time(), min(CLAIM, left))]
        if not ids:
            raise RawFailed("Nothing was left to claim.")
        raw.finish(connection, ids)
        left -= len(ids)
    pipe.send((began, time.monotonic()))


def _serve(raw: Raw, pipe: Pipe, until: float) -> None:
    connection = raw.connect()
    raw.listen(connection)
    _ready(pipe)
    lates: list[float] = []
    while (now := time.time()) < until:
        jobs = raw.claim(connection, now, CLAIM)
        started = time.time()
        lates += [started - run_at for _, run_at in jobs]
        if jobs:
            raw.finish(connection, [id for id, _ in jobs])
            continue
        due = raw.next_due(connection)
        raw.wait(connection, pipe, max(0.0, min(until, until if due is None else due) - time.time()))
    pipe.send(lates)


def _ready(pipe: Pipe) -> None:
    pipe.send("ready")
    pipe.recv()


# -- around the processes


@contextmanager
def _processes(raw: Raw, loop: Loop, argument: Any) -> Iterator[list[Pipe]]:
    """Run two processes that are connected and wait for their first message, for the duration of a block."""
    pairs = [_spawn.Pipe() for _ in range(PROCESSES)]
    processes: list[BaseProcess] = [
        _spawn.Process(target=loop, args=(raw, theirs, argument), daemon=True) for _, theirs in pairs
    ]
    try:
        for process, (_, theirs) in zip(processes, pairs, strict=True):
            process.start()
            theirs.close()
        ours = [pipe for pipe, _ in pairs]
        for pipe in ours:
            _receive(pipe)
        yield ours
    finally:
        _end(processes)


def _end(processes: Sequence[BaseProcess]) -> None:
    for process in processes:
        if process.pid is not None:
            process.join(1.0)
            process.kill()
            process.join()


def _receive(pipe: Pipe) -> Any:
    if not wait([pipe], LIMIT_S):
        raise RawFailed(f"A raw loop said nothing for {LIMIT_S:.0f} s.")
    try:
        return pipe.recv()
    except EOFError:
        raise RawFailed("A process of a raw loop died; its error is above.") from None


@contextmanager
def _table(raw: Raw, *, create: bool = True) -> Iterator[Any]:
    connection = raw.connect()
    try:
        if create:
            raw.create(connection)
        yield connection
    finally:
        connection.close()
