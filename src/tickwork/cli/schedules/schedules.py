"""`tickwork schedules`: list schedules, show their occurrences, and run, pause, backfill and delete them."""

from __future__ import annotations

import getpass
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.command import FAILURE, Group, Invocation, json_option, pass_session, url_option
from tickwork.cli.output import (
    ago,
    console,
    count_of,
    print_items,
    print_json,
    print_result,
    print_table,
    state_text,
    utc,
)
from tickwork.cli.write_audit_rows import AuditedChange, recorded
from tickwork.core.schedule.spec import spec_json
from tickwork.errors import InvalidInput, ScheduleNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tickwork.api.backfill import Backfill, BackfillOutcome
    from tickwork.api.schedules import Schedule
    from tickwork.app import Tickwork
    from tickwork.cli.output import Row
    from tickwork.core.recurrence.base_rule import Calendars
    from tickwork.store.schedules import ScheduleView

_SHOWN_FIRES = 10
_SHOWN_NEXT = 5


@click.group(
    cls=Group,
    example='tickwork schedules list\ntickwork schedules pause report --reason "until Monday"\n'
    "tickwork schedules backfill report 2026-11-01 2026-11-08 --max-parallel 4",
)
def schedules() -> None:
    """List schedules, show their occurrences, and act on them."""


@schedules.command("list", example="tickwork schedules list --json")
@json_option
@url_option
@pass_session
def list_schedules(session: Invocation, /, as_json: bool) -> None:
    """List all schedules, with their next occurrence."""
    app = session.app()
    views, now, calendars = list(app.schedules.views()), app.store.now(), app.calendars()
    undeclared = set(app.schedules.undeclared())
    print_items(
        as_json,
        views,
        none="No schedules yet. Declare one with @app.task(schedule=...), or in a file: tickwork apply FILE",
        titles=["NAME", "STATE", "NEXT", "TARGET", "WHEN"],
        row=lambda view: _row(view, now, calendars, undeclared),
        to_json=lambda view: _schedule_json(view, now, calendars, undeclared),
    )
    if undeclared and not as_json:
        click.echo(f"\n{_undeclared_note(sorted(undeclared))}", err=True)


def _row(view: ScheduleView, now: datetime, calendars: Calendars, undeclared: set[str]) -> Row:
    from tickwork.core.schedule.upcoming import state_of, upcoming

    spec = view.spec
    state, dues = state_of(spec, view.standing, now, calendars), upcoming(spec, view.standing, 1, now, calendars)
    shown = "undeclared" if view.name in undeclared and state == "active" else state
    next_due = ago(dues[0], now) if dues and state != "paused" else ""
    return [view.name, state_text(shown), next_due, spec.target, spec.rule.explain()]


def _undeclared_note(names: Sequence[str]) -> str:
    return (
        f"No live worker's code declares {', '.join(names)} any more; it still fires. "
        f"Delete it: tickwork schedules delete {names[0]}"
    )


def _schedule_json(view: ScheduleView, now: datetime, calendars: Calendars, undeclared: set[str]) -> dict[str, Any]:
    from tickwork.core.schedule.upcoming import state_of, upcoming

    dues = upcoming(view.spec, view.standing, 1, now, calendars)
    return {
        **spec_json(view.spec),
        "state": state_of(view.spec, view.standing, now, calendars),
        "is_declared": view.is_declared,
        "is_undeclared": view.name in undeclared,
        "next_due_at": next(iter(dues), None),
        "run_count": view.standing.run_count,
        "live_count": view.standing.live_count,
        "handled_at": view.standing.handled_at,
        "paused_at": view.paused_at,
        "paused_until": view.paused_until,
        "paused_by": view.paused_by,
        "paused_why": view.paused_why,
        "created_at": view.created_at,
        "edited_at": view.edited_at,
    }


@schedules.command("show", example="tickwork schedules show report")
@click.argument("name")
@json_option
@url_option
@pass_session
def show(session: Invocation, /, name: str, as_json: bool) -> None:
    """Show a schedule: its rule, policies, and occurrences."""
    app = session.app()
    schedule, undeclared, now = app.schedules[name], set(app.schedules.undeclared()), app.store.now()
    fires, dues = schedule.fires(_SHOWN_FIRES), schedule.next(_SHOWN_NEXT)
    if as_json:
        print_json({**_schedule_json(schedule.view, now, app.calendars(), undeclared), "next": dues, "fires": fires})
        return
    from tickwork.cli.schedules.schedule_page import print_schedule

    print_schedule(schedule.view, schedule.state, dues, fires, now)
    if name in undeclared:
        click.echo(f"\n{_undeclared_note([name])}", err=True)


