"""WfFormat: traces of real workflows, as wfcommons publishes them, taken over as dags of steps that sleep.

Files are read by their shape, whatever version they name. Up to 1.4 a task is in one list with its run time, and others
refer to it by name; from 1.5 on there are two lists, what was specified and what was executed, and ids. Who waits for
whom is said by parents, by children, or by both. Files that say neither are read by who writes what others read.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tickwork.core.dag.cycles import find_cycles
from tickwork.core.dag.graph import Graph, JsonTemplate, Step, Template
from tickwork.core.job_options import Options
from tickwork.declare.expressions import RESERVED
from tickwork.errors import InvalidInput
from tickwork.importers.result import Remark, check_size

FILE_LIMIT = 256 * 1024 * 1024  # bytes; traces have a lot to say of files and machines
SLEEP = "@sleep"
_UNFIT = re.compile(r"[^\w.-]")
_NAME_LIMIT = 190  # and room to tell apart those that are alike
_LISTS = ("tasks", "jobs")
_RUNTIMES = ("runtimeInSeconds", "runtime")


@dataclass(frozen=True, slots=True)
class SleepTask:
    """A task of a trace: how long its step sleeps, and whom it waits for."""

    name: str
    seconds: float
    parents: tuple[str, ...]


@dataclass(slots=True)
class WorkflowTrace:
    """A workflow as it was traced, its times scaled. Notes are on what had to be guessed or was left out."""

    name: str
    description: str
    sleepers: list[SleepTask] = field(default_factory=list)
    notes: list[Remark] = field(default_factory=list)

    def graph(self) -> Graph:
        """The dag that plays it back."""
        steps = (
            Step(name=one.name, parents=one.parents, job=Template(SLEEP), args=_arguments(one)) for one in self.sleepers
        )
        run = Template(self.name, policy=Options(retries=0).policy())
        return Graph(name=self.name, steps=tuple(steps), run=run, description=self.description)

    def declared(self) -> dict[str, Any]:
        """The same, as a file for `tickwork apply` says it."""
        steps = {
            one.name: {
                "task": SLEEP,
                "args": {"seconds": one.seconds},
                **({"needs": list(one.parents)} if one.parents else {}),
            }
            for one in self.sleepers
        }
        return {"dags": {self.name: {"description": self.description, "steps": steps}}}


def _arguments(one: SleepTask) -> JsonTemplate:
    return JsonTemplate(msgspec.Raw(msgspec.json.encode({"seconds": one.seconds})))


def read_wfformat(data: bytes, *, file: str, scale: float = 1.0, name: str | None = None) -> WorkflowTrace:
    """Read a trace; its steps sleep `scale` times as long as its tasks ran. Raises InvalidInput."""
    check_size(data, file, limit=FILE_LIMIT)
    if not math.isfinite(scale) or scale < 0:
        raise InvalidInput(f"scale must be 0 or more, not {scale}.")
    said = _json(data, file)
    workflow = said.get("workflow") if isinstance(said, dict) else None
    if not isinstance(workflow, dict):
        raise InvalidInput(f"{file} is not WfFormat: it has no workflow.")
    trace = WorkflowTrace(name or _dag_name(said.get("name")), _text(said.get("description")))
    _TraceReader(file, workflow, trace).read(scale)
    return trace


def _json(data: bytes, file: str) -> Any:
    try:
        return json.loads(data)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{file}:{error.lineno}: this is not JSON: {error.msg}.") from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"{file} is not JSON: {error}.") from None


class _TraceReader:
    """Goes through the tasks of a workflow. A task is known here by its position."""

    def __init__(self, file: str, workflow: Mapping[str, Any], trace: WorkflowTrace) -> None:
        self._file = file
        self._trace = trace
        self._tasks = _tasks_of(_dict(workflow.get("specification"))) or _tasks_of(workflow)
        if not self._tasks:
            raise InvalidInput(f"{file} is not WfFormat: its workflow has no tasks.")
        self._executed = {_text(one.get("id")): one for one in _tasks_of(_dict(workflow.get("execution")))}
        self._ids = [_text(task.get("id")) for task in self._tasks]
        self._names = [_text(task.get("name")) for task in self._tasks]

    def read(self, scale: float) -> None:
        steps, parents = self._step_names(), self._parents()
        self._refuse_cycles(steps, parents)
        runtimes = [self._runtime(at) for at in range(len(self._tasks))]
        self._note_some(runtimes.count(None), "have no run time; their steps do not sleep.")
        for at, runtime in enumerate(runtimes):
            seconds = round((runtime or 0.0) * scale, 6)
            waits_for = tuple(steps[parent] for parent in sorted(parents[at]))
            self._trace.sleepers.append(SleepTask(steps[at], seconds, waits_for))

    def _step_names(self) -> list[str]:
        """Names where they tell tasks apart, else ids; what is alike even so is numbered."""
        distinct = len(set(self._names)) == len(self._names) and all(self._names)
        wanted = self._names if distinct else [id or name for id, name in zip(self._ids, self._names, strict=True)]
        names: list[str] = []
        taken = set(RESERVED)
        for one in wanted:
            base = name = _UNFIT.sub("_", one).replace(".result", "_result")[:_NAME_LIMIT].lstrip(".-") or "task"
            number = 1
            while name in taken:
                number += 1
                name = f"{base}_{number}"
            taken.add(name)
            names.append(name)
        return names

    def _runtime(self, at: int) -> float | None:
        found = self._executed.get(self._ids[at]) or self._executed.get(self._names[at]) or {}
        for place in (found, self._tasks[at]):
            for name in _RUNTIMES:
                if name in place and (runtime := _seconds(place[name])) is not None:
                    return runtime
        return None

    # -- who waits for whom

    def _parents(self) -> list[set[int]]:
        references = self._references()
        parents: list[set[int]] = [set() for _ in self._tasks]
        unknown = 0
        for at, task in enumerate(self._tasks):
            for name in _texts(task.get("parents")):
                if name in references:
                    parents[at].add(references[name])
                unknown += name not in references
            for name in _texts(task.get("children")):
                if name in references:
                    parents[references[name]].add(at)
                unknown += name not in references
        self._note_some(unknown, "parents or children are no tasks of it, and were left out.")
        return parents if any(parents) or unknown else self._parents_by_files()

    def _references(self) -> dict[str, int]:
        """What others may call a task: its id, or a name that no other has."""
        alike = Counter(self._names)
        by_name = {name: at for at, name in enumerate(self._names) if name and alike[name] == 1}
        return by_name | {id: at for at, id in enumerate(self._ids) if id}

    def _parents_by_files(self) -> list[set[int]]:
        writers: dict[str, set[int]] = {}
        for at, task in enumerate(self._tasks):
            for name in _files_of(task, "output"):
                writers.setdefault(name, set()).add(at)
        reads = [list(_files_of(task, "input")) for task in self._tasks]
        parents = [{one for name in names for one in writers.get(name, ())} - {at} for at, names in enumerate(reads)]
        if not any(parents):
            return parents
        self._note("it says of no task whom it waits for; the files that they write and read were followed.")
        if find_cycles(_by_text(parents)):
            self._note("some read what later ones write; of these, only those that come first are waited for.")
            parents = [{one for one in waits_for if one < at} for at, waits_for in enumerate(parents)]
        return parents

    def _refuse_cycles(self, steps: Sequence[str], parents: Sequence[set[int]]) -> None:
        for cycle in find_cycles(_by_text(parents)):
            spelt = " -> ".join(steps[int(at)] for at in cycle)
            raise InvalidInput(
                f"{self._file} is not a dag; a cycle: {spelt}. Each of them waits for the one before it."
            )

    def _note_some(self, count: int, text: str) -> None:
        if count:
            self._note(f"{count:,} of {len(self._tasks):,} {text}" if text.startswith("have") else f"{count:,} {text}")

    def _note(self, text: str) -> None:
        self._trace.notes.append(Remark(self._file, text))


def _by_text(parents: Sequence[set[int]]) -> dict[str, list[str]]:
    return {str(at): [str(one) for one in sorted(waits_for)] for at, waits_for in enumerate(parents)}


def _tasks_of(place: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The list of tasks in a place; up to 1.2 they were called jobs."""
    for name in _LISTS:
        if isinstance(place.get(name), list):
            return [task for task in place[name] if isinstance(task, dict)]
    return []


def _files_of(task: Mapping[str, Any], link: str) -> Iterator[str]:
    """The files that a task reads or writes: lists of ids, or up to 1.4 one list that says which are which."""
    yield from _texts(task.get(f"{link}Files"))
    for one in task["files"] if isinstance(task.get("files"), list) else []:
        if isinstance(one, dict) and str(one.get("link")).lower() == link:
            yield _text(one.get("path")) + _text(one.get("name") or one.get("id"))


def _texts(value: Any) -> Iterable[str]:
    return [_text(one) for one in value if _text(one)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value) if isinstance(value, int | float) else ""


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _seconds(value: Any) -> float | None:
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _dag_name(value: Any) -> str:
    return "".join(one for one in _text(value) if one.isprintable())[:_NAME_LIMIT] or "workflow"
