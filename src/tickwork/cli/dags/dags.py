"""`tickwork dags`: list dags, show their steps, and compare versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.command import Group, Invocation, json_option, pass_session, url_option
from tickwork.cli.output import ago, console, print_items, print_json, shown_value
from tickwork.core.text.terminal_escape import clean
from tickwork.errors import DagNotFound, InvalidInput

if TYPE_CHECKING:
    from datetime import datetime

    from rich.text import Text

    from tickwork.app import Tickwork
    from tickwork.cli.output import Row
    from tickwork.core.dag.diff import DagChange
    from tickwork.store.dags import DagView

_SIGNS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}


@click.group(
    cls=Group, example="tickwork dags list\ntickwork dags show etl --mermaid\ntickwork dags diff etl   # the last two"
)
def dags() -> None:
    """List dags, show their steps, and compare versions."""


@dags.command("list", example="tickwork dags list --json")
@json_option
@url_option
@pass_session
def list_dags(session: Invocation, /, as_json: bool) -> None:
    """List the dags in the store, each by its newest version."""
    app = session.app()
    views, now = app.dag_versions(), app.store.now()
    print_items(
        as_json,
        views,
        none="No dags yet. Declare one in code with @app.dag, or in a file: tickwork apply FILE",
        titles=["NAME", ">VERSION", ">STEPS", "STORED", "DESCRIPTION"],
        row=lambda view: _row(view, now),
        to_json=_summary,
    )


def _summary(view: DagView) -> dict[str, Any]:
    return {
        "name": view.name,
        "version": view.version,
        "steps": len(view.graph.steps),
        "description": view.graph.description,
        "params": view.graph.params,
        "created_at": view.created_at,
    }


def _row(view: DagView, now: datetime) -> Row:
    graph = view.graph
    return [view.name, str(view.version), f"{len(graph.steps):,}", ago(view.created_at, now), graph.description]


@dags.command("show", example="tickwork dags show etl\ntickwork dags show etl --version 2 --mermaid > etl.mmd")
@click.argument("name")
@click.option("--version", metavar="N", type=click.IntRange(min=1), help="Version. Default: the newest.")
@click.option("--mermaid", is_flag=True, help="Print the graph as a Mermaid flowchart.")
@json_option
@url_option
@pass_session
def show(session: Invocation, /, name: str, version: int | None, mermaid: bool, as_json: bool) -> None:
    """Show the steps of a dag: task, parents and rule of each. With --json, nodes and edges."""
    from tickwork.core.dag import graph_view

    if mermaid and as_json:
        raise click.UsageError("--mermaid and --json are two ways to print it: give one of them.")
    app = session.app()
    versions = versions_of(app, name)
    view = versions[0] if version is None else one_version(versions, version)
    if mermaid:
        click.echo(graph_view.mermaid(view.graph), nl=False)
    elif as_json:
        print_json({**_summary(view), **graph_view.graph_json(view.graph)})
    else:
        from tickwork.cli.dags.dag_page import print_dag

        print_dag(view, versions[0].version, app.store.now())


@dags.command(
    "diff", example="tickwork dags diff etl        # the newest version and the one before\ntickwork dags diff etl 1 4"
)
@click.argument("name")
@click.argument("old", metavar="[V1", type=click.IntRange(min=1), required=False)
@click.argument("new", metavar="V2]", type=click.IntRange(min=1), required=False)
@json_option
@url_option
@pass_session
def diff(session: Invocation, /, name: str, old: int | None, new: int | None, as_json: bool) -> None:
    """List added, removed and changed steps from version V1 to V2."""
    from tickwork.core.dag.diff import changes

    versions = versions_of(session.app(), name)
    if old is None and len(versions) == 1:
        raise InvalidInput(f"dag {name!r} has one version only, so there is nothing to compare it with.")
    before = versions[1] if old is None else one_version(versions, old)
    after = versions[0] if new is None else one_version(versions, new)
    found = changes(before.graph, after.graph)
    if as_json:
        items = [one._asdict() for one in found]
        print_json({"name": name, "from": before.version, "to": after.version, "changes": items})
        return
    click.echo(f"{clean(name)}: version {before.version} -> {after.version}")
    _print_changes(found)


def _print_changes(found: list[DagChange]) -> None:
    """Print changes, grouped by step."""
    if not found:
        click.echo("No step changed.")
    out, shown = console(), ""
    width = max((len(one.step or "") for one in found), default=0) + 2
    for one in found:
        name = one.step or "(dag)"
        out.print(_change_text(one, "" if name == shown else name, width), soft_wrap=not out.is_terminal)
        shown = name


def _change_text(one: DagChange, name: str, width: int) -> Text:
    from rich.text import Text

    sign, style = _SIGNS[one.what]
    start = f"{sign if name else ' '} {clean(name):<{width}}"
    text = Text(no_wrap=True, overflow="ellipsis").append(start, style=style)
    if one.field is not None:
        text.append(f"{one.field}: {clean(shown_value(one.old))} -> {clean(shown_value(one.new))}")
    return text


def versions_of(app: Tickwork, name: str) -> list[DagView]:
    """Return all versions of a dag, newest first. Raises DagNotFound."""
    found = app.dag_versions(name)
    if not found:
        raise unknown_dag(app, name)
    return found


def unknown_dag(app: Tickwork, name: str) -> DagNotFound:
    """Return the error for an unknown dag, with a suggestion if a name is similar."""
    from tickwork.core.text.suggestions import guess

    mean = guess(name, [view.name for view in app.dag_versions()])
    return DagNotFound(
        f"there is no dag {name!r} in this store{mean}. Workers store the dags of their code when they "
        f"start, and tickwork apply stores the dags of files. List the dags: tickwork dags list"
    )


def one_version(versions: list[DagView], number: int) -> DagView:
    """Return one of a dag's versions. Raises DagNotFound."""
    found = [view for view in versions if view.version == number]
    if not found:
        raise DagNotFound(
            f"dag {versions[0].name!r} has no version {number}; the newest is {versions[0].version}. "
            f"See: tickwork dags show {versions[0].name}"
        )
    return found[0]
