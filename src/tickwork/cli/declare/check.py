"""`tickwork check`: validate declarations before they are stored or run. No store is opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.command import USAGE, Command, json_option
from tickwork.cli.declare.read_files import print_remarks, read_file, remarks_on, shown_file
from tickwork.cli.output import count_of, print_json
from tickwork.core.text.terminal_escape import clean
from tickwork.errors import InvalidInput

if TYPE_CHECKING:
    from tickwork.core.job import TaskDefinition
    from tickwork.declare.read_declarations import DeclaredWork


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
    """Check dags, schedules, calendars and hooks in YAML and JSON files, and dags in Python files and modules.

    If Python files are given, too, the arguments in YAML and JSON are checked against their tasks, and tasks that they
    do not have are reported. Every problem is reported with its file, line and field; the exit code is then 2. FILE may
    be - for standard input.
    """
    if schema:
        from tickwork.declare.dag_fields import file_schema

        print_json(file_schema())
        return
    if not files:
        raise click.UsageError("give files to check, or --schema.")
    code = {file: _LoadedCode(file) for file in files if not _is_declared(file)}
    known = {name: one for read in code.values() for name, one in read.definitions.items()}
    answers = [code[file].answer if file in code else _checked(file, known) for file in files]
    if as_json:
        print_json({"files": answers})
    else:
        for answer in answers:
            _tell(answer)
    if any(answer["problems"] for answer in answers):
        ctx.exit(USAGE)


def _is_declared(file: str) -> bool:
    return file == "-" or file.endswith((".yaml", ".yml", ".json"))


def _checked(file: str, known: Mapping[str, TaskDefinition]) -> dict[str, Any]:
    """Return what a file declares, its problems, and warnings. `known`: the tasks and dags of the Python files."""
    declared: list[dict[str, Any]] = []
    problems: list[str] = []
    remarks: list[str] = []
    try:
        found = read_file(file, known.get)
        declared, remarks = list(_items(found)), remarks_on(found)
        if known:
            problems = [
                f"{shown_file(file)}: dag {name!r} is in the Python files, too." for name in found.dags if name in known
            ]
            remarks += [*_unknown_tasks(file, found, known), *_unknown_dags(file, found, known)]
    except InvalidInput as error:
        problems = str(error).splitlines()
    return {"file": shown_file(file), "items": declared, "problems": problems, "remarks": remarks}


def _unknown_tasks(file: str, found: DeclaredWork, known: Mapping[str, TaskDefinition]) -> Iterator[str]:
    """Yield a warning for each task that neither the Python files nor Tickwork has."""
    from tickwork.core.access.scopes import BUILT_IN
    from tickwork.core.text.suggestions import guess

    for task in sorted(found.tasks):
        if task not in known and task not in BUILT_IN and not task.startswith("@"):
            yield f"{shown_file(file)}: the Python files have no task {task!r}{guess(task, known)}; a worker needs it."


def _unknown_dags(file: str, found: DeclaredWork, known: Mapping[str, TaskDefinition]) -> Iterator[str]:
    """Yield a warning for each dag of a schedule or hook that is neither in the file nor in the Python files."""
    from tickwork.core.text.suggestions import guess

    dags = [name for name, one in known.items() if one.version is not None]
    for dag in sorted(found.other_dags - set(dags)):
        near = guess(dag, [*dags, *found.dags])
        who = "a schedule or a hook starts it"
        yield f"{shown_file(file)}: neither it nor the Python files have a dag {dag!r}{near}; {who}."


def _items(found: DeclaredWork) -> Iterator[dict[str, Any]]:
    for name, dag in found.dags.items():
        yield {"kind": "dag", "name": name, "steps": len(dag.graph.steps)}
    for kind, names in (("schedule", found.schedules), ("calendar", found.calendars), ("hook", found.hooks)):
        yield from ({"kind": kind, "name": name} for name in names)


class _LoadedCode:
    """An app loaded as a worker does: its dags, each validated, and the definitions of its tasks and dags."""

    def __init__(self, file: str) -> None:
        from tickwork.core.dag.graph import definition_of
        from tickwork.worker.process.load_app import load_app

        app = load_app(file)
        self.definitions: dict[str, TaskDefinition] = {name: task.definition() for name, task in app.tasks.items()}
        items: list[dict[str, Any]] = []
        problems: list[str] = []
        for name, dag in getattr(app, "dags", {}).items():
            try:
                dag.validate()
                items.append({"kind": "dag", "name": name, "steps": len(dag.graph.steps)})
                self.definitions[name] = definition_of(dag.graph, 1)
            except InvalidInput as error:
                problems.extend(f"{file}: {name}: {line}" for line in str(error).splitlines())
        self.answer = {"file": file, "items": items, "problems": problems, "remarks": []}


def _tell(answer: dict[str, Any]) -> None:
    for item in answer["items"]:
        what = count_of(item["steps"], "step") if item["kind"] == "dag" else item["kind"]
        click.echo(f"{clean(item['name'])}: {what}, ok")
    if not answer["items"] and not answer["problems"]:
        click.echo(f"{clean(answer['file'])} declares nothing.")
    print_remarks(answer["remarks"])
    for problem in answer["problems"]:
        click.secho(clean(problem), err=True, fg="red")
