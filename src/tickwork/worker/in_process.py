"""A worker inside the caller's process, for `app.worker()`: the loops of a worker, with handlers on threads.

CPU-bound tasks run in child processes, as in `tickwork worker`. A handler that cannot be interrupted is not killed.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

from tickwork.blobs import LargeResults
from tickwork.clock import Clock, SystemClock
from tickwork.core.placement import read_offer
from tickwork.core.text.duration import parse_duration
from tickwork.errors import InvalidInput
from tickwork.registry import AppRegistry
from tickwork.services.start_services import Nudge
from tickwork.store.base import Store
from tickwork.version import VERSION
from tickwork.worker.ipc.protocol import Hello
from tickwork.worker.lease import Lease
from tickwork.worker.process.child_main import hello
from tickwork.worker.process.child_pool import ChildPool
from tickwork.worker.process.child_starter import ChildSetup
from tickwork.worker.process.cpu_count import usable_cpus
from tickwork.worker.process.load_app import refuse_while_loading
from tickwork.worker.run.capture import captured
from tickwork.worker.supervisor import assemble_worker, parse_queues, queues_of
from tickwork.worker.tasks.builtin import add_builtin
from tickwork.worker.thread_pool import LocalPools, ThreadPool
from tickwork.worker.worker_types import WorkerOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class InProcessOptions:
    """The options of `app.worker()`, as the caller gave them."""

    slots: int
    queues: list[str]
    labels: Sequence[str]
    resources: str | Mapping[str, Any]
    lease: str | Any
    grace: str | Any


@contextmanager
def worker_in_process(
    app: AppRegistry, store: Callable[[], Store], large_results: LargeResults, options: InProcessOptions
) -> Iterator[Nudge]:
    """Run a worker on a thread while the block runs; yield the function that wakes its scheduler.

    When the block ends, running jobs may finish within the grace period.
    """
    refuse_while_loading()
    if options.slots < 1:
        raise InvalidInput(f"concurrency must be at least 1, not {options.slots}.")
    offer = read_offer(options.labels, options.resources)
    add_builtin(app)
    known = hello(app)
    served = parse_queues(options.queues) or queues_of(known)
    clock = SystemClock()
    threads = ThreadPool(
        tasks=app.tasks,
        store=store,
        slots=options.slots,
        clock=clock,
        large_results=large_results,
        hidden=known.hidden,
        secret_env=app.settings.secret_env,
    )
    children = _child_pool(app, known, options.slots, clock)
    times = app.settings.lease_times(options.lease, least=timedelta(0))
    with captured():
        loop, runner, nudge = assemble_worker(
            store=store(),
            pools=LocalPools(threads, children, known.solo_tasks, options.slots, clock),
            hello=known,
            options=WorkerOptions(served, options.slots, socket.gethostname(), os.getpid(), VERSION, offer),
            lease=Lease(times.lease, times.heartbeat),
            clock=clock,
            rng=Random(secrets.randbits(64)),
            settings=app.settings,
            grace=parse_duration(options.grace, what="grace"),
        )
        thread = threading.Thread(target=loop.run, name="tickwork-worker", daemon=True)
        thread.start()
        try:
            yield nudge
        finally:
            loop.stop()
            thread.join()
            runner.stop()
            threads.stop()
            children.stop()
            loop.close()


def _child_pool(app: AppRegistry, known: Hello, slots: int, clock: Clock) -> ChildPool:
    """Return the pool of child processes for CPU-bound tasks. Raises InvalidInput for a task that none can import."""
    for name in known.solo_tasks:
        _target_of(app, name)
    return ChildPool(
        ChildSetup(general=[], slots=slots),
        clock,
        target_of=lambda task: _target_of(app, task),
        solo_tasks=known.solo_tasks,
        solo_limit=usable_cpus(),
    )


def _target_of(app: AppRegistry, task: str) -> str:
    """Return the file or module that a child process imports to find a task."""
    module = app.tasks[task].function.__module__
    if module != "__main__":
        return module
    file = getattr(sys.modules["__main__"], "__file__", None)
    if file is None:
        raise InvalidInput(
            f"task {task!r} runs in a process of its own, which cannot import it from here. Put it in a file."
        )
    return str(os.path.abspath(file))
