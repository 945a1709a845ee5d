"""Print the details page of a schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import click
from rich.text import Text

from tickwork.cli.jobs.job_page import print_fact, shown_json
from tickwork.cli.output import ago, console, print_table, state_text, utc
from tickwork.core.schedule.policy import SchedulePolicies
from tickwork.core.schedule.spec import spec_json
from tickwork.core.text.duration import format_duration
from tickwork.core.text.terminal_escape import clean
from tickwork.store.schedules import FireView, ScheduleView

if TYPE_CHECKING:
    from tickwork.cli.output import Row


def print_schedule(
    view: ScheduleView, state: str, dues: Sequence[datetime], fires: Sequence[FireView], now: datetime
) -> None:
    """Print the page."""
    out = console()
    out.print(Text.assemble((clean(view.name), "bold"), "  ", state_text(state), "  ", (view.spec.target, "dim")))
    out.print(Text(f"{clean(view.spec.rule.explain())}."), soft_wrap=not out.is_terminal)
    click.echo()
    for name, value in _facts(view, dues, now):
        print_fact(out, name, value)
    if fires:
        click.echo()
        print_table(["DUE", "ACTION", "FIRED", "JOB", "REASON"], [_fire_row(fire) for fire in fires], out)


def _facts(view: ScheduleView, dues: Sequence[datetime], now: datetime) -> Iterator[tuple[str, str]]:
    """Yield the facts about a schedule that are shown above its fires."""
    spec, policies = view.spec, view.spec.policies
    if spec.description:
        yield "about", spec.description
    if view.paused_at is not None:
        by = f" by {view.paused_by}" if view.paused_by else ""
        ends = "" if view.paused_until is None else f", until {utc(view.paused_until)}"
        yield "paused", f"{ago(view.paused_at, now)}{by}{ends}{f': {view.paused_why}' if view.paused_why else ''}"
    for at, due in enumerate(dues):
        local = due.astimezone(ZoneInfo(spec.rule.zone)).strftime("%a %Y-%m-%d %H:%M:%S %Z")
        yield "next" if at == 0 else "", f"{local}, {ago(due, now)}"
    yield "arguments", shown_json(spec.args.encode())
    yield "catch-up", _catchup(policies)
    yield "overlap", policies.overlap
    for name, value in (("jitter", policies.jitter), ("window", policies.window), ("deadline", policies.deadline)):
        if value:
            yield name, format_duration(value)
    for name, instant in (("start", policies.start), ("end", policies.end)):
        if instant is not None:
            yield name, utc(instant)
    if policies.wait_for_previous:
        yield "starts", "when the run before has succeeded"
    if spec.calendar_names:
        yield "calendars", ", ".join(spec.calendar_names)
    for name, said in spec_json(spec)["options"].items():
        yield name, str(said)
    most = f" of {policies.max_runs:,}" if policies.max_runs is not None else ""
    waits = f", {len(view.standing.waiting)} waiting" if view.standing.waiting else ""
    yield "runs", f"{view.standing.run_count:,}{most}, {view.standing.live_count} live{waits}"
    yield "made", f"{ago(view.created_at, now)}{', declared by code' if view.is_declared else ''}"
    if view.edited_at != view.created_at:
        yield "edited", ago(view.edited_at, now)


def _catchup(policies: SchedulePolicies) -> str:
    if policies.catchup != "all":
        return policies.catchup
    return f"all, the newest {policies.catchup_limit:,} of the last {format_duration(policies.catchup_age)}"


def _fire_row(fire: FireView) -> Row:
    action = f"{fire.action}, catch-up" if fire.is_catchup else fire.action
    late = fire.fired_at - fire.due_at
    return [utc(fire.due_at), action, f"after {format_duration(late)}", fire.job_id or "", fire.reason or ""]
