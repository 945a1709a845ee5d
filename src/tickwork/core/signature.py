"""A task's parameters and type hints, read once: a call becomes JSON where it is made, and a call again in the worker.

The arguments travel as one JSON object, keyed by parameter. Each value is written as its hint says and, before anything
is stored, read back with the very decoder that the worker will use, and compared: what would not come back as it was is
refused at enqueue, where somebody can still see it. Defaults are not filled in; they stay the worker's.

Where there is no hint, or Any, values are written with tags (see `payload`). A hint that cannot be used (a name that
exists for type checkers only, a union that JSON cannot tell apart) counts as none.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import abc
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial, reduce
from inspect import Parameter
from itertools import takewhile
from operator import or_
from types import GenericAlias, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import astuple

from tickwork.core.payload import (
    PAYLOAD_LIMIT,
    RESULT_LIMIT,
    Flaw,
    Tagged,
    Unfit,
    brief,
    difference,
    explain,
    find_flaw,
    from_wire,
    pack,
    pack_members,
    seal,
    within,
)
from tickwork.errors import InvalidArguments, InvalidPayload

_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, RecursionError)


class Signature:
    """What a task takes and returns. Make it with `Signature.of(function)`, once per task."""

    def __init__(self, name: str, parameters: list[_Parameter], result: _Hint) -> None:
        self._name = name
        self._hints = {parameter.name: parameter.hint for parameter in parameters}
        self._positional = [p.name for p in parameters if p.kind in _BY_POSITION]
        self._keywords = frozenset(p.name for p in parameters if p.kind in _BY_NAME)
        self._required = frozenset(p.name for p in parameters if p.required)
        self._rest = next((p.name for p in parameters if p.kind is Parameter.VAR_POSITIONAL), None)
        self._extras = next((p.name for p in parameters if p.kind is Parameter.VAR_KEYWORD), None)
        self._all_by_name = len(self._keywords) == len(parameters)
        self._lowers = any(hint.lower for hint in self._hints.values())
        self._checks = any(hint.checks for hint in self._hints.values())
        self._struct = _struct_of(parameters)
        self._decoder = msgspec.json.Decoder(self._struct, dec_hook=from_wire)
        self._result = result
        self._result_decoder = msgspec.json.Decoder(result.wire, dec_hook=from_wire)
        self._may_return_none = _reads_null(self._result_decoder)

    @classmethod
    def of(cls, function: Callable[..., Any], *, skip_first: bool = False) -> Signature:
        """Read a function's signature; with `skip_first`, without its first parameter, which the worker injects."""
        signature, names = _inspect(function), _globals_of(function)
        parameters = list(signature.parameters.values())[skip_first:]
        name = getattr(function, "__qualname__", type(function).__qualname__)
        result = _Hint.of(signature.return_annotation, names)
        return cls(name, [_Parameter.of(parameter, names) for parameter in parameters], result)

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], task: str) -> bytes:
        """Return the arguments of a call as JSON.

        Raises InvalidArguments for a call that does not fit the signature or its hints, and InvalidPayload for values
        that no store may hold, or too much of them.
        """
        if not args and not kwargs and not self._required:
            return b"{}"
        bound = self._bind(args, kwargs, task)
        try:
            data = seal(self._lower(bound) if self._lowers else bound)
            if self._checks:
                self._check(bound, data)
        except Flaw as flaw:
            raise self._refused(flaw, task) from None
        except _Mismatch as mismatch:
            raise mismatch.about(task) from None
        return within(data, what=f"the payload of task {task!r}", limit_bytes=PAYLOAD_LIMIT)

    def encode_named(self, arguments: Mapping[str, Any], task: str) -> bytes:
        """Like `encode`, for arguments that are given by name as JSON values, as REST and the command line do.

        A value is JSON as it is stored: "2026-11-15T00:00:00Z" for a datetime, `{"$uuid": "…"}` where there is no hint.
        What `*args` takes is an array, and what `**kwargs` takes is an object, under the parameter's own name.
        """
        self._refuse_names(arguments.keys(), task)
        given = dict(arguments)
        try:
            data = seal(given)
            if found := difference(given, msgspec.json.decode(data)):
                reason = f"{brief(found.given)} is not plain JSON; write keys, times and the like as text"
                raise find_flaw(given) or Flaw(reason, f"${found.path}")
            args, kwargs = self._call(self._read(data, given))
        except Flaw as flaw:
            raise self._refused(flaw, task) from None
        except _Mismatch as mismatch:
            raise mismatch.about(task) from None
        return self.encode(args, kwargs, task)

    def decode(self, data: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the args and kwargs to call the function with.

        Raises InvalidArguments when the stored ones do not fit it (it may have changed since they were stored), and
        InvalidPayload when they are not JSON.
        """
        try:
            return self._call(astuple(self._decoder.decode(data)))
        except (msgspec.ValidationError, _Mismatch) as error:
            raise InvalidArguments(f"the stored arguments do not fit {self._name}(): {error}.") from None
        except _UNREADABLE as error:
            raise InvalidPayload(f"the stored arguments of {self._name}() cannot be read: {error}.") from None

    def encode_result(self, value: Any, task: str) -> bytes:
        """Return a handler's result as JSON. Raises InvalidPayload when its annotation or the stores forbid it."""
        if value is None and self._may_return_none:
            return b"null"
        what = f"the result of task {task!r}"
        try:
            data = seal(self._result.lowered(value))
            self._check_result(value, data)
        except Flaw as flaw:
            raise flaw.about(what, self._result.note) from None
        except _Mismatch as mismatch:
            raise InvalidPayload(f"{what}: {mismatch}.") from None
        return within(data, what=what, limit_bytes=RESULT_LIMIT)

    def decode_result(self, data: bytes) -> Any:
        """Return the result that `encode_result` was given. Raises InvalidPayload when it no longer fits."""
        try:
            return self._result_decoder.decode(data)
        except _UNREADABLE as error:
            raise InvalidPayload(f"the stored result of {self._name}() cannot be read: {error}.") from None

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments. What has no hint, models and paths may be anything in it."""
        return msgspec.json.schema(self._struct, schema_hook=_describe)

    # ---- from a call to its arguments by name, and back -------------------------------------------------------------

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], task: str) -> dict[str, Any]:
        bound = dict(zip(self._positional, args, strict=False))
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

    # ---- from arguments to the wire, and what is wrong with them ----------------------------------------------------

    def _lower(self, bound: dict[str, Any]) -> dict[str, Any]:
        wire = {}
        for name, value in bound.items():
            try:
                wire[name] = self._hints[name].lowered(value)
            except Flaw as flaw:
                raise Flaw(flaw.reason, f"$.{name}{flaw.path[1:]}") from None
        return wire

    def _read(self, data: bytes, given: Mapping[str, Any]) -> tuple[Any, ...]:
        try:
            return astuple(self._decoder.decode(data))
        except _UNREADABLE as error:
            said, path = _where(error)
            name, inside = _owner(path)
            told = self._hints[name].told(given[name], said, inside) if name in given else said
            raise find_flaw(given) or _Mismatch(told, name) from None

    def _check(self, bound: dict[str, Any], data: bytes) -> None:
        """Raise Flaw or _Mismatch for the first argument that the worker would not see as it was given."""
        for (name, hint), back in zip(self._hints.items(), self._read(data, bound), strict=True):
            if back is not UNSET and (objection := hint.objection(bound[name], back)):
                raise find_flaw(bound) or _Mismatch(objection, name)

    def _check_result(self, value: Any, data: bytes) -> None:
        try:
            objection = self._result.objection(value, self._result_decoder.decode(data))
        except _UNREADABLE as error:
            objection = self._result.told(value, *_where(error))
        if objection:
            raise find_flaw(value) or _Mismatch(objection)

    def _refused(self, flaw: Flaw, task: str) -> InvalidPayload:
        name, inside = _owner(flaw.path)
        note = self._hints[name].note if name in self._hints else ""
        return Flaw(flaw.reason, inside).about(_argument(name, task), note)

    def _refuse_names(self, given: Iterable[str], task: str) -> None:
        for name in given:
            if name not in self._hints:
                raise self._unexpected(name, task)
        if not self._required <= set(given):
            raise self._missing(given, task)

    def _unexpected(self, name: str, task: str) -> InvalidArguments:
        if name in self._keywords:
            return InvalidArguments(f"task {task!r} was given {name!r} twice, by position and by name.")
        if name in self._hints:
            return InvalidArguments(f"task {task!r} takes {name!r} by position only; do not name it.")
        near = get_close_matches(name, self._hints, n=1)
        guess = f" (did you mean {near[0]!r}?)" if near else ""
        return InvalidArguments(f"task {task!r} has no parameter {name!r}{guess}. It takes {self._takes()}.")

    def _missing(self, given: Iterable[str], task: str) -> InvalidArguments:
        names = [name for name in self._hints if name in self._required - set(given)]
        return InvalidArguments(f"task {task!r} needs {_listed(names)}. It takes {self._takes()}.")

    def _too_many(self, count: int, task: str) -> InvalidArguments:
        limit = len(self._positional)
        return InvalidArguments(f"task {task!r} was given {count} arguments by position and takes {limit} that way.")

    def _takes(self) -> str:
        return _listed(self._hints) if self._hints else "no arguments"


class _Mismatch(Exception):
    """A value that does not fit its hint."""

    def __init__(self, objection: str, name: str = "") -> None:
        super().__init__(objection)
        self.name = name

    def about(self, task: str) -> InvalidArguments:
        return InvalidArguments(f"{_argument(self.name, task)}: {self}.")


def _argument(name: str, task: str) -> str:
    return f"argument {name!r} of task {task!r}" if name else f"the arguments of task {task!r}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _where(error: Exception) -> tuple[str, str]:
    """Split what msgspec says into the saying and the path: "Expected `int`, got `str` - at `$.a[3]`"."""
    found = re.fullmatch(r"(.*) - at (?:`key` in )?`(\$.*)`", str(error), re.DOTALL)
    return (found[1], found[2]) if found else (str(error), "$")


def _owner(path: str) -> tuple[str, str]:
    """Split the path of a value inside the arguments into the parameter and the path inside its value."""
    found = re.fullmatch(r"\$\.(\w+)(.*)", path, re.DOTALL)
    return (found[1], f"${found[2]}") if found else ("", path)


# ---- parameters and their hints -------------------------------------------------------------------------------------

_Lower = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Hint:
    """How the values of one hint travel: what msgspec decodes, and what a value must first become to be encoded."""

    text: str
    wire: Any
    lower: _Lower | None
    kinds: tuple[type, ...] = ()
    note: str = ""

    @classmethod
    def of(cls, annotation: Any, names: dict[str, Any], wrap: Callable[[Any], Any] = lambda hint: hint) -> _Hint:
        """Compile an annotation, inside the hint that `wrap` puts around it."""
        if annotation is Parameter.empty:
            return cls("Any", *_wire(wrap(Any)))
        try:
            hint = wrap(_resolved(annotation, names))
        except Exception:  # an annotation is any expression, and can fail in any way
            note = f" (Its hint {annotation} is not known where the task is defined: import it at module level.)"
            return cls(str(annotation), *_wire(wrap(Any)), note=note)
        try:
            return cls(_text(hint), *_usable(*_wire(hint)))
        except Exception as error:  # msgspec looks into users' classes here, whose hints can fail in any way too
            note = f" (Its hint {_text(hint)} is of no help: {error}.)"
            return cls(_text(hint), *_wire(wrap(Any)), _kinds(hint), note)

    @property
    def checks(self) -> bool:
        return self.lower is not pack or bool(self.kinds)

    def lowered(self, value: Any) -> Any:
        """Return what stands for `value` on the wire. Raises Flaw."""
        try:
            return value if self.lower is None else self.lower(value)
        except (Unfit, RecursionError) as error:
            raise explain(error, value) from None

    def objection(self, given: Any, back: Any) -> str | None:
        """Say how what came back differs from what was given, or return None."""
        if self.lower is pack:
            return self.told(given) if self.kinds and not isinstance(given, self.kinds) else None
        found = difference(given, back)
        if found is None or not found.path:
            return found and self.told(given, f"it would come back as {brief(back)}")
        return f"expected {type(found.back).__name__}, was given {_given(found.given)} at ${found.path}"

    def told(self, given: Any, said: str = "", path: str = "$") -> str:
        if path != "$":
            return f"expected {self.text}, but at {path}: {said}"
        more = "" if not said or "`, got `" in said else f" ({said})"
        return f"expected {self.text}, was given {_given(given)}{more}"


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    kind: Any
    required: bool
    hint: _Hint

    @classmethod
    def of(cls, parameter: Parameter, names: dict[str, Any]) -> _Parameter:
        required = parameter.default is Parameter.empty and parameter.kind in (*_BY_POSITION, *_BY_NAME)
        hint = _Hint.of(parameter.annotation, names, _wrapper(parameter))
        return cls(parameter.name, parameter.kind, required, hint)


def _wrapper(parameter: Parameter) -> Callable[[Any], Any]:
    """Return what the parameter puts around its hint: `*args: int` is a tuple of ints, `x: int = None` may be None."""
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return lambda hint: GenericAlias(tuple, (hint, ...))
    if parameter.kind is Parameter.VAR_KEYWORD:
        return lambda hint: GenericAlias(dict, (str, hint))
    return (lambda hint: hint | None) if parameter.default is None else lambda hint: hint


def _struct_of(parameters: list[_Parameter]) -> type[msgspec.Struct]:
    """Make the type that reads the arguments. Its fields have names of our own, for a Struct cannot have every name."""
    names = {f"p{index}": parameter.name for index, parameter in enumerate(parameters)}
    fields: list[Any] = [
        (field, parameter.hint.wire) if parameter.required else (field, parameter.hint.wire | UnsetType, UNSET)
        for field, parameter in zip(names, parameters, strict=True)
    ]
    return msgspec.defstruct("Arguments", fields, rename=names, forbid_unknown_fields=True, kw_only=True)


def _describe(kind: Any) -> dict[str, Any]:
    return {"description": "anything" if kind is Tagged else getattr(kind, "__name__", str(kind))}


def _inspect(function: Callable[..., Any]) -> inspect.Signature:
    if sys.version_info >= (3, 14):  # where annotations are evaluated when asked for, and names may be missing
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def _globals_of(function: Callable[..., Any]) -> dict[str, Any]:
    inner: Any = inspect.unwrap(function)
    while isinstance(inner, partial):
        inner = inner.func
    return getattr(inner, "__globals__", None) or getattr(type(inner).__call__, "__globals__", {})


def _resolved(annotation: Any, names: dict[str, Any]) -> Any:
    def holder() -> None: ...

    holder.__annotations__ = {"hint": annotation}
    return get_type_hints(holder, globalns=names, include_extras=True)["hint"]


def _usable(wire: Any, lower: _Lower | None) -> tuple[Any, _Lower | None]:
    msgspec.json.Decoder(wire)  # raises for a hint that msgspec cannot read by
    return wire, lower


def _reads_null(decoder: msgspec.json.Decoder[Any]) -> bool:
    try:
        return decoder.decode(b"null") is None
    except _UNREADABLE:
        return False


def _kinds(hint: Any) -> tuple[type, ...]:
    """Return the classes of a union, to check values by when msgspec cannot; none if not all of it are classes."""
    members = [get_origin(member) or member for member in get_args(hint)] if _is_union(hint) else []
    if not all(isinstance(member, type) and not getattr(member, "_is_protocol", False) for member in members):
        return ()
    return (*members, int) if float in members else tuple(members)


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)


def _text(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")


def _given(value: Any) -> str:
    return "None" if value is None else f"{type(value).__name__} {brief(value)}"


# ---- Any inside a hint: msgspec sees Tagged in its place, and the value there is packed ------------------------------


def _wire(hint: Any) -> tuple[Any, _Lower | None]:
    """Return the hint for msgspec, and how to lower its values, which is None when no Any is inside."""
    origin = get_origin(hint) or hint
    if origin in (Any, object) or isinstance(hint, TypeVar):
        return Tagged, pack
    if origin is Annotated:
        wire, lower = _wire(get_args(hint)[0])
        return Annotated[(wire, *hint.__metadata__)], lower
    if _is_union(hint):
        return _wire_union(get_args(hint))
    if origin in _CONTAINERS and hint != tuple[()]:
        return _wire_container(_CONTAINERS[origin], get_args(hint))
    return hint, None


def _wire_union(members: tuple[Any, ...]) -> tuple[Any, _Lower | None]:
    wires, lowers = zip(*map(_wire, members), strict=True)
    if Tagged in wires:
        return Tagged, pack
    used = [lower for lower in lowers if lower]
    return reduce(or_, wires), partial(_lower_in_turn, used) if used else None


def _wire_container(container: Any, inner: tuple[Any, ...]) -> tuple[Any, _Lower | None]:
    if container is dict:
        (key, _), (value, lower) = map(_wire, inner or (str, Any))
        return GenericAlias(dict, (str if key is Tagged else key, value)), lower and partial(_lower_values, lower)
    wires, lowers = zip(*map(_wire, inner or _ANY_ITEMS[container]), strict=True)
    if container is tuple and ... not in wires:
        return GenericAlias(tuple, wires), partial(_lower_each, lowers) if any(lowers) else None
    return GenericAlias(container, wires), lowers[0] and partial(_lower_items, lowers[0])


_CONTAINERS: dict[Any, Any] = {
    **{kind: kind for kind in (list, tuple, set, frozenset, dict)},
    **dict.fromkeys((abc.Iterable, abc.Collection, abc.Sequence, abc.MutableSequence), list),
    **dict.fromkeys((abc.Set, abc.MutableSet), set),
    **dict.fromkeys((abc.Mapping, abc.MutableMapping), dict),
}
_ANY_ITEMS: dict[Any, tuple[Any, ...]] = {list: (Any,), tuple: (Any, ...), set: (Any,), frozenset: (Any,)}


# Each of these leaves alone what is not its kind: the decoder refuses that, and a union's other members may take it.


def _lower_values(lower: _Lower, value: Any) -> Any:
    return {key: lower(item) for key, item in value.items()} if isinstance(value, dict) else value


def _lower_items(lower: _Lower, value: Any) -> Any:
    if isinstance(value, set | frozenset) and lower is pack:
        return pack_members(value)
    return [lower(item) for item in value] if isinstance(value, list | tuple | set | frozenset) else value


def _lower_each(lowers: tuple[_Lower | None, ...], value: Any) -> Any:
    if not isinstance(value, list | tuple) or len(value) != len(lowers):
        return value
    return [lower(item) if lower else item for lower, item in zip(lowers, value, strict=True)]


def _lower_in_turn(lowers: list[_Lower], value: Any) -> Any:
    for lower in lowers:
        value = lower(value)
    return value
