"""The arguments of a task that this program does not import, as far as a worker has told of them.

They are written as the JSON that the task's hints expect: a datetime as its text, a model as its object. Only where a
worker said that a parameter has no hint are they tagged. Whether they fit is for the worker to say.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from tickwork.core import payload
from tickwork.core.dag.params import completed
from tickwork.core.flaws import Flaw, find_flaw
from tickwork.core.job import TaskDefinition
from tickwork.core.shapes import ANYTHING, Shape
from tickwork.errors import InvalidArguments


class StoredSignature:
    """Encodes arguments by name, and by position where their names are known."""

    def __init__(self, definition: TaskDefinition | None) -> None:
        schema = {} if definition is None else _flat(msgspec.json.decode(definition.schema))
        self._parameters = None if definition is None else dict(schema.get("properties", {}))
        self._is_dag = definition is not None and definition.version is not None
        self._schema = schema

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], task: str) -> bytes:
        """The arguments as JSON. Raises InvalidArguments where they cannot be named, InvalidPayload for bad values.

        Those of a dag are checked, and its defaults filled in: a run has no function that would do so later.
        """
        given = self.bind(args, kwargs, task)
        data = self.encode_some(given, task)
        return self._whole(data, task) if self._is_dag else data

    def _whole(self, data: bytes, dag: str) -> bytes:
        """The parameters of a run, with the defaults of those that are not given."""
        given = msgspec.json.decode(data)
        whole = completed(dag, self._schema, given)
        return payload.seal(whole) if len(whole) > len(given) else data

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], task: str) -> dict[str, Any]:
        """The arguments of a call by name. Raises InvalidArguments where they cannot be named."""
        return {**self._by_position(args, kwargs, task), **kwargs}

    def encode_some(self, given: dict[str, Any], task: str, unchecked: Collection[str] = ()) -> bytes:
        """Like `encode`, for arguments that are named already. None of them is checked by a hint anyway."""
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

    def takes(self, name: str) -> Shape:
        """What JSON a parameter can be given: whatever the worker says."""
        return ANYTHING

    @property
    def gives(self) -> Shape:
        """What JSON the results can be: whatever the worker says."""
        return ANYTHING

    def _by_position(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], task: str) -> dict[str, Any]:
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
        untyped = self._parameters is not None and self._parameters.get(name, {}).get("description") == "anything"
        return payload.tagged(value) if untyped else value


def _flat(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of the arguments themselves, which may stand among its own definitions."""
    reference = schema.get("$ref")
    return schema["$defs"][reference.rpartition("/")[2]] if reference else schema
