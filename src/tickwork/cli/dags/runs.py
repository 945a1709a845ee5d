"""`tickwork runs`: find runs of dags, and show their steps and logs.

Commands that change runs are in run_actions.py.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from tickwork.cli.command import STATES, Group, Invocation, found_run, json_option, pass_session, url_option
from tickwork.cli.dags.run_actions import approve, cancel, clear, reject, rerun
from tickwork.cli.output import (
    about,
    console,
    job_json,
    plain,
    print_json,
    print_json_line,
    print_log,
    print_result,
    print_table,
    short_error,
    state_text,
    utc,
)
from tickwork.core.text.terminal_escape import clean
from tickwork.errors import JobNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from tickwork.api.runs import Run, RunStep
    from tickwork.app import Tickwork
    from tickwork.cli.output import Row
    from tickwork.core.ids import JobId
    from tickwork.core.job import JobView, LogChunk

_WIDE = 110  # from this number of columns, lists also show notes
_WIDE_TITLES = ("ID", "STATE", "DAG", ">VERSION", "WHEN", "SCHEDULED FOR", ">TOOK", "NOTE")
_NARROW_TITLES = ("ID", "STATE", "WHEN", ">TOOK", "DAG")


@click.group(
    cls=Group, example="tickwork runs list --dag etl --state failed\ntickwork runs watch ID\ntickwork runs rerun ID"
)
def runs() -> None:
    """Find runs of dags, show their steps, and act on them."""


for command in (cancel, rerun, clear, approve, reject):
    runs.add_command(command)


@runs.command("list", example="tickwork runs list --dag etl --state failed --limit 50")
@click.option("--dag", metavar="NAME", help="Runs of this dag.")
@click.option("--state", type=click.Choice(STATES), metavar="STATE", help=f"One of {', '.join(STATES)}.")
@click.option("--creator", metavar="WHO", help="Runs of this creator: user:ada, key:deploy, schedule:nightly.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(1, 1000), default=20, show_default=True, help="Maximum number of rows."
)
@click.option("--cursor", metavar="CURSOR", help="Continue an earlier list.")
@json_option
@url_option
@pass_session
def list_runs(
    session: Invocation,
    /,
    dag: str | None,
    state: str | None,
    creator: str | None,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List runs, newest first."""
    from tickwork.cli.jobs.jobs import read_cursor

    app = session.app()
    after = None if cursor is None else read_cursor(cursor)
    page = app.runs(dag, state=state, creator=creator, limit=limit, cursor=after)
    views = [run.seen for run in page]
    if as_json:
        print_json({"items": [job_json(view) for view in views], "next_cursor": page.next_cursor})
    elif not views:
        click.echo(
            "No matching runs." if dag or state or creator else "No runs yet. Start one: tickwork run NAME key=value"
        )
    else:
        _print_list(views, app.store.now())
        if page.next_cursor is not None:
            click.echo(f"\nMore: the same with --cursor {page.next_cursor}", err=True)


def _print_list(views: list[JobView], now: datetime) -> None:
    out = console()
    titles, row = (_WIDE_TITLES, _wide_row) if out.width >= _WIDE else (_NARROW_TITLES, _narrow_row)
    print_table(titles, [row(view, now) for view in views], out)


def _wide_row(view: JobView, now: datetime) -> Row:
    from tickwork.cli.jobs.jobs import when

    note = short_error(view.error) or (f"key {view.key}" if view.key else "")
    version = "" if view.version is None else str(view.version)
    occurrence = "" if view.occurrence is None else utc(view.occurrence.scheduled_for)
    return [view.id, state_text(view.state), view.task, version, when(view, now), occurrence, _took(view, now), note]


def _narrow_row(view: JobView, now: datetime) -> Row:
    from tickwork.cli.jobs.jobs import when

    return [view.id, state_text(view.state), when(view, now), _took(view, now), view.task]


def _took(view: JobView, now: datetime) -> str:
    return "" if view.started_at is None else about(max(timedelta(0), (view.ended_at or now) - view.started_at))


