"""`tickwork gates`: pause, drop, slow down or divert some of the jobs, and resume them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.audit_rows import AuditedChange, recorded
from tickwork.cli.command import FAILURE, Decorated, Group, Invocation, json_option, pass_session, url_option
from tickwork.cli.output import ago, count_of, print_json, print_table, utc
from tickwork.core.limits.gates import read_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tickwork.app import Tickwork
    from tickwork.cli.output import Row
    from tickwork.core.limits.gates import Gate
    from tickwork.store.limits import GateView


@click.group(
    cls=Group,
    example='tickwork gates pause --task mail --until 2h --reason "the provider is down"\n'
    "tickwork gates slow --tenant acme --rate 5/s\ntickwork gates resume --task mail",
)
def gates() -> None:
    """Pause, drop, slow down or divert some of the jobs. A gate with several selectors needs all of them to match."""


def _selectors(command: Decorated) -> Decorated:
    for name in ("label", "collection", "tenant", "queue", "task"):
        command = click.option(f"--{name}", metavar="NAME", help=f"Jobs of this {name}.")(command)
    return command


def when_and_why(command: Decorated) -> Decorated:
    """Add the options that every gate has; the command gets each as a keyword."""
    until = "When it ends by itself: a duration from now, or an instant. Else it stays until resumed."
    command = click.option("--reason", metavar="TEXT", help="Reason that is shown with held jobs.")(command)
    return click.option("--until", metavar="WHEN", help=until)(command)


@gates.command("list", example="tickwork gates list --json")
@json_option
@url_option
@pass_session
def list_gates(session: Invocation, /, as_json: bool) -> None:
    """List the gates in force, and the jobs that they hold.

    Each gate has its author, its reason, and the numbers of jobs that it holds and that it has dropped or diverted.
    """
    app = session.app()
    found, now = app.gates(), app.store.now()
    if as_json:
        print_json({"items": [_view_json(view) for view in found]})
    elif not found:
        click.echo("No gate is in force. Set one: tickwork gates pause --task NAME")
    else:
        titles = ["GATE", "SINCE", "UNTIL", ">HELD", ">PASSED ON", "BY", "REASON"]
        print_table(titles, [_row(view, now) for view in found])


def _row(view: GateView, now: datetime) -> Row:
    until = view.gate.until
    return [
        view.gate.name + _more(view.gate),
        ago(view.since, now),
        "resumed" if until is None else ago(until, now),
        f"{view.held:,}",
        f"{view.passed_on:,}",
        view.gate.by,
        view.gate.reason,
    ]


def _more(gate: Gate) -> str:
    """Return the rate or the target queue of a gate, which its name does not have."""
    pace = "" if gate.pace is None else f" to {gate.pace.said}"
    return f"{pace} to {gate.to}" if gate.to is not None else pace


def gate_json(gate: Gate) -> dict[str, Any]:
    """Return a gate as JSON."""
    from tickwork.core.limits.gates import SELECTORS

    return {
        "name": gate.name,
        "kind": gate.kind,
        **{name: getattr(gate, name) for name in SELECTORS},
        "until": gate.until,
        "reason": gate.reason,
        "by": gate.by,
        "rate": None if gate.pace is None else gate.pace.said,
        "to": gate.to,
    }


def _view_json(view: GateView) -> dict[str, Any]:
    return {**gate_json(view.gate), "since": view.since, "held": view.held, "passed_on": view.passed_on}


@gates.command("pause", example='tickwork gates pause --task mail --until 2h --reason "the provider is down"')
@_selectors
@when_and_why
@json_option
@url_option
@pass_session
def pause(session: Invocation, /, as_json: bool, until: str | None, **given: Any) -> None:
    """Start no more of these jobs. Running jobs go on; enqueued jobs wait."""
    app = session.app()
    tell(put_gate(app, "pause_jobs", lambda: app.pause(until=read_until(until), **given)), as_json)


@gates.command("drop", example="tickwork gates drop --collection campaign-7 --until 1d")
@_selectors
@when_and_why
@json_option
@url_option
@pass_session
def drop(session: Invocation, /, as_json: bool, until: str | None, **given: Any) -> None:
    """End these jobs as dropped instead of starting them."""
    app = session.app()
    tell(put_gate(app, "drop_jobs", lambda: app.drop(until=read_until(until), **given)), as_json)


@gates.command("slow", example="tickwork gates slow --tenant acme --rate 5/s")
@click.option("--rate", metavar="RATE", required=True, help="Starts per period: 10/s, 1000/h, 100/15m.")
@_selectors
@when_and_why
@json_option
@url_option
@pass_session
def slow(session: Invocation, /, rate: str, as_json: bool, until: str | None, **given: Any) -> None:
    """Start these jobs at most at this rate."""
    app = session.app()
    tell(put_gate(app, "slow_jobs", lambda: app.slow(rate=rate, until=read_until(until), **given)), as_json)


@gates.command("divert", example="tickwork gates divert --label bulk --to spare")
@click.option("--to", metavar="QUEUE", required=True, help="The queue that they go to.")
@_selectors
@when_and_why
@json_option
@url_option
@pass_session
def divert(session: Invocation, /, to: str, as_json: bool, until: str | None, **given: Any) -> None:
    """Move these jobs to another queue when they would start."""
    app = session.app()
    tell(put_gate(app, "divert_jobs", lambda: app.divert(to=to, until=read_until(until), **given)), as_json)


@gates.command("resume", example="tickwork gates resume --task mail")
@_selectors
@json_option
@url_option
@pass_session
@click.pass_context
def resume(ctx: click.Context, session: Invocation, /, as_json: bool, **given: Any) -> None:
    """Lift the gates with exactly these selectors, of every kind. Held jobs may then start."""
    lifted = lift_gates(session.app(), "resume_jobs", **given)
    if as_json:
        print_json({"lifted": lifted})
    elif lifted:
        click.echo(f"Lifted {count_of(lifted, 'gate')}.")
    if not lifted:
        click.echo("error: no gate is for exactly this. See which there are: tickwork gates list", err=True)
        ctx.exit(FAILURE)


def put_gate(app: Tickwork, action: str, put: Callable[[], Gate]) -> Gate:
    """Put a gate in force, and record it and the gate that it replaces in the audit log."""
    before = {view.gate.name: gate_json(view.gate) for view in app.store.limits.list_gates()}
    return recorded(
        app, action, put, lambda gate: [AuditedChange(f"gate {gate.name}", before.get(gate.name), gate_json(gate))]
    )


def lift_gates(app: Tickwork, action: str, **selects: Any) -> int:
    """Lift gates, record them in the audit log, and return their number."""
    said = {name: value for name, value in selects.items() if value is not None}
    what = " ".join(f"{name}={value}" for name, value in said.items())
    before = [gate_json(view.gate) for view in app.store.limits.list_gates() if view.gate.selects == said]
    told = AuditedChange(f"gate {what}", before={"gates": before}, after={"gates": []})
    return recorded(app, action, lambda: app.resume(**selects), told)


def tell(gate: Gate, as_json: bool) -> None:
    """Print a gate that is now in force, and how to lift it."""
    if as_json:
        print_json(gate_json(gate))
        return
    until = gate.until
    lasts = "" if until is None else f" until {utc(until)}"
    selects = " ".join(f"--{name} {value}" for name, value in gate.selects.items())
    click.echo(f"In force{lasts}: {gate.name}{_more(gate)}. Lift it: tickwork gates resume {selects}")
