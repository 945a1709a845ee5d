"""Watch a run until it ends: a live screen on a terminal, elsewhere a line for each change."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tickwork.api.runs import Run
from tickwork.cli.command import FAILURE, OK
from tickwork.cli.dags.run_page import STEP_TITLES, RunSnapshotView, choose
from tickwork.cli.output import about, console, count_of, rfc3339, state_text
from tickwork.clock import SystemClock
from tickwork.core.dag.overview import StepLine
from tickwork.core.job import JobState
from tickwork.core.text.terminal_escape import clean

_LOOK_S = 0.25
_SHARE = 4  # wait this many times as long as a read took: reading a run with 10,000 steps takes time
_FRAME_LINES = 7  # lines of the screen besides the steps
_BAR = 30


def watch_run(run: Run) -> int:
    """Show a run until it has ended. Return the exit code for its end."""
    out = console()
    picture = _watch_on_screen(run, out) if out.is_terminal else _watch_in_lines(run)
    click.echo(_summary(picture))
    return OK if picture.view.state is JobState.SUCCEEDED else FAILURE


def _watch_on_screen(run: Run, out: Console) -> RunSnapshotView:
    with Live(console=out, auto_refresh=False, vertical_overflow="crop") as live:
        for picture in _looks(run):
            live.update(_screen(picture, out), refresh=True)
    return picture


def _watch_in_lines(run: Run) -> RunSnapshotView:
    """Print a line for each change of a step's state, until the run has ended."""
    known: dict[str, str] = {}
    for picture in _looks(run):
        for line in picture.lines:
            if line.state != known.get(line.name, "waiting"):
                _print_change([rfc3339(picture.now), *(str(cell) for cell in picture.row(line))])
                known[line.name] = line.state
    return picture


def _looks(run: Run) -> Iterator[RunSnapshotView]:
    """Yield the run as read from the store, repeatedly, until it has ended."""
    clock = SystemClock()
    while True:
        began_s = clock.monotonic()
        picture = RunSnapshotView.of(run)
        yield picture
        if picture.view.state.ended:
            return
        threading.Event().wait(max(_LOOK_S, _SHARE * (clock.monotonic() - began_s)))


def _print_change(cells: list[str]) -> None:
    at, name, state, done, took, note = map(clean, cells)
    told = "  ".join(part for part in (f"{name} {state}", done, took, note) if part)
    click.echo(f"{at}  {told}")


def _screen(picture: RunSnapshotView, out: Console) -> RenderableType:
    """Return the live screen: head, progress bar, as many steps as fit, and what the run waits for."""
    view = picture.view
    lines, rest = choose(picture.lines, max(3, out.height - _FRAME_LINES))
    head = Text.assemble((clean(view.task), "bold"), "  ", state_text(view.state), "  ", (view.id, "dim"))
    parts: list[RenderableType] = [head, _bar(picture), _steps(picture, lines)]
    if rest:
        parts.append(Text(rest, style="dim"))
    if not view.state.ended and not any(line.state == JobState.RUNNING for line in picture.lines):
        parts.append(Text(clean(picture.why), style="dim", no_wrap=True, overflow="ellipsis"))
    return Group(*parts)


def _bar(picture: RunSnapshotView) -> Table:
    total, failed = len(picture.lines), picture.view.state not in (JobState.RUNNING, JobState.SUCCEEDED)
    style = "red" if failed and picture.view.state.ended else "green"
    bar = ProgressBar(
        total=max(1, total), completed=picture.done, width=_BAR, complete_style=style, finished_style=style
    )
    grid = Table.grid(padding=(0, 2, 0, 0))
    over = sum(line.is_over for line in picture.lines)
    grid.add_row(bar, f"{over:,} of {count_of(total, 'step')}", Text(about(picture.took), style="dim"))
    return grid


def _steps(picture: RunSnapshotView, lines: Sequence[StepLine]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in STEP_TITLES:
        last = title == STEP_TITLES[-1]
        table.add_column(
            title.lstrip(">"),
            justify="right" if title.startswith(">") else "left",
            no_wrap=True,
            overflow="ellipsis",
            max_width=None if last else 36,
            min_width={"STATE": 9, "TOOK": 5}.get(title.lstrip(">")),
            ratio=1 if last else None,
        )
    for line in lines:
        table.add_row(*(cell if isinstance(cell, Text) else clean(cell) for cell in picture.row(line)))
    return table


def _summary(picture: RunSnapshotView) -> str:
    return f"{clean(picture.view.task)} {picture.view.state} in {about(picture.took)}"
