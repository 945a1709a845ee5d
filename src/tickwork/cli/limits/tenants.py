"""`tickwork tenants`: list and set the weights of tenants."""

from __future__ import annotations

import click

from tickwork.cli.command import Group, Invocation, json_option, pass_session, url_option
from tickwork.cli.output import print_items, print_result
from tickwork.cli.write_audit_rows import AuditedChange, recorded


@click.group(cls=Group, example="tickwork tenants list\ntickwork tenants set acme 3")
def tenants() -> None:
    """Show and set the weights of tenants: how many turns each gets for one turn of a tenant of weight 1."""


@tenants.command("list", example="tickwork tenants list --json")
@json_option
@url_option
@pass_session
def list_tenants(session: Invocation, /, as_json: bool) -> None:
    """List the tenants whose weight is not 1."""
    print_items(
        as_json,
        [{"name": name, "weight": weight} for name, weight in session.app().weights().items()],
        none="All tenants have weight 1. Set another weight: tickwork tenants set NAME WEIGHT",
        titles=[">WEIGHT", "TENANT"],
        row=lambda one: [str(one["weight"]), str(one["name"])],
    )


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
    print_result(as_json, {"name": name, "weight": weight}, f"{name} has weight {weight}.")
