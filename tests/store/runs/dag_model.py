"""A simple model of a run of a dag: after each event it evaluates every step again.

It reads the fields of a Graph and shares no code with what it is compared with. Values are Python's own.
"""

from __future__ import annotations

import json
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from tests.store.runs.dag_values import NoSuchPart, compare, part, put, results_in, shown
from tickwork.core.dag.graph import (
    Condition,
    Expression,
    Graph,
    Item,
    JsonTemplate,
    Last,
    Map,
    Param,
    Result,
    Step,
    Text,
)

Place = tuple[str, int]
LIVE = ("queued", "running")


@dataclass
class Job:
    """One instance of a step. `args` lack what stands in `late`, which is put in when it is claimed."""

    place: Place
    task: str
    args: Any
    late: list[tuple[tuple[str | int, ...], Expression]]
    due: float
    expires: float | None = None
    state: str = "queued"
    value: Any = None
    attempt: int = 0
    is_asked_to_stop: bool = False


@dataclass
class Fate:
    """The state of a step. `total`: the number of its instances; None: it has none yet."""

    state: str = "waiting"
    is_blocked: bool = False
    total: int | None = None
    answer: Any = None
    opened_at: float = 0.0
    kept: set[int] = field(default_factory=set)

    @property
    def is_over(self) -> bool:
        return self.state not in ("waiting", "open")

    @property
    def kind(self) -> str:
        if self.state != "skipped":
            return self.state
        return "skipped upstream" if self.is_blocked else "skipped by rule"


def counts_as(fate: Fate) -> str:
    """Failed, expired, cancelled, dropped, and skipped because something upstream failed, count as failed."""
    return {"succeeded": "succeeded", "skipped by rule": "skipped"}.get(fate.kind, "failed")


def may_run(rule: str, ends: list[str]) -> bool:
    return {
        "all_succeeded": all(end == "succeeded" for end in ends),
        "all_done": True,
        "always": True,
        "any_failed": "failed" in ends,
        "any_succeeded": "succeeded" in ends,
        "none_failed": "failed" not in ends,
    }[rule]


