"""The processes beside ours: a second worker, one that waits for a bell, and readers. They end when their pipe does."""

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

LIMIT_S = 120.0  # who says nothing for longer is broken
_spawn = multiprocessing.get_context("spawn")

Loop = Callable[[Variant, str, Pipe, int], None]


@contextmanager
def beside(loop: Loop, variant: Variant, url: str, many: int) -> Iterator[list[Pipe]]:
    """So many processes that have said "ready"; at the end of the block they are gone."""
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
    """The next word of a process."""
    if not wait([pipe], LIMIT_S):
        raise ShapeFailed(f"A process said nothing for {LIMIT_S:.0f} s.")
    try:
        return pipe.recv()
    except EOFError:
        raise ShapeFailed("A process died; its error is above.") from None


def _quietly(loop: Loop, variant: Variant, url: str, pipe: Pipe, number: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is our parent's to handle: it closes the pipe
    try:
        loop(variant, url, pipe, number)
    except (EOFError, BrokenPipeError):
        return


def drain(variant: Variant, url: str, pipe: Pipe, number: int) -> None:
    """On a word, work until nothing is left, and say how much that was."""
    with opened(variant, url, f"worker-{number}") as shape:
        worker = Worker(shape)
        pipe.send("ready")
        pipe.recv()
        worker.work(until=1 << 62, limit_s=LIMIT_S)
        pipe.send(worker.finished)


def serve(variant: Variant, url: str, pipe: Pipe, number: int) -> None:
    """For each bell, claim until there is a job, say when that was, and finish it."""
    with opened(variant, url, f"worker-{number}") as shape:
        worker = Worker(shape)
        pipe.send("ready")
        for bells in count(1):
            pipe.recv()
            while worker.claimed < bells:
                worker.turn()
            pipe.send(worker.claimed_at)
            worker.turn()  # finishes what is held; the next job, if it is there already, is claimed before its bell


def read(variant: Variant, url: str, pipe: Pipe, number: int) -> None:
    """Read the whole history and count the queue, again and again."""
    with opened(variant, url, f"reader-{number}") as shape:
        shape.relax()
        pipe.send("ready")
        while not pipe.poll():
            shape.query(shape.history)
            shape.query(shape.depth)
