"""Encode and decode the arguments and results of a task by its parameters and type hints.

Arguments are stored as one JSON object, keyed by parameter. Each value is encoded by its hint and, before it is stored,
decoded with the decoder that the worker will use, and compared: a value that would not come back unchanged is refused
at enqueue, where the caller sees the error. Defaults are not filled in; the worker applies its own.

Without a hint, or with Any, values are written with tags (see `payload`). A hint that cannot be used (a name that
exists for type checkers only, a union that JSON cannot tell apart) counts as no hint.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from inspect import Parameter
from itertools import takewhile
from typing import Any, Self

import msgspec
from msgspec import UNSET
from msgspec.structs import astuple

from tickwork.core.arguments.fitting_types import JsonTypes
from tickwork.core.arguments.payload import BLOB_LIMIT, PAYLOAD_LIMIT, from_wire, seal, too_large
from tickwork.core.arguments.roundtrip import PLAIN, FastEncoder, difference
from tickwork.core.arguments.type_hints import (
    BY_NAME,
    BY_POSITION,
    UNREADABLE,
    Hint,
    TaskParameter,
    describe,
    globals_of,
    inspect_signature,
    name_of,
    one_of_many,
    reads_null,
    result_of_one,
    struct_of,
)
from tickwork.core.arguments.unstorable import INT_MAX, INT_MIN, Flaw, brief, find_flaw
from tickwork.core.text.suggestions import guess
from tickwork.errors import InvalidArguments, InvalidPayload


class Signature:
    """The parameters and the result of a task. Make it with `Signature.of(function)`, once per task."""

    def __init__(self, name: str, parameters: list[TaskParameter], result: Hint, kind: str = "task") -> None:
        self._name = name
        self._kind = kind
        self._parameters = parameters
        self._hints = {parameter.name: parameter.hint for parameter in parameters}
        self._positional = [p.name for p in parameters if p.kind in BY_POSITION]
        self._keywords = frozenset(p.name for p in parameters if p.kind in BY_NAME)
        self._required = frozenset(p.name for p in parameters if p.required)
        self._rest = next((p.name for p in parameters if p.kind is Parameter.VAR_POSITIONAL), None)
        self._extras = next((p.name for p in parameters if p.kind is Parameter.VAR_KEYWORD), None)
        self._all_by_position = self._required.issubset(self._positional)
        self._all_by_name = len(self._keywords) == len(parameters)
        self._lowers = any(hint.lower for hint in self._hints.values())
        self._checks = any(hint.checks for hint in self._hints.values())
        self._plain = {
            name: hint.wire for name, hint in self._hints.items() if any(hint.wire is kind for kind in PLAIN)
        }
        self._plainly = self._plain_calls()
        self._defaults = {p.name: p.default for p in parameters if p.default is not Parameter.empty}
        self._struct = struct_of(parameters)
        self._decoder = msgspec.json.Decoder(self._struct, dec_hook=from_wire)
        self._result = result
        self._result_decoder = msgspec.json.Decoder(result.wire, dec_hook=from_wire)
        self._may_return_none = reads_null(self._result_decoder)
        self._shapes: dict[str, JsonTypes] = {}

    @classmethod
    def of(cls, function: Callable[..., Any], *, skip_first: bool = False, kind: str = "task") -> Self:
        """Read a function's signature; with `skip_first`, without its first parameter, which the worker injects.

        `kind` is what errors call the function.
        """
        signature, names = inspect_signature(function), globals_of(function)
        parameters = list(signature.parameters.values())[skip_first:]
        result = Hint.of(signature.return_annotation, names)
        return cls(name_of(function), [TaskParameter.of(parameter, names) for parameter in parameters], result, kind)

    @classmethod
    def of_batch(cls, function: Callable[..., Any]) -> Signature:
        """Read the signature of a batch handler as one of its jobs sees it: one argument, one result.

        Raises InvalidOption for hints that are not lists.
        """
        signature, names = inspect_signature(function), globals_of(function)
        (parameter,) = signature.parameters.values()
        result = result_of_one(function, signature.return_annotation, names)
        return cls(name_of(function), [one_of_many(function, parameter, names)], result)

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], task: str) -> bytes:
        """Return the arguments of a call as JSON.

        Raises InvalidArguments for a call that does not fit the signature or its hints, and InvalidPayload for values
        that no store may hold or that are too large.
        """
        if not args and not kwargs and not self._required:
            return b"{}"
        if not kwargs and self._plainly is not None:
            data = self._plainly.written(args)
            if data is not None and len(data) <= PAYLOAD_LIMIT:
                return data
        bound = self.bind(args, kwargs, task)
        return self._written(bound, bound, self._decoder, task)

    def encode_some(self, bound: dict[str, Any], task: str, unchecked: Collection[str] = ()) -> bytes:
        """Encode arguments that are given by parameter, as `bind` returns them; some may be missing.

        Arguments in `unchecked` are encoded by their hints but not checked against them: they have placeholders,
        which the run fills later, and the worker checks them then.
        """
        whole = {name: value for name, value in bound.items() if name not in unchecked} if unchecked else bound
        return self._written(bound, whole, self._some, task)

    def encode_named(self, arguments: Mapping[str, Any], task: str) -> bytes:
        """Encode arguments that are given by name as JSON values, as REST and the command line do.

        Raises the errors of `encode`. A value is JSON as it is stored: "2026-11-15T00:00:00Z" for a datetime,
        `{"$uuid": "…"}` for a parameter without a type hint. The value for `*args` is an array, and the value for
        `**kwargs` is an object, under the parameter's own name.
        """
        self._refuse_names(arguments.keys(), task)
        given = dict(arguments)
        try:
            data = seal(given)
            if found := difference(given, msgspec.json.decode(data)):
                reason = f"{brief(found.given)} is not plain JSON; write keys, times and the like as text"
                raise find_flaw(given) or Flaw(reason, f"${found.path}")
            args, kwargs = self._call(self._read(data, given, self._decoder))
        except Flaw as flaw:
            raise self._refused(flaw, task) from None
        except _Mismatch as mismatch:
            raise self._mismatched(mismatch, task) from None
        return self.encode(args, kwargs, task)

    def decode(self, data: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the args and kwargs to call the function with.

        Raises InvalidArguments if the stored arguments do not fit the function, which may have changed since, and
        InvalidPayload if they are not JSON.
        """
        try:
            return self._call(astuple(self._decoder.decode(data)))
        except (msgspec.ValidationError, _Mismatch) as error:
            raise InvalidArguments(f"the stored arguments do not fit {self._name}(): {error}.") from None
        except UNREADABLE as error:
            raise InvalidPayload(f"the stored arguments of {self._name}() cannot be read: {error}.") from None

    def decode_one(self, data: bytes) -> Any:
        """Return the single argument of a job in a batch. Raises like `decode`."""
        args, kwargs = self.decode(data)
        (value,) = (*args, *kwargs.values())
        return value

    def encode_result(self, value: Any, task: str, limit_bytes: int = BLOB_LIMIT) -> bytes:
        """Return a handler's result as JSON. Raises InvalidPayload if its annotation or the stores forbid it."""
        if value is None and self._may_return_none:
            return b"null"
        what = f"the result of {self._kind} {task!r}"
        try:
            data = seal(self._result.lowered(value))
            self._check_result(value, data)
        except Flaw as flaw:
            raise flaw.about(what, self._result.note) from None
        except _Mismatch as mismatch:
            raise InvalidPayload(f"{what}: {mismatch}.") from None
        if len(data) > limit_bytes:
            raise too_large(data, what=what, limit_bytes=limit_bytes)
        return data

    def decode_result(self, data: bytes) -> Any:
        """Return the result that `encode_result` was given.

        Raises InvalidPayload if it no longer fits the annotation.
        """
        try:
            return self._result_decoder.decode(data)
        except UNREADABLE as error:
            raise InvalidPayload(f"the stored result of {self._name}() cannot be read: {error}.") from None

    def defaults(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the defaults of these parameters in JSON's own types. Defaults that cannot be stored are left out."""
        found = {}
        for name in sorted(set(names) & self._defaults.keys()):
            with suppress(Flaw):
                found[name] = msgspec.json.decode(seal(self._hints[name].lowered(self._defaults[name])))
        return found

    def takes(self, name: str) -> JsonTypes:
        """Return the JSON types that a parameter accepts."""
        if name not in self._shapes:
            self._shapes[name] = JsonTypes.of(self._hints[name])
        return self._shapes[name]

    @cached_property
    def gives(self) -> JsonTypes:
        """The JSON types that the result can have."""
        return JsonTypes.of(self._result)

    @property
    def own_defaults(self) -> dict[str, Any]:
        """The defaults of the parameters, as Python values."""
        return self._defaults

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments.

        Parameters without a hint, models and paths accept anything in it.
        """
        return msgspec.json.schema(self._struct, schema_hook=describe)

    # ---- from a call to its arguments by name, and back -------------------------------------------------------------

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], task: str) -> dict[str, Any]:
        """Return the arguments of a call by parameter, without checking values.

        Raises InvalidArguments for a wrong call.
        """
        bound = dict(zip(self._positional, args, strict=False))
        if not kwargs and len(args) == len(self._positional) and self._all_by_position:
            return bound
        if len(args) > len(self._positional):
            if self._rest is None:
                raise self._too_many(len(args), task)
            bound[self._rest] = args[len(self._positional) :]
        for name, value in kwargs.items():
            if name in self._keywords and name not in bound:
                bound[name] = value
            elif self._extras is None or name in self._keywords:
                raise self._unexpected(name, task)
            else:
                bound.setdefault(self._extras, {})[name] = value
        if not self._required <= bound.keys():
            raise self._missing(bound.keys(), task)
        return bound

    def _call(self, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the args and kwargs of a call from the decoded values of all parameters."""
        given = {name: value for name, value in zip(self._hints, values, strict=True) if value is not UNSET}
        if self._all_by_name:
            return (), given
        args = [given.pop(name) for name in takewhile(given.__contains__, self._positional)]
        rest = given.pop(self._rest, ()) if self._rest else ()
        extras = given.pop(self._extras, {}) if self._extras else {}
        if (rest and len(args) < len(self._positional)) or not given.keys() <= self._keywords:
            raise _Mismatch("one that goes by position is missing before another one")
        if twice := extras.keys() & self._keywords:
            raise _Mismatch(f"{min(twice)!r} is among {self._extras!r}, but is a parameter of its own")
        return (*args, *rest), {**given, **extras}

    # ---- encoding of arguments, and errors for arguments that do not fit --------------------------------------------

    def _written(
        self, bound: dict[str, Any], whole: dict[str, Any], decoder: msgspec.json.Decoder[Any], task: str
    ) -> bytes:
        """Return the arguments in `bound` as JSON, after checking those in `whole` with the decoder."""
        try:
            data = seal(self._lower(bound) if self._lowers else bound)
            if self._checks and not self._is_plain(whole):
                self._check(whole, data if whole is bound else seal(self._lower(whole)), decoder)
        except Flaw as flaw:
            raise self._refused(flaw, task) from None
        except _Mismatch as mismatch:
            raise self._mismatched(mismatch, task) from None
        if len(data) > PAYLOAD_LIMIT:
            raise too_large(data, what=f"the payload of {self._kind} {task!r}", limit_bytes=PAYLOAD_LIMIT)
        return data

    def _plain_calls(self) -> FastEncoder | None:
        """Return the fast encoder; None if a positional parameter is not plain, or a required one is keyword-only."""
        if not self._all_by_position or not self._plain.keys() >= set(self._positional):
            return None
        return FastEncoder({name: self._plain[name] for name in self._positional})

    @cached_property
    def _some(self) -> msgspec.json.Decoder[Any]:
        """The decoder for arguments of which some may be missing."""
        optional = [replace(parameter, required=False) for parameter in self._parameters]
        return msgspec.json.Decoder(struct_of(optional), dec_hook=from_wire)

    def _lower(self, bound: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments in the form that msgspec can encode. Raises Flaw, with the path from the arguments."""
        wire = {}
        for name, value in bound.items():
            try:
                wire[name] = self._hints[name].lowered(value)
            except Flaw as flaw:
                raise Flaw(flaw.reason, f"$.{name}{flaw.path[1:]}") from None
        return wire

    def _read(self, data: bytes, given: Mapping[str, Any], decoder: msgspec.json.Decoder[Any]) -> tuple[Any, ...]:
        """Decode arguments. Raises Flaw or _Mismatch, which names the argument that does not fit its hint."""
        try:
            return astuple(decoder.decode(data))
        except UNREADABLE as error:
            said, path = _where(error)
            name, inside = _owner(path)
            told = self._hints[name].told(given[name], said, inside) if name in given else said
            raise find_flaw(given) or _Mismatch(told, name) from None

    def _is_plain(self, bound: dict[str, Any]) -> bool:
        """Return whether every argument has exactly the plain type of its hint, so that JSON returns it unchanged."""
        plain = self._plain
        for name, value in bound.items():
            kind = type(value)
            if kind is not plain.get(name) or (kind is int and not INT_MIN <= value <= INT_MAX):
                return False
        return True

    def _check(self, bound: dict[str, Any], data: bytes, decoder: msgspec.json.Decoder[Any]) -> None:
        """Raise Flaw or _Mismatch for the first argument that the worker would not see as it was given."""
        for (name, hint), back in zip(self._hints.items(), self._read(data, bound, decoder), strict=True):
            if back is not UNSET and (objection := hint.objection(bound[name], back)):
                raise find_flaw(bound) or _Mismatch(objection, name)

    def _check_result(self, value: Any, data: bytes) -> None:
        """Raise Flaw or _Mismatch if a result would not be decoded as it was returned."""
        try:
            objection = self._result.objection(value, self._result_decoder.decode(data))
        except UNREADABLE as error:
            objection = self._result.told(value, *_where(error))
        if objection:
            raise find_flaw(value) or _Mismatch(objection)

    def _refused(self, flaw: Flaw, task: str) -> InvalidPayload:
        name, inside = _owner(flaw.path)
        note = self._hints[name].note if name in self._hints else ""
        return Flaw(flaw.reason, inside).about(self._argument(name, task), note)

    def _mismatched(self, mismatch: _Mismatch, task: str) -> InvalidArguments:
        return InvalidArguments(f"{self._argument(mismatch.name, task)}: {mismatch}.")

    def _argument(self, name: str, task: str) -> str:
        owner = f"{self._kind} {task!r}"
        return f"argument {name!r} of {owner}" if name else f"the arguments of {owner}"

    def _refuse_names(self, given: Iterable[str], task: str) -> None:
        for name in given:
            if name not in self._hints:
                raise self._unexpected(name, task)
        if not self._required <= set(given):
            raise self._missing(given, task)

    def _unexpected(self, name: str, task: str) -> InvalidArguments:
        """Return the error for an argument by name that the function does not accept."""
        if name in self._keywords:
            return InvalidArguments(f"{self._kind} {task!r} was given {name!r} twice, by position and by name.")
        if name in self._hints:
            return InvalidArguments(f"{self._kind} {task!r} takes {name!r} by position only; do not name it.")
        return InvalidArguments(
            f"{self._kind} {task!r} has no parameter {name!r}{guess(name, self._hints)}. It takes {self._takes()}."
        )

    def _missing(self, given: Iterable[str], task: str) -> InvalidArguments:
        names = [name for name in self._hints if name in self._required - set(given)]
        return InvalidArguments(f"{self._kind} {task!r} needs {_listed(names)}. It takes {self._takes()}.")

    def _too_many(self, count: int, task: str) -> InvalidArguments:
        limit = len(self._positional)
        given = f"{self._kind} {task!r} was given {count} arguments by position"
        return InvalidArguments(f"{given} and takes {limit} that way.")

    def _takes(self) -> str:
        return _listed(self._hints) if self._hints else "no arguments"


class _Mismatch(Exception):
    """An argument or result that does not fit its hint."""

    def __init__(self, objection: str, name: str = "") -> None:
        super().__init__(objection)
        self.name = name


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _where(error: Exception) -> tuple[str, str]:
    """Split an error of msgspec into message and path: "Expected `int`, got `str` - at `$.a[3]`"."""
    said, _, place = str(error).rpartition(" - at `")
    path = place.removeprefix("key` in `").removesuffix("`")
    return (said, path) if path.startswith("$") and place.endswith("`") else (str(error), "$")


def _owner(path: str) -> tuple[str, str]:
    """Split the path of a value inside the arguments into the parameter and the path inside its value."""
    found = re.fullmatch(r"\$\.(\w+)(.*)", path, re.DOTALL)
    return (found[1], f"${found[2]}") if found else ("", path)
