"""`tickwork tenants`: list and set the weights of tenants."""

from __future__ import annotations

import click

from tickwork.cli.audit_rows import AuditedChange, recorded
from tickwork.cli.command import Group, Invocation, json_option, pass_session, url_option
from tickwork.cli.output import print_json, print_table


@click.group(cls=Group, example="tickwork tenants list\ntickwork tenants set acme 3")
def tenants() -> None:
    """Show and set the weights of tenants: how many turns each gets for one turn of a tenant of weight 1."""


@tenants.command("list", example="tickwork tenants list --json")
@json_option
@url_option
@pass_session
def list_tenants(session: Invocation, /, as_json: bool) -> None:
    """List the tenants whose weight is not 1."""
    found = session.app().weights()
    if as_json:
        print_json({"items": [{"name": name, "weight": weight} for name, weight in found.items()]})
    elif not found:
        click.echo("All tenants have the weight 1. Give one more turns: tickwork tenants set NAME WEIGHT")
    else:
        print_table([">WEIGHT", "TENANT"], [[str(weight), name] for name, weight in found.items()])


@tenants.command("set", example="tickwork tenants set acme 3")
@click.argument("name")
@click.argument("weight", type=int)
@json_option
@url_option
@pass_session
def set_weight(session: Invocation, /, name: str, weight: int, as_json: bool) -> None:
    """Set the weight of a tenant, from 1 to 100.

    A tenant gets that number of turns for each turn of a tenant of weight 1.
    """
    app = session.app()
    told = AuditedChange(f"tenant {name}", before={"weight": app.weights().get(name, 1)}, after={"weight": weight})
    recorded(app, "set_tenant", lambda: app.set_weight(name, weight), told)
    print_json({"name": name, "weight": weight}) if as_json else click.echo(f"{name} has the weight {weight}.")
