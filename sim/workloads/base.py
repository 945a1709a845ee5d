"""Simulated clients. A workload draws jobs and operations; clients carry them out and repeat them until answered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from sim.actor import Actor
from sim.config import ClockConfig, Config
from sim.faults import SECOND, Unreachable
from sim.lines import Lines
from tickwork.core.ids import JobId
from tickwork.core.job import NewJob, Policy
from tickwork.core.retry import RetryPolicy

if TYPE_CHECKING:
    from sim.world import World

_SPREAD = 0.8  # jobs are enqueued in this share of the phase with faults


@dataclass(frozen=True, slots=True)
class Mix:
    """The distribution of jobs: the natures of their handlers, with weights, and the probabilities of options."""

    name: str
    natures: dict[str, int]
    keyed: float = 0.15
    keys: int = 4
    delayed: float = 0.3
    expiring: float = 0.1
    timed: float = 0.3
    meddling: float = 0.3  # probability that an operation is on existing jobs


class Workload:
    """Draws jobs and operations by a mix. Subclasses may override `check` for the end of a run."""

    def __init__(self, mix: Mix, config: Config, lines: Lines) -> None:
        self.mix = mix
        self._lines = lines
        self._config = config
        self.left = config.jobs

    def draw_job(self, rng: Random, job_id: str) -> NewJob:
        """Draw one job."""
        mix, config = self.mix, self._config
        nature = rng.choices(list(mix.natures), list(mix.natures.values()))[0]
        keyed = rng.random() < mix.keyed
        self.left -= 1
        job = NewJob(
            id=JobId(job_id),
            task=rng.choice(config.tasks).name,
            args=msgspec.json.encode({"nature": nature}),
            queue=rng.choice(config.queues),
            priority=rng.choice((0, 2, 5, 5, 5, 8, 9)),
            delay=_seconds(rng, 8.0) if rng.random() < mix.delayed else None,
            policy=self._draw_policy(rng, nature, keyed),
        )
        if not keyed:
            return self._lines.stamp(job)
        number = rng.randrange(mix.keys)
        return msgspec.structs.replace(
            job,
            task=config.tasks[number % len(config.tasks)].name,  # each key belongs to one task
            key=f"key{number}",
            if_exists="replace" if rng.random() < 0.4 else "return",
        )

    def _draw_policy(self, rng: Random, nature: str, keyed: bool) -> Policy:
        mix = self.mix
        timed = nature == "hanging" or rng.random() < mix.timed
        return Policy(
            retry=RetryPolicy(
                retries=rng.choice((0, 1, 3)),
                base=_seconds(rng, 1.0),
                factor=rng.choice((1.0, 2.0)),
                cap=timedelta(seconds=4),
                jitter=rng.choice((0.0, 0.5)),
            ),
            timeout=_seconds(rng, 5.0) if timed else None,
            expires=_seconds(rng, 20.0) if rng.random() < mix.expiring else None,
            key_for=_seconds(rng, 10.0) if keyed and rng.random() < 0.3 else None,
            on_lost="fail" if rng.random() < 0.05 else "retry",
        )

    def child_job(self, world: World, rng: Random) -> NewJob | None:
        """Return a job for a handler to enqueue; None if no more jobs are to be enqueued."""
        if self.left <= 0 or not world.faults.active:
            return None
        return self.draw_job(rng, world.new_ids(rng).new_id())

    def draw_operation(self, rng: Random, client: Client) -> Operation:
        """Draw the next operation of a client."""
        if not client.known or rng.random() > self.mix.meddling:
            ids = client.ids.new_ids(rng.choice((1, 1, 2, 5)))
            return Operation("insert_jobs", [self.draw_job(rng, job_id) for job_id in ids])
        verb = rng.choice(("cancel_jobs", "cancel_jobs", "retry_jobs", "retry_jobs", "discard_jobs", "get_jobs"))
        return Operation(verb, [JobId(job_id) for job_id in rng.sample(client.known, min(2, len(client.known)))])

    def check(self, world: World) -> None:
        """Make additional checks at the end of a run."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A store call of a client. All operations are safe to repeat."""

    verb: str
    what: list[Any]


class Client(Actor):
    """A client that carries out one operation after the other, and repeats an operation that was not answered."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, f"client{number}", ClockConfig(0.0, 1.0))
        self._rng = world.stream(self.name)
        self._store = world.store_for(self)
        self._pending: Operation | None = None
        self._since = 0
        self.known: list[str] = []
        self.ids = world.new_ids(self._rng)

    @property
    def idle(self) -> bool:
        return self._pending is None

    def start(self) -> None:
        self.world.after(self._rng.randrange(SECOND), self, self._act)

    def _act(self) -> None:
        if self._pending is None:
            if self.world.workload.left <= 0 or not self.world.faults.active:
                return
            self._pending = self.world.workload.draw_operation(self._rng, self)
            self._since = self.world.plan_round.account.store_now()
        self._try(self._pending)
        self.world.after(self._pause_us(), self, self._act)

    def _try(self, operation: Operation) -> None:
        try:
            verbs = self._store.reads if operation.verb == "get_jobs" else self._store
            answer = getattr(verbs, operation.verb)(operation.what)
        except Unreachable:
            if self._out_of_patience():
                self._pending = None
            return
        self._pending = None
        if operation.verb == "insert_jobs":
            self.world.plan_round.acknowledged(answer)
            self.known += answer

    def _out_of_patience(self) -> bool:
        """Return whether to give up an operation. An enqueue repeated after its job was pruned would run it twice."""
        waited = timedelta(microseconds=self.world.plan_round.account.store_now() - self._since)
        return waited > self.world.config.retention.ended / 4

    def _pause_us(self) -> int:
        if self._pending is not None:
            return int(self._rng.uniform(0.05, 1.0) * SECOND)
        jobs = self.world.config.jobs * (1 + self.world.workload.mix.meddling) / 2
        return int(self._rng.expovariate(jobs / self.world.config.clients / _SPREAD) * self.world.horizon_us)

    def crash(self) -> None:
        """Restart at once, without the pending operation."""
        self._pending = None


def _seconds(rng: Random, most: float) -> timedelta:
    """Draw a duration of less than `most` seconds, in whole milliseconds."""
    return timedelta(milliseconds=rng.randrange(1, int(most * 1000)))
