"""Print the details page of a job."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click
from rich.console import Console

from tickwork.cli.output import (
    about,
    ago,
    console,
    instant_and_age,
    print_error,
    print_facts,
    print_head,
    print_table,
    short_error,
    state_text,
    step_name,
    stored_json,
    utc,
)
from tickwork.core.blob_ref import reference_in
from tickwork.core.job import AttemptView, JobView, WorkerView
from tickwork.core.text.duration import format_duration

if TYPE_CHECKING:
    from tickwork.cli.output import Row

_VALUE_LIMIT = 2000  # the most characters of arguments or a result that are shown


def print_job(
    view: JobView, attempts: Sequence[AttemptView], why: str, workers: Sequence[WorkerView], now: datetime
) -> None:
    """Print the page."""
    out = console()
    print_head(out, view.task, state_text(view.state), view.id, f"{why[:1].upper()}{why[1:]}.")
    print_facts(out, _facts(view, now))
    if attempts:
        click.echo()
        _print_attempts(attempts, {worker.id: worker.name for worker in workers}, now, out)
    print_error(out, view.error)


def _facts(view: JobView, now: datetime) -> list[tuple[str, str | None]]:
    """Return the facts about a job that are shown above its attempts."""
    limits = view.job_limits
    return [
        ("arguments", shown_json(view.args)),
        ("result", None if view.result is None else shown_json(view.result)),
        ("step", None if view.run is None else f"{step_name(view)} of run {view.run}"),
        ("dag", f"version {view.version}; steps of this run: tickwork runs show {view.id}" if view.version else None),
        ("queue", f"{view.queue}, priority {view.priority}"),
        ("created", instant_and_age(view.created_at, now)),
        ("created by", view.creator),
        ("due", instant_and_age(view.run_at, now)),
        ("schedule", shown_occurrence(view)),
        ("expires", instant_and_age(view.expires_at, now)),
        ("ended", instant_and_age(view.ended_at, now)),
        ("progress", None if view.progress is None else f"{view.progress:.0%} {view.progress_note or ''}"),
        ("retries", _retries(view)),
        ("timeout", None if view.policy.timeout is None else format_duration(view.policy.timeout)),
        ("key", view.key),
        ("collection", view.collection),
        ("parent", view.parent),
        ("labels", ", ".join(view.labels)),
        ("tenant", None if limits is None else limits.tenant),
        ("needs", None if limits is None else limits.needs),
        ("limits", "; ".join(itertools.starmap(_shown_limit, () if limits is None else limits.uses))),
        ("discarded", "yes: it is no longer a dead letter" if view.discarded else None),
    ]


def shown_occurrence(view: JobView) -> str | None:
    """Return the schedule and the occurrence that a job or run is for; None if no schedule made it."""
    if view.occurrence is None:
        return None
    what = ", missed and caught up with" if view.occurrence.is_catchup else ""
    return f"{view.occurrence.schedule}, for {utc(view.occurrence.scheduled_for)}{what}"


def _shown_limit(limit: str, key: str, weight: int) -> str:
    return f"{limit}{f' for {key}' if key else ''}{f', weight {weight:,}' if weight > 1 else ''}"


def _retries(view: JobView) -> str:
    told = [f"{view.failures} of {view.policy.retry.retries + 1} tries failed"]
    if view.crashes:
        told.append(f"{view.crashes} crashed")
    if view.losses:
        told.append(f"{view.losses} lost in a row{', so it runs alone in its worker' if view.is_exclusive else ''}")
    return ", ".join(told)


def _print_attempts(attempts: Sequence[AttemptView], known: dict[str, str], now: datetime, out: Console) -> None:
    rows: list[Row] = [
        [
            str(one.number),
            state_text(one.state),
            ago(one.started_at, now),
            about((one.ended_at or now) - one.started_at),
            known.get(one.worker or "", (one.worker or "")[:8]),
            short_error(one.error),
        ]
        for one in attempts
    ]
    print_table([">TRY", "STATE", "STARTED", "TOOK", "WORKER", "ERROR"], rows, out)


def shown_json(data: bytes) -> str:
    """Return a stored value as text, cut if it is too long. A value in a blob is not read."""
    reference = reference_in(data)
    if reference is not None:
        return f"{reference.size:,} bytes in blob {reference.key} (all with --json)"
    value = stored_json(data)
    text = json.dumps(value, ensure_ascii=False)
    return (
        text if len(text) <= _VALUE_LIMIT else f"{text[:_VALUE_LIMIT]}... ({len(text):,} characters; all with --json)"
    )
