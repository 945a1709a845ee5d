"""Print the details page of a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import click

from tickwork.cli.jobs.job_page import shown_json
from tickwork.cli.output import ago, console, print_facts, print_head, print_table, state_text, utc
from tickwork.core.schedule.policy import SchedulePolicies
from tickwork.core.schedule.spec import spec_json
from tickwork.core.text.duration import format_duration
from tickwork.store.schedules import FireView, ScheduleView

if TYPE_CHECKING:
    from tickwork.cli.output import Row


def print_schedule(
    view: ScheduleView, state: str, dues: Sequence[datetime], fires: Sequence[FireView], now: datetime
) -> None:
    """Print the page."""
    out = console()
    print_head(out, view.name, state_text(state), view.spec.target, f"{view.spec.rule.explain()}.")
    print_facts(out, _facts(view, dues, now))
    if fires:
        click.echo()
        print_table(["DUE", "ACTION", "FIRED", "JOB", "REASON"], [_fire_row(fire) for fire in fires], out)


def _facts(view: ScheduleView, dues: Sequence[datetime], now: datetime) -> list[tuple[str, str | None]]:
    """Return the facts about a schedule that are shown above its fires."""
    spec, policies, standing = view.spec, view.spec.policies, view.standing
    zone = ZoneInfo(spec.rule.zone)
    local = [f"{due.astimezone(zone).strftime('%a %Y-%m-%d %H:%M:%S %Z')}, {ago(due, now)}" for due in dues]
    spans = (("jitter", policies.jitter), ("window", policies.window), ("deadline", policies.deadline))
    most = f" of {policies.max_runs:,}" if policies.max_runs is not None else ""
    waits = f", {len(standing.waiting)} waiting" if standing.waiting else ""
    return [
        ("about", spec.description),
        ("paused", _paused(view, now)),
        *(("next" if at == 0 else "", due) for at, due in enumerate(local)),
        ("arguments", shown_json(spec.args.encode())),
        ("catch-up", _catchup(policies)),
        ("overlap", policies.overlap),
        *((name, format_duration(value)) for name, value in spans if value),
        ("start", None if policies.start is None else utc(policies.start)),
        ("end", None if policies.end is None else utc(policies.end)),
        ("starts", "when the previous run has succeeded" if policies.wait_for_previous else None),
        ("calendars", ", ".join(spec.calendar_names)),
        *((name, str(said)) for name, said in spec_json(spec)["options"].items()),
        ("runs", f"{standing.run_count:,}{most}, {standing.live_count} live{waits}"),
        ("created", f"{ago(view.created_at, now)}{', declared by code' if view.is_declared else ''}"),
        ("edited", ago(view.edited_at, now) if view.edited_at != view.created_at else None),
    ]


def _paused(view: ScheduleView, now: datetime) -> str | None:
    if view.paused_at is None:
        return None
    by = f" by {view.paused_by}" if view.paused_by else ""
    ends = "" if view.paused_until is None else f", until {utc(view.paused_until)}"
    return f"{ago(view.paused_at, now)}{by}{ends}{f': {view.paused_why}' if view.paused_why else ''}"


def _catchup(policies: SchedulePolicies) -> str:
    if policies.catchup != "all":
        return policies.catchup
    return f"all, the newest {policies.catchup_limit:,} of the last {format_duration(policies.catchup_age)}"


def _fire_row(fire: FireView) -> Row:
    action = f"{fire.action}, catch-up" if fire.is_catchup else fire.action
    late = fire.fired_at - fire.due_at
    return [utc(fire.due_at), action, f"after {format_duration(late)}", fire.job_id or "", fire.reason or ""]
