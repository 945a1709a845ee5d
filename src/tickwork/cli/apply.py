"""`tickwork apply`: dags, schedules and calendars from a file, made or changed to be as it says."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.base import Command, Session, json_option, pass_session, url_option
from tickwork.cli.declared import print_remarks, read_file, remarks_on, shown_file
from tickwork.cli.output import count_of, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tickwork.app import Tickwork
    from tickwork.core.schedule.spec import Spec
    from tickwork.importers.declared import Declared


@click.command(cls=Command, example="tickwork apply nightly.yaml --dry-run\ntickwork apply nightly.yaml")
@click.argument("file")
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@json_option
@url_option
@pass_session
def apply(session: Session, file: str, dry_run: bool, as_json: bool) -> None:
    """Store the dags, schedules and calendars that a YAML file declares. What it does not name stays as it is.

    A dag that differs from the one that is stored becomes a new version of it; runs that have begun keep theirs.

    FILE may be - for standard input. Nothing is stored when a part of it cannot be read.
    """
    app, shown = session.app(create=True), shown_file(file)
    found = read_file(file, cache(app.store.task_definition))
    print_remarks(remarks_on(found, {secret.name for secret in app.store.secrets()}))
    specs = [*found.specs, *(dag.schedule for dag in found.dags.values() if dag.schedule is not None)]
    changes = [*_dag_changes(app, found), *_changes(app, found, specs)]
    app.schedules.check_calendars(specs, found.calendars)
    if not dry_run:
        _store(app, found, specs)
    if as_json:
        print_json({"dry_run": dry_run, "items": changes})
        return
    if not changes:
        click.echo(f"{shown} declares nothing.")
        return
    print_table(["KIND", "NAME", "CHANGE"], [[one["kind"], one["name"], _told(one)] for one in changes])
    changed = sum(one["change"] != "unchanged" for one in changes)
    click.echo(f"\n{count_of(changed, 'change')}{', not made: this was a dry run' if dry_run else ''}.")


def _store(app: Tickwork, found: Declared, specs: Sequence[Spec]) -> None:
    """Dags come before the schedules that start them, and calendars before those that heed them."""
    for name, value in found.calendars.items():
        app.put_calendar(name, value)
    for dag in found.dags.values():
        app.store.put_dag(dag.graph)
    app.put_schedules(specs)
    app.schedules.pause_as_said(specs)


def _dag_changes(app: Tickwork, found: Declared) -> list[dict[str, Any]]:
    """What becomes of the dags: `version` is the one that each has then, `was` that which it has now."""
    from tickwork.core.dag.graph import digest

    newest = {view.name: view for view in app.dag_versions()} if found.dags else {}
    changes = []
    for name, dag in found.dags.items():
        stored = newest.get(name)
        was = None if stored is None else stored.version
        same = stored is not None and digest(stored.graph) == digest(dag.graph)
        change = "new" if was is None else "unchanged" if same else "changed"
        changes.append({"kind": "dag", "name": name, "change": change, "version": (was or 0) + (not same), "was": was})
    return changes


def _changes(app: Tickwork, found: Declared, specs: Sequence[Spec]) -> list[dict[str, Any]]:
    """What becomes of everything else that is declared."""
    calendars = app.calendars()
    schedules = app.store.get_schedules([spec.name for spec in specs])
    changes: list[tuple[str, str, object, object]] = [
        ("calendar", name, calendars.get(name), value) for name, value in found.calendars.items()
    ]
    for spec in specs:
        stored = schedules.get(spec.name)
        changes.append(("schedule", spec.name, stored and stored.spec, spec))
    return [{"kind": kind, "name": name, "change": _change(old, new)} for kind, name, old, new in changes]


def _told(change: dict[str, Any]) -> str:
    """A change in a few words: "version 3 (was 2)"."""
    if "version" not in change:
        return str(change["change"])
    version = f"version {change['version']}"
    return {"new": f"new, {version}", "changed": f"{version} (was {change['was']})"}.get(change["change"], "unchanged")


def _change(old: object, new: object) -> str:
    if old is None:
        return "new"
    return "unchanged" if old == new else "changed"
