"""Helper processes of the measurements: a second worker, a waiting worker, and readers. They end with their pipe."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from typing import Any

from bench.shapes.base import ShapeFailed, Variant
from bench.shapes.variants import opened
from bench.shapes.worker import Worker

LIMIT_S = 120.0  # a process that does not answer for longer has failed
_spawn = multiprocessing.get_context("spawn")

Loop = Callable[[Variant, str, Pipe, int], None]


@contextmanager
def beside(loop: Loop, variant: Variant, url: str, many: int) -> Iterator[list[Pipe]]:
    """Run `many` processes that have sent "ready", for the duration of a block."""
    pairs = [_spawn.Pipe() for _ in range(many)]
    started = [
        _spawn.Process(target=_quietly, args=(loop, variant, url, theirs, number), daemon=True)
        for number, (_, theirs) in enumerate(pairs)
    ]
    try:
        for process, (_, theirs) in zip(started, pairs, strict=True):
            process.start()
            theirs.close()
        ours = [pipe for pipe, _ in pairs]
        for pipe in ours:
            heard(pipe)
        yield ours
    finally:
        for pipe, _ in pairs:
            pipe.close()
        for process in started:
            if process.pid is not None:
                process.join(1.0)
                process.kill()
                process.join()


def heard(pipe: Pipe) -> Any:
    """Return the next message of a process."""
    if not wait([pipe], LIMIT_S):
        raise ShapeFailed(f"A process said nothing for {LIMIT_S:.0f} s.")
    try:
        return pipe.recv()
    except EOFError:
        raise ShapeFailed("A process died; its error is above.") from None


def _quietly(loop: Loop, variant: Variant, url: str, pipe: Pipe, number: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C, and closes the pipe
    try:
        loop(variant, url, pipe, number)
    except (EOFError, BrokenPipeError):
        return


def drain(variant: Variant, url: str, pipe: Pipe, number: int) -> None:
    """After a message, work until no jobs are left, and report how many were finished."""
    with opened(variant, url, f"worker-{number}") as shape:
        worker = Worker(shape)
        pipe.send("ready")
        pipe.recv()
        worker.work(until=1 << 62, limit_s=LIMIT_S)
        pipe.send(worker.finished)


def serve(variant: Variant, url: str, pipe: Pipe, number: int) -> None:
    """For each notification, claim until there is a job, report the time of the claim, and finish the job."""
    with opened(variant, url, f"worker-{number}") as shape:
        worker = Worker(shape)
        pipe.send("ready")
        for bells in count(1):
            pipe.recv()
            while worker.claimed < bells:
                worker.turn()
            pipe.send(worker.claimed_at)
            worker.turn()  # finishes the held job; may claim the next job before its notification


def read(variant: Variant, url: str, pipe: Pipe, number: int) -> None:
    """Read the whole history and count the queue in a loop."""
    with opened(variant, url, f"reader-{number}") as shape:
        shape.relax()
        pipe.send("ready")
        while not pipe.poll():
            shape.query(shape.history)
            shape.query(shape.depth)
