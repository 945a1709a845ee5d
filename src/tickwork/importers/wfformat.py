"""Import traces of real workflows in WfFormat, the format of wfcommons, as dags of steps that sleep.

The structure of a file decides how it is read, not its version number. Up to version 1.4, one list contains the tasks
with their run times, and tasks refer to each other by name. From 1.5 on, there are two lists, of specified and of
executed tasks, and tasks have ids. Dependencies are given by parents, by children, or by both. If a file has neither,
they are derived from the files that tasks read and write.
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

from tickwork.core.dag.graph import Graph, JsonTemplate, Step, Template
from tickwork.core.dag.validate import find_cycles
from tickwork.core.job_options import Options
from tickwork.declare.expressions import RESERVED
from tickwork.errors import InvalidInput
from tickwork.importers.result import Remark, check_size

FILE_LIMIT = 256 * 1024 * 1024  # bytes; traces contain many details of files and machines
SLEEP = "@sleep"
_UNFIT = re.compile(r"[^\w.-]")
_NAME_LIMIT = 190  # characters; leaves room for a number that makes equal names unique
_LISTS = ("tasks", "jobs")
_RUNTIMES = ("runtimeInSeconds", "runtime")


@dataclass(frozen=True, slots=True)
class SleepTask:
    """A task of a trace: how long its step sleeps, and the steps that it waits for."""

    name: str
    seconds: float
    parents: tuple[str, ...]


@dataclass(slots=True)
class WorkflowTrace:
    """A traced workflow, with scaled times. `notes` are about parts that were guessed or left out."""

    name: str
    description: str
    sleepers: list[SleepTask] = field(default_factory=list)
    notes: list[Remark] = field(default_factory=list)

    def graph(self) -> Graph:
        """Return a dag that replays the workflow."""
        steps = (
            Step(name=one.name, parents=one.parents, job=Template(SLEEP), args=_arguments(one)) for one in self.sleepers
        )
        run = Template(self.name, policy=Options(retries=0).policy())
        return Graph(name=self.name, steps=tuple(steps), run=run, description=self.description)

    def declared(self) -> dict[str, Any]:
        """Return the dag as the content of a file for `tickwork apply`."""
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
    """Read a trace. Steps sleep for `scale` times the run time of their tasks. Raises InvalidInput."""
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
    """Reads the tasks of a workflow. Tasks are identified by their position in the list."""

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
        """Add all tasks to the trace, with scaled run times. Raises InvalidInput if there is a cycle."""
        steps, parents = self._step_names(), self._parents()
        self._refuse_cycles(steps, parents)
        runtimes = [self._runtime(at) for at in range(len(self._tasks))]
        self._note_some(runtimes.count(None), "have no run time; their steps do not sleep.")
        for at, runtime in enumerate(runtimes):
            seconds = round((runtime or 0.0) * scale, 6)
            waits_for = tuple(steps[parent] for parent in sorted(parents[at]))
            self._trace.sleepers.append(SleepTask(steps[at], seconds, waits_for))

    def _step_names(self) -> list[str]:
        """Return step names: the names of the tasks if unique, otherwise their ids; duplicates get a number."""
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
        """Return the run time of a task in seconds; None if the trace has none."""
        found = self._executed.get(self._ids[at]) or self._executed.get(self._names[at]) or {}
        for place in (found, self._tasks[at]):
            for name in _RUNTIMES:
                if name in place and (runtime := _seconds(place[name])) is not None:
                    return runtime
        return None

    # -- dependencies

    def _parents(self) -> list[set[int]]:
        """Return the parents of each task."""
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
        """Return the texts by which other tasks can refer to a task: its id, or its name if unique."""
        alike = Counter(self._names)
        by_name = {name: at for at, name in enumerate(self._names) if name and alike[name] == 1}
        return by_name | {id: at for at, id in enumerate(self._ids) if id}

    def _parents_by_files(self) -> list[set[int]]:
        """Derive parents from files: a task waits for the tasks that write the files that it reads."""
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
    """Return the list of tasks in an object; up to version 1.2, its name is jobs."""
    for name in _LISTS:
        if isinstance(place.get(name), list):
            return [task for task in place[name] if isinstance(task, dict)]
    return []


def _files_of(task: Mapping[str, Any], link: str) -> Iterator[str]:
    """Yield the files that a task reads or writes: a list of ids, or up to 1.4 one list of both kinds."""
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
