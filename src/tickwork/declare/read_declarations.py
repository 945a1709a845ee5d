"""Read YAML or JSON files that declare dags, schedules, calendars and hooks, for `tickwork apply`.

calendars:
  holidays: {yearly: ["12-25"], weekdays: [sat, sun]}
schedules:
  report: {task: report, args: {to: ada@example.org}, cron: "0 8 * * *", tz: Europe/Berlin, calendars: [holidays]}
  heartbeat: {shell: date -u, every: 1m}
dags:
  nightly:
    schedule: {cron: "0 2 * * *"}
    steps:
      fetch: {task: fetch}
      load: {task: load, args: {rows: "${fetch.result.rows}"}}
hooks:
  pushed: {style: github, secret: "${secret.GITHUB}", task: build, args: {commit: "${body.after}"}}
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from msgspec import Struct

from tickwork.core.hooks import Hook
from tickwork.core.recurrence.calendar import Calendar
from tickwork.core.schedule.spec import ScheduleSpec
from tickwork.core.text.yaml_loader import read_documents
from tickwork.declare.dag_fields import CalendarFields, TaskScheduleFields
from tickwork.declare.dags import DeclaredDag, read_dag
from tickwork.declare.document_nodes import BadFile, Known, Node, Problems, ReadContext, UnusableNode, read_struct
from tickwork.declare.hooks import open_arguments, read_hook
from tickwork.declare.schedules import check_names, param_misfits, read_calendar, read_schedule, stored_params
from tickwork.declare.step_work import request_of

_KINDS = ("dags", "schedules", "calendars", "hooks")


@dataclass(frozen=True, slots=True)
class DeclaredWork:
    """The contents of one or more files. `secrets` maps the name of each secret to the place of its first use."""

    calendars: dict[str, Calendar] = field(default_factory=dict)
    schedules: dict[str, ScheduleSpec] = field(default_factory=dict)
    dags: dict[str, DeclaredDag] = field(default_factory=dict)
    hooks: dict[str, Hook] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)

    @property
    def specs(self) -> list[ScheduleSpec]:
        """Return the schedules that the files declare under `schedules`."""
        return list(self.schedules.values())

    @property
    def tasks(self) -> set[str]:
        """Return the names of all tasks that steps, schedules and hooks start."""
        steps = {step.job.task for dag in self.dags.values() for step in dag.graph.steps if step.job is not None}
        specs = {spec.target for spec in self.specs if spec.kind == "task"}
        return steps | specs | {hook.target for hook in self.hooks.values() if hook.kind == "task"}

    @property
    def other_dags(self) -> set[str]:
        """Return the names of dags that schedules and hooks start and that the files do not declare."""
        of_specs = {spec.target for spec in self.specs if spec.kind == "dag"}
        return of_specs.union(hook.target for hook in self.hooks.values() if hook.kind == "dag") - set(self.dags)

    @property
    def all_specs(self) -> list[ScheduleSpec]:
        """Return all schedules, including those inside dags."""
        return [*self.specs, *(dag.schedule for dag in self.dags.values() if dag.schedule is not None)]


def read_declared(text: str, known: Known, *, file: str) -> DeclaredWork:
    """Read a file. Raises BadFile, which lists its errors with file, line and field."""
    return read_all_declared({file: text}, known)


def read_all_declared(texts: Mapping[str, str], known: Known) -> DeclaredWork:
    """Read files that belong together; `texts` maps their names to their contents.

    A name may be declared only once in all files. Raises BadFile with their errors.
    """
    found, of_dags = DeclaredWork(), _DagStarts()
    files = {file: Problems(file) for file in texts}
    with suppress(BadFile):  # a file has too many errors, and the other files are not read
        for file, text in texts.items():
            _read_file(text, known, found, of_dags, files[file])
        of_dags.check(found, known)
    if wrong := [one for problems in files.values() for one in problems.by_line()]:
        raise BadFile(wrong)
    return found


class _DagStart(NamedTuple):
    """A schedule or a hook that starts a dag. `unchecked` are parameters whose values a message provides later."""

    place: Node
    dag: str
    problems: Problems
    unchecked: Collection[str] = ()


class _DagStarts:
    """The schedules and hooks that start dags.

    Their parameters are checked after all files were read, because the dag may be declared later.
    """

    def __init__(self) -> None:
        self.declared: set[str] = set()  # the names of all dags in the files, including dags with errors
        self.starts: list[_DagStart] = []

    def check(self, found: DeclaredWork, known: Known) -> None:
        """Report parameters that do not fit the dag in the files, or the stored dag if the files do not declare it."""
        for place, dag, problems, unchecked in self.starts:
            if dag in found.dags:
                params: Mapping[str, Any] | None = found.dags[dag].graph.params
            else:
                params = None if dag in self.declared else stored_params(dag, known)
            for misfit in () if params is None else param_misfits(place, params, unchecked):
                problems.add(misfit.field, str(misfit))


def _read_file(text: str, known: Known, found: DeclaredWork, of_dags: _DagStarts, problems: Problems) -> None:
    """Read all documents of a file; report repeated keys and unknown sections."""
    file = problems.file
    for document in read_documents(text, file=file):
        root = Node(document, (), document.value)
        for path, line in document.repeated:
            problems.add(Node(document, path), f"{path[-1]!r} is given twice.", line=line)
        if root.value is not None:
            with problems.gathered():
                check_names(root, _KINDS, "is not read by this version of Tickwork")
            if isinstance(root.value, dict):
                _DocumentReader(file, known, found, of_dags, problems).read(root)


class _DocumentReader:
    """Reads one document. An error in one declaration does not prevent the others from being read."""

    def __init__(self, file: str, known: Known, found: DeclaredWork, of_dags: _DagStarts, problems: Problems) -> None:
        self._known = known
        self._found = found
        self._of_dags = of_dags
        self._problems = problems
        self._reading = ReadContext(file, known, problems, found.secrets)

    def read(self, root: Node) -> None:
        """Read all sections of a document, and report their errors."""
        found = self._found
        for place in self._named(root["calendars"], found.calendars):
            with self._problems.gathered():
                if self._has_fields_of(place, CalendarFields):
                    found.calendars[str(place.path[-1])] = read_calendar(place)
        for place in self._named(root["schedules"], found.schedules):
            with self._problems.gathered():
                spec = self._read_schedule(place)
                if spec is not None:
                    found.schedules[spec.name] = spec
        self._of_dags.declared.update(root["dags"].names())
        for place in self._named(root["dags"], found.dags):
            with self._problems.gathered():
                self._read_dag(place)
        for place in self._named(root["hooks"], found.hooks):
            with self._problems.gathered():
                hook = read_hook(str(place.path[-1]), place, self._reading)
                if hook is not None:
                    found.hooks[hook.name] = hook
                    if hook.kind == "dag":
                        start = _DagStart(place, hook.target, self._problems, open_arguments(place))
                        self._of_dags.starts.append(start)

    def _read_schedule(self, place: Node) -> ScheduleSpec | None:
        """Read a schedule.

        If fields are unknown or have wrong types, report all of them and return None. Raises UnusableNode for the
        first other error.
        """
        if not self._has_fields_of(place, TaskScheduleFields):
            return None
        request = partial(request_of, reading=self._reading)
        spec = read_schedule(str(place.path[-1]), place, self._known, request)
        if spec.kind == "dag":
            self._of_dags.starts.append(_DagStart(place, spec.target, self._problems))
        return spec

    def _has_fields_of(self, place: Node, kind: type[Struct]) -> bool:
        """Return whether the fields are those of a Struct and have the right types; report those that do not."""
        before = len(self._problems)
        read_struct(place, kind, self._problems)
        return len(self._problems) == before

    def _read_dag(self, place: Node) -> None:
        """Read a dag; report its errors. Raises UnusableNode if a schedule has the same name as the dag."""
        dag = read_dag(place, self._reading)
        if dag is None:
            return
        if dag.schedule is not None and dag.schedule.name in self._found.schedules:
            raise UnusableNode(
                place["schedule"], f"it has the dag's name, and schedules has {dag.schedule.name!r} as well."
            )
        self._found.dags[dag.graph.name] = dag

    def _named(self, place: Node, there: Container[str]) -> list[Node]:
        """Return the declarations in an optional section; report and skip names that were declared before."""
        if place.is_there and not isinstance(place.value, dict):
            self._problems.note(place.misfit("must have fields"))
        for name in place.names():
            if name in there:
                self._problems.add(place[name], "an earlier document or file declares it, too.")
        return [place[name] for name in place.names() if name not in there]
