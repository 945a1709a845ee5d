"""`tickwork jobs`: find jobs, show their attempts and logs, explain why they wait, and act on them."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import click

from tickwork.api.client import workers_of
from tickwork.cli.command import (
    FAILURE,
    Group,
    Invocation,
    filter_options,
    found_jobs,
    job_filter,
    job_id,
    json_option,
    pass_session,
    url_option,
)
from tickwork.cli.output import (
    ago,
    console,
    count_of,
    job_json,
    print_json,
    print_json_line,
    print_log,
    print_result,
    print_table,
    short_error,
    state_text,
    step_name,
    stored_json,
)
from tickwork.cli.write_audit_rows import AuditedChange, page_recorder, recorded
from tickwork.core.ids import JobId
from tickwork.core.job import JobState
from tickwork.core.text.terminal_escape import clean
from tickwork.errors import InvalidInput, JobNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from tickwork.api.client import Job
    from tickwork.app import Tickwork
    from tickwork.cli.output import Row
    from tickwork.core.job import JobView

_FOLLOW_S = 0.2  # seconds between two reads of `logs -f`
_WIDE = 110  # from this number of columns, lists also show notes
_WIDE_TITLES = ("ID", "STATE", "TASK", "QUEUE", ">TRIES", "WHEN", "NOTE")
_NARROW_TITLES = ("ID", "STATE", "WHEN", "TASK")


@click.group(cls=Group, example="tickwork jobs list --state failed --task send_email\ntickwork jobs why ID")
def jobs() -> None:
    """Find jobs, see what they did and why they wait, and act on them."""


@jobs.command("list", example="tickwork jobs list --state queued --queue mail --limit 50")
@filter_options()
@click.option(
    "--limit", metavar="N", type=click.IntRange(1, 1000), default=20, show_default=True, help="Maximum number of rows."
)
@click.option("--cursor", metavar="CURSOR", help="Continue an earlier list.")
@json_option
@url_option
@pass_session
def list_jobs(session: Invocation, /, limit: int, cursor: str | None, as_json: bool, **which: str | None) -> None:
    """List jobs, newest first."""
    app = session.app()
    page = app.client.jobs(job_filter(which), limit, None if cursor is None else read_cursor(cursor))
    views = [job.seen for job in page]
    if as_json:
        print_json({"items": [job_json(view) for view in views], "next_cursor": page.next_cursor})
    elif not views:
        click.echo(
            "No matching jobs." if any(which.values()) else "No jobs yet. Enqueue one: tickwork enqueue NAME key=value"
        )
    else:
        _print_list(views, dag_names(app, views), app.store.now())
        if page.next_cursor is not None:
            click.echo(f"\nMore: the same with --cursor {page.next_cursor}", err=True)


def dag_names(app: Tickwork, views: list[JobView]) -> dict[str, str]:
    """Return the dag names of the steps among these jobs, by run id."""
    runs = {JobId(view.run) for view in views if view.run is not None}
    return {view.id: view.task for view in app.store.reads.get_jobs(sorted(runs)).values()} if runs else {}


def _print_list(views: list[JobView], dags: dict[str, str], now: datetime) -> None:
    out = console()
    titles, row = (_WIDE_TITLES, _wide_row) if out.width >= _WIDE else (_NARROW_TITLES, _narrow_row)
    print_table(titles, [row(view, dags, now) for view in views], out)


def _wide_row(view: JobView, dags: dict[str, str], now: datetime) -> Row:
    state, place = state_text(view.state), _place(view, dags)
    note = ": ".join(part for part in (place, _note(view)) if part)
    return [view.id, state, view.task, view.queue, str(view.attempt), when(view, now), note]


def _narrow_row(view: JobView, dags: dict[str, str], now: datetime) -> Row:
    place = _place(view, dags)
    return [view.id, state_text(view.state), when(view, now), f"{view.task}  {place}" if place else view.task]


def _place(view: JobView, dags: dict[str, str]) -> str:
    """Return the dag and the step of a job, such as "etl · load"; empty if it is not a step."""
    return "" if view.run is None else f"{dags.get(view.run, 'run')} · {step_name(view)}"


def when(view: JobView, now: datetime) -> str:
    """Return the most relevant time: when the job is due, else when it ended, else when it started."""
    if view.state is JobState.QUEUED:
        return f"due {ago(view.run_at, now)}" if view.run_at <= now else ago(view.run_at, now)
    return ago(view.ended_at or view.started_at, now)


def _note(view: JobView) -> str:
    """Return the error, progress, failure count or key of a job, whichever is most relevant."""
    if view.error:
        return short_error(view.error)
    if view.state is JobState.RUNNING and view.progress is not None:
        note = f" {view.progress_note}" if view.progress_note else ""
        return f"{view.progress:.0%}{note}"
    if view.state is JobState.QUEUED and view.failures:
        return f"retry after failure {view.failures}"
    return f"key {view.key}" if view.key else ""


@jobs.command("show", example="tickwork jobs show 019a8f3e-1c2d-7abc-8def-0123456789ab")
@click.argument("id")
@json_option
@url_option
@pass_session
def show(session: Invocation, /, id: str, as_json: bool) -> None:
    """Show a job: its arguments, attempts, result, error and state."""
    app = session.app()
    job = found_jobs(app, (id,))[0]
    view, attempts, why = job.view, job.attempts(), job.why()
    if as_json:
        result = None if view.result is None else stored_json(app.large_results.whole(view.result))
        print_json({**job_json(view), "result": result, "why": why, "attempts": attempts})
        return
    from tickwork.cli.jobs.job_page import print_job

    workers = [*app.store.reads.workers(), *workers_of(app.store, view)]
    print_job(view, attempts, why, workers, app.store.now())


@jobs.command("why", example="tickwork jobs why 019a8f3e-1c2d-7abc-8def-0123456789ab")
@click.argument("id")
@json_option
@url_option
@pass_session
def why(session: Invocation, /, id: str, as_json: bool) -> None:
    """Say what a job waits for, where it runs, or how it ended."""
    job = found_jobs(session.app(), (id,))[0]
    sentence = job.why()
    print_result(as_json, {"id": job.id, "state": job.state, "why": sentence}, clean(sentence))


@jobs.command("logs", example="tickwork jobs logs -f 019a8f3e-1c2d-7abc-8def-0123456789ab")
@click.argument("id")
@click.option("-f", "--follow", is_flag=True, help="Follow the log until the job ends.")
@click.option("--attempt", metavar="N", type=click.IntRange(min=1), help="Only the output of this attempt.")
@json_option
@url_option
@pass_session
def logs(session: Invocation, /, id: str, follow: bool, attempt: int | None, as_json: bool) -> None:
    """Print a job's logs, also while it runs. With --json, print one object for each chunk."""
    job = found_jobs(session.app(), (id,))[0]
    after = (0, -1)
    while True:
        ended = job.view.state.ended  # read first: logs written before the end can then be read
        while chunks := job.logs(after):
            for chunk in chunks:
                if attempt in {None, chunk.attempt} and as_json:
                    about = {"attempt": chunk.attempt, "seq": chunk.seq, "at": chunk.at}
                    print_json_line({**about, "text": chunk.text, "shared": chunk.shared})
                elif attempt in {None, chunk.attempt}:
                    is_retry = chunk.attempt != after[0] and chunk.attempt > 1 and sys.stdout.isatty()
                    print_log(chunk, f"attempt {chunk.attempt}" if is_retry else None)
                after = (chunk.attempt, chunk.seq)
        if ended or not follow:
            return
        threading.Event().wait(_FOLLOW_S)


