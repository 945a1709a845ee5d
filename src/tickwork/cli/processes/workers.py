"""`tickwork workers`: list the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tickwork.cli.command import Command, Invocation, json_option, pass_session, url_option
from tickwork.cli.output import ago, plain, print_json, print_table, state_text

if TYPE_CHECKING:
    from tickwork.cli.output import Row


@click.command(cls=Command, example="tickwork workers --json")
@json_option
@url_option
@pass_session
def workers(session: Invocation, as_json: bool) -> None:
    """List live workers, and workers that were lost recently."""
    app = session.app()
    found, now = app.store.reads.workers(), app.store.now()
    if as_json:
        print_json({"items": [{**plain(one), "offer": one.offer.shown} for one in found]})
        return
    if not found:
        click.echo("No worker is running. Start one: tickwork worker MODULE_OR_FILE")
        return
    rows: list[Row] = [
        [
            one.name,
            state_text(one.state),
            f"{one.running} of {one.slots}",
            ago(one.started_at, now),
            one.version,
            ", ".join(one.queues),
            ", ".join(one.offer.shown),
            f"{len(one.tasks)}: {', '.join(one.tasks)}" if one.tasks else "any" if one.state == "remote" else "none",
        ]
        for one in found
    ]
    print_table(["WORKER", "STATE", "BUSY", "STARTED", "VERSION", "QUEUES", "HAS", "TASKS"], rows)
