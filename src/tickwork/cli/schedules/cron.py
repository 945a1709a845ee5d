"""`tickwork cron`: explain a cron expression, and list its next occurrences."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.command import Group, json_option
from tickwork.cli.declare.read_files import print_remarks
from tickwork.cli.output import ago, console, print_json, print_table
from tickwork.core.text.terminal_escape import clean
from tickwork.errors import InvalidOption

if TYPE_CHECKING:
    from rich.console import Console

    from tickwork.cli.output import Row
    from tickwork.core.recurrence.cron import Cron
    from tickwork.core.schedule.upcoming import PreviewedOccurrence

_ODD = "bold yellow"  # a day on which clocks change


@click.group(cls=Group, example='tickwork cron explain "30 2 * * MON-FRI" --tz Europe/Berlin')
def cron() -> None:
    """Explain cron expressions."""


@cron.command(
    "explain",
    example='tickwork cron explain "30 2 * * MON-FRI" --tz Europe/Berlin\n'
    'tickwork cron explain "0 0 12 ? * 6#3 2027" --dialect quartz --next 5\n'
    'tickwork cron explain "H H(0-5) * * *" --name backup',
)
@click.argument("expression")
@click.option("--tz", metavar="ZONE", default="UTC", show_default=True, help="Time zone: Europe/Berlin.")
@click.option(
    "--dialect",
    type=click.Choice(["standard", "quartz", "aws"]),
    default="standard",
    show_default=True,
    help="Syntax of the fields.",
)
@click.option(
    "--dst",
    type=click.Choice(["once", "skip", "both", "shift"]),
    default="once",
    show_default=True,
    help="Policy for times that clocks skip or repeat.",
)
@click.option(
    "--next", "count", metavar="N", type=click.IntRange(0, 1000), default=20, show_default=True, help="Number of times."
)
@click.option("--name", metavar="NAME", help="Name of the schedule, from which H is computed.")
@json_option
def explain(expression: str, tz: str, dialect: Any, dst: Any, count: int, name: str | None, as_json: bool) -> None:
    """Explain EXPRESSION in words, and list its next times. Days with clock changes are marked."""
    from tickwork.clock import SystemClock
    from tickwork.core.recurrence.cron import cron as make
    from tickwork.core.schedule.upcoming import preview
    from tickwork.store.rows.instants import from_us

    rule = make(expression, tz=tz, dialect=dialect, dst=dst, name=name)
    if rule.needs_name:
        raise InvalidOption(f"cron {expression!r}: H is spread by the name of the schedule; say it: --name NAME")
    now = from_us(SystemClock().wall_us())
    shown = preview(rule, count, after=now)
    if as_json:
        print_json(_plain(rule, shown))
        return
    if rule.idle_dst is not None:
        print_remarks([f"{rule.idle_dst}."])
    out = console()
    out.print(clean(f"{rule.explain()}."), soft_wrap=not out.is_terminal)
    if shown:
        click.echo()
        _print_occurrences(shown, now, out)
    elif count:
        click.echo("No further occurrences.")


def _plain(rule: Cron, shown: Sequence[PreviewedOccurrence]) -> dict[str, Any]:
    return {
        "expression": rule.expression,
        "tz": rule.tz,
        "dialect": rule.dialect,
        "dst": rule.dst,
        "explanation": rule.explain(),
        "warning": rule.idle_dst,
        "next": [
            {"due_at": one.due_at, "local": one.local.isoformat(), "clock_change": one.clock_change} for one in shown
        ],
    }


def _print_occurrences(shown: Sequence[PreviewedOccurrence], now: datetime, out: Console) -> None:
    """Print a row for each occurrence; the column of clock changes only if there is one."""
    odd = any(one.clock_change for one in shown)
    titles = ["DAY", "DATE", "TIME", "OFFSET", "AWAY", *(["CLOCKS CHANGE"] if odd else [])]
    print_table(titles, [_row(one, now, odd) for one in shown], out)


def _row(one: PreviewedOccurrence, now: datetime, odd: bool) -> Row:
    from rich.text import Text

    style = _ODD if one.clock_change else ""
    cells = [
        one.local.strftime("%a"),
        one.local.strftime("%Y-%m-%d"),
        one.local.strftime("%H:%M:%S" if one.local.second else "%H:%M"),
        one.local.isoformat()[-6:],
        ago(one.due_at, now),
        *([one.clock_change or ""] if odd else []),
    ]
    return [Text(cell, style=style) for cell in cells]
