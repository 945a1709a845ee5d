"""Executes a run on a store as workers, callers and services would, and compares it with the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random
from typing import Any

from tests.store.builders import HOUR, SECOND, a_job, again, failed, reap, register, succeeded, with_retries
from tests.store.claim.limits_helpers import gate
from tests.store.runs.dag_graphs import DECIDES_AFTER, EXPIRES, TASKS, VALUES, encoded, some_params
from tests.store.runs.dag_model import LIVE, Job, Model, Place
from tickwork.core.dag.graph import Graph
from tickwork.core.ids import IdMaker, JobId, WorkerId
from tickwork.core.job import RUN, Claimed, JobFilter, JobState
from tickwork.store.attempt_types import Exchange, Finish
from tickwork.store.base import Store
from tickwork.testing import VirtualClock

MOST_MOVES = 60
MOST_DRAINS = 400
WORKERS = 2
LONG = HOUR * 10_000


class Driver:
    """One run of a random graph. `is_exact`: a claim finds whatever is due, at once."""

    def __init__(self, store: Store, clock: VirtualClock, rng: Random, graph: Graph, *, is_exact: bool = True) -> None:
        self.store, self.clock, self.rng, self.is_exact = store, clock, rng, is_exact
        self.began = clock.now()
        params = some_params(rng)
        self.model = Model(graph, params)
        version = store.dags.put_dag(graph)
        # Ids of steps are made of that of their run, and decide who is first of those that are due at once: the same
        # choices have to lead to the same order.
        id = IdMaker(lambda: round(clock.now().timestamp() * 1000), rng.getrandbits).new_id()
        job = a_job(graph.name, id=JobId(id), args=encoded(params), policy=with_retries(0), version=version)
        (self.run,) = store.insert_jobs([job])
        self.workers = [register(store, f"{self.run} {number}", lease=LONG) for number in range(WORKERS)]
        self.held: dict[Place, tuple[WorkerId, Claimed]] = {}
        self.stale: list[Claimed] = []
        self.is_gated = False
        self.luck = rng.choice((0.5, 0.8, 0.95))
        self.told: list[str] = []

    @property
    def graph(self) -> Graph:
        return self.model.graph

    # -- the whole of it

    def run_round(self, moves: int = MOST_MOVES) -> None:
        """Do anything for a while, then bring it to its end. What is the same each time is compared."""
        work: list[Callable[[], None]] = [self.claim, self.finish, self.exchange, self.answer]
        fate: list[Callable[[], None]] = [self.pass_time, self.finish_stale, self.retry_job, self.lose_worker]
        fate += [self.cancel_job, self.cancel_run, self.toggle_gate]
        kinds = [*work * 5, *self.rng.sample(fate, 4)]
        for _ in range(moves):
            self._do(self.rerun if self._is_over and self.rng.random() < 0.5 else self.rng.choice(kinds))
        self.drain()

    def play_endings(self) -> None:
        """End each named step as given, and then the others."""
        self._do(self.claim_all)
        for name in self._named("cancelled"):
            assert self.store.cancel_jobs([self._id((name, 0))])
            self.model.cancel_job((name, 0))
        self._advance(2 * EXPIRES.total_seconds())
        for move in (self.expire, self.toggle_gate, self.claim_all, self.toggle_gate):
            self._do(move)
        bad = [(place, failed(self.held[place][1])) for place in [(name, 0) for name in self._named("failed")]]
        done = self.store.finish_attempts([finish for _, finish in bad])
        self._ended([(place, finish, ("failed", None)) for place, finish in bad], done)
        self.drain()

    def _named(self, ending: str) -> list[str]:
        return [step.name for step in self.graph.steps if step.name.startswith(ending)]

    def drain(self) -> None:
        """Whatever was done to it, a run ends once its steps do."""
        if self.is_gated:
            self._do(self.toggle_gate)
        for _ in range(MOST_DRAINS):
            if self._is_over:
                return
            for move in (self.claim_all, self.finish_all, self.approve_all, self.pass_time):
                self._do(move)
        raise AssertionError(f"the run does not end: {self.model.fates}")

    @property
    def _is_over(self) -> bool:
        return self.model.state not in LIVE

    def _do(self, move: Callable[[], None]) -> None:
        self.told.append(move.__name__)
        move()
        self.compare()

    def tell(self, *what: Any) -> None:
        self.told.append(f"  {' '.join(map(str, what))}")

    # -- workers

    def claim(self) -> None:
        worker = self.rng.choice(self.workers)
        limit = self.rng.choice((1, 2, 100))
        self._took(worker, limit, self.store.claim_jobs(worker, ["default"], [*TASKS, RUN], limit).jobs)

    def claim_all(self) -> None:
        worker = register(self.store, lease=LONG)
        self._took(worker, 100, self.store.claim_jobs(worker, ["default"], [*TASKS, RUN], 100).jobs)

    def _took(self, worker: WorkerId, limit: int, claimed: Sequence[Claimed]) -> None:
        self._note_dropped()
        due = self._due()
        if self.model.state == "queued":
            view = self.store.reads.get_jobs([self.run])[self.run]
            if view.state is not JobState.QUEUED or self.is_exact:
                assert claimed == []
                self.model.begin()
                return
        places = self._places()
        taken = [places[one.job_id] for one in claimed]
        self.tell("took", taken)
        assert set(taken) <= set(due), f"{set(taken) - set(due)} may not start"
        if self.is_exact:
            assert len(taken) == min(limit, len(due)), f"{taken} of {due}"
        for place, one in zip(taken, claimed, strict=True):
            args, has_flaw = self.model.claims(place)
            assert (one.flaw is not None) == has_flaw, f"{place}: {one.flaw}"
            assert has_flaw or json.loads(one.args) == args, f"{place}: {one.args!r}"
            assert one.attempt == self.model.jobs[place].attempt
            assert one.run == self.run
            self.held[place] = worker, one

    def _due(self) -> list[Place]:
        return [job.place for job in self.model.jobs.values() if self._is_due(job)]

    def _is_due(self, job: Job) -> bool:
        now = self.model.now
        lives = job.state == "queued" and job.due <= now and (job.expires is None or job.expires > now)
        return lives and not (self.is_gated and job.task == "gated")

    def finish(self) -> None:
        batch = self._batch()
        self._ended(batch, self.store.finish_attempts([finish for _, finish, _ in batch]))

    def finish_all(self) -> None:
        batch = [(place, succeeded(one, b"1"), ("succeeded", 1)) for place, (_, one) in self._runnable()]
        self._ended(batch, self.store.finish_attempts([finish for _, finish, _ in batch]))

    def exchange(self) -> None:
        """A worker stores what has ended, and claims in the same breath."""
        batch, worker = self._batch(), self.rng.choice(self.workers)
        endings = [finish for _, finish, _ in batch]
        done: Exchange = self.store.exchange(worker, endings, (), queues=["default"], tasks=[*TASKS, RUN], limit=3)
        self._ended(batch, done.finished)
        assert done.claims is not None
        self._took(worker, 3, done.claims.jobs)

    def _runnable(self) -> list[tuple[Place, tuple[WorkerId, Claimed]]]:
        """Return the claimed attempts; fail those without valid arguments at once, as workers do."""
        flawed = [(place, one) for place, (_, one) in self.held.items() if one.flaw is not None]
        if flawed:
            ends = [(place, failed(one), ("failed", None)) for place, one in flawed]
            self._ended(ends, self.store.finish_attempts([finish for _, finish, _ in ends]))
        return list(self.held.items())

    def _batch(self) -> list[tuple[Place, Finish, tuple[str, Any]]]:
        held = self._runnable()
        self.rng.shuffle(held)
        return [(place, *self._outcome(one)) for place, (_, one) in held[: self.rng.choice((1, 2, 5))]]

    def _outcome(self, one: Claimed) -> tuple[Finish, tuple[str, Any]]:
        how = "well" if self.rng.random() < self.luck else self.rng.choice(("badly", "again"))
        match how:
            case "well":
                value = self.rng.choice(VALUES)
                return succeeded(one, encoded(value)), ("succeeded", value)
            case "badly":
                return failed(one), ("failed", None)
            case _:
                delay = self.rng.choice((0, 0, 5))
                return again(one, timedelta(seconds=delay)), ("again", delay)

    def _ended(self, batch: Sequence[tuple[Place, Finish, tuple[str, Any]]], done: set[JobId]) -> None:
        assert done == {finish.job_id for _, finish, _ in batch}
        ends = []
        for place, _, (how, value) in batch:
            self.tell(place, how, value)
            self.stale.append(self.held.pop(place)[1])
            if how == "again":
                self.model.again_later(place, value)
            else:
                ends.append((place, how, value))
        self.model.end(ends)

    def finish_stale(self) -> None:
        """Check that the result of a superseded attempt is dropped."""
        for one in self.rng.sample(self.stale, min(3, len(self.stale))):
            assert self.store.finish_attempts([succeeded(one, b"777")]) == set()

    def lose_worker(self) -> None:
        worker = self.rng.choice(self.workers)
        lost = {place: one for place, (holder, one) in self.held.items() if holder == worker}
        self.store.renew_lease(worker, SECOND)
        self._advance(2)
        assert reap(self.store) == {one.job_id for one in lost.values()}
        for place, one in lost.items():
            self.tell("lost", place)
            del self.held[place]
            self.stale.append(one)
            self.model.again_later(place, 0)
        self.workers.remove(worker)
        self.workers.append(register(self.store, lease=LONG))

    # -- services

    def expire(self) -> None:
        late = [job.place for job in self.model.jobs.values() if self._is_late(job)]
        assert self.store.expire_jobs(100) == len(late)
        self.tell("expired", late)
        self.model.end([(place, "expired", None) for place in late])

    def pass_time(self) -> None:
        self._advance(self.rng.choice((0.1, 1, 6, 31, 70, 70)))
        self.expire()
        overdue = self._overdue()
        assert self.store.dags.answer_overdue(100) == len(overdue)
        for name, approves in overdue:
            self.tell("overdue", name)
            self.model.answer(name, approves, "its time limit", None)

    def _advance(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))
        self.model.now = (self.clock.now() - self.began).total_seconds()

    def _is_late(self, job: Job) -> bool:
        return job.state == "queued" and job.expires is not None and job.expires <= self.model.now

    def _overdue(self) -> list[tuple[str, bool]]:
        until = self.model.now - DECIDES_AFTER.total_seconds()
        return [
            (step.name, step.approval.default == "approve")
            for step in self.graph.steps
            if step.approval and step.approval.timeout and self._waits(step.name)
            if self.model.fates[step.name].opened_at <= until
        ]

    def toggle_gate(self) -> None:
        self.is_gated = not self.is_gated
        if self.is_gated:
            gate(self.store, "drop", task="gated")
        else:
            self.store.limits.lift_gates({"task": "gated"})
        self._note_dropped()

    def _note_dropped(self) -> None:
        """A gate drops a due job when a worker claims it, and then the jobs that this releases."""
        states = {(str(one.step), one.idx): one.state for one in self._views()}
        while dropped := [place for place in self._gated() if states.get(place) is JobState.DROPPED]:
            assert self.is_gated
            self.tell("dropped", dropped)
            self.model.end([(place, "dropped", None) for place in dropped])

    def _gated(self) -> list[Place]:
        return [job.place for job in self.model.jobs.values() if job.state == "queued" and job.task == "gated"]

    # -- callers

    def answer(self) -> None:
        waiting = [step.name for step in self.graph.steps if step.approval and self._waits(step.name)]
        others = [step.name for step in self.graph.steps if step.name not in waiting]
        if others:
            assert not self.store.dags.answer(self.run, self.rng.choice(others), True, "ada")
        if waiting:
            name, approved = self.rng.choice(waiting), self.rng.random() < 0.6
            self.tell("answers", name, approved)
            assert self.store.dags.answer(self.run, name, approved, "ada", "fine")
            self.model.answer(name, approved, "ada", "fine")

    def approve_all(self) -> None:
        for name in [step.name for step in self.graph.steps if step.approval and self._waits(step.name)]:
            assert self.store.dags.answer(self.run, name, True, "ada")
            self.model.answer(name, True, "ada", None)

    def _waits(self, name: str) -> bool:
        return self.model.state == "running" and self.model.fates[name].state == "open"

    def cancel_job(self) -> None:
        live = [place for place, job in self.model.jobs.items() if job.state in LIVE]
        if live:
            place = self.rng.choice(live)
            self.tell("cancels", place)
            assert self.store.cancel_jobs([self._id(place)]) == [self._id(place)]
            self.model.cancel_job(place)

    def cancel_run(self) -> None:
        if not self._is_over:
            assert self.store.cancel_jobs([self.run]) == [self.run]
            self.model.cancel()

    def retry_job(self) -> None:
        """Retrying a step's job is a rerun from it; while the run lives, there is none."""
        bad = [place for place, job in self.model.jobs.items() if job.state not in (*LIVE, "succeeded")]
        if bad:
            name, idx = place = self.rng.choice(bad)
            self.tell("retries", place)
            assert bool(self.store.retry_jobs([self._id(place)])) == self._is_over
            if self._is_over:
                is_mapped = any(step.map for step in self.graph.steps if step.name == name)
                self.model.rerun([f"{name}[{idx}]" if is_mapped else name], None)

    def rerun(self) -> None:
        names = [step.name for step in self.graph.steps]
        steps = None if self.rng.random() < 0.5 else self.rng.sample(names, min(len(names), self.rng.choice((1, 2))))
        params = some_params(self.rng) if self.rng.random() < 0.4 else None
        self.tell("again", steps, params)
        assert self.store.dags.rerun(self.run, steps, None if params is None else encoded(params))
        self.model.rerun(steps, params)

    # -- the comparison

    def compare(self) -> None:
        """The store says what the model says: of the run, of its steps, of their jobs."""
        view = self.store.reads.get_jobs([self.run])[self.run]
        assert view.state == self.model.state, view.error
        if self.model.state == "succeeded":
            assert json.loads(view.result or b"") == self.model.result
        found = {one.standing.step: one.standing for one in self.store.dags.run_steps(self.run)}
        assert {name: (one.state, one.blocked) for name, one in found.items()} == {
            name: (fate.state, fate.is_blocked) for name, fate in self.model.fates.items()
        }
        jobs = self._views()
        assert {(str(one.step), one.idx): one.state.value for one in jobs} == {
            place: job.state for place, job in self.model.jobs.items()
        }

    def _views(self) -> list[Any]:
        return self.store.reads.list_jobs(JobFilter(parent=self.run), 1000)

    def _places(self) -> dict[JobId, Place]:
        return {one.id: (str(one.step), int(one.idx or 0)) for one in self._views()}

    def _id(self, place: Place) -> JobId:
        return next(job_id for job_id, found in self._places().items() if found == place)
