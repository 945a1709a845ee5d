"""Compile type hints of a task's signature: the type that msgspec decodes, and how to lower values for encoding.

Any inside a hint is shown to msgspec as `Tagged`, and values there are packed with tags. A hint that msgspec cannot use
counts as no hint. The signature of a batch handler is read as one of its jobs sees it: with `list[Doc]`, each job's
argument is a Doc. A usable hint of its parameter that is not a list is refused.
"""

from __future__ import annotations

import inspect
import sys
from collections import abc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from inspect import Parameter
from operator import or_
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from tickwork.core.arguments.payload import Tagged, pack, pack_members
from tickwork.core.arguments.roundtrip import difference
from tickwork.core.arguments.unstorable import UnstorablePart, brief, explain
from tickwork.errors import InvalidOption

BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, RecursionError)


_Lower = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Hint:
    """A compiled hint: the type that msgspec decodes (`wire`), and the conversion before encoding (`lower`)."""

    text: str
    wire: Any
    lower: _Lower | None
    kinds: tuple[type, ...] = ()
    note: str = ""

    @classmethod
    def of(cls, annotation: Any, names: dict[str, Any], wrap: Callable[[Any], Any] = lambda hint: hint) -> Hint:
        """Compile an annotation, inside the hint that `wrap` puts around it."""
        if annotation is Parameter.empty:
            return cls("Any", *_wire(wrap(Any)))
        try:
            hint = wrap(resolved(annotation, names))
        except Exception:  # an annotation can be any expression, and can fail in any way
            note = f" (Its hint {annotation} is not known where the task is defined: import it at module level.)"
            return cls(str(annotation), *_wire(wrap(Any)), note=note)
        try:
            return cls(_text(hint), *_usable(*_wire(hint)))
        except Exception as error:  # msgspec inspects users' classes here, whose hints can fail in any way, too
            note = f" (Its hint {_text(hint)} is of no help: {error}.)"
            return cls(_text(hint), *_wire(wrap(Any)), _kinds(hint), note)

    @property
    def checks(self) -> bool:
        return self.lower is not pack or bool(self.kinds)

    def lowered(self, value: Any) -> Any:
        """Return the form of `value` that msgspec can encode. Raises Flaw."""
        try:
            return value if self.lower is None else self.lower(value)
        except (UnstorablePart, RecursionError) as error:
            raise explain(error, value) from None

    def objection(self, given: Any, back: Any) -> str | None:
        """Return how the decoded value differs from the given value, or None if they are equal."""
        if self.lower is pack:
            return self.told(given) if self.kinds and not isinstance(given, self.kinds) else None
        found = difference(given, back)
        if found is None or not found.path:
            return found and self.told(given, f"it would come back as {brief(back)}")
        return f"expected {type(found.back).__name__}, was given {_given(found.given)} at ${found.path}"

    def told(self, given: Any, said: str = "", path: str = "$") -> str:
        """Return the error message for a value that does not fit the hint."""
        if path != "$":
            return f"expected {self.text}, but at {path}: {said}"
        more = "" if not said or "`, got `" in said else f" ({said})"
        return f"expected {self.text}, was given {_given(given)}{more}"


@dataclass(frozen=True, slots=True)
class TaskParameter:
    """A parameter of a task, with its compiled hint."""

    name: str
    kind: Any
    required: bool
    hint: Hint
    default: Any = Parameter.empty

    @classmethod
    def of(cls, parameter: Parameter, names: dict[str, Any]) -> TaskParameter:
        required = parameter.default is Parameter.empty and parameter.kind in (*BY_POSITION, *BY_NAME)
        hint = Hint.of(parameter.annotation, names, _wrapper(parameter))
        return cls(parameter.name, parameter.kind, required, hint, parameter.default)


def _wrapper(parameter: Parameter) -> Callable[[Any], Any]:
    """Return the wrapper for a parameter's hint: `*args: int` is a tuple of ints, `x: int = None` may be None."""
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return lambda hint: GenericAlias(tuple, (hint, ...))
    if parameter.kind is Parameter.VAR_KEYWORD:
        return lambda hint: GenericAlias(dict, (str, hint))
    return (lambda hint: hint | None) if parameter.default is None else lambda hint: hint


def struct_of(parameters: list[TaskParameter]) -> type[msgspec.Struct]:
    """Make the Struct that decodes the arguments. Its fields are renamed, because a field cannot have every name."""
    names = {f"p{index}": parameter.name for index, parameter in enumerate(parameters)}
    fields: list[Any] = [
        (field, parameter.hint.wire) if parameter.required else (field, parameter.hint.wire | UnsetType, UNSET)
        for field, parameter in zip(names, parameters, strict=True)
    ]
    return msgspec.defstruct("Arguments", fields, rename=names, forbid_unknown_fields=True, kw_only=True)


def describe(kind: Any) -> dict[str, Any]:
    return {"description": "anything" if kind is Tagged else getattr(kind, "__name__", str(kind))}


def inspect_signature(function: Callable[..., Any]) -> inspect.Signature:
    if sys.version_info >= (3, 14):  # 3.14 evaluates annotations lazily, and names may be missing
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)


def parameter_names(function: Callable[..., Any], *, skip_first: bool = False) -> list[str]:
    """Return the names of a function's parameters; with `skip_first`, without the one that the worker injects."""
    return list(inspect_signature(function).parameters)[skip_first:]


