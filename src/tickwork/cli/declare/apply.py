"""`tickwork apply`: create or change dags, schedules, calendars and hooks as declared in files."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.command import Command, Invocation, json_option, pass_session, url_option
from tickwork.cli.declare.read_files import print_remarks, read_files, remarks_on, shown_file
from tickwork.cli.output import console, count_of, print_json, print_table, shown_value
from tickwork.cli.write_audit_rows import AuditedChange, recorded
from tickwork.core.text.terminal_escape import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.text import Text

    from tickwork.api.apply import PlannedChange


@click.command(
    cls=Command,
    example="tickwork apply nightly.yaml --dry-run\ntickwork apply nightly.yaml\n"
    "tickwork apply jobs/ --prune   # and delete what the folder no longer declares",
)
@click.argument("path", metavar="FILE|DIR")
@click.option(
    "--prune",
    is_flag=True,
    help="Delete objects that an earlier apply of this source created and that it no longer declares.",
)
@click.option(
    "--source",
    metavar="NAME",
    help="Name of this set of files, independent of their location. Default: their full path.",
)
@click.option("--dry-run", is_flag=True, help="Print the changes without making them.")
@json_option
@url_option
@pass_session
def apply(session: Invocation, path: str, prune: bool, source: str | None, dry_run: bool, as_json: bool) -> None:
    """Store the dags, schedules, calendars and hooks that YAML or JSON files declare. Others stay as they are.

    A dag that differs from the stored one becomes a new version of it; runs that have begun keep theirs. In a folder,
    all *.yaml, *.yml and *.json files are read. FILE may be - for standard input. If any part cannot be read or stored,
    nothing is stored.
    """
    from tickwork.api.apply import ApplyPlan

    if source is None and path != "-":
        source = os.path.abspath(path)
    if prune and source is None:
        raise click.UsageError("say --source NAME: what was declared by standard input is not known otherwise.")
    app = session.app(create=True)
    found = read_files(path, cache(app.store.reads.task_definition))
    unknown = [app.client.unknown_task(task) for task in sorted(found.tasks)]
    unknown += [app.client.unknown_dag(dag) for dag in sorted(found.other_dags)]
    remarks = remarks_on(found, {secret.name for secret in app.store.access.list_secrets()})
    print_remarks([*remarks, *(warning for warning in unknown if warning is not None)])
    plan = ApplyPlan(app.schedules, found, source, prune=prune)
    if not dry_run:
        told = [AuditedChange(*one) for one in plan.told()]
        recorded(app, "apply", plan.carry_out, lambda _: told)
    if as_json:
        print_json({"dry_run": dry_run, "items": [_plain(one) for one in plan.changes]})
    elif not plan.changes:
        click.echo(f"{shown_file(path)} declares nothing.")
    else:
        _tell(plan.changes, dry_run)


def _plain(change: PlannedChange) -> dict[str, Any]:
    import msgspec

    said = {"kind": change.kind, "name": change.name, "change": change.change}
    versions = {"version": change.version, "was": change.was} if change.kind == "dag" else {}
    return {**said, **versions, "fields": [msgspec.structs.asdict(one) for one in change.fields]}


def _tell(changes: Iterable[PlannedChange], dry_run: bool) -> None:
    out = console()
    print_table(["KIND", "NAME", "CHANGE"], [[one.kind, one.name, _told(one)] for one in changes], out)
    lines = list(_lines(changes))
    if lines:
        click.echo()
    for line in lines:
        out.print(line, soft_wrap=not out.is_terminal)
    changed = sum(one.change != "unchanged" for one in changes)
    not_made = ", not made: this was a dry run" if dry_run and changed else ""
    click.echo(f"\n{count_of(changed, 'change') if changed else 'Nothing changed'}{not_made}.")


def _told(change: PlannedChange) -> str:
    """Return a short text for a change: "version 3 (was 2)"."""
    if change.kind != "dag" or change.change in {"unchanged", "gone"}:
        return change.change
    version = f"version {change.version}"
    return f"new, {version}" if change.change == "new" else f"{version} (was {change.was})"


def _lines(changes: Iterable[PlannedChange]) -> Iterator[Text]:
    """Yield a line for each field that differs."""
    from rich.text import Text

    for change in changes:
        for one in change.fields:
            text = Text(no_wrap=True, overflow="ellipsis")
            text.append(clean(f"~ {change.kind} {change.name}  "), style="yellow")
            yield text.append(clean(f"{one.field}: {shown_value(one.old)} -> {shown_value(one.new)}"))
