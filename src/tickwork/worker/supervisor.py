"""Run `tickwork worker`: a supervisor process, which never runs user code, and child processes that run it.

The children are started first. They load the user's code and report its tasks and its store settings.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from tickwork.clock import Clock, SystemClock
from tickwork.config import Settings
from tickwork.core.dag.graph import decode_graph
from tickwork.core.placement import NOTHING, Offer
from tickwork.core.workers.autoscale import USUAL_SLOTS, AutoscaleRange, read_processes
from tickwork.errors import InvalidInput
from tickwork.observe.counters import Counters
from tickwork.security.vault import Vault
from tickwork.services.runner import Runner
from tickwork.services.start_services import Nudge, start_services
from tickwork.store.base import Store
from tickwork.version import VERSION
from tickwork.worker.autoscale import Autoscaler, slots_of_each
from tickwork.worker.ipc.protocol import Hello
from tickwork.worker.lease import Heartbeat, Lease, LeaseWatch
from tickwork.worker.main_loop import WorkerLoop
from tickwork.worker.process.child_pool import ChildPool
from tickwork.worker.process.child_starter import ChildLimits, ChildSetup
from tickwork.worker.process.cpu_count import usable_cpus
from tickwork.worker.process.fork_server import ForkServer
from tickwork.worker.worker import Worker
from tickwork.worker.worker_types import HandlerPools, WorkerCode, WorkerOptions, WorkerParts

_log = logging.getLogger("tickwork.worker")
GRACE = timedelta(seconds=20)
SLOTS = USUAL_SLOTS

OpenStore = Callable[[dict[str, str | None]], Store]


@dataclass(frozen=True, slots=True)
class SupervisorOptions:
    """The options of `tickwork worker`.

    If `queues` is empty, the worker serves the queues that the tasks name. `slots` is the total over all child
    processes when the pool has its maximum size.
    """

    target: str
    queues: tuple[tuple[str, float], ...] = ()
    slots: int = SLOTS
    processes: AutoscaleRange = field(default_factory=lambda: read_processes(min(SLOTS, usable_cpus())))
    grace: timedelta = GRACE
    lease: timedelta | None = None  # None: the lease of the settings
    limits: ChildLimits = field(default_factory=ChildLimits)
    shell: bool = False
    run_as: str | None = None
    offer: Offer = NOTHING
    health: str | None = None


def supervise(
    options: SupervisorOptions,
    open_store: OpenStore,
    started: Callable[[Hello, Store], None],
    fork_server: ForkServer | None = None,
) -> None:
    """Run a worker until it is stopped: the first SIGTERM or SIGINT drains it, the second stops it at once.

    `fork_server` is a fork server that was forked before the caller started threads; if it is None, one is started.
    """
    clock, rule = SystemClock(), options.processes
    solo: set[str] = set()  # filled when the first child has loaded the code
    children = ChildPool(
        ChildSetup(
            general=[options.target] * rule.low,
            slots=slots_of_each(options.slots, rule) * rule.low,
            limits=options.limits,
            shell=options.shell,
            run_as=options.run_as,
            fork_server=fork_server,
        ),
        clock,
        target_of=lambda task: options.target,
        solo_tasks=solo,
        solo_limit=rule.high,
    )
    try:
        hello = children.start()
        if hello is None:
            return
        solo.update(hello.solo_tasks)
        settings = Settings(**hello.settings)  # type: ignore[arg-type]  # as the code of the children read them
        times = settings.lease_times(options.lease)
        store = open_store(hello.settings)
        started(hello, store)
        lease = Lease(times.lease, times.heartbeat)
        queues = options.queues or queues_of(hello)
        tally = None if options.health is None else Counters()
        loop, runner, _ = assemble_worker(
            store=store,
            pools=children,
            hello=hello,
            options=WorkerOptions(queues, options.slots, socket.gethostname(), os.getpid(), VERSION, options.offer),
            lease=lease,
            clock=clock,
            rng=Random(secrets.randbits(64)),
            settings=settings,
            grace=options.grace,
            autoscaler=_autoscaler(options, children, store, [name for name, _ in queues], hello),
            tally=tally,
        )
        if options.health is not None and tally is not None:
            from tickwork.worker.health import WorkerHealth, serve_health  # the server in it is imported by few

            serve_health(options.health, WorkerHealth(lease, tally, clock, store.connections))
        _obey_signals(loop)
        try:
            loop.run()
        finally:
            runner.stop()
            loop.close()
            store.close()
    finally:
        children.stop()


def _autoscaler(
    options: SupervisorOptions, children: ChildPool, store: Store, queues: list[str], hello: Hello
) -> Autoscaler | None:
    """Return the autoscaler; None if the number of processes is fixed."""
    rule = options.processes
    if rule.low == rule.high:
        return None
    tasks = [task.name for task in hello.tasks]
    return Autoscaler(rule, children, options.slots, store, queues=queues, tasks=tasks)


def queues_of(hello: Hello) -> tuple[tuple[str, float], ...]:
    """Return the default queues of all tasks, and `default`, with equal weights."""
    return tuple((name, 1.0) for name in sorted({"default", *(task.queue for task in hello.tasks)}))


def parse_queues(texts: list[str]) -> tuple[tuple[str, float], ...]:
    """Parse queues such as `mail` and `mail:3` into names and weights. Raises InvalidInput.

    An empty result means the queues that the tasks name, and `default`.
    """
    queues = []
    for text in texts:
        name, _, weight = text.partition(":")
        try:
            share = float(weight) if weight else 1.0
        except ValueError:
            share = 0.0
        if not name or not 0 < share < 1e6:
            raise InvalidInput(f"{text!r} is not a queue. Write NAME or NAME:WEIGHT, like mail:3.")
        queues.append((name, share))
    return tuple(queues)


def assemble_worker(
    *,
    store: Store,
    pools: HandlerPools,
    hello: Hello,
    options: WorkerOptions,
    lease: Lease,
    clock: Clock,
    rng: Random,
    settings: Settings,
    grace: timedelta,
    autoscaler: Autoscaler | None = None,
    tally: Counters | None = None,
) -> tuple[WorkerLoop, Runner, Nudge]:
    """Connect the parts of a worker, and start the services that every worker runs. `hello` has the worker's code.

    Returns the loop, the runner of the services, and a function that wakes the scheduler.
    """
    store.answer_within(lease.duration / 3)
    waiter = store.waiter()
    runner = Runner(clock, rng)
    nudge = start_services(
        runner,
        store,
        clock,
        rng,
        may_fire=lambda: lease.worker is not None,
        own=lambda: lease.worker,
        tally=tally,
        settings=settings,
    )
    parts = WorkerParts(
        store=store,
        pools=pools,
        code=_code_of(hello),
        options=options,
        lease=lease,
        new_id=lambda: secrets.token_hex(16),
        clock=clock,
        rng=rng,
        waiter=waiter,
        nudge_scheduler=nudge,
        autoscaler=autoscaler,
        tally=tally,
        secret=Vault(lambda: store, settings.place, namespace=settings.namespace).get,
    )
    for flaw in hello.flaws:
        _log.error("%s", flaw)
    loop = WorkerLoop(Worker(parts), waiter, pools, clock, rng, grace.total_seconds())
    runner.start(LeaseWatch(lease, pools))
    runner.start(Heartbeat(store, lease, loop.obey))
    return loop, runner, nudge


def _code_of(hello: Hello) -> WorkerCode:
    return WorkerCode(
        tasks=hello.tasks,
        solo_tasks=hello.solo_tasks,
        batches=hello.batches,
        schedules=hello.schedules,
        graphs=[decode_graph(one) for one in hello.graphs],
    )


def _obey_signals(loop: WorkerLoop) -> None:
    """Drain the worker at the first SIGTERM or SIGINT, and stop it at the second."""
    asked = 0

    def stop(number: int, frame: object) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            _log.warning("%s: finishing what runs; once more to stop now.", signal.Signals(number).name)
        loop.stop(now=asked > 1)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
