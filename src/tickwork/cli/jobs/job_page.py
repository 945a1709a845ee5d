"""Print the details page of a job."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from tickwork.cli.output import about, ago, console, print_table, short_error, state_text, step_name, stored_json, utc
from tickwork.core.blob_ref import reference_in
from tickwork.core.job import AttemptView, JobView, WorkerView
from tickwork.core.limits.job_limits import JobLimits
from tickwork.core.text.duration import format_duration
from tickwork.core.text.terminal_escape import clean, clean_lines

if TYPE_CHECKING:
    from tickwork.cli.output import Row

_FACTS_WIDTH = 12
_VALUE_LIMIT = 2000  # the most characters of arguments or a result that are shown


def print_job(
    view: JobView, attempts: Sequence[AttemptView], why: str, workers: Sequence[WorkerView], now: datetime
) -> None:
    """Print the page."""
    out = console()
    out.print(Text.assemble((clean(view.task), "bold"), "  ", state_text(view.state), "  ", (view.id, "dim")))
    out.print(Text(f"{clean(why[:1].upper() + why[1:])}."), soft_wrap=not out.is_terminal)
    click.echo()
    for name, value in _facts(view, now):
        print_fact(out, name, value)
    if attempts:
        click.echo()
        _print_attempts(attempts, {worker.id: worker.name for worker in workers}, now, out)
    if view.error:
        click.echo()
        out.print(Text("Error", style="bold"))
        out.print(Text(clean_lines(view.error), style="red"), soft_wrap=True)


def _facts(view: JobView, now: datetime) -> Iterator[tuple[str, str]]:
    """Yield the facts about a job that are shown above its attempts."""
    yield "arguments", shown_json(view.args)
    if view.result is not None:
        yield "result", shown_json(view.result)
    yield from _place(view)
    yield "queue", f"{view.queue}, priority {view.priority}"
    yield "created", f"{utc(view.created_at)}, {ago(view.created_at, now)}"
    if view.creator is not None:
        yield "created by", view.creator
    yield "due", f"{utc(view.run_at)}, {ago(view.run_at, now)}"
    if view.occurrence is not None:
        what = ", missed and caught up with" if view.occurrence.is_catchup else ""
        yield "schedule", f"{view.occurrence.schedule}, for {utc(view.occurrence.scheduled_for)}{what}"
    if view.expires_at is not None:
        yield "expires", f"{utc(view.expires_at)}, {ago(view.expires_at, now)}"
    if view.ended_at is not None:
        yield "ended", f"{utc(view.ended_at)}, {ago(view.ended_at, now)}"
    if view.progress is not None:
        yield "progress", f"{view.progress:.0%} {view.progress_note or ''}"
    yield "retries", _retries(view)
    if view.policy.timeout is not None:
        yield "timeout", format_duration(view.policy.timeout)
    for name, value in (("key", view.key), ("collection", view.collection), ("parent", view.parent)):
        if value:
            yield name, value
    if view.labels:
        yield "labels", ", ".join(view.labels)
    if view.job_limits is not None:
        yield from _flow(view.job_limits)
    if view.discarded:
        yield "discarded", "yes: it is not among the dead letters any more"


def _place(view: JobView) -> Iterator[tuple[str, str]]:
    """Yield the run that a job is a step of, or the version of the dag that it is a run of."""
    if view.run is not None:
        yield "step", f"{step_name(view)} of run {view.run}"
    if view.version is not None:
        yield "dag", f"a run of version {view.version}; its steps: tickwork runs show {view.id}"


def _flow(job_limits: JobLimits) -> Iterator[tuple[str, str]]:
    for name, value in (("tenant", job_limits.tenant), ("needs", job_limits.needs)):
        if value:
            yield name, value
    limits = [
        f"{limit}{f' for {key}' if key else ''}{f', weight {weight:,}' if weight > 1 else ''}"
        for limit, key, weight in job_limits.uses
    ]
    if limits:
        yield "limits", "; ".join(limits)


def _retries(view: JobView) -> str:
    told = [f"{view.failures} of {view.policy.retry.retries + 1} tries failed"]
    if view.crashes:
        told.append(f"{view.crashes} crashed")
    if view.losses:
        told.append(f"{view.losses} lost in a row{', so it runs alone in its worker' if view.is_exclusive else ''}")
    return ", ".join(told)


def print_fact(out: Console, name: str, value: str) -> None:
    """Print a name and its value in two columns, the value wrapped on a terminal."""
    text = Text(clean(value.strip()))
    lines = text.wrap(out, max(20, out.width - _FACTS_WIDTH)) if out.is_terminal else [text]
    for at, line in enumerate(lines):
        out.print(Text.assemble((f"{name if at == 0 else '':<{_FACTS_WIDTH}}", "dim"), line), soft_wrap=True)


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