@schedules.command("next", example="tickwork schedules next report -n 10")
@click.argument("name")
@click.option(
    "-n", "count", metavar="N", type=click.IntRange(1, 1000), default=5, show_default=True, help="Number of times."
)
@json_option
@url_option
@pass_session
def next_dues(session: Invocation, /, name: str, count: int, as_json: bool) -> None:
    """List the next due times of a schedule. Days with clock changes are marked."""
    from zoneinfo import ZoneInfo

    from tickwork.core.schedule.upcoming import clock_change

    app = session.app()
    schedule, now = app.schedules[name], app.store.now()
    dues, zone = schedule.next(count), schedule.spec.rule.zone
    if as_json:
        print_json({"items": [{"due_at": due, "clock_change": clock_change(zone, due)} for due in dues]})
    elif not dues:
        click.echo(f"No more occurrences of {name}{_because(schedule)}.")
    else:
        rows = [
            [
                due.astimezone(ZoneInfo(zone)).strftime("%a %Y-%m-%d %H:%M:%S %Z"),
                ago(due, now),
                clock_change(zone, due) or "",
            ]
            for due in dues
        ]
        print_table(["DUE", "", "CLOCKS"], rows)


def _because(schedule: Schedule) -> str:
    return " until its active run has ended" if schedule.view.standing.live_count else ""


@schedules.command("run", example="tickwork schedules run report")
@click.argument("name")
@json_option
@url_option
@pass_session
def run(session: Invocation, /, name: str, as_json: bool) -> None:
    """Start the target of a schedule now, in addition to its rule. The schedule itself does not change."""
    app = session.app()
    schedule = app.schedules[name]
    job = recorded(
        app,
        "trigger_schedule",
        schedule.run,
        lambda job: [AuditedChange(f"schedule {name}", after={"started": job.id})],
    )
    print_result(as_json, {"id": job.id}, job.id)


@schedules.command("pause", example='tickwork schedules pause report --until 2h --reason "the provider is down"')
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--reason", metavar="TEXT", help="Reason that is shown with held jobs.")
@click.option("--until", metavar="WHEN", help="Time to resume: a duration from now, or an instant.")
@json_option
@url_option
@pass_session
@click.pass_context
def pause(
    ctx: click.Context,
    session: Invocation,
    /,
    names: tuple[str, ...],
    reason: str | None,
    until: str | None,
    as_json: bool,
) -> None:
    """Pause schedules: they start no more jobs. Running jobs continue."""
    from tickwork.core.limits.gates import read_until

    ends = read_until(until)
    who = getpass.getuser()
    _act(ctx, session, names, lambda one: one.pause(reason, by=who, until=ends), ("pause_schedule", "paused"), as_json)


@schedules.command("resume", example="tickwork schedules resume report")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@json_option
@url_option
@pass_session
@click.pass_context
def resume(ctx: click.Context, session: Invocation, /, names: tuple[str, ...], as_json: bool) -> None:
    """Resume paused schedules.

    Occurrences that came due meanwhile were missed: their catch-up policy decides about them.
    """
    _act(ctx, session, names, lambda one: one.resume(), ("resume_schedule", "resumed"), as_json)


@schedules.command("delete", example="tickwork schedules delete report")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@json_option
@url_option
@pass_session
@click.pass_context
def delete(ctx: click.Context, session: Invocation, /, names: tuple[str, ...], as_json: bool) -> None:
    """Delete schedules and their fire records. Their jobs continue; code that declares a schedule creates it again."""
    _act(ctx, session, names, lambda one: one.delete(), ("delete_schedule", "deleted"), as_json)


def _act(
    ctx: click.Context,
    session: Invocation,
    names: Sequence[str],
    act: Callable[[Schedule], bool],
    action: tuple[str, str],
    as_json: bool,
) -> None:
    """Apply an action to schedules, all of which must exist; exit with 1 if any stayed as it was."""
    app = session.app()
    found = _found(app, names)
    (name_of_action, verb), changed = action, []
    for one in found:
        if recorded(app, name_of_action, partial(act, one), partial(_told, app, one.name, _said(one.view))):
            changed.append(one.name)
    left = [one.name for one in found if one.name not in changed]
    if as_json:
        print_json({verb: changed, "unchanged": left})
    elif changed:
        click.echo(f"{verb.capitalize()} {', '.join(changed)}.")
    for name in left:
        click.echo(f"error: {name} was not {verb}: already {verb}.", err=True)
    if left:
        ctx.exit(FAILURE)


def _told(app: Tickwork, name: str, before: dict[str, Any], _: bool) -> list[AuditedChange]:
    view = app.store.schedules.get_schedules([name]).get(name)
    return [AuditedChange(f"schedule {name}", before, None if view is None else _said(view))]


def _said(view: ScheduleView) -> dict[str, Any]:
    """Return a schedule and its pause, for the audit log."""
    pause = {"until": view.paused_until, "by": view.paused_by, "reason": view.paused_why}
    return {"spec": spec_json(view.spec), "paused": view.paused_at is not None, **pause}