def globals_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the globals in which the annotations of a function, partial or callable object are evaluated."""
    inner: Any = inspect.unwrap(function)
    while isinstance(inner, partial):
        inner = inner.func
    return getattr(inner, "__globals__", None) or getattr(type(inner).__call__, "__globals__", {})


def resolved(annotation: Any, names: dict[str, Any]) -> Any:
    """Return the value of an annotation. Raises any exception that its names and expressions raise."""

    def holder() -> None: ...

    holder.__annotations__ = {"hint": annotation}
    return get_type_hints(holder, globalns=names, include_extras=True)["hint"]


def _usable(wire: Any, lower: _Lower | None) -> tuple[Any, _Lower | None]:
    msgspec.json.Decoder(wire)  # raises for a hint that msgspec cannot decode
    return wire, lower


def reads_null(decoder: msgspec.json.Decoder[Any]) -> bool:
    try:
        return decoder.decode(b"null") is None
    except UNREADABLE:
        return False


def _kinds(hint: Any) -> tuple[type, ...]:
    """Return the classes of a union, to check values that msgspec cannot check; empty if a member is not a class."""
    members = [get_origin(member) or member for member in get_args(hint)] if is_union(hint) else []
    if not all(isinstance(member, type) and not getattr(member, "_is_protocol", False) for member in members):
        return ()
    return (*members, int) if float in members else tuple(members)


def is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)


def _text(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")


def _given(value: Any) -> str:
    return "None" if value is None else f"{type(value).__name__} {brief(value)}"


# ---- Any inside a hint: msgspec sees Tagged, and the value is packed ------------------------------------------------


def _wire(hint: Any) -> tuple[Any, _Lower | None]:
    """Return the hint for msgspec, and the function that lowers its values; None if the hint contains no Any."""
    origin = get_origin(hint) or hint
    if origin in (Any, object) or isinstance(hint, TypeVar):
        return Tagged, pack
    if origin is Annotated:
        wire, lower = _wire(get_args(hint)[0])
        return Annotated[(wire, *hint.__metadata__)], lower
    if is_union(hint):
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
    """Return the type for msgspec of a container with these item types, and how to lower its values."""
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
LISTS = tuple(kind for kind, read_as in _CONTAINERS.items() if read_as is list)
_ANY_ITEMS: dict[Any, tuple[Any, ...]] = {list: (Any,), tuple: (Any, ...), set: (Any,), frozenset: (Any,)}


# Each of these returns values of other kinds unchanged: the decoder refuses them, or another union member accepts them.


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


def check_batch_handler(function: Callable[..., Any]) -> None:
    """Raise InvalidOption for a function that does not accept one list. Its hints are not checked here."""
    parameters = list(inspect_signature(function).parameters.values())
    if len(parameters) != 1 or parameters[0].kind not in BY_POSITION or parameters[0].default is not Parameter.empty:
        name = name_of(function).rpartition(".")[2]
        raise InvalidOption(
            f"{name} cannot take batches: a batch handler has one parameter, without a default, which is "
            f"the list of its jobs' arguments, like def {name}(items: list[int])."
        )


def one_of_many(function: Callable[..., Any], parameter: Parameter, names: dict[str, Any]) -> TaskParameter:
    """Return the parameter with the hint of one job's argument. Raises InvalidOption if the hint is not a list."""
    hint = _readable(parameter.annotation, names)
    if hint in (None, Any, object):
        return TaskParameter.of(parameter, names)
    if hint not in LISTS and get_origin(hint) not in LISTS:
        raise InvalidOption(
            f"{name_of(function)} is a batch handler, whose {parameter.name!r} is the list of its jobs' arguments: "
            f"annotate it as a list, like list[int], not as {parameter.annotation!r}."
        )
    (item,) = get_args(hint) or (Any,)
    return TaskParameter.of(parameter.replace(annotation=item), names)


def result_of_one(function: Callable[..., Any], annotation: Any, names: dict[str, Any]) -> Hint:
    """Return the hint of one job's result.

    Exceptions in the list of results are outcomes, and are left out of the hint.
    """
    hint = _readable(annotation, names)
    if hint in (None, Any, object):
        return Hint.of(annotation, names)
    nothing = [one for one in _members(hint) if one is NoneType]
    lists = [one for one in _members(hint) if one is not NoneType]
    if not lists:
        return Hint.of(None, names)
    if len(lists) > 1 or (lists[0] not in LISTS and get_origin(lists[0]) not in LISTS):
        raise InvalidOption(
            f"{name_of(function)} is a batch handler, which returns None or a list with a result for each of its jobs, "
            f"not {annotation!r}."
        )
    (item,) = get_args(lists[0]) or (Any,)
    results = [one for one in _members(item) if not (isinstance(one, type) and issubclass(one, BaseException))]
    return Hint.of(reduce(or_, results + nothing) if results else None, names)


def _readable(annotation: Any, names: dict[str, Any]) -> Any:
    """Return the value of an annotation; None if there is none, or it cannot be evaluated."""
    if annotation is Parameter.empty:
        return None
    try:
        return resolved(annotation, names)
    except Exception:  # an annotation is any expression, and can fail in any way
        return None


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if is_union(hint) else (hint,)
