"""Plan and apply declarations: make a store match dags, schedules, calendars and hooks that were read from files.

Everything is checked before anything is stored. Stored objects are marked with their source, the name of the file or
folder, so that a later plan of the same source can find what the source no longer declares. Applying the same plan
twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, assert_never

import msgspec

from tickwork.api.schedules import Schedules
from tickwork.core.dag import diff as dag_changes
from tickwork.core.dag.graph import Graph, digest
from tickwork.core.job_options import calendar_name
from tickwork.core.schedule.spec import ScheduleSpec
from tickwork.declare.export import declared_calendar, declared_hook, declared_schedule
from tickwork.declare.read_declarations import DeclaredWork
from tickwork.errors import InvalidInput
from tickwork.store.admin.hooks import DeclaredThing, Kind
from tickwork.store.base import Store
from tickwork.store.schedules import ScheduleView


class FieldDifference(msgspec.Struct, frozen=True):
    """A field whose stored and declared values differ. A value of None means that the field is not set.

    For a field of a dag's step, `field` begins with the name of the step.
    """

    field: str
    old: Any = None
    new: Any = None


class PlannedChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The planned change of one declared object.

    For a dag, `version` is its version after the change and `was` its stored version.
    """

    kind: Kind
    name: str
    change: Literal["new", "changed", "unchanged", "gone"]
    version: int | None = None
    was: int | None = None
    fields: tuple[FieldDifference, ...] = ()


class Told(NamedTuple):
    """An audit log entry for a change: the declaration before and after it.

    For a changed object these are the fields that differ, and for a dag also all facts of the steps that are added or
    removed.
    """

    target: str
    before: Any = None
    after: Any = None


