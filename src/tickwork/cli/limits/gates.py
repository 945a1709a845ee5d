"""`tickwork gates`: pause, drop, slow down or divert some of the jobs, and resume them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.command import Decorated, Group, Invocation, json_option, pass_session, url_option
from tickwork.cli.output import ago, count_of, print_items, print_result, utc
from tickwork.cli.write_audit_rows import AuditedChange, recorded
from tickwork.core.limits.gates import read_until

if TYPE_CHECKING:
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
    until = "End of the gate: a duration from now, or an instant. Default: until resumed."
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
    print_items(
        as_json,
        found,
        none="No gates. Create one: tickwork gates pause --task NAME",
        titles=["GATE", "SINCE", "UNTIL", ">HELD", ">PASSED ON", "BY", "REASON"],
        row=lambda view: _row(view, now),
        to_json=_view_json,
    )


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
    """Start no more of these jobs. Running jobs continue; enqueued jobs wait."""
    put_gate(session.app(), "pause", "pause_jobs", as_json, until, **given)


@gates.command("drop", example="tickwork gates drop --collection campaign-7 --until 1d")
@_selectors
@when_and_why
@json_option
@url_option
@pass_session
def drop(session: Invocation, /, as_json: bool, until: str | None, **given: Any) -> None:
    """End these jobs as dropped instead of starting them."""
    put_gate(session.app(), "drop", "drop_jobs", as_json, until, **given)


@gates.command("slow", example="tickwork gates slow --tenant acme --rate 5/s")
@click.option("--rate", metavar="RATE", required=True, help="Starts per period: 10/s, 1000/h, 100/15m.")
@_selectors
@when_and_why
@json_option
@url_option
@pass_session
def slow(session: Invocation, /, rate: str, as_json: bool, until: str | None, **given: Any) -> None:
    """Start these jobs at most at this rate."""
    put_gate(session.app(), "slow", "slow_jobs", as_json, until, rate=rate, **given)


@gates.command("divert", example="tickwork gates divert --label bulk --to spare")
@click.option("--to", metavar="QUEUE", required=True, help="The queue that they go to.")
@_selectors
@when_and_why
@json_option
@url_option
@pass_session
def divert(session: Invocation, /, to: str, as_json: bool, until: str | None, **given: Any) -> None:
    """Move these jobs to another queue when they would start."""
    put_gate(session.app(), "divert", "divert_jobs", as_json, until, to=to, **given)


@gates.command("resume", example="tickwork gates resume --task mail")
@_selectors
@json_option
@url_option
@pass_session
def resume(session: Invocation, /, as_json: bool, **given: Any) -> None:
    """Remove the gates with exactly these selectors, of every kind. Held jobs may then start."""
    remove_gates(session.app(), "resume_jobs", as_json, **given)


def put_gate(app: Tickwork, kind: str, action: str, as_json: bool, until: str | None, **given: Any) -> None:
    """Put a gate in force, record it and the gate that it replaces in the audit log, and print it."""
    before = {view.gate.name: gate_json(view.gate) for view in app.store.limits.list_gates()}
    gate: Gate = recorded(
        app,
        action,
        lambda: getattr(app, kind)(until=read_until(until), **given),
        lambda gate: [AuditedChange(f"gate {gate.name}", before.get(gate.name), gate_json(gate))],
    )
    lasts = "" if gate.until is None else f" until {utc(gate.until)}"
    selects = " ".join(f"--{name} {value}" for name, value in gate.selects.items())
    said = f"In force{lasts}: {gate.name}{_more(gate)}. Remove it: tickwork gates resume {selects}"
    print_result(as_json, gate_json(gate), said)


def remove_gates(app: Tickwork, action: str, as_json: bool, **selects: Any) -> None:
    """Remove gates, record that in the audit log, and print their number; fail if there are none."""
    said = {name: value for name, value in selects.items() if value is not None}
    what = " ".join(f"{name}={value}" for name, value in said.items())
    before = [gate_json(view.gate) for view in app.store.limits.list_gates() if view.gate.selects == said]
    told = AuditedChange(f"gate {what}", before={"gates": before}, after={"gates": []})
    removed = recorded(app, action, lambda: app.resume(**selects), told)
    if removed or as_json:
        print_result(as_json, {"lifted": removed}, f"Removed {count_of(removed, 'gate')}.")
    if not removed:
        raise click.ClickException("no gate has exactly these selectors. List the gates: tickwork gates list")
