"""`tickwork apply`: schedules and calendars from a file, made or changed to be as it says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.base import Command, Session, json_option, pass_session, url_option
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
    from tickwork.importers.declared import read_declared

    app = session.app(create=True)
    shown = "<stdin>" if file == "-" else file
    found = read_declared(_read(file), lambda task, arguments: app.named(task).encode((), arguments), file=shown)
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


def _read(file: str) -> str:
    from tickwork.importers.imported import check_size

    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        check_size(data, file)
        return data.decode()
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{file} is not a text in UTF-8.") from None


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
