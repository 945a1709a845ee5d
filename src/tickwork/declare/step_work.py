"""Read the work of a step from a file: its task, command, HTTP request or approval, and the options of its jobs.

Options that a step does not give are those of the task, if a worker has registered the task. HTTP requests of steps and
schedules become arguments of the task `http`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET

from tickwork.core.dag.graph import ApprovalStep, JsonTemplate, Template
from tickwork.core.dag.untrusted_values import misplaced, pinned
from tickwork.core.job import TaskDefinition
from tickwork.core.job_options import DEFAULT_QUEUE, Options, read_option, task_name
from tickwork.core.limits.task_limits import decode_task_limits
from tickwork.core.text.duration import parse_duration
from tickwork.core.web.answer import is_expected
from tickwork.declare.dag_fields import ApproveFields, HttpFields, StepFields
from tickwork.declare.document_nodes import Node, ReadContext, UnusableNode, read_struct
from tickwork.declare.expressions import NameScope, PlaceholderWriter, has_expression, plain
from tickwork.declare.schedules import HTTP, SHELL, SHELL_ARGUMENTS, encode, made

_MAY_BE_SECRET = ("url", "headers", "auth")


def request_of(place: Node, reading: ReadContext) -> dict[str, Any]:
    """Return the arguments of a request outside of a dag, which may use secrets but no values of a run."""
    read_struct(place, HttpFields, reading.problems)
    filler = PlaceholderWriter(NameScope(), reading)
    return filler.arguments(read_request(place, filler))


def read_request(place: Node, filler: PlaceholderWriter) -> dict[str, Any]:
    """Return the arguments of a request, without the texts with secrets, which `filler` keeps. Reports all errors."""
    problems, url, auth = filler.reading.problems, place["url"], place["auth"]
    if place.has("json") and place.has("body"):
        problems.add(place["body"], "json is the body already: say one of them.")
    if auth.is_there and sum(auth.has(name) for name in auth.names()) != 1:
        problems.add(auth, "say one of basic, bearer and hmac.")
    if isinstance(url.value, str) and not url.value.startswith(("http://", "https://", "${")):
        problems.note(url.misfit("must begin with http:// or https://"))
    _check_numbers(place, filler)
    return {
        name: filler.fill(place[name], name, as_text=name not in ("json", "expect"), secret=name in _MAY_BE_SECRET)
        for name in HttpFields.__struct_fields__
        if place.has(name)
    }


def _check_numbers(place: Node, filler: PlaceholderWriter) -> None:
    """Report invalid timeouts and expected statuses."""
    for name in ("timeout", "connect_timeout"):
        if place.has(name):
            with filler.reading.problems.gathered():
                made(place[name], lambda name=name: parse_duration(place[name].value, what=name))  # type: ignore[misc]
    if isinstance(place["expect"].value, list):
        with filler.reading.problems.gathered():
            made(place["expect"], lambda: is_expected(200, place["expect"].value))


KINDS = ("task", SHELL, HTTP, "approve")
OPTIONS = (
    "queue",
    "priority",
    "retries",
    "backoff",
    "timeout",
    "expires",
    "on_lost",
    "max_lost",
    "labels",
    "tenant",
    "resources",
)
_GOES_WITH = {"args": "task", **dict.fromkeys(SHELL_ARGUMENTS, SHELL)}
ARGUMENTS = tuple(_GOES_WITH)  # the fields with the arguments of a step
_OF_JOBS = (*OPTIONS, "map", "product", "max_parallel")


def kind_of(place: Node) -> str:
    """Return the kind of a step: task, shell, http or approve. Raises UnusableNode."""
    said = [kind for kind in KINDS if place.has(kind)]
    if len(said) != 1:
        raise UnusableNode(place, f"say what it runs: one of {', '.join(KINDS)}{', not several' if said else ''}.")
    return said[0]


def check_company(place: Node, kind: str, reading: ReadContext) -> None:
    """Report fields that belong to another kind of step."""
    for name, other in _GOES_WITH.items():
        if place.has(name) and kind != other:
            reading.problems.add(place[name], f"it goes with {other}, and this step has {kind}.")
    if kind == "approve":
        for name in _OF_JOBS:
            if place.has(name):
                reading.problems.add(place[name], "it is for jobs, and an approval is none.")


def read_arguments(place: Node, kind: str, scope: NameScope, reading: ReadContext) -> tuple[str, JsonTemplate]:
    """Return the task that a step runs and the template of its arguments. Raises UnusableNode."""
    filler = PlaceholderWriter(scope, reading)
    match kind:
        case "task":
            task = made(place["task"], lambda: task_name(place["task"].value))
            filled = filler.fill(place["args"]) if place.has("args") else {}
        case "shell":
            task, filled = SHELL, _of_shell(place, filler)
        case _:
            task, filled = HTTP, read_request(place["http"], filler)
    said = place["args"] if place.has("args") else place
    flaw = misplaced(task, filler.holes, filler.arguments(filled) if isinstance(filled, dict) else None)
    if flaw is not None:
        raise UnusableNode(said, flaw)
    arguments = filler.arguments(filled)
    unchecked = {str(hole.where[0]) for hole in filler.holes if hole.where}
    json = made(said, lambda: encode(reading.known, task, arguments, unchecked))
    return task, pinned(task, JsonTemplate(msgspec.Raw(json), tuple(filler.holes)))


def _of_shell(place: Node, filler: PlaceholderWriter) -> dict[str, Any]:
    """Return the arguments of a command.

    Expressions in the command itself are an error, because values of a run could inject commands. Raises UnusableNode.
    """
    words = list(place[SHELL].items()) if isinstance(place[SHELL].value, list) else [place[SHELL]]
    for word in words:
        if isinstance(word.value, str) and has_expression(word.value):
            raise UnusableNode(
                word,
                "${...} is not filled in here, since its value could be run as a command: pass it through env, as in "
                'env: {WORD: "${item}"}, and say "$WORD". A ${ of the shell itself is written $${.',
            )
    command = place[SHELL].value
    filled: dict[str, Any] = {"command": plain(command) if isinstance(command, str) else list(map(plain, command))}
    for name in SHELL_ARGUMENTS:
        if place.has(name):
            filled[name] = filler.fill(place[name], name, as_text=True, secret=name == "env")
    return filled


def read_template(place: Node, said: StepFields, task: str, reading: ReadContext) -> Template:
    """Return the template of a step's jobs, with their options. Invalid options are reported."""
    definition = reading.known(task)
    if definition is not None and decode_task_limits(definition.task_limits).merging is not None:
        reading.problems.add(place["task"], f"{task!r} is debounced or throttled: several calls are one job of it.")
    given = {}
    for name in OPTIONS:
        if getattr(said, name) is not UNSET:
            with reading.problems.gathered():
                given["needs" if name == "resources" else name] = _option(place[name], name)
    return _template(task, definition, tuple(given.items()))


