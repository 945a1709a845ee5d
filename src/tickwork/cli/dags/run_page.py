"""Read a run from the store, and print its details page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from tickwork.api.runs import Run
from tickwork.cli.jobs.job_page import shown_json, shown_occurrence
from tickwork.cli.output import (
    about,
    console,
    instant_and_age,
    print_error,
    print_facts,
    print_head,
    print_table,
    short_error,
    state_text,
)
from tickwork.core.dag.overview import StepLine
from tickwork.core.job import JobState, JobView

if TYPE_CHECKING:
    from tickwork.cli.output import Row

STEP_TITLES = ("STEP", "STATE", ">DONE", ">TOOK", "NOTE")
_STEPS_SHOWN = 100
_ERRORS_READ = 100
# states not listed here are failures, with rank 0
_RANKS = {"running": 1, "queued": 2, "succeeded": 4, "waiting": 5, "skipped": 6}


@dataclass(frozen=True, slots=True)
class RunSnapshotView:
    """A run as read from the store. `errors` are those of some failed steps, `asks` the texts of open approvals."""

    view: JobView
    lines: list[StepLine]
    errors: dict[str, str]
    asks: dict[str, str]
    why: str
    now: datetime

    @classmethod
    def of(cls, run: Run) -> RunSnapshotView:
        """Read a run. The run is read before its steps, so if it has ended, they have, too."""
        view, lines = run.view, run.overview()
        went_wrong = any(line.is_over and line.state not in ("succeeded", "skipped") for line in lines)
        store = run._client.store
        errors = dict(store.dags.run_failures(run.id, _ERRORS_READ)) if went_wrong else {}
        asks = {line.name: run.why(line.name) for line in lines if line.is_asking}
        return cls(view, lines, errors, asks, _why(run, view, lines), store.now())

    @property
    def took(self) -> timedelta:
        """The duration of the run, until now if it has not ended."""
        began = self.view.started_at or self.now
        return max(timedelta(0), (self.view.ended_at or self.now) - began)

    @property
    def done(self) -> float:
        """The number of steps that have ended. Mapped steps count in part, by their ended instances."""
        return sum(1.0 if line.is_over else line.ended / line.total if line.total else 0.0 for line in self.lines)

    def row(self, line: StepLine) -> Row:
        """Return the cells of a step under STEP_TITLES."""
        took = line.took(self.now)
        done = f"{line.ended:,}/{line.total:,}" if line.is_mapped and line.total else ""
        return [line.name, state_text(line.state), done, "" if took is None else about(took), self._note(line)]

    def _note(self, line: StepLine) -> str:
        if line.is_asking:
            return self.asks[line.name]
        bad = f"{line.bad:,} without success" if line.is_mapped and line.bad else ""
        told = line.reason or short_error(self.errors.get(line.name))
        return ": ".join(part for part in (bad, told) if part)


def _why(run: Run, view: JobView, lines: Sequence[StepLine]) -> str:
    """Return what the run does; if all open steps are queued, what the first one waits for."""
    states = {line.state for line in lines}
    if view.state is JobState.RUNNING and "queued" in states and "running" not in states:
        first = next(line.name for line in lines if line.state == "queued")
        return f"{first}: {run.why(first)}"
    return run.why()


def choose(lines: Sequence[StepLine], room: int) -> tuple[list[StepLine], str]:
    """Return at most `room` steps in their order, and a text that counts the others.

    Steps that failed, run or wait for approval are chosen first.
    """
    if len(lines) <= room:
        return list(lines), ""
    ended = [line.ended_at.timestamp() if line.ended_at else 0.0 for line in lines]
    ranks = [(1 if line.is_asking else _RANKS.get(line.state, 0), -ended[at], at) for at, line in enumerate(lines)]
    chosen = {at for _, _, at in sorted(ranks)[:room]}
    rest = Counter(line.state for at, line in enumerate(lines) if at not in chosen)
    told = ", ".join(f"{count:,} {state}" for state, count in sorted(rest.items()))
    return [line for at, line in enumerate(lines) if at in chosen], f"... and {told}"


def print_run(picture: RunSnapshotView) -> None:
    """Print the page."""
    view, out = picture.view, console()
    why = f"{picture.why[:1].upper()}{picture.why[1:]}".rstrip(".")
    print_head(out, view.task, state_text(view.state), view.id, f"{why}.")
    print_facts(out, _facts(picture))
    click.echo()
    lines, rest = choose(picture.lines, _STEPS_SHOWN)
    print_table(STEP_TITLES, [picture.row(line) for line in lines], out)
    if rest:
        click.echo(f"{rest}; all with --json")
    print_error(out, view.error)


def _facts(picture: RunSnapshotView) -> list[tuple[str, str | None]]:
    """Return the facts about a run that are shown above its steps."""
    view, now = picture.view, picture.now
    has_started = view.started_at is not None
    return [
        ("version", f"{view.version}{f', generation {view.attempt}' if view.attempt > 1 else ''}"),
        ("parameters", shown_json(view.args)),
        ("result", None if view.result is None else shown_json(view.result)),
        ("schedule", shown_occurrence(view)),
        ("created", instant_and_age(view.created_at, now)),
        ("created by", view.creator),
        ("started", instant_and_age(view.started_at, now)),
        ("took", f"{about(picture.took)}{'' if view.state.ended else ' so far'}" if has_started else None),
        ("due", None if has_started else instant_and_age(view.run_at, now)),
        ("key", view.key),
        ("collection", view.collection),
        ("labels", ", ".join(view.labels)),
        ("tenant", None if view.job_limits is None else view.job_limits.tenant),
    ]
