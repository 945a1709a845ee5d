"""`tickwork apply`: schedules and calendars from a file, made or changed to be as it says."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.base import Command, Session, json_option, pass_session, url_option
from tickwork.cli.declared import print_remarks, read_file, remarks_on, shown_file
from tickwork.cli.output import count_of, print_json, print_table
from tickwork.errors import InvalidInput

if TYPE_CHECKING:
    from tickwork.app import Tickwork
    from tickwork.importers.declared import Declared


@click.command(cls=Command, example="tickwork apply schedules.yaml --dry-run\ntickwork apply schedules.yaml")
@click.argument("file")
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@json_option
@url_option
@pass_session
def apply(session: Session, file: str, dry_run: bool, as_json: bool) -> None:
    """Store the schedules and calendars that a YAML file declares. What it does not name stays as it is.

    FILE may be - for standard input. Nothing is stored when a part of it cannot be read.
    """
    app, shown = session.app(create=True), shown_file(file)
    found = read_file(file, cache(app.store.task_definition))
    print_remarks(remarks_on(found))
    if found.dags:
        raise InvalidInput(f"{shown} declares dags, which this version checks and does not store yet.")
    changes = _changes(app, found)
    app.schedules.check_calendars(found.specs, found.calendars)
    if not dry_run:
        for name, value in found.calendars.items():
            app.put_calendar(name, value)
        app.put_schedules(found.specs)
        app.schedules.pause_as_said(found.specs)
    if as_json:
        print_json({"dry_run": dry_run, "items": changes})
        return
    if not changes:
        click.echo(f"{shown} declares nothing.")
        return
    print_table(["KIND", "NAME", "CHANGE"], [[one["kind"], one["name"], one["change"]] for one in changes])
    changed = sum(one["change"] != "unchanged" for one in changes)
    click.echo(f"\n{count_of(changed, 'change')}{', not made: this was a dry run' if dry_run else ''}.")


def _changes(app: Tickwork, found: Declared) -> list[dict[str, Any]]:
    """What becomes of everything that is declared."""
    calendars = app.calendars()
    schedules = app.store.get_schedules([spec.name for spec in found.specs])
    changes: list[tuple[str, str, object, object]] = [
        ("calendar", name, calendars.get(name), value) for name, value in found.calendars.items()
    ]
    for spec in found.specs:
        stored = schedules.get(spec.name)
        changes.append(("schedule", spec.name, stored and stored.spec, spec))
    return [{"kind": kind, "name": name, "change": _change(old, new)} for kind, name, old, new in changes]


def _change(old: object, new: object) -> str:
    if old is None:
        return "new"
    return "unchanged" if old == new else "changed"
