"""Read declarations of webhooks from files and requests, and compute the job arguments for a received message.

hooks:
  pushed: {style: github, secret: "${secret.GITHUB}", task: build, args: {commit: "${body.after}"}, events: [push]}
  paid: {style: stripe, secret: STRIPE, dag: ship, args: {order: "${body.data.object.id}"}}

`${body...}` is a part of the message, `${event}` its type, and `${headers.NAME}` one of its headers.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw

from tickwork.core.dag.graph import JsonTemplate, Placeholder
from tickwork.core.dag.step_inputs import NO_RESULTS, Values, filled
from tickwork.core.dag.untrusted_values import misplaced, pinned
from tickwork.core.hooks import WINDOW, Hook
from tickwork.core.job_options import task_name
from tickwork.core.text.duration import parse_duration
from tickwork.core.text.yaml_loader import YamlDocument
from tickwork.declare.dag_fields import HookFields
from tickwork.declare.document_nodes import Known, Node, Problems, ReadContext, UnusableNode, read_struct
from tickwork.declare.expressions import NameScope, PlaceholderWriter, has_expression
from tickwork.declare.schedules import encode, made, param_misfits, stored_params
from tickwork.errors import check

ROOTS = ("body", "event", "headers")
_SECRET = re.compile(r"\$\{\s*secret\.([A-Za-z_][A-Za-z0-9_]*)\s*\}|([A-Za-z_][A-Za-z0-9_]*)")


def read_hook(name: str, place: Node, reading: ReadContext) -> Hook | None:
    """Read a hook; report its errors and return None if it has any. Raises UnusableNode.

    The parameters of a dag are not checked here, because the dag may be declared later. See `open_arguments`.
    """
    before = len(reading.problems)
    said = read_struct(place, HookFields, reading.problems)
    kind = _kind(place)
    secret = _secret(place["secret"], reading)
    _check_expressions(place, reading)
    if len(reading.problems) > before or secret is None:
        return None
    window = WINDOW
    if said.window is not UNSET:
        window = made(place["window"], lambda: parse_duration(place["window"].value, what="window"))
    return made(
        place,
        lambda: Hook(
            name=name,
            style=said.style,
            secret=secret,
            target=task_name(place[kind].value),
            kind=kind,
            args=msgspec.json.encode({} if said.args is UNSET else said.args).decode(),
            key=said.key or None,
            events=tuple(said.events or ()),
            window=window,
            description=said.description or None,
        ),
    )


def _kind(place: Node) -> Any:
    said = [kind for kind in ("task", "dag") if place.has(kind)]
    if len(said) != 1:
        raise UnusableNode(place, "say what it starts: either task or dag.")
    return said[0]


def _secret(place: Node, reading: ReadContext) -> str | None:
    """Return the name of the hook's secret; report an invalid one and return None."""
    found = _SECRET.fullmatch(place.value) if isinstance(place.value, str) else None
    if found is None:
        if place.is_there:
            reading.problems.add(place, "name the secret, as in ${secret.GITHUB}; files never contain its value.")
        return None
    reading.ask_for(found[1] or found[2], place)
    return found[1] or found[2]


def _check_expressions(place: Node, reading: ReadContext) -> None:
    """Report invalid expressions in the key and arguments, and arguments that do not fit the task."""
    filler = PlaceholderWriter(NameScope(roots=ROOTS), reading)
    if place.has("key"):
        filler.fill(place["key"], "key", as_text=True)
    if not place.has("args"):
        return
    before = len(filler.holes)
    arguments = filler.fill(place["args"])
    if place.has("task") and isinstance(arguments, dict) and reading.problems.is_sound(place):
        unchecked = {str(hole.where[0]) for hole in filler.holes[before:] if hole.where}
        with reading.problems.gathered():
            task = str(place["task"].value)
            made(place["args"], lambda: encode(reading.known, task, arguments, unchecked))
    flaw = misplaced(place["task"].value, filler.holes[before:], arguments) if place.has("task") else None
    if flaw is not None:
        reading.problems.add(place["args"], flaw)


def open_arguments(place: Node) -> set[str]:
    """Return the arguments of a hook with expressions, whose values are known only when a message arrives."""
    return {name for name in place["args"].names() if _is_open(place["args"][name].value)}


def _is_open(value: Any) -> bool:
    """Return whether a value contains expressions."""
    match value:
        case str():
            return has_expression(value)
        case dict():
            return any(_is_open(one) for one in value.values())
        case list():
            return any(_is_open(one) for one in value)
        case _:
            return False


def arguments_of(hook: Hook, values: Values) -> dict[str, Any]:
    """Return the arguments of the job for a message. Raises Unfillable if the message lacks a referenced part."""
    template = pinned(hook.target if hook.kind == "task" else "", _template(hook.args))
    found: dict[str, Any] = msgspec.json.decode(filled(template, values, NO_RESULTS))
    return found


def key_of(hook: Hook, values: Values) -> str | None:
    """Return the deduplication key of a message; None if the hook has no key. Raises Unfillable."""
    if hook.key is None:
        return None
    template = _template(msgspec.json.encode({"key": hook.key}).decode(), as_text=True)
    found = msgspec.json.decode(filled(template, values, NO_RESULTS), type=dict[str, Any])["key"]
    return found if isinstance(found, str) else msgspec.json.encode(found).decode()


@lru_cache(maxsize=1024)
def _template(args: str, as_text: bool = False) -> JsonTemplate:
    """Parse the stored arguments of a hook into a template. Raises BadFile."""
    problems = Problems("a hook")
    document = YamlDocument(msgspec.json.decode(args), {(): 1}, [])
    filler = PlaceholderWriter(NameScope(roots=ROOTS), ReadContext("a hook", lambda name: None, problems, {}))
    json = filler.fill(Node(document, (), document.value), as_text=as_text)
    problems.raise_if_any()
    holes: list[Placeholder] = filler.holes
    return JsonTemplate(Raw(msgspec.json.encode(json)), tuple(holes))


def hook_of(name: str, fields: dict[str, Any], known: Known) -> Hook:
    """Return the hook that a request or a command declares. Raises BadFile with all errors."""
    problems = Problems("")
    document = YamlDocument(fields, {(): 1}, [])
    hook = None
    with problems.gathered():
        place = Node(document, (), fields)
        hook = read_hook(name, place, ReadContext("", known, problems, {}))
        params = stored_params(hook.target, known) if hook is not None and hook.kind == "dag" else None
        for misfit in () if params is None else param_misfits(place, params, open_arguments(place)):
            problems.note(misfit)
    problems.raise_if_any()
    check(hook, f"Hook {name!r} was not read, and nothing is wrong with it.")
    return cast("Hook", hook)
