"""Dag runs: their state, steps, timeline and approvals, and how to rerun them. A run is a job."""

from __future__ import annotations

import getpass
from collections.abc import Collection, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from datetime import datetime
from functools import cached_property
from typing import Any

from tickwork.api.async_twins import twin
from tickwork.api.client import Job
from tickwork.core.arguments.encode_by_schema import completed
from tickwork.core.arguments.payload import PAYLOAD_LIMIT, decode, seal, too_large
from tickwork.core.arguments.unstorable import Flaw, check_text
from tickwork.core.dag import graph_view
from tickwork.core.dag.advance import OPEN, SKIPPED, WAITING, StepState, failed_steps
from tickwork.core.dag.graph import Graph
from tickwork.core.dag.overview import LastAttempt, StepLine, StepTimes, overview, timeline
from tickwork.core.job import JobState, JobView
from tickwork.errors import InvalidInput
from tickwork.store.dags import InstanceView, StepView

PAGE = 10_000  # instances read at a time
_SOME = 5


class Run(Job):
    """A run of a dag. `state`, `wait`, `result`, `cancel` and so on work as for a job."""

    def __repr__(self) -> str:
        return f"<Run {self.id}>"

    @property
    def view(self) -> JobView:
        """All stored facts of the run, read now.

        A succeeded run is read again on each access, since it may be rerun.
        """
        self._view = None
        return super().view

    @property
    def dag(self) -> str:
        return self.task

    @property
    def version(self) -> int:
        """The version of the dag that this run executes."""
        return self.view.version or 0

    @cached_property
    def graph(self) -> Graph:
        """The graph of the run's dag version. Raises InvalidInput if the job is not a run of a dag."""
        view = self.seen
        found = None if view.version is None else self._client.store.reads.dag_version(view.task, view.version)
        if found is None:
            raise InvalidInput(f"job {self.id} is no run of a dag.")
        return found.graph

    @property
    def steps(self) -> Steps:
        """The steps by name, read now: `run.steps["load"].state`, `run.steps["transform[0]"].result`."""
        return Steps(self)

    def overview(self) -> list[StepLine]:
        """Return all steps with their current state, in the order of the dag, with two queries."""
        store = self._client.store
        return _overview(self.graph, store.dags.run_steps(self.id), store.dags.step_times(self.id))

    def instances(self) -> list[InstanceView]:
        """Return the jobs of all steps so far, by step and number."""
        found: list[InstanceView] = []
        while page := self._client.store.dags.run_instances(self.id, PAGE, found[-1][:2] if found else ("", -1)):
            found += page
        return found

    def instance_name(self, one: InstanceView) -> str:
        """Return the display name of a step instance: "load", or "transform[3]" for a mapped step."""
        return one.step if self.graph.by_name[one.step].map is None else f"{one.step}[{one.idx}]"

    def mermaid(self) -> str:
        """Return the graph as a Mermaid flowchart, each step coloured by its state."""
        return graph_view.mermaid(self.graph, {line.name: line.state for line in self.overview()})

    def timeline(self) -> dict[str, Any]:
        """Return when each step ran, as data for a chart, and the steps that determined when the run ended.

        It covers the last generation: results that a rerun kept are not part of it.
        """
        view = self.view
        began_at = view.started_at or view.run_at
        ran = [
            LastAttempt(one.step, one.idx, one.started_at, one.ended_at)
            for one in self.instances()
            if one.started_at is not None and one.started_at >= began_at and one.state != JobState.QUEUED
        ]
        return timeline(self.graph, ran, began_at=began_at, now=self._client.store.now())

    def critical_path(self) -> list[dict[str, Any]]:
        """Return the chain of steps that determined when the run ended, with the wait and run time of each."""
        found: list[dict[str, Any]] = self.timeline()["critical_path"]
        return found

    def rerun(self, /, *steps: str, params: Mapping[str, Any] | None = None, only_failed: bool = False) -> Run:
        """Rerun the failed steps, or the named ones, and all steps that depend on them; keep the other results.

        `params` are changed parameters: with them all steps run again, unless steps are named or `only_failed` is true.
        Raises InvalidInput if the run has not ended, or if there is nothing to run.
        """
        unknown = [name for name in steps if name.partition("[")[0] not in self.graph.by_name]
        if unknown:
            raise InvalidInput(f"dag {self.dag!r} has no step {unknown[0]!r}; it has {', '.join(self.graph.by_name)}.")
        args = None if params is None else self._changed(params)
        names = list(steps) or (list(self.graph.by_name) if params and not only_failed else None)
        if names is None and self.view.state is JobState.SUCCEEDED and not self._failed_steps():
            raise InvalidInput(f"nothing of run {self.id} failed. Name the steps that are to run again.")
        if not self._client.store.dags.rerun(self.id, names, args):
            raise InvalidInput(f"run {self.id} has not ended ({self.state}), so it cannot be run again.")
        self._view = None
        return self

    def _failed_steps(self) -> list[str]:
        """Return the names of the failed steps. A run that succeeded can have failed steps: those with `may_fail`."""
        return failed_steps(one.standing for one in self._client.store.dags.run_steps(self.id))

    def _changed(self, params: Mapping[str, Any]) -> bytes:
        """Return the arguments of the run as JSON, with `params` merged into them.

        Raises InvalidInput if they cannot be stored.
        """
        what = f"what run {self.id} would start with"
        try:
            data = seal(completed(self.dag, self.graph.params, {**decode(self.view.args), **params}))
        except Flaw as flaw:
            raise flaw.about(what) from None
        if len(data) > PAYLOAD_LIMIT:
            raise too_large(data, what=what, limit_bytes=PAYLOAD_LIMIT)
        decode(data)  # raises for numbers that not every store can hold
        return data

    def approve(self, step: str, *, by: str | None = None, note: str | None = None) -> None:
        """Approve a step that waits for approval.

        Raises InvalidInput if the step does not wait, or `by` may not answer.
        """
        self._answer(step, True, by, note)

    def reject(self, step: str, *, by: str | None = None, note: str | None = None) -> None:
        """Reject a step that waits for approval; the step then fails."""
        self._answer(step, False, by, note)

    def _answer(self, step: str, approved: bool, by: str | None, note: str | None) -> None:
        """Store the answer to an approval; without `by`, it is the answer of the user who runs this process."""
        known = self.graph.by_name.get(step)
        if known is None or known.approval is None:
            raise InvalidInput(f"step {step!r} of run {self.id} is no approval.")
        by = by or getpass.getuser()
        check_text("by", by)
        check_text("note", note)
        if known.approval.who and by not in known.approval.who:
            raise InvalidInput(
                f"{by} may not answer step {step!r} of run {self.id}; {', '.join(known.approval.who)} may."
            )
        if not self._client.store.dags.answer(self.id, step, approved, by, note):
            raise InvalidInput(f"step {step!r} of run {self.id} does not wait for an answer: {self.why(step)}.")

    def why(self, step: str | None = None) -> str:
        """Explain in one sentence what the run, or one of its steps, waits for, or how it ended."""
        if step is not None:
            return self.steps[step].why()
        if self.view.state is not JobState.RUNNING:
            return super().why()
        return _told(self._client.store.dags.run_steps(self.id))

    overview_async = twin(overview)
    instances_async = twin(instances)
    mermaid_async = twin(mermaid)
    timeline_async = twin(timeline)
    critical_path_async = twin(critical_path)
    rerun_async = twin(rerun)
    approve_async = twin(approve)
    reject_async = twin(reject)
    why_async = twin(why)  # type: ignore[arg-type]