@runs.command(
    "show", example="tickwork runs show ID\ntickwork runs show ID --timeline\ntickwork runs show ID --mermaid"
)
@click.argument("id")
@click.option("--mermaid", is_flag=True, help="Print its graph as a Mermaid flowchart, coloured by states.")
@click.option("--timeline", is_flag=True, help="Print when its steps ran, and the critical path.")
@json_option
@url_option
@pass_session
def show(session: Invocation, /, id: str, mermaid: bool, timeline: bool, as_json: bool) -> None:
    """Show a run: its parameters, steps, result and error. --timeline and --json may be combined."""
    from tickwork.cli.dags.run_page import RunSnapshotView, print_run

    if mermaid and (timeline or as_json):
        raise click.UsageError("--mermaid is a way to print it of its own: give it alone.")
    run = found_run(session.app(), id)
    if mermaid:
        click.echo(run.mermaid(), nl=False)
    elif timeline and as_json:
        print_json(run.timeline())
    elif timeline:
        from tickwork.cli.dags.run_timeline import print_timeline

        print_timeline(run.timeline())
    elif as_json:
        view = run.view
        print_json({**job_json(view), "why": run.why(), "steps": [plain(line) for line in run.overview()]})
    else:
        print_run(RunSnapshotView.of(run))


@runs.command("watch", example="tickwork runs watch 019a8f3e-1c2d-7abc-8def-0123456789ab")
@click.argument("id")
@url_option
@pass_session
@click.pass_context
def watch(ctx: click.Context, session: Invocation, /, id: str) -> None:
    """Show the steps of a run live until it has ended.

    Exits with 0 only if the run succeeded.
    """
    from tickwork.cli.dags.run_watch import watch_run

    ctx.exit(watch_run(found_run(session.app(), id)))


@runs.command("why", example="tickwork runs why ID\ntickwork runs why ID load")
@click.argument("id")
@click.argument("step", required=False)
@json_option
@url_option
@pass_session
def why(session: Invocation, /, id: str, step: str | None, as_json: bool) -> None:
    """Say what a run or step waits for, where it runs, or how it ended."""
    run = found_run(session.app(), id)
    sentence = run.why() if step is None else found_step(run, step).why()
    state = run.state if step is None else run.steps[step].state
    print_result(as_json, {"id": run.id, "step": step, "state": state, "why": sentence}, clean(sentence))


@runs.command("logs", example="tickwork runs logs ID\ntickwork runs logs ID 'transform[3]'")
@click.argument("id")
@click.argument("step", required=False)
@json_option
@url_option
@pass_session
def logs(session: Invocation, /, id: str, step: str | None, as_json: bool) -> None:
    """Print the logs of all steps of a run, or of one step.

    The logs are in the order in which the steps started. With --json, print one object for each chunk.
    """
    app = session.app()
    run = found_run(app, id)
    wanted = None if step is None else found_step(run, step)
    found = [
        one for one in run.instances() if wanted is None or (one.step == wanted.base and wanted.idx in (None, one.idx))
    ]
    for one in sorted(found, key=lambda one: (one.started_at is None, one.started_at, one.step, one.idx)):
        name = run.instance_name(one) if len(found) > 1 else None
        attempt = 0
        for chunk in _chunks(app, one.job_id):
            heading = f"{name}, attempt {chunk.attempt}" if name and chunk.attempt > 1 else name
            if as_json:
                print_json_line({"step": one.step, "idx": one.idx, **plain(chunk)})
            else:
                print_log(chunk, heading if chunk.attempt != attempt else None)
            attempt = chunk.attempt


def _chunks(app: Tickwork, job_id: JobId) -> Iterator[LogChunk]:
    after = (0, -1)
    while chunks := app.store.reads.logs(job_id, after):
        yield from chunks
        after = (chunks[-1].attempt, chunks[-1].seq)


def found_step(run: Run, name: str) -> RunStep:
    """Return a step of a run, or an instance of a step. Raises JobNotFound."""
    try:
        return run.steps[name]
    except KeyError as error:
        raise JobNotFound(f"{error.args[0]}.") from None
