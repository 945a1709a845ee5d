"""Read a run from the store, and print its details page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click
from rich.text import Text

from tickwork.api.runs import Run
from tickwork.cli.jobs.job_page import print_fact, shown_json
from tickwork.cli.output import about, ago, console, print_table, short_error, state_text, utc
from tickwork.core.dag.overview import StepLine
from tickwork.core.job import JobState, JobView
from tickwork.core.text.terminal_escape import clean, clean_lines

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
    out.print(Text.assemble((clean(view.task), "bold"), "  ", state_text(view.state), "  ", (view.id, "dim")))
    out.print(Text(f"{clean(picture.why[:1].upper() + picture.why[1:]).rstrip('.')}."), soft_wrap=not out.is_terminal)
    click.echo()
    for name, value in _facts(picture):
        print_fact(out, name, value)
    click.echo()
    lines, rest = choose(picture.lines, _STEPS_SHOWN)
    print_table(STEP_TITLES, [picture.row(line) for line in lines], out)
    if rest:
        click.echo(f"{rest}; all with --json")
    if view.error:
        click.echo()
        out.print(Text("Error", style="bold"))
        out.print(Text(clean_lines(view.error), style="red"), soft_wrap=True)


def _facts(picture: RunSnapshotView) -> Iterator[tuple[str, str]]:
    """Yield the facts about a run that are shown above its steps."""
    view, now = picture.view, picture.now
    yield "version", f"{view.version}, generation {view.attempt}" if view.attempt > 1 else str(view.version)
    yield "parameters", shown_json(view.args)
    if view.result is not None:
        yield "result", shown_json(view.result)
    if view.occurrence is not None:
        what = ", missed and caught up with" if view.occurrence.is_catchup else ""
        yield "schedule", f"{view.occurrence.schedule}, for {utc(view.occurrence.scheduled_for)}{what}"
    yield "created", f"{utc(view.created_at)}, {ago(view.created_at, now)}"
    if view.creator is not None:
        yield "created by", view.creator
    if view.started_at is not None:
        yield "began", f"{utc(view.started_at)}, {ago(view.started_at, now)}"
        yield "took", about(picture.took) + ("" if view.state.ended else " so far")
    else:
        yield "due", f"{utc(view.run_at)}, {ago(view.run_at, now)}"
    for name, value in (("key", view.key), ("collection", view.collection), ("labels", ", ".join(view.labels))):
        if value:
            yield name, value
    if view.job_limits is not None and view.job_limits.tenant:
        yield "tenant", view.job_limits.tenant
