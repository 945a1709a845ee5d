"""How a run goes on: which steps an end releases, skips or ends, and when the run itself is over.

Pure but for `look`, which fetches rows of the run as they are needed: of the steps that ended and of their children, so
that the cost follows the out-degree. Whoever calls has locked the run, and stores what was touched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import Raw

from tickwork.core.blob_ref import Load, Unfillable
from tickwork.core.dag.graph import Graph, Step, steps_in
from tickwork.core.dag.join import StepEnd, judge
from tickwork.core.dag.step_inputs import (
    NO_RESULTS,
    StepResults,
    elements,
    encode_holes,
    fill,
    filled,
    holds,
    partly_filled,
    read,
    value_of,
    wanted_by,
)
from tickwork.core.job import JobState, NewJob

WAITING, OPEN, SKIPPED = "waiting", "open", "skipped"


class StepState(msgspec.Struct):
    """A step of a run as it stands.

    `state` is waiting, open, or an end. Of its parents `pending` have not ended, and the others so; of its instances
    there are `total`, of which `ended` have, `bad` of them without success. `reason` is why it ended without having
    run; `blocked`: because something upstream failed. `result` is that of an approval.
    """

    step: str
    state: str = WAITING
    pending: int = 0
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    total: int = 0
    ended: int = 0
    bad: int = 0
    mapped: bool = False
    blocked: bool = False
    reason: str | None = None
    result: str | None = None

    @property
    def is_over(self) -> bool:
        return self.state not in (WAITING, OPEN)

    @property
    def ending(self) -> StepEnd:
        """What its end counts for."""
        if self.state == JobState.SUCCEEDED:
            return StepEnd.SUCCEEDED
        return StepEnd.SKIPPED if self.state == SKIPPED and not self.blocked else StepEnd.FAILED


class StepJob(NamedTuple):
    """A job that a step needs now. `inputs` are the holes that are filled when it is claimed."""

    step: Step
    idx: int
    args: bytes
    inputs: bytes | None


class RunSnapshot(Protocol):
    """How a run stands in the store, and what is in blobs of it."""

    load: Load

    def steps(self, names: Sequence[str]) -> list[StepState]:
        """The rows of these steps."""

    def results(self, names: Iterable[str], touched: Mapping[str, StepState]) -> StepResults:
        """What steps came to; a list for a mapped one. What is `touched` counts, and is not stored yet."""

    def job(self, one: StepJob, touched: Mapping[str, StepState]) -> NewJob:
        """The job to store for an instance. Raises Unfillable when its limits cannot read its arguments."""


class RunState(msgspec.Struct):
    """A run as it stands. `open` steps have not ended; `failed` ones have, not by being skipped, and none may fail."""

    id: str
    dag: str
    version: int
    params: dict[str, Raw]
    open: int = 0
    failed: int = 0
    is_cancelled: bool = False


class Advance:
    """One move of a run: what it touches, `jobs` that must be released, and assets that its steps have `produced`."""

    def __init__(self, graph: Graph, run: RunState, look: RunSnapshot) -> None:
        self.graph = graph
        self.run = run
        self.touched: dict[str, StepState] = {}
        self.jobs: list[NewJob] = []
        self.approvals: list[Step] = []
        self.produced: list[str] = []
        self._look = look
        self._ready: deque[StepState] = deque()
        self._kept: Mapping[str, Mapping[int, bool]] = {}

    @property
    def is_over(self) -> bool:
        return self.run.open == 0

    def begin(self) -> None:
        """Start a run that has not begun."""
        self.run.open, self.run.failed = len(self.graph.steps), 0
        for step in self.graph.steps:
            self.touched[step.name] = self._fresh(step.name, len(step.parents))
        self._settle(self._judge([one for one in self.touched.values() if not one.pending]))
        self._release()

    def _fresh(self, name: str, pending: int, ends: Sequence[StepEnd] = ()) -> StepState:
        counts = (ends.count(StepEnd.SUCCEEDED), ends.count(StepEnd.FAILED), ends.count(StepEnd.SKIPPED))
        return StepState(name, WAITING, pending, *counts, mapped=self.graph.by_name[name].map is not None)

    def begin_again(
        self, standings: Iterable[StepState], names: Iterable[str], kept: Mapping[str, Mapping[int, bool]]
    ) -> None:
        """Start anew with these steps and what depends on them; what else there is stays as it ended.

        `kept`: instances of mapped steps that stay as well, and whether each has succeeded.
        """
        known = {one.step: one for one in standings}
        anew = self.graph.below(names)
        self.run.open = len(anew)
        self.run.failed = sum(self._fails_run(one) for one in known.values() if one.step not in anew)
        for name in anew:
            ends = [known[parent].ending for parent in self.graph.by_name[name].parents if parent not in anew]
            pending = len(self.graph.by_name[name].parents) - len(ends)
            self.touched[name] = self._fresh(name, pending, ends)
        first = [self.touched[step.name] for step in self.graph.steps if self._is_first(step.name)]
        self._kept = {one.step: kept[one.step] for one in first if one.step in kept}
        self._settle(self._judge(first))
        self._release()

    def _is_first(self, name: str) -> bool:
        return name in self.touched and not self.touched[name].pending

    def end(self, endings: Iterable[tuple[str, JobState]]) -> None:
        """Note instances of steps that have ended, and go on from there."""
        counted: dict[str, list[JobState]] = {}
        for name, state in endings:
            counted.setdefault(name, []).append(state)
        over = []
        for one in self._standings(list(counted)):
            states = counted[one.step]
            one.ended += len(states)
            one.bad += sum(state is not JobState.SUCCEEDED for state in states)
            if one.state == OPEN and one.ended >= one.total:
                one.state = self._state_of(one, states[-1])
                over.append(one)
        self._settle(over)
        self._release()

    def answer(self, name: str, state: JobState, result: str | None, reason: str | None) -> bool:
        """End an approval; False when it does not wait for an answer."""
        (one,) = self._standings([name])
        if one.state != OPEN or self.graph.by_name[name].approval is None:
            return False
        one.state, one.result, one.reason, one.ended = state.value, result, reason, 1
        self._settle([one])
        self._release()
        return True

    def result(self) -> bytes:
        """What the run gives back, once it has succeeded. Raises Unfillable."""
        names = wanted_by(self.graph.result.holes)
        results = self._look.results(names, self.touched) if names else NO_RESULTS
        return filled(self.graph.result, self.run.params, results)

    # -- ends

    def _state_of(self, one: StepState, last: JobState) -> str:
        if not one.bad:
            return JobState.SUCCEEDED
        if self.graph.by_name[one.step].map is None:
            return last
        return JobState.CANCELLED if self.run.is_cancelled else JobState.FAILED

    def _settle(self, over: Sequence[StepState]) -> None:
        """Tell the children of steps that have ended; those that wait for nobody any more are judged."""
        while over:
            told: dict[str, list[StepEnd]] = {}
            for one in over:
                self.run.open -= 1
                self.run.failed += self._fails_run(one)
                if one.state == JobState.SUCCEEDED:
                    self.produced += self.graph.by_name[one.step].produce
                for child in self.graph.children[one.step]:
                    told.setdefault(child, []).append(one.ending)
            over = self._judge(self._told(told))

    def _fails_run(self, one: StepState) -> bool:
        """Whether the end of a step makes its run end as failed. Its children see a failure either way."""
        return one.ending is StepEnd.FAILED and one.state != SKIPPED and not self.graph.by_name[one.step].may_fail

    def _told(self, told: Mapping[str, Sequence[StepEnd]]) -> list[StepState]:
        free = []
        for one in self._standings(list(told)):
            for ending in told[one.step]:
                one.pending -= 1
                setattr(one, ending.value, getattr(one, ending.value) + 1)
            if not one.pending and one.state == WAITING:
                free.append(one)
        return free

    def _judge(self, free: Iterable[StepState]) -> list[StepState]:
        """Skip those that may not run, and return them; the others are ready."""
        skipped = []
        for one in free:
            run_if = self.graph.by_name[one.step].run_if
            verdict = judge(run_if, one.succeeded, one.failed, one.skipped)
            if verdict is None and (run_if == "always" or not self.run.is_cancelled):
                self._ready.append(one)
                continue
            if self.run.is_cancelled and run_if != "always":
                one.state, one.reason = JobState.CANCELLED, "the run was cancelled"
            else:
                one.state, one.blocked = SKIPPED, verdict is StepEnd.FAILED
                one.reason = "something it waits for failed" if one.blocked else f"its rule is {run_if}"
            skipped.append(one)
        return skipped

    def _standings(self, names: Sequence[str]) -> list[StepState]:
        unknown = [name for name in names if name not in self.touched]
        if unknown:
            self.touched.update((one.step, one) for one in self._look.steps(unknown))
        return [self.touched[name] for name in names]

    # -- releases

    def _release(self) -> None:
        """Open what is ready. That may end a step at once (an empty map, a condition), which may make others ready."""
        while self._ready:
            ready = [self._ready.popleft() for _ in range(len(self._ready))]
            wanted = {name for one in ready for name in _wanted_at_once(self.graph.by_name[one.step])}
            results = self._look.results(wanted, self.touched) if wanted else NO_RESULTS
            self._settle([one for one in ready if not self._open(one, self.graph.by_name[one.step], results)])

    def _open(self, one: StepState, step: Step, results: StepResults) -> bool:
        """Begin a step; False when it has ended by that."""
        kept = self._kept.get(step.name, {})
        try:
            if not all(holds(condition, self.run.params, results) for condition in step.when):
                one.state, one.reason = SKIPPED, "a condition did not hold"
                return False
            one.state = OPEN
            if step.approval is not None:
                one.total, one.reason = 1, self._asked(step, results)
                self.approvals.append(step)
                return True
            instances = self._instances_of(step, results)
            jobs = [self._look.job(job, self.touched) for job in instances if job.idx not in kept]
        except Unfillable as error:
            one.state, one.reason = JobState.FAILED, f"{error}."
            return False
        one.total, one.ended = len(instances), len(instances) - len(jobs)
        one.bad = sum(not kept.get(job.idx, True) for job in instances)
        if not jobs:
            one.state = JobState.FAILED if one.bad else JobState.SUCCEEDED
            return False
        self.jobs.extend(jobs)
        return True

    def _asked(self, step: Step, results: StepResults) -> str | None:
        """What a person is asked to approve, where that is not known before. Raises Unfillable."""
        if not step.args.holes:
            return None
        args = read(Raw(filled(step.args, self.run.params, results)), self._look.load)
        asked = msgspec.json.decode(args, type=dict[str, Any]).get("text")
        return asked if asked is None or isinstance(asked, str) else msgspec.json.encode(asked).decode()

    def _instances_of(self, step: Step, results: StepResults) -> list[StepJob]:
        params, load = self.run.params, self._look.load
        nothing = NO_RESULTS._replace(load=load)
        now = [hole for hole in step.args.holes if not any(steps_in(hole.value))]
        later = [hole for hole in step.args.holes if any(steps_in(hole.value))]
        rows: list[dict[str, Raw]] = [{}] if step.map is None else elements(step.map, params, results)
        jobs = []
        for idx, items in enumerate(rows):
            args = fill(step.args.json, now, partial(value_of, params=params, items=items, results=nothing))
            inputs = encode_holes(partly_filled(hole, params, items, load) for hole in later) if later else None
            jobs.append(StepJob(step, idx, args, inputs))
        return jobs


def _wanted_at_once(step: Step) -> set[str]:
    """The steps whose results decide whether a step runs, and how often."""
    names = {name for condition in step.when for name in steps_in(condition.value)}
    if step.approval is not None:
        names |= wanted_by(step.args.holes)
    if step.map is not None:
        for over in step.map.over.values():
            names |= set() if isinstance(over, list) else set(steps_in(over))
    return names


def failed_steps(standings: Iterable[StepState]) -> list[str]:
    """Those that a rerun begins with: what failed, or was kept from running."""
    return [one.step for one in standings if one.is_over and one.ending is StepEnd.FAILED and one.state != SKIPPED]
