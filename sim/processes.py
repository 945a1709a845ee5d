"""A simulated worker process: the shipped worker, its loop, and its services.

Events replace the threads, sleeps and sockets of `services/runner.py` and `worker/main_loop.py`. The loop is the
shipped one without its waits.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING

from sim.actor import Actor
from sim.faults import SECOND, Crashed, Unreachable
from sim.pools import SimChildren
from sim.trace import Broken, hold
from tickwork.errors import WorkerError
from tickwork.services.limit_sweeper import LimitSweeper
from tickwork.services.pruner import Pruner
from tickwork.services.reaper import Expirer, Reaper
from tickwork.services.runner import LONGEST_S, Backoff, Service
from tickwork.services.scheduler import Scheduler
from tickwork.worker import main_loop as shipped
from tickwork.worker.lease import Heartbeat, Lease, LeaseWatch
from tickwork.worker.worker import Worker
from tickwork.worker.worker_types import WorkerCode, WorkerOptions, WorkerParts

if TYPE_CHECKING:
    from sim.world import World

GRACE_LEASES = 0.5
_PUNCTUAL_US = 20_000
_HEAR_US = 200  # the delay from a message of a child, or a notification of the store, to the resulting tick


class WatchfulBackoff(Backoff):
    """The shipped backoff, except that an error that the simulator did not inject breaks an invariant (ERR)."""

    def failed(self, error: Exception) -> float:
        if not isinstance(error, Unreachable):
            raise Broken("ERR", f"{self._name} raised {type(error).__name__}: {error}") from error
        return super().failed(error)


class SimLoop(shipped.WorkerLoop):
    """The shipped loop, run step by step: instead of waiting, it records how long it would wait."""

    def __init__(self, process: WorkerProcess, worker: Worker) -> None:
        grace_s = process.world.config.lease_s * GRACE_LEASES
        super().__init__(worker, process.world.store.waiter(), process.children, process.clock, process.rng, grace_s)
        self._process = process
        self._backoff = WatchfulBackoff("worker", process.rng)
        self._wait_s = 0.0
        self._leaving = False
        self.deaf = False  # during the backoff after an error, messages of handlers do not wake it

    def step(self) -> float | None:
        """Tick once; return how long to wait, or None when the worker has left."""
        self._wait_s, self.deaf = 0.0, False
        try:
            self._tick()
            if not self._over():
                return self._wait_s
        except WorkerError:
            self._process.world.trace.count("worker gave up")
        self._leaving = True
        self._leave()
        return None

    def call(self) -> None:
        self.deaf = False
        self._process.wake(called=False)

    def _wait(self, seconds: float) -> None:
        self._wait_s = min(seconds, shipped.LONGEST_S)

    def _pause(self, seconds: float) -> None:
        self._wait_s, self.deaf = seconds, True
        if self._leaving:
            self._process.world.pass_time(self._process, int(seconds * SECOND))
            if self._process.dead:
                raise Crashed(self._process)


class Thread:
    """One loop of a process. It has at most one pending event, and is not reentrant."""

    def __init__(self, process: WorkerProcess, step: Callable[[], float | None]) -> None:
        self._process = process
        self._step = step
        self._due_us: int | None = None
        self._turn = 0
        self._called = False
        self._busy = False
        self._quick = 0  # number of consecutive steps that were short and began on time
        self.punctual = False  # whether this thread was not delayed recently

    def call(self, after_us: int) -> None:
        """Schedule a step after at most `after_us`; if the thread is busy, as soon as it is free."""
        world = self._process.world
        at_us = world.now_us + after_us
        if self._busy:
            self._called = True
        elif self._due_us is None or at_us < self._due_us:
            self._due_us = at_us
            self._turn += 1
            turn = self._turn
            world.after(after_us, self._process, lambda: self._run(turn))

    def _run(self, turn: int) -> None:
        if turn != self._turn or self._busy:
            return
        world = self._process.world
        began_us = world.now_us
        if began_us - (self._due_us or 0) > _PUNCTUAL_US:
            self._quick = 0
        self.punctual = self._quick > 1
        self._due_us, self._called, self._busy = None, False, True
        wait = self._step()
        self._busy = False
        self._quick = self._quick + 1 if world.now_us - began_us <= _PUNCTUAL_US else 0
        if wait is None or self._process.dead:
            return
        hiccup_us = world.faults.hiccup_us(self._process)
        if hiccup_us:
            self._busy, self._called, self._quick = True, True, 0
            world.after(hiccup_us, self._process, self._resume)
        else:
            us = ceil(round(wait / self._process.clock.rate * SECOND, 3)) + 1  # never too early
            self.call(0 if self._called else us)

    def _resume(self) -> None:
        self._busy = False
        self.call(0)


class WorkerProcess(Actor):
    """One incarnation of a worker process: everything in it is lost when it crashes."""

    def __init__(self, world: World, index: int) -> None:
        config = world.config.workers[index]
        incarnation = world.next_incarnation(index)
        super().__init__(world, f"w{index}.{incarnation}", config.clock)
        self.index = index
        self.rng = world.stream(self.name)
        store = world.store_for(self)
        self.lease = Lease(world.config.lease)
        scheduler = self._service(Scheduler(store, world.new_ids(world.stream(f"{self.name} ids")), self.clock))
        self.children = SimChildren(self, config)
        known = [task for task in world.config.tasks if task.name in config.tasks]
        self.worker = Worker(
            WorkerParts(
                store=store,
                pools=self.children,
                code=WorkerCode(tasks=known, solo_tasks=world.config.solo_tasks),
                options=WorkerOptions(config.queues, config.slots, "host", index, "sim"),
                lease=self.lease,
                new_id=self._new_id,
                clock=self.clock,
                rng=self.rng,
                poll_s=(world.config.poll_s, world.config.poll_s),
                nudge_scheduler=lambda: scheduler.call(_HEAR_US),
            )
        )
        self.loop = SimLoop(self, self.worker)
        self._main = Thread(self, self._step)
        self.children.start()
        services = (
            Heartbeat(store, self.lease),
            Reaper(store, self.rng, lambda: self.lease.worker),
            Expirer(store, self.clock),
            LimitSweeper(store, self.clock),
            Pruner(store, world.config.retention, self.clock),
        )
        self._watch = self._service(LeaseWatch(self.lease, self.children), self._judge_watch)
        for thread in (self._main, *(self._service(one) for one in services), self._watch):
            thread.call(self.rng.randrange(1000))
        if world.ticks:
            scheduler.call(self.rng.randrange(1000))

    def _new_id(self) -> str:
        identity = f"{self.name}-{self.rng.getrandbits(64):016x}"
        self.world.plan_round.account.identities[identity] = self
        return identity

    def _judge_watch(self) -> None:
        if self._watch.punctual:
            self.world.plan_round.truth.is_fenced(self)

    def _service(self, service: Service, before: Callable[[], None] = lambda: None) -> Thread:
        """Run a service as `Runner` does, with events instead of a thread; `before` is called before each tick."""
        name = type(service).__name__.lower()
        backoff = WatchfulBackoff(name, self.rng)

        def step() -> float:
            before()
            try:
                wait = service.tick(self.clock.monotonic())
                backoff.worked()
            except Exception as error:
                wait = backoff.failed(error)
            return min(wait, LONGEST_S)

        return Thread(self, step)

    def _step(self) -> float | None:
        if self._main.punctual:
            self.world.plan_round.truth.goes_on(self)
        wait = self.loop.step()
        hold(wait is None or wait >= 0, "ERR", f"the worker wants to wait for {wait} s")
        if wait is None:
            self.world.trace.count("drained")
            self._end()
        return wait

    def wake(self, *, called: bool) -> None:
        """Wake the loop because jobs were enqueued (`called`) or a handler has sent a message."""
        if called:
            self.worker.called = True
        if not self.loop.deaf:
            self._main.call(_HEAR_US)

    def freeze(self, until_us: int, *, children: bool) -> None:
        super().freeze(until_us, children=children)
        if children:
            self.children.freeze(until_us)

    def crash(self) -> None:
        if not self.dead:
            self._end()

    def drain(self, *, now: bool) -> None:
        self.loop.stop(now=now)

    def _end(self) -> None:
        """End the process and its children, and schedule the start of its replacement."""
        self.dead = True
        self.children.vanish()
        self.loop.close()
        world = self.world
        world.trace.add(world.now_us, self.name, "ended")
        wait_us = int(world.config.lease_s * self.rng.uniform(0, 2) * SECOND)
        wait_us = max(0, min(wait_us, world.horizon_us - world.now_us))
        world.after(wait_us, None, lambda: world.start_worker(self.index))
