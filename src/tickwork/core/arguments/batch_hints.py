"""Signatures of batch handlers, as one of their jobs sees them: with `list[Doc]`, each job's argument is a Doc.

A hint that cannot be used counts as no hint, as in all signatures; a usable hint that is not a list is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from inspect import Parameter
from operator import or_
from types import NoneType
from typing import Any, get_args, get_origin

from tickwork.core.arguments.type_hints import (
    BY_POSITION,
    LISTS,
    Hint,
    TaskParameter,
    inspect_signature,
    is_union,
    name_of,
    resolved,
)
from tickwork.errors import InvalidOption


def check_batch_handler(function: Callable[..., Any]) -> None:
    """Raise InvalidOption for a function that does not take one list. Its hints are not checked here."""
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
    """Return what an annotation evaluates to; None: there is none, or it cannot be evaluated."""
    if annotation is Parameter.empty:
        return None
    try:
        return resolved(annotation, names)
    except Exception:  # an annotation is any expression, and can fail in any way
        return None


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if is_union(hint) else (hint,)
