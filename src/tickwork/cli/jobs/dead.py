"""`tickwork dead`: list, redrive and discard dead letters, the jobs that failed for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tickwork.cli.command import (
    Decorated,
    Group,
    Invocation,
    filter_options,
    found_jobs,
    job_filter,
    json_option,
    pass_session,
    url_option,
)
from tickwork.cli.output import ago, console, count_of, print_json, print_result, print_table, short_error
from tickwork.cli.parse_time import instant
from tickwork.cli.write_audit_rows import page_recorder
from tickwork.errors import InvalidInput

if TYPE_CHECKING:
    from tickwork.app import Tickwork
    from tickwork.core.job import JobFilter

READ_LIMIT = 10_000  # at most this many dead letters are read to group them
_TIMES = ("since", "until")
_CAUSES = (
    click.option("--error", metavar="TEXT", help="Jobs with this text in the error of their last attempt."),
    click.option("--since", metavar="WHEN", help="Jobs created since then: a duration back from now, or an instant."),
    click.option("--until", metavar="WHEN", help="Jobs created before then."),
)


def cause_options(command: Decorated) -> Decorated:
    """Add the options that select dead letters by error and creation time."""
    for option in reversed(_CAUSES):
        command = option(command)
    return command


@click.group(cls=Group, example="tickwork dead list\ntickwork dead redrive --task send_email --rate 50/s")
def dead() -> None:
    """List failed jobs that have no attempts left, queue them again, or discard them."""


@dead.command("list", example="tickwork dead list --queue mail --since 1d")
@filter_options(state=False)
@cause_options
@json_option
@url_option
@pass_session
def list_dead(session: Invocation, /, as_json: bool, **which: str | None) -> None:
    """List dead letters by task and error, the most frequent first."""
    app = session.app()
    causes, complete = app.client.causes(_dead_filter(app, which), READ_LIMIT)
    total = sum(cause.count for cause in causes)
    if as_json:
        print_json({"items": causes, "total": total, "complete": complete})
        return
    if not causes:
        click.echo("No dead letters.")
        return
    now, out = app.store.now(), console()
    rows = [[f"{one.count:,}", ago(one.newest_at, now), one.task, short_error(one.error)] for one in causes]
    print_table([">COUNT", "NEWEST", "TASK", "ERROR"], rows, out)
    more = "" if complete else f" (the newest {READ_LIMIT:,}; there are more)"
    click.echo(f"\n{count_of(total, 'dead letter')}{more}. See one: tickwork jobs show {causes[0].newest_id}")


@dead.command(
    "redrive",
    example="tickwork dead redrive --task send_email --rate 50/s\n"
    'tickwork dead redrive --error "timed out" --since 2d --dry-run\ntickwork dead redrive --all',
)
@click.argument("ids", metavar="[ID]...", nargs=-1)
@filter_options(state=False)
@cause_options
@click.option("--all", "everything", is_flag=True, help="Every dead letter.")
@click.option("--rate", metavar="RATE", help="Maximum rate at which they become due: 50/s, 10/m.")
@click.option("--dry-run", is_flag=True, help="Print the number of jobs without queueing them.")
@json_option
@url_option
@pass_session
def redrive(
    session: Invocation,
    /,
    ids: tuple[str, ...],
    everything: bool,
    rate: str | None,
    dry_run: bool,
    as_json: bool,
    **which: str | None,
) -> None:
    """Queue dead letters again: by filter, by id, or with --all every one."""
    _check_said(ids, which, everything)
    app = session.app()
    named, wanted = found_jobs(app, ids), _dead_filter(app, which, ids)
    if dry_run:
        count = app.client.dead(wanted)
        said = f"{count_of(count, 'dead letter')} would be queued again. This was a dry run: none was queued."
        print_result(as_json, {"dry_run": True, "dead": count}, said)
        return
    perform = page_recorder(app, "redrive_dead", {**_given(which), "ids": ids, "rate": rate})
    count = app.client.redrive(wanted, rate, perform)
    said = f"Queued {count_of(count, 'dead letter')} again{f', at {rate}' if rate else ''}."
    print_result(as_json, {"redriven": count}, said)
    _check_all(len(named), count)


@dead.command("discard", example="tickwork dead discard --task send_email\ntickwork dead discard --all")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@filter_options(state=False)
@cause_options
@click.option("--all", "everything", is_flag=True, help="Every dead letter.")
@json_option
@url_option
@pass_session
def discard(
    session: Invocation,
    /,
    ids: tuple[str, ...],
    everything: bool,
    as_json: bool,
    **which: str | None,
) -> None:
    """Discard dead letters. The jobs stay readable until they are pruned."""
    _check_said(ids, which, everything)
    app = session.app()
    named = found_jobs(app, ids)
    perform = page_recorder(app, "discard_dead", {**_given(which), "ids": ids})
    count = app.client.discard(_dead_filter(app, which, ids), perform)
    print_result(as_json, {"discarded": count}, f"Discarded {count_of(count, 'dead letter')}.")
    _check_all(len(named), count)


def _given(which: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in which.items() if value is not None}


def _check_said(ids: tuple[str, ...], which: dict[str, str | None], everything: bool) -> None:
    if not everything and not ids and not any(which.values()):
        raise InvalidInput("select dead letters by id, by filters such as --task, --error and --since, or with --all.")


def _dead_filter(app: Tickwork, which: dict[str, str | None], ids: tuple[str, ...] = ()) -> JobFilter:
    """Return the filter for the options, with times as instants."""
    from dataclasses import replace

    given, now = dict(which), app.store.now()
    times = {name: given.pop(name) for name in _TIMES}
    since, until = (None if text is None else instant(text, now, f"--{name}") for name, text in times.items())
    return replace(job_filter(given, ids, dead=True), since=since, until=until)


def _check_all(named: int, done: int) -> None:
    """Fail if some of the named jobs are not dead letters."""
    if done < named:
        raise click.ClickException(f"{count_of(named - done, 'job')} of those named: not a dead letter.")