class Model:
    """One run."""

    def __init__(self, graph: Graph, params: dict[str, Any]) -> None:
        self.graph = graph
        self.params = params
        self.now = 0.0
        self.state = "queued"
        self.result: Any = None
        self.is_cancelled = False
        self.fates: dict[str, Fate] = {}
        self.jobs: dict[Place, Job] = {}
        self.again: list[str] | None = None
        self.met: Counter[tuple[str, str]] = Counter()
        self._steps = {step.name: step for step in graph.steps}

    # -- what happens to the run

    def begin(self) -> None:
        """It is claimed: it starts, or starts again with what failed, or with what `again` names."""
        self.state, self.is_cancelled = "running", False
        if not self.fates:
            self.fates = {name: Fate() for name in self._steps}
        else:
            self._begin_again()
        self._settle()

    def _begin_again(self) -> None:
        failed = [name for name, fate in self.fates.items() if fate.state not in ("succeeded", "skipped")]
        named = failed if self.again is None else self.again
        names = {name.partition("[")[0] for name in named}
        anew = set(names)
        while more := {one.name for one in self.graph.steps if anew & set(one.parents)} - anew:
            anew |= more
        fresh = {name: Fate() for name in anew}
        for name in names:
            if not anew & set(self._steps[name].parents) and self._steps[name].map is not None:
                fresh[name].kept = self._kept(name)
        self.fates |= fresh

    def _kept(self, name: str) -> set[int]:
        """The instances that stay: those that succeeded, or that were not named."""
        mine = {idx: self.jobs[name, idx] for idx in range(self.fates[name].total or 0)}
        if self.again is None:
            return {idx for idx, job in mine.items() if job.state == "succeeded"}
        if name in self.again:
            return set()
        return {idx for idx in mine if f"{name}[{idx}]" not in self.again}

    def cancel(self) -> None:
        if self.state == "queued":
            self.state = "cancelled"
            return
        self.is_cancelled = True
        approvals = [name for name, fate in self.fates.items() if fate.state == "open" and self._steps[name].approval]
        for job in self.jobs.values():
            self._stop(job)
        self._settle()
        for name in approvals:
            self.fates[name].state = "cancelled"
        self._settle()

    def rerun(self, again: list[str] | None, params: dict[str, Any] | None) -> None:
        self.state, self.result, self.again = "queued", None, again
        self.params = self.params if params is None else params

    # -- what happens to steps

    def claims(self, place: Place) -> tuple[Any, bool]:
        """A worker has it: the arguments that it brings; True: they cannot be filled."""
        job = self.jobs[place]
        assert job.state == "queued"
        assert job.due <= self.now
        job.state, job.attempt = "running", job.attempt + 1
        args = deepcopy(job.args)
        try:
            for where, value in job.late:
                args = put(args, where, self.value(value, {}))
        except NoSuchPart:
            return job.args, True
        return args, False

    def end(self, ends: list[tuple[Place, str, Any]]) -> None:
        for place, state, value in ends:
            job = self.jobs[place]
            stopped = job.is_asked_to_stop
            job.state, job.value = ("cancelled", None) if stopped else (state, value)
        self._settle()

    def again_later(self, place: Place, delay: float) -> None:
        """An attempt was lost, or failed and is repeated."""
        job = self.jobs[place]
        if job.is_asked_to_stop:
            self.end([(place, "cancelled", None)])
        else:
            job.state, job.due = "queued", self.now + delay

    def cancel_job(self, place: Place) -> None:
        self._stop(self.jobs[place])
        self._settle()

    def answer(self, name: str, approved: bool, by: str, note: str | None) -> None:
        fate = self.fates[name]
        fate.state = "succeeded" if approved else "failed"
        fate.answer = {"approved": approved, "by": by, "note": note} if approved else None
        self._settle()

    def _stop(self, job: Job) -> None:
        if job.state == "queued":
            job.state = "cancelled"
        elif job.state == "running":
            job.is_asked_to_stop = True

    # -- what follows

    def _settle(self) -> None:
        """Look at every step, until nothing changes any more."""
        before: list[str] = []
        while before != (before := [fate.state for fate in self.fates.values()]):
            for step in self.graph.steps:
                fate = self.fates[step.name]
                if fate.state == "waiting" and all(self.fates[name].is_over for name in step.parents):
                    self._judge(step, fate)
                if fate.state == "open" and step.approval is None:
                    self._look_at_instances(step, fate)
        if self.state == "running" and all(fate.is_over for fate in self.fates.values()):
            self._end()

    def _judge(self, step: Step, fate: Fate) -> None:
        ends = [counts_as(self.fates[name]) for name in step.parents]
        if self.is_cancelled and step.run_if != "always":
            fate.state = "cancelled"
            return
        self.met.update((step.run_if, self.fates[name].kind) for name in step.parents)
        if not may_run(step.run_if, ends):
            fate.state, fate.is_blocked = "skipped", "failed" in ends
        elif not all(self.holds(condition) for condition in step.when):
            fate.state = "skipped"
        else:
            fate.state, fate.opened_at = "open", self.now
            self._open(step, fate)

    def _open(self, step: Step, fate: Fate) -> None:
        if step.job is None:
            return
        try:
            rows = [{}] if step.map is None else self._elements(step.map)
            made = [self._job(step, idx, row) for idx, row in enumerate(rows)]
        except NoSuchPart:
            fate.state = "failed"
            return
        fate.total = len(rows)
        for job in made:
            if job.place[1] not in fate.kept:
                before = self.jobs.get(job.place)
                job.attempt = before.attempt if before else 0
                job.expires = None if before else job.expires
                self.jobs[job.place] = job

    def _job(self, step: Step, idx: int, items: dict[str, Any]) -> Job:
        assert step.job is not None
        args, late = json.loads(bytes(step.args.json)), []
        for hole in step.args.holes:
            if results_in(hole.value):
                late.append((hole.where, self._without_items(hole.value, items)))
            else:
                args = put(args, hole.where, self.value(hole.value, items))
        limit = step.job.policy.expires
        expires = None if limit is None else self.now + limit.total_seconds()
        return Job((step.name, idx), step.job.task, args, late, self.now, expires)

    def _without_items(self, value: Expression, items: dict[str, Any]) -> Expression:
        """A text in which there stands what is known before the results are."""
        if not isinstance(value, Text):
            return value
        known = (Param, Item)
        return Text(tuple(shown(self.value(one, items)) if isinstance(one, known) else one for one in value.parts))

    def _elements(self, mapped: Map) -> list[dict[str, Any]]:
        lists: dict[str, list[Any]] = {}
        for name, over in mapped.over.items():
            found = over if isinstance(over, list) else self.value(over, {})
            if found is not None and not isinstance(found, list):
                raise NoSuchPart
            lists[name] = found or []
        if mapped.product:
            rows = list(product(*lists.values()))
        elif len({len(one) for one in lists.values()}) > 1:
            raise NoSuchPart
        else:
            rows = list(zip(*lists.values(), strict=True))
        return [dict(zip(lists, row, strict=True)) for row in rows]

    def _look_at_instances(self, step: Step, fate: Fate) -> None:
        states = [self.jobs[step.name, idx].state for idx in range(fate.total or 0)]
        if any(state in LIVE for state in states):
            return
        if all(state == "succeeded" for state in states):
            fate.state = "succeeded"
        elif step.map is None:
            fate.state = states[0]
        else:
            fate.state = "cancelled" if self.is_cancelled else "failed"

    def _end(self) -> None:
        if self.is_cancelled:
            self.state = "cancelled"
        elif any(self._fails_run(name, fate) for name, fate in self.fates.items()):
            self.state = "failed"
        else:
            try:
                self.result, self.state = self._filled(self.graph.result), "succeeded"
            except NoSuchPart:
                self.state = "failed"

    def _fails_run(self, name: str, fate: Fate) -> bool:
        return fate.state not in ("succeeded", "skipped") and not self._steps[name].may_fail

    # -- values

    def holds(self, condition: Condition) -> bool:
        """Nothing holds of a step that did not succeed."""
        expression = condition.value
        if isinstance(expression, Result | Last):
            names = [expression.step] if isinstance(expression, Result) else expression.steps
            if not any(self.fates[name].state == "succeeded" for name in names):
                return False
        try:
            value = self.value(expression, {})
        except NoSuchPart:
            value = None
        return compare(condition.is_, value, condition.other)

    def value(self, expression: Expression, items: dict[str, Any]) -> Any:
        match expression:
            case Param(name, path):
                return part(self.params.get(name), path)
            case Item(name, path):
                return part(items[name], path)
            case Result(name, path):
                return part(self.result_of(name), path)
            case Last(names, path):
                done = [name for name in names if self.fates[name].state == "succeeded"]
                return part(self.result_of(done[-1]) if done else None, path)
            case Text(parts):
                return "".join(one if isinstance(one, str) else shown(self.value(one, items)) for one in parts)

    def result_of(self, name: str) -> Any:
        """None where a step did not succeed; in the list of a mapped one, None in its place."""
        fate, step = self.fates[name], self._steps[name]
        if step.map is not None:
            places = [(name, idx) for idx in range(fate.total or 0)]
            return None if fate.total is None else [self._value_of(self.jobs[place]) for place in places]
        if fate.state != "succeeded":
            return None
        return fate.answer if step.approval is not None else self._value_of(self.jobs[name, 0])

    def _value_of(self, job: Job) -> Any:
        return job.value if job.state == "succeeded" else None

    def _filled(self, template: JsonTemplate) -> Any:
        made = json.loads(bytes(template.json))
        for hole in template.holes:
            made = put(made, hole.where, self.value(hole.value, {}))
        return made
