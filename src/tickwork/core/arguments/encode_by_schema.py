"""Encode arguments of a task that this program does not import, by the schema that a worker stored for the task.

Arguments are written as the JSON that the task's hints expect: a datetime as text, a model as an object. They are
tagged only if a worker has stored that a parameter has no hint. Names and JSON types are checked against the stored
schema; what the schema does not describe, such as the format of a text, the worker checks when it runs the job.

The parameters of a run are checked against the schema that is stored with its dag. Only the parts of JSON Schema that
signatures and YAML files produce are checked; other parts are left to the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from tickwork.core.arguments import payload
from tickwork.core.arguments.fitting_types import ANYTHING, JsonTypes
from tickwork.core.arguments.unstorable import Flaw, brief, find_flaw
from tickwork.core.job import TaskDefinition
from tickwork.core.text.suggestions import guess
from tickwork.errors import InvalidArguments, InvalidPayload

Schema = Mapping[str, Any]

_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def completed(dag: str, schema: Schema, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters with defaults for the missing ones.

    Raises InvalidArguments if they do not fit the schema.
    """
    known = schema.get("properties", {})
    for name, value in given.items():
        if name not in known:
            takes = ", ".join(map(repr, known)) or "none"
            raise InvalidArguments(f"dag {dag!r} has no parameter {name!r}{guess(name, known)}. It takes {takes}.")
        if not fits(value, known[name], schema):
            kind = told(known[name], schema)
            raise InvalidArguments(f"parameter {name!r} of dag {dag!r} is of type {kind}, not {brief(value)}.")
    if missing := [name for name in schema.get("required", ()) if name not in given]:
        raise InvalidArguments(f"dag {dag!r} needs {', '.join(map(repr, missing))}. Nothing was stored.")
    return {**defaults_of(schema), **given}


def defaults_of(schema: Schema) -> dict[str, Any]:
    """Return the defaults of the parameters that have one."""
    return {name: one["default"] for name, one in schema.get("properties", {}).items() if "default" in one}


def fits(value: Any, schema: Schema, root: Schema) -> bool:
    """Return whether a JSON value fits a schema. References in the schema are resolved in `root`."""
    schema = _followed(schema, root)
    if "anyOf" in schema:
        return any(fits(value, one, root) for one in schema["anyOf"])
    if "enum" in schema and value not in schema["enum"]:
        return False
    if schema.get("format") == "decimal":  # a decimal may be given as a number, too
        return isinstance(value, str | int | float) and not isinstance(value, bool)
    if "type" in schema and not any(_TYPES[one](value) for one in _types(schema) if one in _TYPES):
        return False
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        return all(fits(one, schema["items"], root) for one in value)
    if isinstance(value, dict):
        known = schema.get("properties", {})
        there = all(name in value for name in schema.get("required", ()))
        return there and all(fits(value[name], one, root) for name, one in known.items() if name in value)
    return True