@jobs.command("cancel", example="tickwork jobs cancel ID\ntickwork jobs cancel --task send_email --state queued")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@filter_options()
@json_option
@url_option
@pass_session
@click.pass_context
def cancel(
    ctx: click.Context, session: Invocation, /, ids: tuple[str, ...], as_json: bool, **which: str | None
) -> None:
    """Cancel jobs, by id or all that match. Running jobs are asked to stop."""
    given = any(value is not None for value in which.values())
    if bool(ids) == given:
        raise InvalidInput("select jobs by id, or by filters such as --task and --queue (not both).")
    app = session.app()
    if given:
        said = {name: value for name, value in which.items() if value is not None}
        count = app.client.cancel(job_filter(which), page_recorder(app, "cancel_jobs", said))
        print_result(as_json, {"cancelled": count}, f"Cancelled {count_of(count, 'job')}.")
        return
    jobs = found_jobs(app, ids)
    tell(ctx, jobs, change_jobs(app, "cancel_job", app.store.cancel_jobs, jobs), "cancelled", as_json)


@jobs.command("retry", example="tickwork jobs retry 019a8f3e-1c2d-7abc-8def-0123456789ab")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@json_option
@url_option
@pass_session
@click.pass_context
def retry(ctx: click.Context, session: Invocation, /, ids: tuple[str, ...], as_json: bool) -> None:
    """Queue ended jobs again, and start waiting jobs at once.

    The failures of ended jobs are counted from zero. Jobs that succeeded, are running or are already due stay as they
    are. For all dead letters: tickwork dead redrive.
    """
    app = session.app()
    jobs = found_jobs(app, ids)
    tell(ctx, jobs, change_jobs(app, "retry_job", app.store.retry_jobs, jobs), "retried", as_json)


def change_jobs(
    app: Tickwork,
    action: str,
    change: Callable[[Sequence[JobId]], list[JobId]],
    jobs: Sequence[Job],
    kind: str = "job:",
) -> list[JobId]:
    """Change jobs or runs, and record their previous states in the audit log; return the ids that were changed."""
    before = {job.id: {"state": job.seen.state.value, "run_at": job.seen.run_at} for job in jobs}
    return recorded(
        app,
        action,
        lambda: change([job.id for job in jobs]),
        lambda ids: [AuditedChange(f"{kind}{id}", before[id], {"done": action}) for id in ids],
    )


def tell(
    ctx: click.Context, jobs: Sequence[Job], done: Sequence[JobId], verb: str, as_json: bool, *, what: str = "job"
) -> None:
    """Print what was done to jobs or runs; exit with 1 if any stayed as it was."""
    left = [job for job in jobs if job.id not in done]
    if as_json:
        print_json({verb: done, "unchanged": [{"id": job.id, "state": job.state} for job in left]})
    elif done:
        click.echo(f"{verb.capitalize()} {count_of(len(done), what)}.")
    for job in left:
        click.echo(f"error: {what} {job.id} was not {verb}: {clean(job.why())}.", err=True)
    if left:
        ctx.exit(FAILURE)


def read_cursor(text: str) -> str:
    try:
        return job_id(text)
    except JobNotFound:
        raise InvalidInput(f"{text!r} is not a cursor. Take next_cursor of an earlier list.") from None
