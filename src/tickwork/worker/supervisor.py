"""`tickwork worker`: one supervisor, which never runs user code, and children that do.

The children are started first: they load the user's code and say which tasks are in it and which store it is meant for.
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
from tickwork.core.autoscale import USUAL_SLOTS, AutoscaleRange, read_processes
from tickwork.core.dag.graph import decode_graph
from tickwork.core.placement.needs import NOTHING, Offer
from tickwork.errors import InvalidInput
from tickwork.observe.counters import Counters
from tickwork.security.vault import Vault
from tickwork.services.runner import Runner
from tickwork.services.start_services import Nudge, start_services
from tickwork.store.base import Store
from tickwork.version import VERSION
from tickwork.worker.autoscale import Autoscaler, slots_of_each
from tickwork.worker.handler_pools import HandlerPools, WorkerOptions
from tickwork.worker.heartbeat import Heartbeat, Lease
from tickwork.worker.ipc.protocol import Hello
from tickwork.worker.lease_watch import LeaseWatch
from tickwork.worker.loop import WorkerLoop
from tickwork.worker.pool_facade import ChildPools
from tickwork.worker.process.children import ChildLimits, ChildPool
from tickwork.worker.process.cpu_count import usable_cpus
from tickwork.worker.process.fork_server import ForkServer
from tickwork.worker.worker import POLL_ONLY_S, POLL_S, Worker

_log = logging.getLogger("tickwork.worker")
GRACE = timedelta(seconds=20)
SLOTS = USUAL_SLOTS

OpenStore = Callable[[dict[str, str | None]], Store]


@dataclass(frozen=True, slots=True)
class SupervisorOptions:
    """What `tickwork worker` was asked for. No queues: those that its tasks name. `slots` are those of all processes,
    when there are as many as there may be.
    """

    target: str
    queues: tuple[tuple[str, float], ...] = ()
    slots: int = SLOTS
    processes: AutoscaleRange = field(default_factory=lambda: read_processes(min(SLOTS, usable_cpus())))
    grace: timedelta = GRACE
    lease: timedelta | None = None  # else that of the settings
    limits: ChildLimits = field(default_factory=ChildLimits)
    shell: bool = False
    run_as: str | None = None
    offer: Offer = NOTHING
    health: str | None = None


def supervise(
    options: SupervisorOptions,
    open_store: OpenStore,
    started: Callable[[Hello, Store], None],
    nursery: ForkServer | None = None,
) -> None:
    """Run a worker until it is told to stop: the first SIGTERM or SIGINT drains it, the second stops it now.

    Without a nursery that was forked in time, its children are born in one that is started.
    """
    clock, rule = SystemClock(), options.processes
    pools: dict[str, str] = {}
    children = ChildPool(
        target_of=lambda task: options.target,
        is_solo=lambda task: pools.get(task) == "process",
        general=[options.target] * rule.low,
        slots=slots_of_each(options.slots, rule) * rule.low,
        solo_limit=rule.high,
        clock=clock,
        limits=options.limits,
        shell=options.shell,
        nursery=nursery,
        run_as=options.run_as,
    )
    try:
        hello = children.start()
        if hello is None:
            return
        pools.update(hello.pools)
        settings = Settings(**hello.settings)  # type: ignore[arg-type]  # as the code of the children read them
        times = settings.lease_times(options.lease)
        store = open_store(hello.settings)
        started(hello, store)
        solo = frozenset(name for name, pool in hello.pools.items() if pool == "process")
        lease = Lease(times.lease, times.heartbeat)
        queues = options.queues or queues_of(hello)
        serving = WorkerOptions(queues, options.slots, socket.gethostname(), os.getpid(), VERSION, options.offer)
        tally = None if options.health is None else Counters()
        parts = WorkerAssembly(store, lease, clock, Random(secrets.randbits(64)), tally, settings)
        names = [queue for queue, _ in queues], [task.name for task in hello.tasks]
        elasticity = Autoscaler(rule, children, options.slots, store, *names) if rule.low < rule.high else None
        loop, runner, _ = parts.assemble(ChildPools(children), hello, solo, serving, options.grace, elasticity)
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


def queues_of(hello: Hello) -> tuple[tuple[str, float], ...]:
    """The queues that tasks go to unless told otherwise, and the default one, all alike."""
    return tuple((name, 1.0) for name in sorted({"default", *(task.queue for task in hello.tasks)}))


def parse_queues(texts: list[str]) -> tuple[tuple[str, float], ...]:
    """Read `mail`, `mail:3` and the like. None at all: the queues that the tasks name, and `default`."""
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


@dataclass(frozen=True, slots=True)
class WorkerAssembly:
    """What the loops of a worker share; they are put together here, for a process of its own and for the user's."""

    store: Store
    lease: Lease
    clock: Clock
    rng: Random
    tally: Counters | None = None
    settings: Settings = field(default_factory=Settings)

    def assemble(
        self,
        pools: HandlerPools,
        hello: Hello,
        solo: frozenset[str],
        serving: WorkerOptions,
        grace: timedelta,
        elasticity: Autoscaler | None = None,
    ) -> tuple[WorkerLoop, Runner, Nudge]:
        """Make the worker's loop, and start the services that every worker runs beside it.

        The last of the answer has the scheduler look at once.
        """
        self.store.answer_within(self.lease.duration / 3)
        waiter = self.store.waiter()
        new_id = lambda: secrets.token_hex(16)  # noqa: E731
        runner = Runner(self.clock, self.rng)
        nudge = start_services(
            runner,
            self.store,
            self.clock,
            self.rng,
            may_fire=lambda: self.lease.worker is not None,
            own=lambda: self.lease.worker,
            tally=self.tally,
            settings=self.settings,
        )
        worker = Worker(
            self.store,
            pools,
            hello.tasks,
            solo,
            serving,
            self.lease,
            new_id,
            self.clock,
            self.rng,
            lambda: POLL_S if waiter.fileno() >= 0 else POLL_ONLY_S,
            hello.schedules,
            nudge,
            hello.batches,
            elasticity,
            [decode_graph(one) for one in hello.graphs],
            self.tally,
            secret=Vault(lambda: self.store, self.settings.place, namespace=self.settings.namespace).get,
        )
        for flaw in hello.flaws:
            _log.error("%s", flaw)
        loop = WorkerLoop(worker, waiter, pools.filenos, self.clock, self.rng, grace.total_seconds(), pools.unsent)
        runner.start(LeaseWatch(self.lease, pools))
        runner.start(Heartbeat(self.store, self.lease, loop.obey))
        return loop, runner, nudge


def _obey_signals(loop: WorkerLoop) -> None:
    asked = 0

    def stop(number: int, frame: object) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            _log.warning("%s: finishing what runs; once more to stop now.", signal.Signals(number).name)
        loop.stop(now=asked > 1)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
