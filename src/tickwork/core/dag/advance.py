"""Advance a run of a dag: release, skip or end steps when other steps end, and decide when the run is over.

The module is pure except for `look`, which fetches rows of the run when they are needed: the rows of the steps that
ended and of their children. The cost therefore follows the out-degree of the steps. The caller has locked the run, and
stores the rows that were touched.

When all parents of a step have ended, its join rule decides whether it runs. An end counts as succeeded, failed or
skipped. Failed covers every reason why a step did not do its work: failed, expired, cancelled, dropped, and skipped
because a step upstream failed. A step that a branch or its own rule skipped counts as skipped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import Raw

from tickwork.core.blob_ref import Load, Unfillable
from tickwork.core.dag.graph import Graph, RunIf, Step, steps_in
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


class StepEnd(StrEnum):
    """How the end of a step counts for its children."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"


def judge(run_if: RunIf, succeeded: int, failed: int, skipped: int) -> StepEnd | None:
    """Return None if a step may run, otherwise how its skip counts for its children.

    `succeeded`, `failed` and `skipped` are the numbers of its parents that ended in that way.
    """
    match run_if:
        case "all_done" | "always":
            return None
        case "any_failed":
            return None if failed else StepEnd.SKIPPED
        case "any_succeeded":
            may_run = succeeded > 0
        case "none_failed":
            may_run = failed == 0
        case "all_succeeded":
            may_run = failed == 0 and skipped == 0
    if may_run:
        return None
    return StepEnd.FAILED if failed else StepEnd.SKIPPED


WAITING, OPEN, SKIPPED = "waiting", "open", "skipped"


