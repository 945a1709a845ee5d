"""`tickwork run`: start a run of a dag; optionally wait for its result or watch it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

import click

from tickwork.cli.command import Command, Invocation, pass_session, url_option
from tickwork.cli.write_audit_rows import AuditedChange, recorded
from tickwork.core.access.scopes import told_job
from tickwork.core.text.terminal_escape import clean
from tickwork.errors import DagNotFound

if TYPE_CHECKING:
    from tickwork.api.runs import Run
    from tickwork.app import Tickwork
    from tickwork.core.arguments.encode_by_schema import Schema


@click.command(
    cls=Command,
    example="tickwork run etl day=2026-11-15 --watch\n"
    "tickwork run nightly --wait --timeout 2h\n"
    'tickwork run etl -A pipelines.py --json \'{"day": "2026-11-15"}\'',
)
@click.argument("name")
@click.argument("arguments", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("--json", "json_text", metavar="ARGS", help="The parameters as a JSON object; - reads stdin.")
@click.option("-A", "--app", "target", metavar="MODULE_OR_FILE", help="Run the dag as this code declares it.")
@click.option("--wait", is_flag=True, help="Print the result; exit with 0 only if the run succeeded.")
@click.option("--watch", is_flag=True, help="Show its steps until it has ended; exit with 0 only if it succeeded.")
@click.option("--timeout", metavar="DURATION", help="With --wait: give up waiting after this time. The run continues.")
@url_option
@pass_session
@click.pass_context
def run(
    ctx: click.Context,
    session: Invocation,
    name: str,
    arguments: tuple[str, ...],
    json_text: str | None,
    target: str | None,
    wait: bool,
    watch: bool,
    timeout: str | None,
) -> None:
    """Start a run of the dag NAME, and print its id.

    A VALUE is JSON if it can be read as JSON (3, true, [1, 2], "3"), unless the parameter is a text.
    """
    from tickwork.cli.jobs.enqueue import read_arguments, wait_for
    from tickwork.core.text.duration import parse_duration

    if wait and watch:
        raise click.UsageError("--wait prints the result and --watch the steps: give one of them.")
    if timeout is not None and not wait:
        raise click.UsageError("--timeout requires --wait.")
    longest = None if timeout is None else parse_duration(timeout, what="--timeout")
    app = session.app() if target is None else session.declared(target)
    schema = _schema(app, name, target)
    positional, named = read_arguments(arguments, json_text)
    dag, params = app.named(name), _as_meant(named, arguments, schema)
    started = recorded(
        app,
        "start_run",
        lambda: cast("Run", dag.enqueue(*positional, **params)),
        lambda run: [AuditedChange(f"run {run.id}", after=told_job(run.view))],
    )
    if wait:
        wait_for(app, started, longest)
    elif watch:
        from tickwork.cli.dags.run_watch import watch_run

        ctx.exit(watch_run(started))
    else:
        click.echo(started.id)
        if sys.stderr.isatty():
            click.secho(f"{clean(started.why())}. Follow it: tickwork runs watch {started.id}", err=True, dim=True)


def _schema(app: Tickwork, name: str, target: str | None) -> Schema:
    """Return the parameters of a dag, declared in code or stored. Raises DagNotFound and InvalidDag."""
    if name in app.dags:
        return app.dags[name].graph.params
    if target is not None:
        known = ", ".join(app.dags) or "none"
        raise DagNotFound(f"{target} declares no dag {name!r}; it declares {known}.")
    definition = app.store.reads.task_definition(name)
    if definition is None or definition.version is None:
        from tickwork.cli.dags.dags import unknown_dag

        raise unknown_dag(app, name)
    import msgspec

    schema: Schema = msgspec.json.decode(definition.schema)
    return schema


def _as_meant(named: dict[str, Any], texts: tuple[str, ...], schema: Schema) -> dict[str, Any]:
    """Return parameters; if only the typed text of a value fits its type, use the text: 20261115 may be a text."""
    from tickwork.core.arguments.encode_by_schema import fits

    known = schema.get("properties", {})
    typed = {key: text for key, _, text in (one.partition("=") for one in texts)}
    return {
        name: typed[name]
        if name in typed
        and name in known
        and not fits(value, known[name], schema)
        and fits(typed[name], known[name], schema)
        else value
        for name, value in named.items()
    }
