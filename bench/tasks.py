"""The handlers that are measured. Workers load this file; the benchmark itself calls `make_app` for each database."""

from __future__ import annotations

import asyncio
import os
import time

from tickwork import Tickwork, batch, concurrency

WITNESS = "TICKWORK_BENCH_WITNESS"  # names the file to which `stamp` appends
WITNESS_LINE = 33  # bytes: a number of 12 digits, an instant of 19, and what is between and after
SPAN_LINE = 61  # bytes: a number of 12 digits, two instants of 19, a pid of 7, and what is between and after

SHORT_S = 0.001
SPAN_S = 0.05
FEW = 10  # jobs of a key at once, where there are some

_witness = os.open(os.environ[WITNESS], os.O_WRONLY | os.O_APPEND) if WITNESS in os.environ else -1


def noop(number: int) -> None:
    """Nothing at all."""


async def noop_async(number: int) -> None:
    """Nothing at all, on an event loop."""


def noop_batch(numbers: list[int]) -> None:
    """Nothing at all, for many jobs in one call."""


def stamp(number: int) -> None:
    """Say when this job's first line ran. One short append is one write, whoever else appends."""
    os.write(_witness, b"%012d %d\n" % (number, time.time_ns()))


def stamp_limited(number: int, key: str) -> None:
    """As `stamp`, under a limit of one for each key."""
    stamp(number)


def short(number: int) -> None:
    """As `stamp`, and then take a slot for a moment, and no processor."""
    stamp(number)
    time.sleep(SHORT_S)


def span(number: int, key: int) -> None:
    """Take a slot for 50 ms, and no processor, and say from when to when, and where."""
    began = time.time_ns()
    time.sleep(SPAN_S)
    os.write(_witness, b"%012d %d %d %07d\n" % (number, began, time.time_ns(), os.getpid()))


def forward(number: int) -> int:
    """What it was given."""
    return number


def count_up(count: int) -> list[int]:
    """As many numbers as asked for."""
    return list(range(count))


def gather(numbers: list[int]) -> int:
    """How many there are."""
    return len(numbers)


async def sleeper(number: int, seconds: float) -> None:
    """Say when it began, and then only wait."""
    stamp(number)
    await asyncio.sleep(seconds)


def make_app(url: str | None = None, *, upgrade: bool = False) -> Tickwork:
    """An app with these tasks. Without a URL it is that of TICKWORK_URL."""
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
