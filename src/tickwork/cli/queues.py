"""`tickwork queues`: what stands in each queue; and to pause, resume and limit one."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.base import FAILURE, Group, Session, json_option, pass_session, url_option
from tickwork.cli.gates import read_until, tell, when_and_why
from tickwork.cli.limits import change_limit, read_rule, rule_options
from tickwork.cli.output import about, count_of, plain, print_json, print_table
from tickwork.errors import InvalidInput

if TYPE_CHECKING:
    from tickwork.app import Tickwork
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
def queues(ctx: click.Context, session: Session, /, as_json: bool) -> None:
    """Show what is due, comes later, runs and is held in each queue; pause, resume and limit queues."""
    if ctx.invoked_subcommand is None:
        _print_queues(session.app(), as_json)


@queues.command("list", example="tickwork queues list --json")
@json_option
@url_option
@pass_session
def list_queues(session: Session, /, as_json: bool) -> None:
    """Show what is due, comes later, runs and is held in each queue, and how long the oldest due job has waited.

    WANTED is how many workers it wants, for what starts and stops them: all that is due would begin within 30 seconds.
    """
    _print_queues(session.app(), as_json)


def _print_queues(app: Tickwork, as_json: bool) -> None:
    found, now, workers = app.client.queues(), app.store.now(), app.client.workers()
    serving = {one.name: [w.slots for w in workers if w.serves and one.name in w.queues] for one in found}
    durations = app.store.durations()
    wanted = {one.name: _wanted(one, serving[one.name], durations.get(one.name)) for one in found}
    if as_json:
        counts = [{"workers": len(serving[one.name]), "wanted": wanted[one.name]} for one in found]
        print_json({"items": [{**plain(one), **count} for one, count in zip(found, counts, strict=True)]})
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
            f"{one.held:,}",
            str(len(serving[one.name])),
            str(wanted[one.name]),
            "" if one.oldest_due_at is None else about(now - one.oldest_due_at),
        ]
        for one in found
    ]
    print_table(["QUEUE", ">DUE", ">LATER", ">RUNNING", ">HELD", ">WORKERS", ">WANTED", "OLDEST DUE FOR"], rows)


def _wanted(queue: QueueView, slots: list[int], duration: timedelta | None) -> int:
    """How many workers like those that serve it would do its work in good time. What is held wants none."""
    from tickwork.core.flow.elastic import Load, wanted_workers
    from tickwork.worker.supervisor import SLOTS

    load = Load(queue.due, queue.running, (duration or timedelta(0)) // timedelta(microseconds=1))
    return wanted_workers(load, -(-sum(slots) // len(slots)) if slots else SLOTS)


@queues.command("pause", example='tickwork queues pause mail --until 2h --reason "the provider is down"')
@click.argument("name")
@when_and_why
@json_option
@url_option
@pass_session
def pause(session: Session, /, name: str, until: str | None, reason: str | None, as_json: bool) -> None:
    """Start no job of a queue. What runs goes on; what is enqueued waits."""
    tell(session.app().pause(queue=name, until=read_until(until), reason=reason), as_json)


@queues.command("resume", example="tickwork queues resume mail")
@click.argument("name")
@json_option
@url_option
@pass_session
@click.pass_context
def resume(ctx: click.Context, session: Session, /, name: str, as_json: bool) -> None:
    """Lift the gates that are for all of a queue."""
    lifted = session.app().resume(queue=name)
    if as_json:
        print_json({"lifted": lifted})
    elif lifted:
        click.echo(f"Lifted {count_of(lifted, 'gate')}.")
    if not lifted:
        click.echo(f"error: no gate is for all of queue {name}. See: tickwork gates list", err=True)
        ctx.exit(FAILURE)


@queues.command("limit", example="tickwork queues limit mail --concurrency 5\ntickwork queues limit mail --reset")
@click.argument("name")
@rule_options
@json_option
@url_option
@pass_session
@click.pass_context
def limit(ctx: click.Context, session: Session, /, name: str, as_json: bool, **said: Any) -> None:
    """Change the limit that code declares for a queue, from now on and also for jobs that wait."""
    app, rule = session.app(), read_rule(**said)
    change_limit(ctx, app, _limit_of(app, name), rule, as_json)


def _limit_of(app: Tickwork, queue: str) -> str:
    """The one limit that is a queue's own."""
    found = [view.name for view in app.limits() if view.name.startswith(f"queue:{queue}#")]
    if not found:
        raise InvalidInput(
            f"no worker has declared a limit of queue {queue!r}, and jobs are stamped with those as they are enqueued. "
            f"Declare one: app.queue({queue!r}, limits=[concurrency(5)]). To slow it down now: tickwork gates slow "
            f"--queue {queue} --rate 5/s"
        )
    if len(found) > 1:
        raise InvalidInput(f"queue {queue!r} has several limits; set one of them: tickwork limits set {found[0]} ...")
    return found[0]