class Steps(Mapping[str, "RunStep"]):
    """The steps of a run by name, read on access. An instance of a mapped step is `name[number]`.

    `values()` and `items()` read the state of all steps at once.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._views: dict[str, StepView] = {}
        self._states: dict[str, str] = {}

    def __getitem__(self, name: str) -> RunStep:
        """Return a step, or an instance such as `transform[3]`. Raises KeyError."""
        graph, base = self._run.graph, name
        idx = None
        if name not in graph.by_name and name.endswith("]"):
            base, _, number = name[:-1].rpartition("[")
            idx = int(number) if number.isdigit() else -1
        if base not in graph.by_name or idx == -1:
            raise KeyError(f"dag {graph.name!r} has no step {name!r}; it has {', '.join(graph.by_name)}")
        state = self._states.get(base) if idx is None else None
        return RunStep(self._run, base, idx, self._views.get(base), state)

    def values(self) -> ValuesView[RunStep]:
        return ValuesView(self._read())

    def items(self) -> ItemsView[str, RunStep]:
        return ItemsView(self._read())

    def _read(self) -> Steps:
        """Return the same mapping with all steps and their states read now."""
        store, read = self._run._client.store, Steps(self._run)
        read._views = {view.standing.step: view for view in store.dags.run_steps(self._run.id)}
        lines = _overview(self._run.graph, read._views.values(), store.dags.step_times(self._run.id))
        read._states = {line.name: line.state for line in lines}
        return read

    def __iter__(self) -> Iterator[str]:
        return iter(self._run.graph.by_name)

    def __len__(self) -> int:
        return len(self._run.graph.steps)


class RunStep:
    """A step of a run, or one instance of a mapped step (`idx`). Facts are read once and kept."""

    def __init__(
        self, run: Run, name: str, idx: int | None, view: StepView | None = None, state: str | None = None
    ) -> None:
        self.run = run
        self.name = name if idx is None else f"{name}[{idx}]"
        self.idx = idx
        self.base = name
        self._known = view
        self._state = state

    def __repr__(self) -> str:
        return f"<Step {self.name} of run {self.run.id}>"

    @property
    def standing(self) -> StepState:
        """The stored state of the step: what it waits for, and how many instances it has."""
        view = self._view
        return (
            StepState(self.base, pending=len(self.run.graph.by_name[self.base].parents))
            if view is None
            else view.standing
        )

    @property
    def _view(self) -> StepView | None:
        if self._known is not None:
            return self._known
        views = self._views_of([self.base])
        return views[0] if views else None

    def _views_of(self, names: Sequence[str]) -> list[StepView]:
        return self.run._client.store.dags.run_steps(self.run.id, names)

    @property
    def job(self) -> Job | None:
        """The job of the step; None before the step has one.

        For a mapped step: the job of the instance, by default the first.
        """
        found = self._jobs(self.idx or 0, 1)
        return found[0] if found else None

    @property
    def jobs(self) -> list[Job]:
        """The jobs of all instances, in order of their number."""
        return self._jobs(0, self.standing.total)

    def _jobs(self, first: int, most: int) -> list[Job]:
        """Return up to `most` jobs of the step's instances, from number `first` on."""
        client = self.run._client
        views = client.store.dags.step_jobs(self.run.id, self.base, first, most)
        return [Job(client, view.id, view) for view in views]

    @property
    def state(self) -> str:
        """The state: "waiting", "queued", "running", or how the step ended.

        A mapped step is running from its first start to its last end.
        """
        if self._state is not None:
            return self._state
        one = self.standing
        if one.state in (WAITING, SKIPPED) or (self.idx is None and one.state != OPEN):
            return one.state
        if self.idx is None and one.mapped:
            return JobState.RUNNING.value
        job = None if self.run.graph.by_name[self.base].approval is not None else self.job
        return WAITING if job is None else job.state

    @property
    def since(self) -> datetime | None:
        """When the state of the step last changed."""
        view = self._view
        return None if view is None else view.since

    @property
    def error(self) -> str | None:
        """Why the step failed or was skipped."""
        one = self.standing
        if one.reason is not None or (one.mapped and self.idx is None):
            return one.reason
        job = self.job
        return None if job is None else job.error

    @property
    def result(self) -> Any:
        """The result of the step, a list for a mapped step; None if the step did not succeed."""
        one = self.standing
        if one.mapped and self.idx is None:
            return None if one.state not in ("succeeded", "failed") else [_result(job) for job in self.jobs]
        job = self.job
        return None if job is None or self.state != "succeeded" else _result(job)

    def why(self) -> str:
        """Explain in one sentence what the step waits for, where it runs, or how it ended."""
        one, graph = self.standing, self.run.graph
        if one.state == WAITING:
            parents = graph.by_name[self.base].parents
            over = {view.standing.step for view in self._views_of(parents) if view.standing.is_over}
            waits = [name for name in parents if name not in over]
            return f"waits for {_listed(waits)}" if waits else "waits for its run to begin"
        approval = graph.by_name[self.base].approval
        if approval is not None and one.state == OPEN:
            return f"waits for approval by {', '.join(approval.who) or 'any user'}: {one.reason or approval.text}"
        if one.mapped and self.idx is None:
            return f"{one.state}: {one.ended:,} of {one.total:,} instances have ended, {one.bad:,} without success"
        job = self.job
        if one.reason is not None or job is None:
            return f"{one.state}: {one.reason or 'it has no job'}"
        return job.why()


def _overview(graph: Graph, views: Collection[StepView], times: Iterable[StepTimes]) -> list[StepLine]:
    since = {view.standing.step: view.since for view in views}
    return overview(graph, [view.standing for view in views], times, since)


def _result(job: Job) -> Any:
    """Return the result of a job; None if it did not succeed."""
    view = job.view
    return job.result(timeout=0) if view.state is JobState.SUCCEEDED else None


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SOME} more" if len(names) > _SOME else ""
    return ", ".join(names[:_SOME]) + more


def _told(steps: Sequence[StepView]) -> str:
    """Summarize the progress of a running run."""
    standings = [view.standing for view in steps]
    over = sum(one.is_over for one in standings)
    going = [one.step for one in standings if one.state == OPEN]
    return f"runs: {over:,} of {len(standings):,} steps have ended; now {_listed(going) or 'none'}"
