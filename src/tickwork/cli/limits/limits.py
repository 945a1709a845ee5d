"""`tickwork limits`: list limits and breakers with their usage, and change limits while jobs run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.command import Decorated, Group, Invocation, json_option, pass_session, url_option
from tickwork.cli.output import plain, print_items, print_json
from tickwork.cli.write_audit_rows import AuditedChange, recorded
from tickwork.errors import InvalidInput

if TYPE_CHECKING:
    from tickwork.app import Tickwork
    from tickwork.cli.output import Row
    from tickwork.core.limits.limits import Concurrency, Rate
    from tickwork.store.limits import LimitView, Rule


@click.group(cls=Group, example="tickwork limits list\ntickwork limits set stripe --rate 10/s --burst 5")
def limits() -> None:
    """List the limits and breakers that apply to jobs, and change limits while jobs wait."""


@limits.command("list", example="tickwork limits list --json")
@json_option
@url_option
@pass_session
def list_limits(session: Invocation, /, as_json: bool) -> None:
    """List all limits, their live weight, and the jobs that they hold."""
    print_items(
        as_json,
        session.app().limits(),
        none="No limits yet. Code declares them: @app.task(limits=[concurrency(2)]), and workers store them.",
        titles=["LIMIT", "IS", "KEY", ">LIVE", ">HELD", "DECLARED"],
        row=_row,
        to_json=limit_json,
    )


def _row(view: LimitView) -> Row:
    from tickwork.core.limits.breaker import Breaker

    rule, code = view.rule, view.declared
    said = "" if view.override is None else "nothing" if code is None else code.said
    key = None if code is None else code.key
    live = "" if isinstance(view.rule, Breaker) else f"{view.live:,}"
    return [view.name, "nothing" if rule is None else rule.said, key or "", live, f"{view.held:,}", said]


def limit_json(view: LimitView) -> dict[str, Any]:
    """Return a limit as JSON."""
    return {
        "name": view.name,
        "rule": _rule_json(view.rule),
        "declared": _rule_json(view.declared),
        "override": _rule_json(view.override),
        "live": view.live,
        "held": view.held,
    }


def _rule_json(rule: Any) -> dict[str, Any] | None:
    if rule is None:
        return None
    kind = {"Concurrency": "concurrency", "Rate": "rate", "Breaker": "breaker"}[type(rule).__name__]
    spans = ("period", "window", "pause")
    fields = {name: value for name, value in plain(rule).items() if name != "name"}
    return {"kind": kind, **{f"{name}_s" if name in spans else name: value for name, value in fields.items()}}


def rule_options(command: Decorated) -> Decorated:
    """Add the options that set a limit; the command gets each as a keyword."""
    options = (
        click.option("--concurrency", metavar="N", type=int, help="Jobs that may run at once."),
        click.option("--rate", metavar="RATE", help="Starts per period: 10/s, 1000/h, 100/15m."),
        click.option(
            "--burst", metavar="N", type=int, help="With --rate: starts that may come ahead of the even rate."
        ),
        click.option("--reset", is_flag=True, help="Return to the declared value."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def read_rule(concurrency: int | None, rate: str | None, burst: int | None, reset: bool) -> Concurrency | Rate | None:
    """Return the limit that the options of `rule_options` set; None for --reset, which restores the declared limit."""
    from tickwork.core.limits import limits as core

    if (concurrency is not None) + (rate is not None) + reset != 1 or (burst is not None and rate is None):
        raise InvalidInput("give one of: --concurrency N, --rate 10/s [--burst N], --reset.")
    if rate is not None:
        return core.rate(rate, burst=burst)
    return None if concurrency is None else core.concurrency(concurrency)


@limits.command("set", example="tickwork limits set stripe --rate 10/s --burst 5\ntickwork limits set stripe --reset")
@click.argument("name")
@rule_options
@json_option
@url_option
@pass_session
def set_limit(session: Invocation, /, name: str, as_json: bool, **said: Any) -> None:
    """Override the declared value of a limit.

    The change also applies to waiting jobs.
    """
    change_limit(session.app(), name, read_rule(**said), as_json)


def change_limit(app: Tickwork, name: str, rule: Concurrency | Rate | None, as_json: bool) -> None:
    """Set a limit and print it; exit with 1 if there is no limit to reset."""
    known = {view.name: view.rule for view in app.limits()}
    told = AuditedChange(f"limit {name}", before=_said(known.get(name)), after=_said(rule))
    if not recorded(app, "reset_limit" if rule is None else "set_limit", lambda: app.set_limit(name, rule), told):
        raise click.ClickException(f"there is no limit {name!r} to reset. List the limits: tickwork limits list")
    view = next((one for one in app.limits() if one.name == name), None)
    if as_json:
        print_json(None if view is None else limit_json(view))
        return
    now = "gone" if view is None or view.rule is None else view.rule.said
    click.echo(f"The limit {name} is now: {now}.")
    if view is not None and view.declared is None:
        click.echo("No worker has declared it so far; it holds for jobs whose task or queue names it.", err=True)


def _said(rule: Rule | None) -> str | None:
    return None if rule is None else rule.said
