"""`tickwork queues`: show the jobs in each queue, and pause, resume and limit queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.command import Group, Invocation, json_option, pass_session, url_option
from tickwork.cli.limits.gates import put_gate, remove_gates, when_and_why
from tickwork.cli.limits.limits import change_limit, read_rule, rule_options
from tickwork.cli.output import about, plain, print_items
from tickwork.core.workers.autoscale import QueueLoad

if TYPE_CHECKING:
    from datetime import datetime

    from tickwork.app import Tickwork
    from tickwork.cli.output import Row
    from tickwork.core.job import QueueView


@click.group(
    cls=Group,
    invoke_without_command=True,
    example="tickwork queues --json\ntickwork queues pause mail --until 2h\ntickwork queues limit mail --concurrency 5",
)
@json_option
@url_option
@pass_session
@click.pass_context
def queues(ctx: click.Context, session: Invocation, /, as_json: bool) -> None:
    """Show how many jobs of each queue are due, delayed, running and held; pause, resume and limit queues."""
    if ctx.invoked_subcommand is None:
        _print_queues(session.app(), as_json)


@queues.command("list", example="tickwork queues list --json")
@json_option
@url_option
@pass_session
def list_queues(session: Invocation, /, as_json: bool) -> None:
    """Show the due, later, running and held jobs of each queue.

    OLDEST DUE FOR is how long the oldest due job has waited. WANTED is the number of workers that the queue needs, for
    external autoscalers: with them, all due jobs would start within 30 seconds. Due jobs that no live worker can run
    (for their task, labels or resources) need workers besides the ones that serve the queue; with --json, `unplaced`
    counts them.
    """
    _print_queues(session.app(), as_json)


def _print_queues(app: Tickwork, as_json: bool) -> None:
    now, loads = app.store.now(), app.queue_loads()
    print_items(
        as_json,
        loads,
        none="No jobs in any queue.",
        titles=["QUEUE", ">DUE", ">LATER", ">RUNNING", ">HELD", ">WORKERS", ">WANTED", "OLDEST DUE FOR"],
        row=lambda one: _row(one, now),
        to_json=_json,
    )


def _row(one: QueueLoad, now: datetime) -> Row:
    return [
        one.queue.name,
        *(_counted(one.queue, name) for name in ("due", "later", "running", "held")),
        str(one.workers),
        str(one.wanted),
        "" if one.queue.oldest_due_at is None else about(now - one.queue.oldest_due_at),
    ]


def _json(one: QueueLoad) -> dict[str, Any]:
    return {**plain(one.queue), "workers": one.workers, "wanted": one.wanted, "unplaced": one.unplaced}


def _counted(queue: QueueView, name: str) -> str:
    """Return a count of a queue; with a plus if it is a lower bound."""
    return f"{getattr(queue, name):,}{'+' if name in queue.at_least else ''}"


@queues.command("pause", example='tickwork queues pause mail --until 2h --reason "the provider is down"')
@click.argument("name")
@when_and_why
@json_option
@url_option
@pass_session
def pause(session: Invocation, /, name: str, until: str | None, reason: str | None, as_json: bool) -> None:
    """Start no more jobs of a queue. Running jobs continue; enqueued jobs wait."""
    put_gate(session.app(), "pause", "pause_queue", as_json, until, queue=name, reason=reason)


@queues.command("resume", example="tickwork queues resume mail")
@click.argument("name")
@json_option
@url_option
@pass_session
def resume(session: Invocation, /, name: str, as_json: bool) -> None:
    """Remove the gates on a whole queue."""
    remove_gates(session.app(), "resume_queue", as_json, queue=name)


@queues.command("limit", example="tickwork queues limit mail --concurrency 5\ntickwork queues limit mail --reset")
@click.argument("name")
@rule_options
@json_option
@url_option
@pass_session
def limit(session: Invocation, /, name: str, as_json: bool, **said: Any) -> None:
    """Change the limit that code declares for a queue. The change applies at once, also to waiting jobs."""
    app, rule = session.app(), read_rule(**said)
    change_limit(app, app.limit_of(name), rule, as_json)
