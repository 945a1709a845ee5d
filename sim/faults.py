"""Inject faults into a simulated world. Each seed enables some kinds of faults, with some probability.

Most faults happen at the edges of a store call, where the states of a process and the store can diverge: before the
call (nothing has happened), or after its commit (it has happened, and the caller may never learn it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from sim.restore import Snapshot
from tickwork.core.ids import JobId, WorkerId
from tickwork.errors import LeaseLost, StoreUnreachable, TickworkError
from tickwork.store.attempt_types import Exchange, Finish, NewLog
from tickwork.store.base import Store
from tickwork.store.postgres.connection.connector import ANSWER_S, LEAST_ANSWER_S

if TYPE_CHECKING:
    from sim.actor import Actor
    from sim.world import World

SECOND = 1_000_000
_RARE = frozenset(
    ["finish_attempts", "reclaim_attempts", "insert_jobs", "cancel_jobs", "retry_jobs", "save_state", "append_logs"]
)
_BOOST = 6.0  # a higher probability for calls that move jobs, which are rare compared to reads
_LOST_US = 4 * SECOND  # the longest period whose commits are lost
_DEEPEST = 4  # the limit of nested blocked calls


class Unreachable(StoreUnreachable):
    """An injected failure of the store to answer. Any other error of the store is a bug."""


class Crashed(BaseException):
    """An injected crash of a process. It unwinds the stack of the process, whose code must not handle it."""

    def __init__(self, actor: Actor) -> None:
        super().__init__(f"{actor.name} crashed")
        self.actor = actor


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """The probability of each fault at the edge of a call, and the mean number per run of the other faults. 0: off."""

    crash: float = 0.002
    error: float = 0.01
    lost_reply: float = 0.008
    late: float = 0.004
    pause: float = 0.002
    stall: float = 0.006
    silent: float = 0.004  # a call that fails at its deadline
    slow_reaper: float = 0.3  # a delay between finding an expired attempt and reclaiming it
    hiccup: float = 0.01
    random_pauses: float = 2.0
    random_crashes: float = 2.0
    drains: float = 1.5
    outages: float = 1.0
    clock_steps: float = 2.0
    lost_wakes: float = 0.2
    deadly_starts: float = 0.1  # a child that dies before it has sent `Hello`
    restores: float = 0.0  # of a snapshot of the store; only in lossy worlds


NO_FAULTS = FaultPlan(**dict.fromkeys((field.name for field in fields(FaultPlan)), 0.0))


def lossy(plan: FaultPlan) -> FaultPlan:
    """Return a plan for a lossy world, whose store loses commits.

    It has no steps of the host's clock, because a restore with a step would set the store's clock back.
    """
    return replace(plan, restores=1.5, clock_steps=0.0)


def draw_plan(rng: Random) -> FaultPlan:
    """Draw a plan: enable or disable each kind of fault, and scale all probabilities."""
    strength = rng.choice((0.3, 1.0, 1.0, 3.0))
    drawn = {field.name: getattr(FaultPlan(), field.name) * strength * rng.randint(0, 1) for field in fields(FaultPlan)}
    return replace(FaultPlan(), **drawn)


class Faults:
    """Decides which faults happen at the edges of calls and at random times, while `active`."""

    def __init__(self, world: World, plan: FaultPlan, rng: Random) -> None:
        self._world = world
        self._plan = plan
        self._rng = rng
        self._down: dict[Actor | None, int] = {}  # process (None: all) -> end of the outage of the store
        self.active = True

    # -- at the edges of a call

    def before(self, actor: Actor, verb: str, carry_out: Callable[[], object]) -> None:
        """Inject faults before a call, when nothing has happened yet."""
        if not self.active:
            return
        self._check_outage(actor, verb)
        boost = _BOOST if verb in _RARE else 1.0
        if self._rng.random() < self._plan.late * boost:
            self._delay(actor, verb, carry_out)
        self._strike(actor, verb, boost, self._plan.error, "before")

    def after(self, actor: Actor, verb: str, answer: object, moved: bool) -> None:
        """Inject faults after the commit of a call, before its answer arrives."""
        if self.active:
            if verb == "expired_attempts" and answer and self._rng.random() < self._plan.slow_reaper:
                self._stall(actor, verb, "after")
                return
            boost = _BOOST if moved or verb in _RARE else 1.0
            self._strike(actor, verb, boost, self._plan.lost_reply, "after")

    def _strike(self, actor: Actor, verb: str, boost: float, lost: float, edge: str) -> None:
        plan, roll = self._plan, self._rng.random() / boost
        for chance, strike in (
            (lost, self._lose),
            (plan.crash, self._crash),
            (plan.pause, self._pause),
            (plan.stall, self._stall),
            (plan.silent, self._stay_silent),
        ):
            if roll < chance:
                strike(actor, verb, edge)
                return
            roll -= chance

    def _lose(self, actor: Actor, verb: str, edge: str) -> None:
        self._note(actor, verb, "error before" if edge == "before" else "reply lost")
        raise Unreachable(f"simulated: {verb}, {edge} its commit")

    def _delay(self, actor: Actor, verb: str, carry_out: Callable[[], object]) -> None:
        """Let the caller fail, and carry out the call a little later (RELIABILITY.md 25: within lease/3)."""

        def later() -> None:
            with suppress(TickworkError):
                carry_out()

        self._note(actor, verb, "late commit")
        us = int(self._rng.random() * self._world.config.lease_s / 3 * SECOND)
        self._world.after(min(us, self._world.horizon_us - self._world.now_us), None, later)
        raise Unreachable(f"simulated: {verb}, which may still be carried out")

    def _crash(self, actor: Actor, verb: str, edge: str) -> None:
        self._note(actor, verb, f"crash {edge}")
        if verb == "finish_attempts":
            self._world.trace.count("crash inside finish")
        actor.crash()
        raise Crashed(actor)

    def _pause(self, actor: Actor, verb: str, edge: str) -> None:
        """Pause the whole process, sometimes with its children."""
        if self._world.depth < _DEEPEST:
            self._note(actor, verb, f"pause {edge}")
            pause = self._some_leases()
            actor.freeze(self._world.now_us + pause, children=self._rng.random() < 0.5)
            self._world.pass_time(actor, pause)

    def _stall(self, actor: Actor, verb: str, edge: str) -> None:
        """Block only this call; the other threads of its process continue."""
        if self._world.depth < _DEEPEST:
            self._note(actor, verb, f"stall {edge}")
            self._world.pass_time(actor, self._some_leases())

    def _stay_silent(self, actor: Actor, verb: str, edge: str) -> None:
        """Simulate a silent connection: the caller fails at its deadline and does not know what happened."""
        if self._world.depth < _DEEPEST:
            self._note(actor, verb, f"silent {edge}")
            us = int(max(LEAST_ANSWER_S, min(ANSWER_S, self._world.config.lease_s / 3)) * SECOND)
            self._world.pass_time(actor, max(0, min(us, self._world.horizon_us - self._world.now_us)))
            if actor.dead:
                raise Crashed(actor)
        raise Unreachable(f"simulated: {verb}, no answer at its deadline, {edge} its commit")

    def _note(self, actor: Actor, verb: str, what: str) -> None:
        self._world.trace.add(self._world.now_us, actor.name, what, verb)
        self._world.trace.count(what)
        actor.disturb(self._world.now_us)

    def _some_leases(self) -> int:
        """Return a time of 0.1 to 10 leases, which ends before the phase without faults begins."""
        us = int(self._world.config.lease_s * 10 ** self._rng.uniform(-1, 1) * SECOND)
        return max(0, min(us, self._world.horizon_us - self._world.now_us))

    def _check_outage(self, actor: Actor, verb: str) -> None:
        for whom in (None, actor):
            if self._down.get(whom, 0) > self._world.now_us:
                actor.disturb(self._world.now_us)
                raise Unreachable(f"simulated: {verb}, the store is down")

    # -- at random times

    def plan_ahead(self) -> None:
        """Schedule the faults that do not depend on a call."""
        plan = self._plan
        for rate, strike in (
            (plan.random_pauses, self._freeze_one),
            (plan.random_crashes, self._crash_one),
            (plan.drains, self._drain_one),
            (plan.outages, self._take_down),
            (plan.clock_steps, self._step_clock),
            (plan.restores, self._lose_commits),
        ):
            for _ in range(self._about(rate)):
                self._world.after(self._rng.randrange(self._world.horizon_us), None, self._if_active(strike))

    def _about(self, rate: float) -> int:
        return int(rate * 2 * self._rng.random() + 0.5)

    def _if_active(self, strike: Callable[[], None]) -> Callable[[], None]:
        return lambda: strike() if self.active else None

    def _freeze_one(self) -> None:
        process = self._world.any_process(self._rng)
        self._note(process, "", "pause")
        process.freeze(self._world.now_us + self._some_leases(), children=self._rng.random() < 0.5)

    def _crash_one(self) -> None:
        process = self._world.any_process(self._rng)
        self._note(process, "", "crash")
        process.crash()

    def _lose_commits(self) -> None:
        """Take a snapshot, and restore it later, so that the commits in between are lost."""
        snapshot = Snapshot(self._world)
        self._world.after(self._rng.randrange(1, _LOST_US), None, self._if_active(snapshot.restore))

    def _drain_one(self) -> None:
        process = self._world.any_process(self._rng)
        self._note(process, "", "drain")
        process.drain(now=self._rng.random() < 0.3)

    def _take_down(self) -> None:
        whom = None if self._rng.random() < 0.5 else self._world.any_process(self._rng)
        until = self._world.now_us + self._some_leases()
        self._down[whom] = max(until, self._down.get(whom, 0))
        self._world.trace.add(self._world.now_us, "world", "store down", whom.name if whom else "for all", until)
        self._world.trace.count("outage")

    def _step_clock(self) -> None:
        by_s = self._rng.choice((-3600, 3600, -self._rng.randrange(3600), self._rng.randrange(3600), 1, -1))
        self._world.step_clock(by_s)

    def hiccup_us(self, actor: Actor) -> int:
        """Return how long one thread of a process is delayed by the operating system; usually 0."""
        if not self.active or self._rng.random() >= self._plan.hiccup:
            return 0
        us = self._some_leases()
        self._note(actor, "", "hiccup")
        actor.disturb(self._world.now_us + us)
        return us

    def loses_wake(self) -> bool:
        return self.active and self._rng.random() < self._plan.lost_wakes

    def deadly_start(self) -> bool:
        return self.active and self._rng.random() < self._plan.deadly_starts


_GROUPS = frozenset(Store.__annotations__) - {"url", "blobs"}


class FaultyGroup:
    """A group of verbs of the store, as a process sees it."""

    def __init__(self, world: World, actor: Actor, group: str) -> None:
        self._world = world
        self._actor = actor
        self._group = group

    def __getattr__(self, verb: str) -> Any:
        call = partial(self._world.call, self._actor, verb, getattr(getattr(self._world.store, self._group), verb))
        setattr(self, verb, call)  # cached for the next lookup
        return call


class FaultyStore:
    """The store as a process sees it: every call goes through the world, which may inject faults."""

    def __init__(self, world: World, actor: Actor) -> None:
        self._world = world
        self._actor = actor
        self.url = world.store.url
        self.blobs = world.store.blobs

    def __getattr__(self, verb: str) -> Any:
        call: Any
        if verb in _GROUPS:
            call = FaultyGroup(self._world, self._actor, verb)
        else:
            call = partial(self._world.call, self._actor, verb, getattr(self._world.store, verb))
        setattr(self, verb, call)  # cached for the next lookup
        return call

    def exchange(
        self, worker: WorkerId, endings: Sequence[Finish], logs: Sequence[NewLog], *wanted: Any, **named: Any
    ) -> Exchange:
        """Carry out an exchange as two calls, so that each is checked separately.

        The faults that are possible between the two calls are also possible around a single one.
        """
        finished = self.finish_attempts(endings, logs) if endings or logs else set()
        try:
            return Exchange(finished, self.claim_jobs(worker, *wanted, **named))
        except LeaseLost:
            return Exchange(finished, None)

    def commit_with(self, endings: Sequence[Finish], logs: Sequence[NewLog]) -> Any:
        """Commit a row of a transactional handler together with the end of its job."""

        def commit(endings: Sequence[Finish], logs: Sequence[NewLog]) -> set[JobId]:
            store = self._world.store
            with store.connection() as tx:
                for one in endings:
                    tx.execute("INSERT INTO sim_ledger VALUES (?, ?)", (one.job_id, one.attempt))
                accepted = store.finish_attempts(endings, logs, tx)
                if not accepted:
                    raise LeaseLost("this attempt was superseded; what its transaction wrote was rolled back.")
            return accepted

        return self._world.call(self._actor, "finish_attempts", commit, endings, logs)
