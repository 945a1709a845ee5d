"""`tickwork check`: what is wrong with declared work, before anything is stored or run. No store is opened."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.base import USAGE, Command, json_option
from tickwork.cli.declared import print_remarks, read_file, remarks_on, shown_file
from tickwork.cli.escape import clean
from tickwork.cli.output import count_of, print_json
from tickwork.errors import InvalidInput

if TYPE_CHECKING:
    from tickwork.importers.declared import Declared


@click.command(
    cls=Command,
    example="tickwork check pipeline.yaml\ntickwork check tasks.py shop.pipelines:app\n"
    "tickwork check --schema > tickwork.schema.json",
)
@click.argument("files", metavar="FILE...", nargs=-1)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of these files, for editors.")
@json_option
@click.pass_context
def check(ctx: click.Context, files: tuple[str, ...], schema: bool, as_json: bool) -> None:
    """Check dags, schedules, calendars and hooks in YAML and JSON files, and the dags of Python files and modules.

    Every problem is told with its file, line and field; the exit code is then 2. FILE may be - for standard input.
    """
    if schema:
        from tickwork.importers.dag_fields import file_schema

        print_json(file_schema())
        return
    if not files:
        raise click.UsageError("say which files to check, or --schema.")
    answers = [_checked(file) for file in files]
    if as_json:
        print_json({"files": answers})
    else:
        for answer in answers:
            _tell(answer)
    if any(answer["problems"] for answer in answers):
        ctx.exit(USAGE)


def _checked(file: str) -> dict[str, Any]:
    """What a file declares, what is wrong with it, and what will not work yet."""
    declared: list[dict[str, Any]] = []
    problems: list[str] = []
    remarks: list[str] = []
    if file == "-" or file.endswith((".yaml", ".yml", ".json")):
        try:
            found = read_file(file, lambda name: None)
            declared, remarks = list(_items(found)), remarks_on(found)
        except InvalidInput as error:
            problems = str(error).splitlines()
    else:
        _check_code(file, declared, problems)
    return {"file": shown_file(file), "items": declared, "problems": problems, "remarks": remarks}


def _items(found: Declared) -> Iterator[dict[str, Any]]:
    for name, dag in found.dags.items():
        yield {"kind": "dag", "name": name, "steps": len(dag.graph.steps)}
    for kind, names in (("schedule", found.schedules), ("calendar", found.calendars), ("hook", found.hooks)):
        yield from ({"kind": kind, "name": name} for name in names)


def _check_code(file: str, declared: list[dict[str, Any]], problems: list[str]) -> None:
    """Load code as a worker does, and validate each dag in it."""
    from tickwork.worker.load import load_app

    for name, dag in getattr(load_app(file), "dags", {}).items():
        try:
            dag.validate()
            declared.append({"kind": "dag", "name": name, "steps": len(dag.graph.steps)})
        except InvalidInput as error:
            problems.extend(f"{file}: {name}: {line}" for line in str(error).splitlines())


def _tell(answer: dict[str, Any]) -> None:
    for item in answer["items"]:
        what = count_of(item["steps"], "step") if item["kind"] == "dag" else item["kind"]
        click.echo(f"{clean(item['name'])}: {what}, ok")
    if not answer["items"] and not answer["problems"]:
        click.echo(f"{clean(answer['file'])} declares nothing.")
    print_remarks(answer["remarks"])
    for problem in answer["problems"]:
        click.secho(clean(problem), err=True, fg="red")
