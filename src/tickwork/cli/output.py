"""Output of commands: JSON for programs, tables and times for people.

JSON has snake_case keys and RFC 3339 instants in UTC; existing keys stay. Tables fit the width of a terminal; in a pipe
they are as wide as needed, so that no text is cut off.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from tickwork.core.stats.error_groups import last_line
from tickwork.core.text.duration import format_duration
from tickwork.core.text.terminal_escape import SHARED, clean, clean_lines, clean_log

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from tickwork.core.job import JobView, LogChunk

    Row = Sequence[str | Text]

T = TypeVar("T")
_ID_WIDTH = 36
_FACTS_WIDTH = 12
_MODULE = re.compile(r"^(?:\w+\.)+(?=[A-Za-z_]\w*(?:$|: ))")
UNBOUNDED = 100_000  # columns, when the output is not a terminal
STATE_STYLES = {
    "queued": "yellow",
    "running": "cyan",
    "succeeded": "green",
    "failed": "bold red",
    "timed_out": "red",
    "lost": "red",
    "cancelled": "dim",
    "dropped": "dim",
    "expired": "magenta",
    "released": "dim",
    "draining": "yellow",
    "active": "green",
    "paused": "yellow",
    "ended": "dim",
    "undeclared": "bold yellow",
    "waiting": "dim",
    "skipped": "dim",
}


# ---- JSON -----------------------------------------------------------------------------------------------------------


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    click.echo(json.dumps(plain(value), indent=2, ensure_ascii=False))


def print_result(as_json: bool, value: Any, text: str) -> None:
    """Print a value as JSON, or else a text about it."""
    print_json(value) if as_json else click.echo(text)


def print_items(
    as_json: bool,
    items: Sequence[T],
    *,
    none: str,
    titles: Sequence[str],
    row: Callable[[T], Row],
    to_json: Callable[[T], Any] | None = None,
) -> None:
    """Print items as JSON or as a table; without items and JSON, print the text `none`."""
    if as_json:
        print_json({"items": items if to_json is None else [to_json(one) for one in items]})
    elif items:
        print_table(titles, [row(one) for one in items])
    else:
        click.echo(none)


def print_log(chunk: LogChunk, heading: str | None) -> None:
    """Print a part of a log, under a heading if there is one."""
    if heading is not None:
        click.secho(f"--- {clean(heading)} ---", dim=True)
    if chunk.shared:
        click.secho(SHARED, dim=True)
    click.echo(clean_log(chunk.text, colours=sys.stdout.isatty()), nl=False)
    sys.stdout.flush()


def print_json_line(value: Any) -> None:
    """Print a value as JSON on one line, and flush it."""
    click.echo(json.dumps(plain(value), ensure_ascii=False))
    sys.stdout.flush()


def plain(value: Any) -> Any:
    """Return a value in JSON's own types."""
    match value:
        case datetime():
            return rfc3339(value)
        case timedelta():
            return value.total_seconds()
        case Enum():
            return value.value
        case bytes():
            return stored_json(value)
        case Mapping():
            return {str(key): plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {name.name: plain(getattr(value, name.name)) for name in dataclasses.fields(value)}
        case _ if hasattr(value, "__struct_fields__"):
            return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
        case _:
            return value


def stored_json(data: bytes) -> Any:
    """Return stored arguments or a stored result, decoded from JSON; as text if they are damaged."""
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")


def job_json(view: JobView) -> dict[str, Any]:
    """Return a job as JSON. Names of durations in its policy end in their unit."""
    found: dict[str, Any] = plain(view)
    if view.job_limits is not None:
        found["job_limits"]["uses"] = [use._asdict() for use in view.job_limits.uses]
    policy = view.policy
    found["policy"] = plain(
        {
            "retries": policy.retry.retries,
            "backoff_s": policy.retry.base,
            "backoff_factor": policy.retry.factor,
            "backoff_cap_s": policy.retry.cap,
            "timeout_s": policy.timeout,
            "expires_s": policy.expires,
            "key_for_s": policy.key_for,
            "retry_on": policy.retry_on,
            "give_up_on": policy.give_up_on,
            "on_lost": policy.on_lost,
            "max_lost": policy.max_lost,
        }
    )
    return found


def rfc3339(instant: datetime) -> str:
    """Return an instant in RFC 3339 form: 2026-11-15T21:13:54.123456Z."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


# ---- tables, states and times for terminals -------------------------------------------------------------------------


def console() -> Console:
    """Return a console on stdout, as wide as the terminal or unbounded. Colours only on a terminal without NO_COLOR."""
    from rich.console import Console

    terminal = sys.stdout.isatty()
    width = None if terminal else UNBOUNDED
    return Console(highlight=False, markup=False, emoji=False, width=width, force_terminal=terminal, soft_wrap=False)


def print_table(titles: Sequence[str], rows: Iterable[Row], out: Console | None = None) -> None:
    """Print rows under titles; a title that starts with ">" is aligned right.

    Text that is too wide ends in an ellipsis. All columns but the last take at most 36 columns, the width of an id; the
    last one takes the rest.
    """
    from rich.table import Table
    from rich.text import Text

    out = out or console()
    cells = [[cell if isinstance(cell, Text) else Text(clean(cell)) for cell in row] for row in rows]
    widest = _ID_WIDTH if sys.stdout.isatty() else UNBOUNDED
    taken = [
        min(widest, max(len(title), *(row[at].cell_len for row in cells))) + 2 for at, title in enumerate(titles[:-1])
    ]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for at, title in enumerate(titles):
        most = widest if at < len(taken) else max(len(title), out.width - sum(taken))
        justify: Literal["left", "right"] = "right" if title.startswith(">") else "left"
        table.add_column(title.lstrip(">"), justify=justify, no_wrap=True, overflow="ellipsis", max_width=most)
    for row in cells:
        table.add_row(*row)
    print_trimmed(table, out)


def print_head(out: Console, name: str, state: Text | str, id: str, sentence: str) -> None:
    """Print the head of a details page: a name with its state and id, and a sentence about it."""
    from rich.text import Text

    out.print(Text.assemble((clean(name), "bold"), "  ", state, "  ", (id, "dim")))
    if sentence:
        out.print(Text(clean(sentence)), soft_wrap=not out.is_terminal)
    click.echo()


def print_facts(out: Console, facts: Iterable[tuple[str, str | None]]) -> None:
    """Print names and values in two columns, without empty values; a value is wrapped on a terminal."""
    from rich.text import Text

    for name, value in facts:
        if value:
            text = Text(clean(value.strip()))
            lines = text.wrap(out, max(20, out.width - _FACTS_WIDTH)) if out.is_terminal else [text]
            for at, line in enumerate(lines):
                out.print(Text.assemble((f"{name if at == 0 else '':<{_FACTS_WIDTH}}", "dim"), line), soft_wrap=True)


def print_error(out: Console, error: str | None) -> None:
    """Print the error of a job or run, if there is one."""
    from rich.text import Text

    if error:
        click.echo()
        out.print(Text("Error", style="bold"))
        out.print(Text(clean_lines(error), style="red"), soft_wrap=True)


def instant_and_age(instant: datetime | None, now: datetime) -> str | None:
    """Return an instant and how long ago it was, or how far away it is; None if there is none."""
    return None if instant is None else f"{utc(instant)}, {ago(instant, now)}"


def print_trimmed(what: Any, out: Console) -> None:
    """Print a renderable without the trailing spaces of its lines."""
    with out.capture() as captured:
        out.print(what)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def state_text(state: str) -> Text:
    """Return a state in its colour."""
    from rich.text import Text

    return Text(state, style=STATE_STYLES.get(state, ""))


def step_name(view: JobView) -> str:
    """Return a step's name; for an instance above 0, with its number."""
    return f"{view.step}[{view.idx}]" if view.idx else view.step or ""


def ago(instant: datetime | None, now: datetime) -> str:
    """Return a time relative to now: "3m ago", "in 2h5m", "now"."""
    if instant is None:
        return ""
    away = instant - now
    if abs(away) < timedelta(seconds=1):
        return "now"
    return f"in {about(away)}" if away > timedelta(0) else f"{about(-away)} ago"


def about(duration: timedelta) -> str:
    """Return a duration as text, rounded down: in whole seconds if it is at least ten seconds."""
    if duration >= timedelta(seconds=10):
        return format_duration(timedelta(seconds=duration // timedelta(seconds=1)))
    if duration >= timedelta(seconds=1):
        return format_duration(timedelta(milliseconds=100) * (duration // timedelta(milliseconds=100)))
    return format_duration(timedelta(milliseconds=1) * (duration // timedelta(milliseconds=1)))


def utc(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def short_error(text: str | None) -> str:
    """Return the last line of an error, without the module of the exception."""
    return _MODULE.sub("", last_line(text))


def shown_value(value: Any) -> str:
    """Return a JSON value as text: strings as they are, null as "none"."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def count_of(count: int, what: str) -> str:
    """Return a count with its noun: "1 job", "2 jobs"."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