class StepState(msgspec.Struct):
    """The state of a step of a run.

    `state` is waiting, open, or how the step ended. `pending` is the number of its parents that have not ended;
    `succeeded`, `failed` and `skipped` are the numbers of parents that ended in that way. `total` is the number of its
    instances, `ended` how many of them have ended, and `bad` how many of those ended without success. `reason` says why
    the step ended without running. `blocked`: it was skipped because a step upstream failed. `result` is the answer to
    an approval.
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
        """How the end of this step counts for its children."""
        if self.state == JobState.SUCCEEDED:
            return StepEnd.SUCCEEDED
        return StepEnd.SKIPPED if self.state == SKIPPED and not self.blocked else StepEnd.FAILED


class StepJob(NamedTuple):
    """A job that a step needs now. `inputs` are the placeholders that are filled when the job is claimed."""

    step: Step
    idx: int
    args: bytes
    inputs: bytes | None


class RunSnapshot(Protocol):
    """Read access to the stored rows of a run. `load` reads blobs."""

    load: Load

    def steps(self, names: Sequence[str]) -> list[StepState]:
        """Return the rows of these steps."""

    def results(self, names: Iterable[str], touched: Mapping[str, StepState]) -> StepResults:
        """Return the results of steps; the result of a mapped step is a list.

        States in `touched` override stored ones.
        """

    def job(self, one: StepJob, touched: Mapping[str, StepState]) -> NewJob:
        """Return the job to store for an instance. Raises Unfillable if its limits cannot read its arguments."""


class RunState(msgspec.Struct):
    """The state of a run.

    `open` is the number of steps that have not ended. `failed` is the number of steps whose failure fails the run:
    steps that were skipped or that may fail do not count.
    """

    id: str
    dag: str
    version: int
    params: dict[str, Raw]
    open: int = 0
    failed: int = 0
    is_cancelled: bool = False


class Advance:
    """One advance of a run: the changes that follow from the end of steps.

    `touched` are the step states that changed, `jobs` the jobs to release, `approvals` the approval steps that were
    opened, and `produced` the assets that its steps have produced.
    """

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
        """Return the state of a waiting step: `pending` parents have not ended, the others ended as in `ends`."""
        counts = (ends.count(StepEnd.SUCCEEDED), ends.count(StepEnd.FAILED), ends.count(StepEnd.SKIPPED))
        return StepState(name, WAITING, pending, *counts, mapped=self.graph.by_name[name].map is not None)

    def begin_again(
        self, standings: Iterable[StepState], names: Iterable[str], kept: Mapping[str, Mapping[int, bool]]
    ) -> None:
        """Restart these steps and all steps that depend on them. All other steps keep their end.

        `kept` lists, by mapped step, the instances that are not run again, and whether each succeeded.
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
        """Count instances that have ended, and advance the run."""
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
        """End an approval, and advance the run. Return False if the approval does not wait for an answer."""
        (one,) = self._standings([name])
        if one.state != OPEN or self.graph.by_name[name].approval is None:
            return False
        one.state, one.result, one.reason, one.ended = state.value, result, reason, 1
        self._settle([one])
        self._release()
        return True

    def result(self) -> bytes:
        """Return the result of a run that has succeeded. Raises Unfillable."""
        names = wanted_by(self.graph.result.holes)
        results = self._look.results(names, self.touched) if names else NO_RESULTS
        return filled(self.graph.result, self.run.params, results)

    # -- ends

    def _state_of(self, one: StepState, last: JobState) -> str:
        """Return the state of a step whose instances have all ended, the last of them in state `last`."""
        if not one.bad:
            return JobState.SUCCEEDED
        if self.graph.by_name[one.step].map is None:
            return last
        return JobState.CANCELLED if self.run.is_cancelled else JobState.FAILED

    def _settle(self, over: Sequence[StepState]) -> None:
        """Count ended steps for the run and for their children; decide about children without pending parents."""
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
        """Return whether the end of a step makes its run fail. For its children it is a failure in any case."""
        return one.ending is StepEnd.FAILED and one.state != SKIPPED and not self.graph.by_name[one.step].may_fail

    def _told(self, told: Mapping[str, Sequence[StepEnd]]) -> list[StepState]:
        """Count the ends of parents, and return the waiting steps that have no pending parents left."""
        free = []
        for one in self._standings(list(told)):
            for ending in told[one.step]:
                one.pending -= 1
                setattr(one, ending.value, getattr(one, ending.value) + 1)
            if not one.pending and one.state == WAITING:
                free.append(one)
        return free

    def _judge(self, free: Iterable[StepState]) -> list[StepState]:
        """Skip the steps that may not run, and return them; the other steps are ready."""
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
        """Return the states of these steps, reading the ones that are not loaded yet."""
        unknown = [name for name in names if name not in self.touched]
        if unknown:
            self.touched.update((one.step, one) for one in self._look.steps(unknown))
        return [self.touched[name] for name in names]

    # -- releases

    def _release(self) -> None:
        """Open the steps that are ready.

        A step may end as soon as it is opened (an empty map, a condition that does not hold), which may make other
        steps ready.
        """
        while self._ready:
            ready = [self._ready.popleft() for _ in range(len(self._ready))]
            wanted = {name for one in ready for name in _wanted_at_once(self.graph.by_name[one.step])}
            results = self._look.results(wanted, self.touched) if wanted else NO_RESULTS
            self._settle([one for one in ready if not self._open(one, self.graph.by_name[one.step], results)])

    def _open(self, one: StepState, step: Step, results: StepResults) -> bool:
        """Open a step. Return False if it ended at once."""
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
        """Return the text of an approval if it depends on values of the run, otherwise None. Raises Unfillable."""
        if not step.args.holes:
            return None
        args = read(Raw(filled(step.args, self.run.params, results)), self._look.load)
        asked = msgspec.json.decode(args, type=dict[str, Any]).get("text")
        return asked if asked is None or isinstance(asked, str) else msgspec.json.encode(asked).decode()

    def _instances_of(self, step: Step, results: StepResults) -> list[StepJob]:
        """Return a job for each instance, with all values filled in that are known before any step has run."""
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
    """Return the steps whose results decide whether a step runs, and with how many instances."""
    names = {name for condition in step.when for name in steps_in(condition.value)}
    if step.approval is not None:
        names |= wanted_by(step.args.holes)
    if step.map is not None:
        for over in step.map.over.values():
            names |= set() if isinstance(over, list) else set(steps_in(over))
    return names


def failed_steps(standings: Iterable[StepState]) -> list[str]:
    """Return the steps that a rerun starts with: those that failed, expired, or were cancelled or dropped."""
    return [one.step for one in standings if one.is_over and one.ending is StepEnd.FAILED and one.state != SKIPPED]
