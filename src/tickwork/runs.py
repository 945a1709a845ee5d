"""Runs of dags, as callers hold them: a run is a job whose work is its steps."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from tickwork.client import Job
from tickwork.core.dag.advance import OPEN, SKIPPED, WAITING, Standing
from tickwork.core.dag.graph import Graph
from tickwork.core.job import JobState
from tickwork.core.payload import decode, seal
from tickwork.errors import InvalidInput
from tickwork.store.dags import StepView
from tickwork.twins import twin

_SOME = 5


class Run(Job):
    """A run of a dag. `state`, `wait`, `result`, `cancel` and the like are those of a job."""

    def __repr__(self) -> str:
        return f"<Run {self.id}>"

    @property
    def dag(self) -> str:
        return self.task

    @property
    def version(self) -> int:
        """The version of its dag, which it keeps."""
        return self.view.version or 0

    @cached_property
    def graph(self) -> Graph:
        """What it runs."""
        version = self.version
        found = [one.graph for one in self._client.store.dags(self.dag) if one.version == version]
        if not found:
            raise InvalidInput(f"job {self.id} is no run of a dag.")
        return found[0]

    @property
    def steps(self) -> Steps:
        """Its steps by name, as they stand now: `run.steps["load"].state`, `run.steps["transform[0]"].result`."""
        return Steps(self)

    def rerun(self, /, *steps: str, params: Mapping[str, Any] | None = None) -> Run:
        """Run it again: what failed and what depends on it, or these steps and what depends on them; the rest stays.

        `params` are changed parameters: then everything runs again, unless steps are named. Raises InvalidInput when it
        has not ended.
        """
        unknown = [name for name in steps if name.partition("[")[0] not in self.graph.by_name]
        if unknown:
            raise InvalidInput(f"dag {self.dag!r} has no step {unknown[0]!r}; it has {', '.join(self.graph.by_name)}.")
        args = None if params is None else self._changed(params)
        names = list(steps) or (list(self.graph.by_name) if params else None)
        if not self._client.store.rerun(self.id, names, args):
            raise InvalidInput(f"run {self.id} has not ended ({self.state}), so it cannot be run again.")
        self._view = None
        return self

    def _changed(self, params: Mapping[str, Any]) -> bytes:
        known = self.graph.params.get("properties", {})
        unknown = [name for name in params if name not in known]
        if unknown:
            raise InvalidInput(
                f"dag {self.dag!r} has no parameter {unknown[0]!r}; it has {', '.join(known) or 'none'}."
            )
        return seal({**decode(self.view.args), **params})

    def approve(self, step: str, *, by: str | None = None, note: str | None = None) -> None:
        """Approve a step that waits for it. Raises InvalidInput when it does not, or `by` is not one who may."""
        self._answer(step, True, by, note)

    def reject(self, step: str, *, by: str | None = None, note: str | None = None) -> None:
        """Reject a step that waits for approval: it fails."""
        self._answer(step, False, by, note)

    def _answer(self, step: str, approved: bool, by: str | None, note: str | None) -> None:
        known = self.graph.by_name.get(step)
        if known is None or known.approval is None:
            raise InvalidInput(f"step {step!r} of run {self.id} is no approval.")
        by = by or getpass.getuser()
        if known.approval.who and by not in known.approval.who:
            raise InvalidInput(
                f"{by} may not answer step {step!r} of run {self.id}; {', '.join(known.approval.who)} may."
            )
        if not self._client.store.answer(self.id, step, approved, by, note):
            raise InvalidInput(f"step {step!r} of run {self.id} does not wait for an answer: {self.why(step)}.")

    def why(self, step: str | None = None) -> str:
        """One sentence: what the run, or one of its steps, is waiting for, or how it ended."""
        if step is not None:
            return self.steps[step].why()
        if self.view.state is not JobState.RUNNING:
            return super().why()
        return _told(self._client.store.run_steps(self.id))

    rerun_async = twin(rerun)
    approve_async = twin(approve)
    reject_async = twin(reject)
    why_async = twin(why)  # type: ignore[arg-type]


class Steps(Mapping[str, "Step"]):
    """The steps of a run by name, read when they are asked for. An instance of a mapped one is `name[number]`."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __getitem__(self, name: str) -> Step:
        graph, base = self._run.graph, name
        idx = None
        if name not in graph.by_name and name.endswith("]"):
            base, _, number = name[:-1].rpartition("[")
            idx = int(number) if number.isdigit() else -1
        if base not in graph.by_name or idx == -1:
            raise KeyError(f"dag {graph.name!r} has no step {name!r}; it has {', '.join(graph.by_name)}")
        return Step(self._run, base, idx)

    def __iter__(self) -> Iterator[str]:
        return iter(self._run.graph.by_name)

    def __len__(self) -> int:
        return len(self._run.graph.steps)


