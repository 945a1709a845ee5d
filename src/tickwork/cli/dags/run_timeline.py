"""Print the timeline of a run as bars."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

import click
from rich.console import Console
from rich.text import Text

from tickwork.cli.output import about, console
from tickwork.core.text.terminal_escape import clean

_NAME, _TIMES = 30, 24  # the most columns for names, and the columns after a bar
_BAR = 60  # when the output is not a terminal
_STEPS_SHOWN = 200


class TimelineBar(NamedTuple):
    """All instances of a step: from the first start to the last end, in seconds since the start of the run."""

    step: str
    starts_s: float
    ends_s: float
    many: int
    is_critical: bool


def print_timeline(timeline: dict[str, Any]) -> None:
    """Print a bar for each step, ordered by start, and the critical path."""
    out, bars = console(), _bars(timeline)
    if not bars:
        click.echo("No step has started yet.")
        return
    name = min(_NAME, max(len(clean(bar.step)) for bar in bars))
    width = max(10, min(out.width - name - _TIMES, 100)) if out.is_terminal else _BAR
    whole = max(timeline["duration_s"], 0.000001)
    for bar in bars[:_STEPS_SHOWN]:
        out.print(_line(bar, name, width, whole), soft_wrap=not out.is_terminal)
    if len(bars) > _STEPS_SHOWN:
        click.echo(f"... and {len(bars) - _STEPS_SHOWN:,} more; all with --json")
    _print_critical(timeline, out)


def _bars(timeline: dict[str, Any]) -> list[TimelineBar]:
    """Return a bar for each step, merged from the bars of its instances."""
    found: dict[str, TimelineBar] = {}
    for one in timeline["bars"]:
        ends = one["offset_s"] + one["duration_s"]
        known = found.get(one["step"], TimelineBar(one["step"], one["offset_s"], ends, 0, False))
        found[one["step"]] = known._replace(
            ends_s=max(known.ends_s, ends), many=known.many + 1, is_critical=known.is_critical or one["is_critical"]
        )
    return list(found.values())


def _line(bar: TimelineBar, name: int, width: int, whole: float) -> Text:
    """Return the line of a bar, scaled to the width."""
    first = min(width - 1, int(bar.starts_s / whole * width))
    long = max(1, min(width - first, round((bar.ends_s - bar.starts_s) / whole * width)))
    style = "bold magenta" if bar.is_critical else "cyan"
    shown = clean(bar.step)
    shown = shown if len(shown) <= name else f"{shown[: name - 1]}…"
    text = Text(f"{shown:<{name}}  ", no_wrap=True, overflow="ellipsis").append(" " * first)
    text.append(("█" if bar.is_critical else "▒") * long, style=style).append(" " * (width - first - long))
    many = f" x{bar.many:,}" if bar.many > 1 else ""
    return text.append(f"  {_seconds(bar.ends_s - bar.starts_s)}{many}", style="dim")


def _print_critical(timeline: dict[str, Any], out: Console) -> None:
    """Print the steps of the critical path and the total duration."""
    parts = []
    for link in timeline["critical_path"]:
        waited = f"(waited {_seconds(link['waited_s'])}) " if link["waited_s"] >= 0.0005 else ""
        parts.append(f"{waited}{clean(link['step'])} {_seconds(link['duration_s'])}")
    click.echo()
    out.print(Text.assemble(("critical  ", "bold magenta"), " -> ".join(parts)), soft_wrap=not out.is_terminal)
    out.print(Text(f"in all    {_seconds(timeline['duration_s'])}"))


def _seconds(seconds: float) -> str:
    return about(timedelta(seconds=seconds))