def _found(app: Tickwork, names: Sequence[str]) -> list[Schedule]:
    views = app.store.schedules.get_schedules(names)
    missing = [name for name in names if name not in views]
    if missing:
        raise ScheduleNotFound(f"there is no schedule {missing[0]!r}. List the schedules: tickwork schedules list")
    return [app.schedules.handle(views[name]) for name in dict.fromkeys(names)]


@schedules.command(
    "backfill",
    example="tickwork schedules backfill report 2026-11-01 2026-11-08T12:00:00+01:00 --max-parallel 4 --dry-run",
)
@click.argument("name")
@click.argument("start", metavar="FROM")
@click.argument("end", metavar="TO")
@click.option(
    "--max-parallel", metavar="N", type=click.IntRange(1, 1000), default=1, show_default=True, help="Jobs at a time."
)
@click.option("--force", is_flag=True, help="Repeat occurrences that an earlier backfill completed, too.")
@click.option("--dry-run", is_flag=True, help="List the occurrences without starting them.")
@json_option
@url_option
@pass_session
@click.pass_context
def backfill(
    ctx: click.Context,
    session: Invocation,
    /,
    name: str,
    start: str,
    end: str,
    max_parallel: int,
    force: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Run a schedule for its occurrences from FROM to TO.

    The oldest occurrence runs first, and the command waits for the jobs. FROM and TO are instants; without an offset,
    in the zone of the schedule's rule. An occurrence that was backfilled in the last 30 days is not run again, unless
    its job failed, or with --force. With wait_for_previous, the backfill stops at the first occurrence that does not
    succeed.
    """
    app = session.app()
    schedule = app.schedules[name]
    zone = schedule.spec.rule.zone
    dues = schedule.occurrences(_instant(start, zone), _instant(end, zone))
    if dry_run:
        _print_dues(dues, as_json)
        return
    asked = {"from": start, "to": end, "occurrences": len(dues), "force": force}
    # Jobs are enqueued one after the other, as earlier ones end: each has a creator, and this row of the audit log
    # comes first.
    recorded(app, "backfill_schedule", lambda: None, AuditedChange(f"schedule {name}", after={"backfill": asked}))
    outcomes = _run_backfill(schedule.backfilling(dues, max_parallel, force=force), schedule.name, len(dues))
    states = Counter(one.state for one in outcomes if one.state is not None)
    left = len(outcomes) - states.total()
    if as_json:
        items = [
            {"due_at": one.due_at, "job_id": one.job.id if one.job else None, "state": one.state, "is_new": one.is_new}
            for one in outcomes
        ]
        print_json({"occurrences": len(dues), "states": states, "items": items})
    else:
        counts = [*sorted(states.items()), *([("not started", left)] if left else [])]
        told = ", ".join(f"{count:,} {state}" for state, count in counts)
        before = sum(one.job is not None and not one.is_new for one in outcomes)
        again = f" Of these, {before:,} had a job by an earlier backfill (--force runs all again)." if before else ""
        click.echo(f"{count_of(len(dues), 'occurrence')}{f': {told}' if told else ''}.{again}")
    if left:
        click.echo(f"error: {_stopped(outcomes, left)}", err=True)
    if any(state != "succeeded" for state in states):
        ctx.exit(FAILURE)


def _stopped(outcomes: Sequence[BackfillOutcome], left: int) -> str:
    """Return at which occurrence a backfill stopped, and how to resume it."""
    last = [one for one in outcomes if one.job is not None][-1]
    id = last.job.id if last.job is not None else None
    leave_out = (
        f" To leave it out, discard it before that: tickwork dead discard {id}" if last.state == "failed" else ""
    )
    return (
        f"the occurrence {utc(last.due_at)} did not succeed (job {id}, {last.state}), and the schedule has "
        f"wait_for_previous: {count_of(left, 'later occurrence')} not started. Correct the cause and repeat the "
        f"command, which runs that job again and goes on.{leave_out}"
    )


def _print_dues(dues: Sequence[datetime], as_json: bool) -> None:
    print_result(as_json, {"items": dues}, "\n".join(map(utc, dues)))
    if not as_json:
        click.echo(f"{count_of(len(dues), 'occurrence')}; nothing was started.", err=True)


def _run_backfill(backfill: Backfill, name: str, total: int) -> list[BackfillOutcome]:
    """Run a backfill, with a progress bar on a terminal; return the outcome of each occurrence, oldest first."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    outcomes: list[BackfillOutcome] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), disable=not console().is_terminal)
    with bar:
        task = bar.add_task(name, total=total)
        for one in backfill.steps():
            outcomes.append(one)
            bar.advance(task)
    return sorted(outcomes, key=lambda one: one.due_at)


def _instant(text: str, zone: str) -> datetime:
    """Return an instant; without an offset, in this zone. Raises InvalidInput."""
    from zoneinfo import ZoneInfo

    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"{text!r} is not an instant; write one like 2026-11-01 or 2026-11-01T12:00+01:00."
        ) from None
    return (instant if instant.tzinfo is not None else instant.replace(tzinfo=ZoneInfo(zone))).astimezone(UTC)
