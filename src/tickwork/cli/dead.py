"""`tickwork dead`: the dead letters, which are the jobs that failed for good and that nobody has dealt with."""

from __future__ import annotations

import click

from tickwork.cli.base import (
    FAILURE,
    Group,
    Session,
    filter_options,
    found_jobs,
    job_filter,
    json_option,
    pass_session,
    url_option,
)
from tickwork.cli.output import ago, console, count_of, print_json, print_table, short_error
from tickwork.errors import InvalidInput

READ_LIMIT = 10_000  # so many dead letters are looked at to group them


@click.group(cls=Group, example="tickwork dead list\ntickwork dead redrive --task send_email --rate 50/s")
def dead() -> None:
    """The jobs that failed for good: see why, queue them again, or let them go."""


@dead.command("list", example="tickwork dead list --queue mail")
@filter_options(state=False)
@json_option
@url_option
@pass_session
def list_dead(session: Session, /, as_json: bool, **which: str | None) -> None:
    """List dead letters by task and error, the most frequent first."""
    app = session.app()
    causes, complete = app.client.causes(job_filter(which, dead=True), READ_LIMIT)
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


@dead.command("redrive", example="tickwork dead redrive --task send_email --rate 50/s")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@filter_options(state=False)
@click.option("--rate", metavar="RATE", help="No more than so many due at a time: 50/s, 10/m.")
@json_option
@url_option
@pass_session
@click.pass_context
def redrive(
    ctx: click.Context, session: Session, /, ids: tuple[str, ...], rate: str | None, as_json: bool, **which: str | None
) -> None:
    """Queue dead letters again: all, those that match, or those named."""
    app = session.app()
    named = found_jobs(app, ids)
    count = app.client.redrive(job_filter(which, ids, dead=True), rate)
    if as_json:
        print_json({"redriven": count})
    else:
        click.echo(f"Queued {count_of(count, 'dead letter')} again{f', at {rate}' if rate else ''}.")
    _check_all(ctx, len(named), count)


@dead.command("discard", example="tickwork dead discard --task send_email\ntickwork dead discard --all")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@filter_options(state=False)
@click.option("--all", "everything", is_flag=True, help="Every dead letter.")
@json_option
@url_option
@pass_session
@click.pass_context
def discard(
    ctx: click.Context, session: Session, /, ids: tuple[str, ...], everything: bool, as_json: bool, **which: str | None
) -> None:
    """Take jobs out of the dead letters. They stay readable until they are pruned."""
    if not everything and not ids and not any(which.values()):
        raise InvalidInput("say which dead letters: ids, filters such as --task and --queue, or --all.")
    app = session.app()
    named = found_jobs(app, ids)
    count = app.client.discard(job_filter(which, ids, dead=True))
    if as_json:
        print_json({"discarded": count})
    else:
        click.echo(f"Discarded {count_of(count, 'dead letter')}.")
    _check_all(ctx, len(named), count)


def _check_all(ctx: click.Context, named: int, done: int) -> None:
    """Exit with 1 when jobs were named that are no dead letters."""
    if done < named:
        click.echo(
            f"error: {count_of(named - done, 'job')} of those named did not stand among the dead letters.", err=True
        )
        ctx.exit(FAILURE)
