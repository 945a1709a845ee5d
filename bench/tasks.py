"""The tasks of the benchmarks. Workers load this file; the benchmark process calls `make_app` for each database."""

from __future__ import annotations

import asyncio
import os
import time

from tickwork import Tickwork, batch, concurrency

WITNESS = "TICKWORK_BENCH_WITNESS"  # the variable with the path of the file to which `stamp` appends
WITNESS_LINE = 33  # bytes: a number of 12 digits, a time of 19, and separators
SPAN_LINE = 61  # bytes: a number of 12 digits, two times of 19, a pid of 7, and separators

SHORT_S = 0.001
SPAN_S = 0.05
FEW = 10  # the limit of concurrent jobs per key, for limits above one

_witness = os.open(os.environ[WITNESS], os.O_WRONLY | os.O_APPEND) if WITNESS in os.environ else -1


def noop(number: int) -> None:
    """Do nothing."""


async def noop_async(number: int) -> None:
    """Do nothing, on an event loop."""


def noop_batch(numbers: list[int]) -> None:
    """Do nothing, for many jobs in one call."""


def stamp(number: int) -> None:
    """Append the time of this call to the witness file. A short append is one atomic write."""
    os.write(_witness, b"%012d %d\n" % (number, time.time_ns()))


def stamp_limited(number: int, key: str) -> None:
    """Do the same as `stamp`, under a limit of one per key."""
    stamp(number)


def short(number: int) -> None:
    """Do the same as `stamp`, then hold the slot for a short time without using the CPU."""
    stamp(number)
    time.sleep(SHORT_S)


def span(number: int, key: int) -> None:
    """Hold a slot for 50 ms without using the CPU, and append its start, end and process id to the witness file."""
    began = time.time_ns()
    time.sleep(SPAN_S)
    os.write(_witness, b"%012d %d %d %07d\n" % (number, began, time.time_ns(), os.getpid()))


def forward(number: int) -> int:
    """Return the argument."""
    return number


def count_up(count: int) -> list[int]:
    """Return a list of `count` numbers."""
    return list(range(count))


def gather(numbers: list[int]) -> int:
    """Return the length of a list."""
    return len(numbers)


async def sleeper(number: int, seconds: float) -> None:
    """Append the time of this call to the witness file, then sleep."""
    stamp(number)
    await asyncio.sleep(seconds)


def make_app(url: str | None = None, *, upgrade: bool = False) -> Tickwork:
    """Return an app with these tasks, for a URL or for TICKWORK_URL."""
    made = Tickwork(url, upgrade=upgrade)
    for function in (noop, noop_async, stamp, sleeper, short, span, forward, count_up, gather):
        made.task(function)
    made.task(name="noop_few", limits=[concurrency(FEW, key="number")])(noop)
    made.task(name="noop_single", limits=[concurrency(1, key="number")])(noop)
    made.task(limits=[concurrency(1, key="key")])(stamp_limited)
    made.task(name="span_keyed", limits=[concurrency(1, key="key")])(span)
    made.task(name="span_in_order", sequence="key")(span)
    made.task(batch=batch(max=100))(noop_batch)
    return made


app = make_app()