class ApplyPlan:
    """The changes that make a store match a declaration.

    Raises InvalidInput if the store cannot match it; then nothing is stored. With `prune`, objects that the source
    declared before and no longer declares are deleted.
    """

    def __init__(
        self, schedules: Schedules, found: DeclaredWork, source: str | None = None, *, prune: bool = False
    ) -> None:
        self._schedules = schedules
        self._found = found
        self._source = source
        self._marked = self._store.hooks.declared_by(source) if source is not None and prune else []
        schedules.check_calendars(found.all_specs, found.calendars)
        self._gone = self._find_gone()
        self._check_gone()
        self._whole: dict[DeclaredThing, Mapping[str, Any]] = {}  # all facts of new things and of things to delete
        self.changes = [*self._dags(), *self._calendars(), *self._specs(), *self._hooks(), *self._deleted()]

    @property
    def _store(self) -> Store:
        return self._schedules.store

    @property
    def is_empty(self) -> bool:
        """Return whether the store already matches the declaration."""
        return all(one.change == "unchanged" for one in self.changes)

    def told(self) -> list[Told]:
        """Return the audit log entries of all changes."""
        return [self._told(one) for one in self.changes if one.change != "unchanged"]

    def _told(self, change: PlannedChange) -> Told:
        """Return the audit log entry of one change."""
        target, whole = f"{change.kind} {change.name}", self._whole.get(DeclaredThing(change.kind, change.name), {})
        if change.change == "gone":
            return Told(target, dict(whole), {"change": "gone"})
        now = {} if change.version is None else {"version": change.version}
        after = {"change": change.change, **now, **whole}
        if change.change == "new":
            return Told(target, None, after)
        was = {} if change.was is None else {"version": change.was}
        steps = self._changed_steps(change)
        before = {**was, **{one.field: one.old for one in change.fields}, **steps[0]}
        return Told(target, before, {**after, **{one.field: one.new for one in change.fields}, **steps[1]})

    def _changed_steps(self, change: PlannedChange) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the facts of the steps that a dag loses, and of the steps that it gains."""
        if change.kind != "dag" or change.was is None:
            return {}, {}
        was = self._store.reads.dag_version(change.name, change.was)
        old, new = ({} if was is None else was.graph.by_name), self._found.dags[change.name].graph.by_name
        lost = {name: dag_changes.step_facts(step) for name, step in old.items() if name not in new}
        return lost, {name: dag_changes.step_facts(step) for name, step in new.items() if name not in old}

    def carry_out(self) -> None:
        """Apply the plan: dags before the schedules that start them, calendars before the schedules that use them.

        Deletions come last.
        """
        found, store = self._found, self._store
        for name, value in found.calendars.items():
            store.schedules.put_calendar(calendar_name(name), value)
        for dag in found.dags.values():
            store.dags.put_dag(dag.graph)
        self._schedules.put(found.all_specs)
        self._schedules.pause_as_said(found.all_specs)
        store.hooks.put_hooks(list(found.hooks.values()))
        if self._source is not None:
            store.hooks.mark_declared(self._source, self._declared())
        self._delete()

    def _delete(self) -> None:
        """Delete what the source no longer declares, and remove the source's marks on it."""
        store = self._store
        store.schedules.delete_schedules(self._names("schedule"))
        store.hooks.delete_hooks(self._names("hook"))
        for name in self._names("dag"):
            store.dags.delete_dag(name)
        for name in self._names("calendar"):
            store.schedules.delete_calendar(name)
        declared = set(self._declared())
        store.hooks.forget_declared(one for one in self._marked if one not in declared)

    def _declared(self) -> list[DeclaredThing]:
        """Return the kind and name of everything that the source declares now."""
        found = self._found
        schedules = [spec.name for spec in found.all_specs]
        names: tuple[tuple[Kind, Iterable[str]], ...] = (
            ("dag", found.dags),
            ("schedule", schedules),
            ("calendar", found.calendars),
            ("hook", found.hooks),
        )
        return [DeclaredThing(kind, name) for kind, of_kind in names for name in of_kind]

    # -- things that the source no longer declares

    def _find_gone(self) -> list[DeclaredThing]:
        """Return the objects that the source no longer declares and that still exist in the store."""
        declared, store = set(self._declared()), self._store
        gone = [one for one in self._marked if one not in declared]
        there: Mapping[str, Iterable[str]] = {
            "schedule": store.schedules.get_schedules([one.name for one in gone if one.kind == "schedule"]),
            "dag": {view.name for view in store.dags.list_dags()} if any(one.kind == "dag" for one in gone) else (),
            "calendar": store.schedules.calendars() if any(one.kind == "calendar" for one in gone) else (),
            "hook": [one.name for one in gone if one.kind == "hook" and store.hooks.get_hook(one.name) is not None],
        }
        return [one for one in gone if one.name in there[one.kind]]

    def _names(self, kind: Kind) -> list[str]:
        return [one.name for one in self._gone if one.kind == kind]

    def _check_gone(self) -> None:
        """Raise InvalidInput if a remaining schedule needs a dag or a calendar that would be deleted."""
        dags, calendars = set(self._names("dag")), set(self._names("calendar"))
        if not dags and not calendars:
            return
        for spec in self._specs_after():
            needed = [f"dag {spec.target!r}"] if spec.target in dags else []
            needed += [f"calendar {name!r}" for name in spec.calendar_names if name in calendars]
            if needed:
                raise InvalidInput(
                    f"{needed[0]} is gone from {self._source}, and schedule {spec.name!r} still needs it. "
                    f"Nothing was stored."
                )

    def _specs_after(self) -> Iterator[ScheduleSpec]:
        """Yield the schedules that exist after the plan is applied."""
        said, gone = {spec.name: spec for spec in self._found.all_specs}, set(self._names("schedule"))
        yield from said.values()
        yield from (view.spec for view in self._schedules.views() if view.name not in gone and view.name not in said)

    def _deleted(self) -> Iterator[PlannedChange]:
        """Yield the deletions of the plan."""
        for one in self._gone:
            self._whole[one] = self._stored(one)
            yield PlannedChange(kind=one.kind, name=one.name, change="gone")

    def _stored(self, one: DeclaredThing) -> Mapping[str, Any]:
        """Return the stored declaration of an object."""
        store = self._store
        match one.kind:
            case "dag":
                view = next(iter(store.dags.list_dags(one.name)), None)
                return {} if view is None else {"version": view.version, **_dag_whole(view.graph)}
            case "schedule":
                return declared_schedule(store.schedules.get_schedules([one.name])[one.name].spec)
            case "calendar":
                return declared_calendar(store.schedules.calendars()[one.name])
            case "hook":
                hook = store.hooks.get_hook(one.name)
                return {} if hook is None else declared_hook(hook.hook)
            case _:
                assert_never(one.kind)

    # -- new and changed things

    def _dags(self) -> Iterator[PlannedChange]:
        """Yield the changes of dags. A dag that was deleted and is declared again continues its version numbers."""
        newest = {view.name: view for view in self._store.dags.list_dags()} if self._found.dags else {}
        for name, dag in self._found.dags.items():
            view = newest.get(name)
            if view is None:
                was = next(iter(self._store.dags.list_dags(name)), None)  # a deleted dag
                version = 1 if was is None else was.version + (digest(was.graph) != digest(dag.graph))
                self._whole[DeclaredThing("dag", name)] = _dag_whole(dag.graph)
                yield PlannedChange(kind="dag", name=name, change="new", version=version)
            elif digest(view.graph) == digest(dag.graph):
                yield PlannedChange(kind="dag", name=name, change="unchanged", version=view.version, was=view.version)
            else:
                fields = tuple(_dag_differences(view.graph, dag.graph))
                numbers = {"version": view.version + 1, "was": view.version}
                yield PlannedChange(kind="dag", name=name, change="changed", fields=fields, **numbers)

    def _calendars(self) -> Iterator[PlannedChange]:
        stored = self._store.schedules.calendars() if self._found.calendars else {}
        for name, value in self._found.calendars.items():
            old = declared_calendar(stored[name]) if name in stored else None
            yield self._change("calendar", name, old, declared_calendar(value))

    def _specs(self) -> Iterator[PlannedChange]:
        stored = self._store.schedules.get_schedules([spec.name for spec in self._found.all_specs])
        for spec in self._found.all_specs:
            old = _as_it_stands(stored[spec.name], spec) if spec.name in stored else None
            yield self._change("schedule", spec.name, old, declared_schedule(spec))

    def _hooks(self) -> Iterator[PlannedChange]:
        for name, hook in self._found.hooks.items():
            view = self._store.hooks.get_hook(name)
            old = None if view is None else declared_hook(view.hook)
            yield self._change("hook", name, old, declared_hook(hook))

    def _change(self, kind: Kind, name: str, old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> PlannedChange:
        """Compare a stored declaration with a new one, field by field."""
        if old is None:
            self._whole[DeclaredThing(kind, name)] = new
            return PlannedChange(kind=kind, name=name, change="new")
        fields = tuple(
            FieldDifference(field, old.get(field), new.get(field))
            for field in dict.fromkeys([*new, *old])
            if old.get(field) != new.get(field)
        )
        return PlannedChange(kind=kind, name=name, change="changed" if fields else "unchanged", fields=fields)


def _as_it_stands(view: ScheduleView, said: ScheduleSpec) -> dict[str, Any]:
    """Return the stored declaration of a schedule.

    A schedule that is declared as paused but was resumed since counts as not paused.
    """
    stored = declared_schedule(view.spec)
    if said.paused and not view.standing.paused:
        stored.pop("paused", None)
    return stored


def _dag_whole(graph: Graph) -> dict[str, Any]:
    """Return all facts of a dag, its steps by name."""
    steps = {step.name: dag_changes.step_facts(step) for step in graph.steps}
    return {**dag_changes.dag_facts(graph), "steps": steps}


def _dag_differences(old: Graph, new: Graph) -> Iterator[FieldDifference]:
    """Yield the differences between two versions of a dag."""
    for one in dag_changes.changes(old, new):
        place = ".".join(filter(None, (one.step, one.field)))
        match one.what:
            case "added":
                yield FieldDifference(place, None, "a step")
            case "removed":
                yield FieldDifference(place, "a step", None)
            case _:
                yield FieldDifference(place, one.old, one.new)
