"""A simulated world: an event queue, a virtual clock, a store, and the processes that use it.

There is one thread. An event is a call at a virtual time; the actions of a process between two waits are one event. A
blocked call (a slow store, a paused process) runs the events of all other processes from inside itself. So overlapping
calls end in the reverse order of their starts, which is the only restriction of this design.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import count
from random import Random
from typing import Any

import apsw

from sim import restore
from sim.account import Call
from sim.actor import Actor
from sim.checks import Judge
from sim.config import Config, draw_config
from sim.faults import SECOND, Crashed, FaultPlan, Faults, FaultyStore, draw_plan, lossy
from sim.lines import Lines
from sim.liveness import Liveness
from sim.mirror import LEDGER, Tap
from sim.processes import WorkerProcess
from sim.ticks import Ticks
from sim.trace import Broken, Trace, hold
from sim.workloads import draw_workload
from sim.workloads.base import Client
from tickwork.core.ids import ClaimId, IdMaker
from tickwork.errors import StoreError, TickworkError
from tickwork.store.sqlite import SqliteStore
from tickwork.testing import VirtualClock

_WAKING = frozenset(["insert_jobs", "cancel_jobs", "retry_jobs", "reclaim_attempts", "move_schedules"])
_MOST_A_SECOND = 5_000
_MOST_HOURS = 2  # the limit of virtual time; runs normally end within minutes


class World:
    """The state of one run. `run` returns when all jobs have ended after the faults, or raises Broken."""

    def __init__(self, seed: int, config: Config | None = None, plan: FaultPlan | None = None) -> None:
        self.seed = seed
        self.config = config or draw_config(self.stream("config"))
        self.horizon_us = int(self.config.horizon_s * SECOND)
        self.trace = Trace()
        self.clock = VirtualClock()
        claims = self.stream("claims")
        self.store = SqliteStore(":memory:", clock=self.clock, new_claim=lambda: ClaimId(claims.getrandbits(63)))
        # The simulator looks at rows without a transaction of its own.
        self.raw: apsw.Connection = self.store._file._writer.raw
        self.raw.execute(LEDGER)
        self.depth = 0
        self.serials = count(1)  # numbers of handlers, which make their results distinct
        self._tap = Tap(self.raw)
        self._events: list[tuple[int, int, Actor | None, Callable[[], None]]] = []
        self._order = count()
        self._second = 0
        self._this_second = 0
        self.stepped_at_us = -1
        if plan is None:
            plan = draw_plan(self.stream("plan"))
            plan = lossy(plan) if self.stream("restores").random() < restore.SHARE else plan
        self.is_lossy = plan.restores > 0  # whether the store may lose acknowledged commits
        self.faults = Faults(self, plan, self.stream("faults"))
        self.plan_round = Judge(self)
        self.ticks = Ticks(self)
        self.liveness = Liveness(self)
        self.workers: list[WorkerProcess] = []
        self._incarnations = [0] * len(self.config.workers)
        self.lines = Lines(self)
        self.workload = draw_workload(self.stream("workload"), self.config, self.stream("ruin"), self.lines)
        self.clients = [Client(self, number) for number in range(self.config.clients)]

    def stream(self, name: str) -> Random:
        """Return an independent random generator for one purpose, so that draws elsewhere do not change its values."""
        return Random(f"{self.seed}/{name}")

    def new_ids(self, rng: Random) -> IdMaker:
        """Return a generator of job ids that uses this world's clock."""
        return IdMaker(lambda: self.clock.wall_us() // 1000, rng.getrandbits)

    # -- time

    @property
    def now_us(self) -> int:
        """Return the microseconds since the start of the world; no fault affects this clock."""
        return self.clock.steady_us()

    def after(self, us: int, actor: Actor | None, call: Callable[[], None]) -> None:
        """Schedule a call. It is dropped if the actor is dead at that time, and delayed while the actor is frozen."""
        heapq.heappush(self._events, (self.now_us + max(0, us), next(self._order), actor, call))

    def pass_time(self, actor: Actor, us: int) -> None:
        """Block the caller for a time while the events of all others run."""
        self.depth += 1
        actor.standing_still += 1
        try:
            self._run(self.now_us + us)
        finally:
            self.depth -= 1
            actor.standing_still -= 1
        actor.disturb(self.now_us)

    def step_clock(self, by_s: int) -> None:
        """Step the host's wall clock by some seconds."""
        self.clock.step(timedelta(seconds=by_s))
        self.stepped_at_us = self.now_us
        self.trace.add(self.now_us, "world", "clock step", by_s)
        self.trace.count("clock step")

    # -- the run

    def run(self) -> None:
        """Run with faults, then without faults until every job has ended, then make the final checks."""
        try:
            if self.ticks:
                specs = self.ticks.specs()
                self._carry_out(
                    self.clients[0], "put_schedules", partial(self.store.schedules.put_schedules, specs), (specs,), {}
                )
            if self.lines:
                rules = self.lines.rules()
                self._carry_out(
                    self.clients[0], "declare_limits", partial(self.store.limits.declare_limits, rules), (rules,), {}
                )
            for index in range(len(self.config.workers)):
                self.start_worker(index)
            for client in self.clients:
                client.start()
            self.faults.plan_ahead()
            self.after(self.horizon_us, None, self._heal)
            self._run(None)
            self.plan_round.finally_check()
            self.workload.check(self)
        finally:
            self._close()

    def _heal(self) -> None:
        self.faults.active = False
        self.trace.add(self.now_us, "world", "heal")
        self.liveness.begin()

    def start_worker(self, index: int) -> None:
        """Start or restart a worker process."""
        self.workers = [worker for worker in self.workers if worker.index != index]
        self.workers.append(WorkerProcess(self, index))

    def next_incarnation(self, index: int) -> int:
        self._incarnations[index] += 1
        return self._incarnations[index]

    def any_process(self, rng: Random) -> Actor:
        return rng.choice([*(worker for worker in self.workers if not worker.dead), *self.clients])

    def _run(self, until: int | None) -> None:
        while self._events and (until is None or self._events[0][0] <= until):
            at, _, actor, call = heapq.heappop(self._events)
            self._advance_to(at)
            if actor is None or not actor.dead:
                self._handle(actor, call)
            if until is None and self.liveness.over():
                return
        if until is not None:
            self._advance_to(until)

    def _handle(self, actor: Actor | None, call: Callable[[], None]) -> None:
        if actor is not None and actor.frozen_until > self.now_us:
            self.after(actor.frozen_until - self.now_us, actor, call)
            return
        self._count_event()
        try:
            call()
        except Crashed as crashed:
            hold(crashed.actor is actor, "SIM", f"{crashed.actor.name} crashed inside an event of another")
        if not self.faults.active:
            self.liveness.look()

    def _count_event(self) -> None:
        second = self.now_us // SECOND
        if second != self._second:
            self._second, self._this_second = second, 0
        self._this_second += 1
        hold(self._this_second < _MOST_A_SECOND, "L1", "so much happens in one second that somebody must be spinning")
        hold(second < _MOST_HOURS * 3600, "L1", "it does not come to an end")

    def _advance_to(self, at_us: int) -> None:
        if at_us > self.now_us:
            self.clock.advance(timedelta(microseconds=at_us - self.now_us))

    def _close(self) -> None:
        for worker in self.workers:
            if not worker.dead:
                worker.loop.close()
        self.store.close()

    # -- the store

    def store_for(self, actor: Actor) -> Any:
        """Return the store as a process sees it, with all verbs of `store.base.Store`."""
        return FaultyStore(self, actor)

    def call(self, actor: Actor, verb: str, real: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Carry out a store call for a process, with possible faults before and after it, and check its effects."""
        carry_out = partial(self._carry_out, actor, verb, partial(real, *args, **named), args, named)
        self.faults.before(actor, verb, carry_out)
        self._still_alive(actor)
        answer, moved = carry_out()
        self.faults.after(actor, verb, answer, moved)
        self._still_alive(actor)
        return answer

    def _carry_out(
        self, actor: Actor, verb: str, real: Callable[[], Any], args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[Any, bool]:
        self._advance_to(self.now_us + self.config.latency_us)
        now = self.plan_round.account.store_now()
        try:
            answer = real()
        except TickworkError as error:
            self._refused(actor, verb, error)
            raise
        call = Call(actor, verb, args, named, answer, self._tap.take(), now)
        self.trace.add(self.now_us, actor.name, verb, *call.told())
        moves = self.plan_round.observe(call)
        if verb in _WAKING and call.changes:
            self._wake_all()
        return answer, bool(moves)

    def _refused(self, actor: Actor, verb: str, error: TickworkError) -> None:
        self._tap.take()  # discard the changes, which were rolled back
        self.trace.add(self.now_us, actor.name, verb, type(error).__name__)
        self.trace.count(f"{type(error).__name__} from {verb}")
        if isinstance(error, StoreError):
            twice = "UNIQUE constraint failed: tickwork_attempts" in str(error)
            raise Broken("S5" if twice else "SQL", f"{verb} of {actor.name}: {error}") from error

    def _still_alive(self, actor: Actor) -> None:
        if actor.dead:
            raise Crashed(actor)

    def _wake_all(self) -> None:
        if self.config.wakes:
            for worker in self.workers:
                if not worker.dead and not self.faults.loses_wake():
                    worker.wake(called=True)
