"""`tickwork queues`: what stands in each queue."""

from __future__ import annotations

import click

from tickwork.cli.base import Command, Session, json_option, pass_session, url_option
from tickwork.cli.output import about, plain, print_json, print_table


@click.command(cls=Command, example="tickwork queues --json")
@json_option
@url_option
@pass_session
def queues(session: Session, as_json: bool) -> None:
    """Show what is due, comes later and runs in each queue, and how long the oldest due job has waited."""
    app = session.app()
    found, now, workers = app.client.queues(), app.store.now(), app.client.workers()
    serving = {one.name: sum(one.name in w.queues for w in workers if w.state == "running") for one in found}
    if as_json:
        print_json({"items": [{**plain(one), "workers": serving[one.name]} for one in found]})
        return
    if not found:
        click.echo("No job stands in any queue.")
        return
    rows = [
        [
            one.name,
            f"{one.due:,}",
            f"{one.later:,}",
            f"{one.running:,}",
            str(serving[one.name]),
            "" if one.oldest_due_at is None else about(now - one.oldest_due_at),
        ]
        for one in found
    ]
    print_table(["QUEUE", ">DUE", ">LATER", ">RUNNING", ">WORKERS", "OLDEST DUE FOR"], rows)
