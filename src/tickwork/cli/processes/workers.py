"""`tickwork workers`: list the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tickwork.cli.command import Command, Invocation, json_option, pass_session, url_option
from tickwork.cli.output import ago, plain, print_items, state_text

if TYPE_CHECKING:
    from datetime import datetime

    from tickwork.cli.output import Row
    from tickwork.core.job import WorkerView


@click.command(cls=Command, example="tickwork workers --json")
@json_option
@url_option
@pass_session
def workers(session: Invocation, as_json: bool) -> None:
    """List live workers, and workers that were lost recently."""
    app = session.app()
    found, now = app.store.reads.workers(), app.store.now()
    print_items(
        as_json,
        found,
        none="No worker is running. Start one: tickwork worker MODULE_OR_FILE",
        titles=["WORKER", "STATE", "BUSY", "STARTED", "VERSION", "QUEUES", "LABELS", "TASKS"],
        row=lambda one: _row(one, now),
        to_json=lambda one: {**plain(one), "offer": one.offer.shown},
    )


def _row(one: WorkerView, now: datetime) -> Row:
    return [
        one.name,
        state_text(one.state),
        f"{one.running} of {one.slots}",
        ago(one.started_at, now),
        one.version,
        ", ".join(one.queues),
        ", ".join(one.offer.shown),
        f"{len(one.tasks)}: {', '.join(one.tasks)}" if one.tasks else "any" if one.state == "remote" else "none",
    ]
