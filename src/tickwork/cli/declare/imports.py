"""`tickwork import`: import schedules and workflows of other programs, and report parts that could not be imported.

A line or an object that cannot be read is reported as an error and the others are imported; the exit code is then 1.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.command import FAILURE, Decorated, Group, Invocation, json_option, pass_session, url_option
from tickwork.cli.declare.read_files import shown_file
from tickwork.cli.output import console, count_of, print_json, print_table
from tickwork.cli.write_audit_rows import AuditedChange, recorded
from tickwork.core.schedule.spec import spec_json
from tickwork.core.text.terminal_escape import clean
from tickwork.errors import InvalidInput

if TYPE_CHECKING:
    from tickwork.app import Tickwork
    from tickwork.core.schedule.spec import ScheduleSpec
    from tickwork.importers.result import ImportResult
    from tickwork.store.schedules import ScheduleView


@click.group(
    "import",
    cls=Group,
    example="tickwork import crontab /etc/crontab --system --dry-run\ntickwork import k8s-cronjob cronjobs.yaml --yaml",
)
def imports() -> None:
    """Import schedules from crontabs and Kubernetes CronJobs, and traces of workflows.

    The jobs run commands or sleep, which only workers started with --allow-shell do.
    """


def _import_options(command: Decorated) -> Decorated:
    """Add the options that all importers share."""
    options: list[Callable[[Decorated], Decorated]] = [
        click.option("--prefix", metavar="NAME", help="Put this before the name of every schedule."),
        click.option("--dry-run", is_flag=True, help="Print the schedules without storing them."),
        click.option("--yaml", "as_yaml", is_flag=True, help="Print a file for tickwork apply, and store nothing."),
        json_option,
        url_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


@imports.command(
    "crontab",
    example="crontab -l | tickwork import crontab - --prefix web1\n"
    "tickwork import crontab /etc/crontab --system --tz Europe/Berlin --dry-run",
)
@click.argument("file")
@click.option("--system", is_flag=True, help="Each command has a user before it, as in /etc/crontab and cron.d.")
@click.option("--tz", metavar="ZONE", help="Time zone of the times. Default: the zone of this machine.")
@_import_options
@pass_session
@click.pass_context
def crontab(
    ctx: click.Context, session: Invocation, /, file: str, system: bool, tz: str | None, prefix: str | None, **how: Any
) -> None:
    """Import the lines of a crontab; FILE may be - for stdin."""
    from tickwork.importers.crontab import read_crontab

    zone = tz or _local_zone()
    imported = read_crontab(_read(file), file=shown_file(file), system=system, tz=zone, prefix=prefix)
    if tz is None:
        imported.note(shown_file(file), f"times are on the clock of this machine, {zone}; --tz says another.")
    _finish(ctx, session, imported, **how)


@imports.command(
    "k8s-cronjob",
    example="tickwork import k8s-cronjob cronjobs.yaml --dry-run\n"
    "kubectl get cronjobs -o yaml | tickwork import k8s-cronjob -",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@_import_options
@pass_session
@click.pass_context
def k8s_cronjob(
    ctx: click.Context, session: Invocation, /, files: tuple[str, ...], prefix: str | None, **how: Any
) -> None:
    """Import the CronJobs in YAML files; FILE may be - for stdin.

    A worker runs the command of a CronJob's first container, outside of its image.
    """
    from tickwork.importers.cronjob import read_cronjobs
    from tickwork.importers.result import ImportResult

    imported = ImportResult(prefix=prefix)
    for file in files:
        read_cronjobs(_read(file), file=shown_file(file), imported=imported)
    _finish(ctx, session, imported, **how)


@imports.command(
    "wfformat",
    example="tickwork import wfformat montage.json --scale 0.01 > montage.yaml\n"
    "tickwork import wfformat montage.json --name trial --json",
)
@click.argument("file")
@click.option(
    "--scale",
    metavar="FACTOR",
    type=float,
    default=1.0,
    show_default=True,
    help="Factor of the run time that a step sleeps.",
)
@click.option("--name", metavar="NAME", help="Name of the dag. Default: the name in the file.")
@json_option
def wfformat(file: str, scale: float, name: str | None, as_json: bool) -> None:
    """Print a dag that replays a traced workflow.

    FILE is a trace in WfFormat 1.3 to 1.5, or - for stdin; the output is a file for tickwork apply. Each task becomes a
    step that sleeps. Nothing is stored.
    """
    from tickwork.core.text.yaml_loader import write_yaml
    from tickwork.importers.wfformat import FILE_LIMIT, read_wfformat

    trace = read_wfformat(_read(file, FILE_LIMIT), file=shown_file(file), scale=scale, name=name)
    if as_json:
        print_json(trace.declared())
    else:
        click.echo(write_yaml(trace.declared()), nl=False)
    for note in trace.notes:
        click.echo(clean(str(note)), err=True)


def _finish(
    ctx: click.Context, session: Invocation, imported: ImportResult, *, dry_run: bool, as_yaml: bool, as_json: bool
) -> None:
    """Store the imported schedules unless told not to, and print a report."""
    stored = bool(imported.specs) and not dry_run and not as_yaml
    if stored:
        _store(session.app(create=True), imported)
    if as_yaml:
        from tickwork.declare.export import specs_as_yaml

        click.echo(specs_as_yaml(imported.specs) if imported.specs else "schedules: {}\n", nl=False)
    elif as_json:
        print_json(_plain(imported, stored))
    else:
        _tell(imported, stored)
    if not as_json:
        _remark(imported)
    if imported.errors:
        ctx.exit(FAILURE)


def _store(app: Tickwork, imported: ImportResult) -> None:
    """Store the schedules, except those whose name another schedule has; add a note for names that existed before."""
    there = app.store.schedules.get_schedules([spec.name for spec in imported.specs])
    for spec in list(imported.specs):
        known = there.get(spec.name)
        if known is None:
            continue
        if known.is_declared or known.spec.target != spec.target:
            imported.specs.remove(spec)
            imported.error(spec.name, f"another schedule has this name, for {known.spec.target}. Give a --prefix.")
        elif known.spec != spec:
            imported.note(spec.name, "was there before and was changed. Files of several users or hosts need --prefix.")

    def put() -> None:
        app.put_schedules(imported.specs)
        app.schedules.pause_as_said(imported.specs)

    told = [_told(spec, there.get(spec.name)) for spec in imported.specs]
    recorded(app, "import_schedules", put, lambda _: [one for one in told if one.before != one.after])


def _told(spec: ScheduleSpec, old: ScheduleView | None) -> AuditedChange:
    return AuditedChange(f"schedule {spec.name}", None if old is None else spec_json(old.spec), spec_json(spec))


def _plain(imported: ImportResult, stored: bool) -> dict[str, Any]:
    import msgspec

    specs = [{**msgspec.to_builtins(spec), "args": json.loads(spec.args)} for spec in imported.specs]
    return {"stored": stored, "schedules": specs, "notes": imported.notes, "errors": imported.errors}


def _tell(imported: ImportResult, stored: bool) -> None:
    if not imported.specs:
        click.echo("Nothing to import.")
        return
    count = count_of(len(imported.specs), "schedule")
    click.echo(f"{'Imported' if stored else 'Would import'} {count}:\n")
    print_table(["NAME", "DUE", "COMMAND"], [_row(spec) for spec in imported.specs], console())
    if stored:
        click.echo("\nSee them: tickwork schedules list. Workers run commands only with: tickwork worker --allow-shell")


def _row(spec: ScheduleSpec) -> list[str]:
    command = json.loads(spec.args)["command"]
    due = spec.rule.of_schedule(spec.name, None).explain().partition(";")[0]
    shown = command if isinstance(command, str) else shlex.join(command)
    return [spec.name, f"(paused) {due}" if spec.paused else due, shown]


def _remark(imported: ImportResult) -> None:
    """Print notes and errors on stderr, apart from machine-readable output."""
    if imported.notes:
        click.echo("\nDifferences from the original:", err=True)
        for note in imported.notes:
            click.echo(f"  {clean(str(note))}", err=True)
    if imported.errors:
        click.echo(f"\nNot imported ({len(imported.errors)}):", err=True)
        for error in imported.errors:
            click.secho(f"  {clean(str(error))}", err=True, fg="red")


def _read(file: str, limit: int | None = None) -> bytes:
    """Return the content of a file, at most one byte more than importers accept."""
    from tickwork.importers.result import FILE_LIMIT

    limit = FILE_LIMIT if limit is None else limit
    try:
        if file == "-":
            return sys.stdin.buffer.read(limit + 1)
        with Path(file).open("rb") as opened:
            return opened.read(limit + 1)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}.") from None


def _local_zone() -> str:
    """Return the time zone of this machine if its name can be determined, else UTC."""
    from tickwork.core.recurrence.zones import zone_name

    link = os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    for name in (os.environ.get("TZ", "").removeprefix(":"), link):
        try:
            return "UTC" if name == "Etc/UTC" else zone_name(name)
        except InvalidInput:
            continue
    return "UTC"