class Step:
    """A step of a run, or one instance of a mapped one (`idx`)."""

    def __init__(self, run: Run, name: str, idx: int | None) -> None:
        self.run = run
        self.name = name if idx is None else f"{name}[{idx}]"
        self.idx = idx
        self._base = name

    def __repr__(self) -> str:
        return f"<Step {self.name} of run {self.run.id}>"

    @property
    def standing(self) -> Standing:
        """How the step stands: what it waits for, how many instances it has."""
        view = self._view
        return (
            Standing(self._base, pending=len(self.run.graph.by_name[self._base].parents))
            if view is None
            else view.standing
        )

    @property
    def _view(self) -> StepView | None:
        views = self.run._client.store.run_steps(self.run.id, [self._base])
        return views[0] if views else None

    @property
    def job(self) -> Job | None:
        """Its job, once it has one; of a mapped step, that of an instance, the first if none is named."""
        found = self._jobs(self.idx or 0, 1)
        return found[0] if found else None

    @property
    def jobs(self) -> list[Job]:
        """The jobs of all of its instances, in order."""
        return self._jobs(0, self.standing.total)

    def _jobs(self, first: int, most: int) -> list[Job]:
        client = self.run._client
        views = client.store.step_jobs(self.run.id, self._base, first, most)
        return [Job(client, view.id, view) for view in views]

    @property
    def state(self) -> str:
        """waiting, queued, running, or how it ended. A mapped one is running from its first start to its last end."""
        one = self.standing
        if one.state in (WAITING, SKIPPED) or (self.idx is None and one.state != OPEN):
            return one.state
        if self.idx is None and one.mapped:
            return JobState.RUNNING.value
        job = None if self.run.graph.by_name[self._base].approval is not None else self.job
        return WAITING if job is None else job.state

    @property
    def since(self) -> datetime | None:
        """When its state last changed."""
        view = self._view
        return None if view is None else view.since

    @property
    def error(self) -> str | None:
        """Why it failed, or was skipped."""
        one = self.standing
        if one.reason is not None or (one.mapped and self.idx is None):
            return one.reason
        job = self.job
        return None if job is None else job.error

    @property
    def result(self) -> Any:
        """What it gave back: a list for a mapped step. None where it did not succeed."""
        one = self.standing
        if one.mapped and self.idx is None:
            return None if one.state not in ("succeeded", "failed") else [_result(job) for job in self.jobs]
        job = self.job
        return None if job is None or self.state != "succeeded" else _result(job)

    def why(self) -> str:
        """One sentence: what it is waiting for, where it runs, or how it ended."""
        one, graph = self.standing, self.run.graph
        if one.state == WAITING:
            parents = self.run.steps
            waits = [name for name in graph.by_name[self._base].parents if not parents[name].standing.is_over]
            return f"waits for {_listed(waits)}" if waits else "waits for its run to begin"
        approval = graph.by_name[self._base].approval
        if approval is not None and one.state == OPEN:
            return f"waits for approval by {', '.join(approval.who) or 'anybody'}: {one.reason or approval.text}"
        if one.mapped and self.idx is None:
            return f"{one.state}: {one.ended:,} of {one.total:,} instances have ended, {one.bad:,} without success"
        job = self.job
        if one.reason is not None or job is None:
            return f"{one.state}: {one.reason or 'it has no job'}"
        return job.why()


def _result(job: Job) -> Any:
    view = job.view
    return job.result(timeout=0) if view.state is JobState.SUCCEEDED else None


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SOME} more" if len(names) > _SOME else ""
    return ", ".join(names[:_SOME]) + more


def _told(steps: Sequence[StepView]) -> str:
    standings = [view.standing for view in steps]
    over = sum(one.is_over for one in standings)
    going = [one.step for one in standings if one.state == OPEN]
    return f"runs: {over:,} of {len(standings):,} steps have ended; now {_listed(going) or 'none'}"
