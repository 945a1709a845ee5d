"""The screen of the demo on a terminal, made for at least 80 columns and 24 lines."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tickwork.cli.demo.demo_snapshot import DemoSnapshot, NotableJob
from tickwork.cli.output import STATE_STYLES, about, state_text
from tickwork.core.text.terminal_escape import clean

_BARS = " ▁▂▃▄▅▆▇█"
_ENDS = ("succeeded", "failed", "cancelled")
_FRAME_LINES = 17  # lines of the screen besides queues and jobs


def screen(
    picture: DemoSnapshot, out: Console, seconds: float, address: str | None, commands: list[str]
) -> RenderableType:
    """Return the screen for a snapshot. `address` is the address of the web UI; None while it starts."""
    room = max(3, out.height - _FRAME_LINES - len(picture.queues))
    return Group(
        _headline(picture, seconds),
        _sparkline(picture, out),
        "",
        _page(address),
        "",
        _counted("ended", {name: picture.ended.get(name, 0) for name in _ENDS}),
        _counted("now", {**picture.standing, "retrying": picture.retrying, "dead letters": picture.dead}),
        "",
        _queues(picture),
        "",
        _jobs(picture, room),
        "",
        Text("In another terminal:", style="bold"),
        *(Text(f"  {line}", no_wrap=True, overflow="ellipsis", style="cyan") for line in commands),
        Text("Ctrl-C ends the demo and removes its files.", style="dim"),
    )


def line(picture: DemoSnapshot, seconds: float) -> str:
    """Return one line for a snapshot, for output that is not a terminal."""
    ends = "  ".join(f"{name} {picture.ended.get(name, 0)}" for name in _ENDS)
    standing = "  ".join(f"{name} {count}" for name, count in picture.standing.items())
    return f"{seconds:4.0f} s  {picture.rates[-1]:5.1f} jobs/s  {ends}  {standing}  retrying {picture.retrying}"


def _headline(picture: DemoSnapshot, seconds: float) -> Text:
    recent = picture.rates[-10:]
    rate = sum(recent) / len(recent)
    total = sum(picture.ended.values())
    text = Text.assemble(("Tickwork demo", "bold"), f"   {seconds:,.0f} s   {total:,} jobs ended   ")
    return text.append(f"{rate:,.0f} per second", style="bold green")


def _page(address: str | None) -> Text:
    text = Text("Web UI  ", style="bold", no_wrap=True, overflow="fold")
    if address is None:
        return text.append("starting", style="not bold dim")
    return text.append(address, style=f"not bold cyan underline link {address}")


def _sparkline(picture: DemoSnapshot, out: Console) -> Text:
    if not out.encoding.lower().startswith("utf"):
        return Text("")
    highest = max(*picture.rates, 1.0)
    steps = len(_BARS) - 1
    return Text("".join(_BARS[round(rate / highest * steps)] for rate in picture.rates), style="green", no_wrap=True)


def _counted(what: str, counts: dict[str, int]) -> Text:
    text = Text(f"{what:<7}", style="dim", no_wrap=True, overflow="ellipsis")
    for name, count in counts.items():
        text.append(f"{count:>4,} ", style="bold not dim").append(name, style=STATE_STYLES.get(name, "")).append("  ")
    return text


def _queues(picture: DemoSnapshot) -> Table:
    """Return a table with queues on the left and workers on the right, to save lines."""
    table = _table("QUEUE", ">DUE", ">LATER", ">RUNNING", "OLDEST DUE", "WORKER", "BUSY")
    workers = [(one.name, state_text(one.state).append(f" {one.running} of {one.slots}")) for one in picture.workers]
    for at in range(max(len(picture.queues), len(workers), 1)):
        queue = picture.queues[at] if at < len(picture.queues) else None
        worker = workers[at] if at < len(workers) else ("", Text(""))
        if queue is None:
            table.add_row("", "", "", "", "", *worker)
            continue
        oldest = "" if queue.oldest_due_at is None else about(picture.now - queue.oldest_due_at)
        table.add_row(queue.name, str(queue.due), str(queue.later), str(queue.running), oldest, *worker)
    return table


def _jobs(picture: DemoSnapshot, room: int) -> Table:
    table = _table("STATE", "TASK", "WHEN", "WHY")
    jobs = fair_share(picture.jobs, room)
    for job in jobs:
        state = state_text("retrying" if job.state == "queued" else job.state)
        table.add_row(state, clean(job.task), job.when, clean(job.why))
    for _ in range(min(room, 12) - len(jobs)):
        table.add_row("", "", "", "")  # so that the screen does not jump
    return table


def fair_share(kinds: list[list[NotableJob]], room: int) -> list[NotableJob]:
    """Return as many jobs of each kind as fit, one of each kind before the second of any."""
    order = sorted((rank, kind) for kind, seen in enumerate(kinds) for rank in range(len(seen)))
    return [kinds[kind][rank] for kind, rank in sorted((kind, rank) for rank, kind in order[:room])]


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in titles:
        wide = title == "WHY"
        table.add_column(
            title.lstrip(">"),
            justify="right" if title.startswith(">") else "left",
            no_wrap=True,
            overflow="ellipsis",
            min_width={"STATE": 9, "TASK": 16, "WHEN": 8, "QUEUE": 8, "OLDEST DUE": 10}.get(title.lstrip(">")),
            ratio=1 if wide else None,
        )
    return table
