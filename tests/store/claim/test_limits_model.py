"""Flow control against a model of its rules: anything may happen, in virtual time, and the rules hold at every step."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.store.builders import HOUR, SECOND, a_job, again, failed, reap, register, succeeded
from tests.store.claim.limits_helpers import gate
from tests.store.claim.limits_model import Job, Model
from tickwork.core.ids import JobId, WorkerId
from tickwork.core.job import Claimed, JobState
from tickwork.core.limits.job_limits import JobLimits, LimitUse
from tickwork.core.limits.limits import concurrency, rate, sequence
from tickwork.store.attempt_types import Finish
from tickwork.store.limits import LimitedCapacity
from tickwork.store.sqlite import SqliteStore
from tickwork.testing import VirtualClock

KEYS = st.sampled_from("aaab")
LIMITS = st.sampled_from(
    [
        *((), ("two",), ("four",), ("api",), ("line",), ("line",), ("line", "two"), ("api", "line"), ("two", "four")),
        *(("api", "two"), ("loose",), ("loose", "two")),
    ]
)
PACES = st.sampled_from([(2, 0), (2, 1), (5, 2)])
Search = Literal["all", "ends"] | None
WORKERS = 3
HOW = st.sampled_from(["succeeded", "succeeded", "failed", "again", "later"])
SELECTED = st.sampled_from([("task", "other"), ("tenant", "acme"), ("collection", "c")])  # most jobs have none of it


class LimitsMachine(RuleBasedStateMachine):
    """A store, and the model beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.clock = VirtualClock()
        self.store = SqliteStore(f"{self.folder}/jobs.db", clock=self.clock)
        self.model = Model()
        self.began = self.clock.now()
        self.workers = [register(self.store, lease=HOUR * 1000) for _ in range(WORKERS)]
        self.held: dict[str, Claimed] = {}

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    @initialize()
    def declare(self) -> None:
        self.store.limits.declare_limits({"two": concurrency(2), "four": concurrency(4)})
        self.store.limits.declare_limits({"line": sequence("k"), "loose": sequence("k", on_retry="pass")})
        self.store.limits.declare_limits({"api": rate("2/s", burst=1)})
        self.model.capacity = {"two": 2, "four": 4}
        self.model.lines = {"line": "wait", "loose": "pass"}
        self.model.set_pace("api", 2, 1)

    # -- jobs come

    @rule(
        limits=LIMITS,
        key=KEYS,
        weight=st.integers(1, 3),
        count=st.integers(1, 6),
        delay_s=st.sampled_from([0, 0, 0, 0, 1, 60]),
        task=st.sampled_from(["t", "t", "other"]),
        tenant=st.sampled_from([None, None, "acme", "globex"]),
        collection=st.sampled_from([None, None, None, "c"]),
        priority=st.integers(4, 6),
    )
    def enqueue(
        self, limits: tuple[str, ...], key: str, weight: int, count: int, delay_s: int, priority: int, **said: Any
    ) -> None:
        uses = tuple(LimitUse(limit, key, weight if limit == "four" else 1) for limit in limits)
        job_limits = (
            JobLimits(uses, said["tenant"], sequence=bool({"line", "loose"} & {*limits}))
            if uses or said["tenant"]
            else None
        )
        about = {"job_limits": job_limits, "collection": said["collection"], "priority": priority}
        jobs = [a_job(said["task"], delay=timedelta(seconds=delay_s), **about) for _ in range(count)]
        self.store.insert_jobs(jobs)
        weights = {(slot.limit, slot.key): slot.weight for slot in uses}
        for job in jobs:
            self.model.jobs[job.id] = Job(job.id, **said, weights=dict(weights), run_at=self.model.now + delay_s)

    # -- workers

    @rule(worker=st.integers(0, WORKERS - 1), limit=st.integers(1, 6), search=st.sampled_from([None, "all", "ends"]))
    def claim(self, worker: int, limit: int, search: Search) -> None:
        self.take(self.workers[worker], limit, search=search)

    @rule(worker=st.integers(0, WORKERS - 1), limit=st.integers(1, 6), seconds=st.sampled_from([0.1, 0.2, 0.3]))
    def claim_again_and_again(self, worker: int, limit: int, seconds: float) -> None:
        for _ in range(4):
            self.take(self.workers[worker], limit)
            self.advance(seconds)

    def take(self, worker: WorkerId, limit: int, *, search: Search = None) -> int:
        capacity = LimitedCapacity(limit, search=search)
        claimed = self.store.claim_jobs(worker, ["default"], ["t", "other"], limit, capacity=capacity).jobs
        self.hold(worker, claimed, limit)
        return len(claimed)

    def hold(self, worker: WorkerId, claimed: Sequence[Claimed], limit: int) -> None:
        assert len(claimed) <= limit
        self.note_dropped()
        for one in claimed:
            self.model.starts(self.model.jobs[one.job_id], worker)
            self.held[one.job_id] = one

    def note_dropped(self) -> None:
        ids = [JobId(job.id) for job in self.model.jobs.values() if job.state == "waiting"]
        for id, view in self.store.reads.get_jobs(ids).items():
            if view.state is JobState.DROPPED:
                gate = self.model.gate_for(self.model.jobs[id])
                assert gate is not None
                assert gate.kind == "drop"
                self.model.jobs[id].state = "dropped"

    @precondition(lambda self: self.held)
    @rule(data=st.data(), how=HOW)
    def finish(self, data: st.DataObject, how: str) -> None:
        assert self.store.finish_attempts([self.end(data, how)])

    @precondition(lambda self: self.held)
    @rule(data=st.data(), how=HOW, worker=st.integers(0, WORKERS - 1), limit=st.integers(1, 6))
    def exchange(self, data: st.DataObject, how: str, worker: int, limit: int) -> None:
        """A worker stores an end and claims, at once."""
        me, ending = self.workers[worker], self.end(data, how)
        done = self.store.exchange(
            me, [ending], (), queues=["default"], tasks=["t", "other"], limit=limit, capacity=LimitedCapacity(limit)
        )
        assert done.finished == {ending.job_id}
        assert done.claims is not None
        self.hold(me, done.claims.jobs, limit)

    def end(self, data: st.DataObject, how: str) -> Finish:
        """Finish one of the attempts of the model."""
        one = self.held.pop(data.draw(st.sampled_from(sorted(self.held))))
        job = self.model.jobs[one.job_id]
        delay_s = {"again": 0, "later": 30}.get(how)
        if delay_s is not None:
            self.model.again(job, delay_s)
            return again(one, timedelta(seconds=delay_s))
        job.state = how
        return succeeded(one) if how == "succeeded" else failed(one)

    @rule(worker=st.integers(0, WORKERS - 1))
    def lose(self, worker: int) -> None:
        """A worker falls silent, and what it held is taken back."""
        lost = self.model.running(self.workers[worker])
        self.store.renew_lease(self.workers[worker], SECOND)
        self.advance(2)
        assert reap(self.store) == {job.id for job in lost}
        for job in lost:
            del self.held[job.id]
            self.model.again(job, 0)
        self.workers[worker] = register(self.store, lease=HOUR * 1000)

    @precondition(lambda self: self.model.queued())
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(self.model.queued()))
        assert self.store.cancel_jobs([JobId(job.id)]) == [job.id]
        job.state = "cancelled"

    @precondition(lambda self: any(job.state == "failed" for job in self.model.jobs.values()))
    @rule(data=st.data())
    def redrive(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from([job for job in self.model.jobs.values() if job.state == "failed"]))
        assert self.store.retry_jobs([JobId(job.id)]) == [job.id]
        self.model.redrive(job)

    # -- rules change

    @rule(name=st.sampled_from(["two", "four"]), capacity=st.integers(1, 4))
    def set_limit(self, name: str, capacity: int) -> None:
        self.store.limits.set_limit(name, concurrency(capacity))
        self.model.capacity[name] = capacity

    @rule(pace=PACES)
    def set_rate(self, pace: tuple[int, int]) -> None:
        self.store.limits.set_limit("api", rate(f"{pace[0]}/s", burst=pace[1]))
        self.model.set_pace("api", *pace)

    @rule(kind=st.sampled_from(["pause", "drop", "slow"]), which=SELECTED, until_s=st.sampled_from([None, None, 1, 45]))
    def put_gate(self, kind: str, which: tuple[str, str], until_s: int | None) -> None:
        selector, value = which
        given: dict[str, Any] = {selector: value} | ({"rate": rate("2/s", burst=0)} if kind == "slow" else {})
        gate(self.store, kind, until=None if until_s is None else timedelta(seconds=until_s), **given)
        self.model.put_gate(kind, *which, None if until_s is None else self.model.now + until_s)
        self.note_dropped()

    @rule(which=SELECTED)
    def lift_gates(self, which: tuple[str, str]) -> None:
        selector, value = which
        self.store.limits.lift_gates({selector: value})
        self.model.gates = {name: one for name, one in self.model.gates.items() if name[1:] != which}

    # -- time goes by

    @rule(seconds=st.sampled_from([0.1, 0.2, 0.3, 0.5, 1, 40]))
    def advance(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))
        self.model.now = (self.clock.now() - self.began).total_seconds()

    @rule(worker=st.integers(0, WORKERS - 1))
    def settle(self, worker: int) -> None:
        """Claim everything that can start: whatever waits afterwards is held."""
        self.store.limits.open_limit_keys()
        while self.take(self.workers[worker], 1000):
            pass
        for job in self.model.due():
            assert list(self.model.holds(job)), (
                f"{job} waits, and nothing holds it: {self.store.limits.hold(JobId(job.id))}"
            )

    @invariant()
    def limits_tell_what_is_live(self) -> None:
        live = {view.name: view.live for view in self.store.limits.list_limits()}
        for name in ("two", "four", "line", "loose"):
            keys = {key for job in self.model.jobs.values() for key in job.weights if key[0] == name}
            assert live.get(name, 0) == sum(self.model.live(key) for key in keys)


TestLimitsModel = LimitsMachine.TestCase
TestLimitsModel.settings = settings(max_examples=100, stateful_step_count=40)


@pytest.mark.usefixtures("small_masses")
class TestLimitsModelAtScale(LimitsMachine.TestCase):  # type: ignore[misc,name-defined]
    """The same, where two jobs of a kind that are held are a mass, and three are looked at behind it."""

    settings = TestLimitsModel.settings