def told(schema: Schema, root: Schema) -> str:
    """Return a description of the type of a schema: "string", "integer or null", "array of integer"."""
    schema = _followed(schema, root)
    if "anyOf" in schema:
        return " or ".join(told(one, root) for one in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(map(repr, schema["enum"]))
    if "type" not in schema:
        return "anything"
    text = " or ".join(_types(schema))
    items = schema.get("items")
    return f"{text} of {told(items, root)}" if isinstance(items, Mapping) and items else text


def _types(schema: Schema) -> list[str]:
    said = schema["type"]
    return [said] if isinstance(said, str) else list(said)


def _followed(schema: Schema, root: Schema) -> Schema:
    reference = schema.get("$ref")
    return schema if reference is None else root.get("$defs", {}).get(reference.rpartition("/")[2], {})


class StoredSignature:
    """A signature from a stored task definition. Encodes arguments by name, and by position if the names are known."""

    def __init__(self, definition: TaskDefinition | None) -> None:
        self._root = {} if definition is None else msgspec.json.decode(definition.schema)
        schema = _flat(self._root)
        self._parameters = None if definition is None else dict(schema.get("properties", {}))
        self._is_dag = definition is not None and definition.version is not None
        self._schema = schema

    def encode(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], task: str, unchecked: Collection[str] = ()
    ) -> bytes:
        """Return the arguments as JSON. Raises InvalidArguments if they do not fit, InvalidPayload for bad values.

        The defaults of a dag are filled in, because a run has no function that would do so later. Values of `unchecked`
        arguments are not known yet.
        """
        given = self.bind(args, kwargs, task)
        data = self.encode_some(given, task)
        if self._is_dag:
            return self._whole(data, task)
        if "properties" in self._schema:
            self._check(msgspec.json.decode(data), task, unchecked)
        return data

    def encode_named(self, arguments: Mapping[str, Any], task: str) -> bytes:
        """Encode arguments given by name as JSON values, as REST requests contain them. Raises like `encode`.

        Without a hint, `{"$uuid": "…"}` is a UUID, and `{"$dict": {"$uuid": "…"}}` is the dict `{"$uuid": "…"}`.
        """
        return self.encode((), {name: self._meant(name, value, task) for name, value in arguments.items()}, task)

    def _meant(self, name: str, value: Any, task: str) -> Any:
        """Return the value that JSON for a parameter without a hint represents.

        Raises InvalidPayload for an unknown tag.
        """
        if not self._is_untyped(name):
            return value
        try:
            return payload.unpack(value)
        except (InvalidPayload, ValueError) as error:
            raise InvalidPayload(f"argument {name!r} of task {task!r}: {error}. Nothing was stored.") from None

    def _check(self, given: Mapping[str, Any], task: str, unchecked: Collection[str]) -> None:
        """Raise InvalidArguments for arguments that the worker would refuse."""
        known = self._schema["properties"]
        for name, value in given.items():
            if name not in known:
                takes = ", ".join(map(repr, known)) or "no arguments"
                raise InvalidArguments(
                    f"task {task!r} has no argument {name!r}{guess(name, known)}. It takes {takes}. Nothing was stored."
                )
            if name not in unchecked and not fits(value, known[name], self._root):
                kind = told(known[name], self._root)
                raise InvalidArguments(
                    f"argument {name!r} of task {task!r} is of type {kind}, not {brief(value)}. Nothing was stored."
                )
        if missing := [name for name in self._schema.get("required", ()) if name not in given]:
            raise InvalidArguments(f"task {task!r} needs {', '.join(map(repr, missing))}. Nothing was stored.")

    def _whole(self, data: bytes, dag: str) -> bytes:
        """Return the parameters of a run, with defaults for the missing ones."""
        given = msgspec.json.decode(data)
        whole = completed(dag, self._schema, given)
        return payload.seal(whole) if len(whole) > len(given) else data

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], task: str) -> dict[str, Any]:
        """Return the arguments of a call by name. Raises InvalidArguments if positional arguments cannot be named."""
        return {**self._by_position(args, kwargs, task), **kwargs}

    def encode_some(self, given: dict[str, Any], task: str, unchecked: Collection[str] = ()) -> bytes:
        """Encode arguments that are named already, without checking them against the schema."""
        what = f"the arguments of task {task!r}"
        try:
            flaw = find_flaw(given)
            if flaw is not None:
                raise flaw
            data = payload.seal({name: self._wire(name, value) for name, value in given.items()})
        except Flaw as flaw:
            raise flaw.about(what) from None
        if len(data) > payload.PAYLOAD_LIMIT:
            raise payload.too_large(data, what=what, limit_bytes=payload.PAYLOAD_LIMIT)
        return data

    def takes(self, name: str) -> JsonTypes:
        """Return the JSON types that a parameter accepts: any, because only the worker knows."""
        return ANYTHING

    @property
    def gives(self) -> JsonTypes:
        """The JSON types of the result: any, because only the worker knows."""
        return ANYTHING

    def _by_position(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], task: str) -> dict[str, Any]:
        """Return positional arguments by name. Raises InvalidArguments if the names are not known or do not match."""
        if not args:
            return {}
        if self._parameters is None:
            raise InvalidArguments(
                f"no worker has told what the arguments of task {task!r} are called. Nothing was stored. "
                f"Pass them by name."
            )
        if len(args) > len(self._parameters):
            raise InvalidArguments(
                f"task {task!r} takes at most {len(self._parameters)} arguments, not {len(args)}. Nothing was stored."
            )
        named = dict(zip(self._parameters, args, strict=False))
        twice = [name for name in named if name in kwargs]
        if twice:
            raise InvalidArguments(f"task {task!r} was given {twice[0]!r} by position and by name. Nothing was stored.")
        return named

    def _wire(self, name: str, value: Any) -> Any:
        return payload.tagged(value) if self._is_untyped(name) else value

    def _is_untyped(self, name: str) -> bool:
        return self._parameters is not None and self._parameters.get(name, {}).get("description") == "anything"


def _flat(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the arguments themselves, which may be among its own definitions."""
    reference = schema.get("$ref")
    return schema["$defs"][reference.rpartition("/")[2]] if reference else schema