@lru_cache(maxsize=1024)
def _template(task: str, definition: TaskDefinition | None, given: tuple[tuple[str, Any], ...]) -> Template:
    options = replace(Options.of_task(task, definition), **dict(given), key_for=None)
    return Template(
        task,
        queue=options.queue or DEFAULT_QUEUE,
        priority=dict(given).get("priority"),
        policy=options.policy(),
        labels=options.labels or (),
        tenant=options.tenant,
        needs=options.needs or "",
        task_limits=None if definition is None else definition.task_limits,
    )


def _option(place: Node, name: str) -> Any:
    return made(place, lambda: read_option("needs" if name == "resources" else name, place.value))


def read_approval(
    place: Node, said: str | ApproveFields, scope: NameScope, reading: ReadContext
) -> tuple[ApprovalStep, JsonTemplate]:
    """Return an approval, and the template of its text if the text has expressions. Raises UnusableNode."""
    asked = place if isinstance(said, str) else place["text"]
    text = asked.value if isinstance(asked.value, str) else ""
    filler = PlaceholderWriter(scope, reading)
    filled = filler.fill(asked, "text", as_text=True) if text else None
    args = (
        JsonTemplate(msgspec.Raw(b'{"text":null}'), tuple(filler.holes))
        if filler.holes
        else JsonTemplate(msgspec.Raw(b"{}"))
    )
    if isinstance(said, str):
        return ApprovalStep(filled or text), args
    timeout = None
    if said.timeout is not UNSET:
        timeout = made(place["timeout"], lambda: parse_duration(place["timeout"].value, what="timeout"))
    return ApprovalStep(filled or text, tuple(said.who or ()), timeout, said.default), args
