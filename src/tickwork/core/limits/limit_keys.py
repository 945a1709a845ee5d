"""Limit keys and weights: find their values in a job's arguments, tenant and labels, and write keys as text.

A key has one of three forms: `"order.customer.id"` is a path into the arguments by parameter name (digits index into
lists; `"arg:order.customer.id"` is the same), `"tenant"` is the job's tenant, and `"label:region"` is the text after
`region:` in one of its labels. The text of a key is shown to users, so a string stays as it is, and 7 and "7" are one
key. All jobs without the value share the key `null`, so a limit never fails to apply without notice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from tickwork.core.option_parsing import LARGEST, nearest, read_text, shown
from tickwork.errors import InvalidArguments, InvalidOption

_TEXT_LIMIT = 120
_KEPT = 80
_EXACT = 2**53


def read_key(what: str, value: Any) -> str:
    """Return a key after checking its form. Raises InvalidOption, which names `what`."""
    if not all(_parsed(read_text(what, value))[1]):
        raise InvalidOption(f"{what}: {value!r} names nothing. Say 'param', 'param.field', 'tenant' or 'label:name'.")
    return str(value)


def parameter_of(key: str) -> str | None:
    """Return the parameter that a key or weight reads; None if it does not read the arguments."""
    source, path = _parsed(key)
    return path[0] if source == "arg" else None


def bound_key(owner: str, said: str, parameters: Collection[str]) -> str:
    """Return a key or weight in the form that reads the arguments of a task with these parameters.

    `"tenant"` is a parameter if the task has a parameter of that name, otherwise the job's tenant. Raises
    InvalidOption, which names `owner`, for a parameter that the task does not have.
    """
    if said == "tenant" and "tenant" in parameters:
        return "arg:tenant"
    parameter = parameter_of(said)
    if parameter is not None and parameter not in parameters:
        raise InvalidOption(f"{owner}: {said!r} is no parameter of the task; {nearest(parameter, parameters)}")
    return said


def key_text(key: str | None, arguments: Mapping[str, Any], tenant: str | None, labels: Sequence[str]) -> str:
    """Return the text of a job's key. Without a key, all jobs share the empty text.

    Raises InvalidArguments for an object or a list, which cannot be keys.
    """
    if key is None:
        return ""
    return shortened(_text(key, _found(key, arguments, tenant, labels)))


def shortened(text: str) -> str:
    """Return a text as a key: a long or unprintable text is cut and gets a hash of the whole text."""
    if len(text) <= _TEXT_LIMIT and text.isprintable():
        return text
    kept = "".join(letter for letter in text[:_KEPT] if letter.isprintable())
    return f"{kept}…{blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"


def weight_of(weight: int | str, arguments: Mapping[str, Any]) -> int:
    """Return the weight of a job. Raises InvalidArguments if its arguments contain no valid weight."""
    if isinstance(weight, int):
        return weight
    value = _at(_parsed(weight)[1], arguments)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= LARGEST:
        raise InvalidArguments(
            f"the weight {weight!r} of this job is {shown(value)}; it must be a whole number from 1 to {LARGEST:,}. "
            f"Nothing was stored."
        )
    return value


@lru_cache(maxsize=1024)
def _parsed(key: str) -> tuple[str, tuple[str, ...]]:
    """Return the source of a key (arg, label, tenant) and the path in that source."""
    if key == "tenant":
        return "tenant", ()
    if key.startswith("label:"):
        return "label", (key.removeprefix("label:"),)
    return "arg", tuple(key.removeprefix("arg:").split("."))


def _found(key: str, arguments: Mapping[str, Any], tenant: str | None, labels: Sequence[str]) -> Any:
    """Return the value of a limit's key for a job, from its arguments, tenant or labels; None if it has none."""
    source, path = _parsed(key)
    if source == "tenant":
        return tenant
    if source == "label":
        prefix = f"{path[0]}:"
        return next((label.removeprefix(prefix) for label in labels if label.startswith(prefix)), None)
    return _at(path, arguments)


def _at(path: Sequence[str], value: Any) -> Any:
    """Return the value at a path in a JSON value; None if there is none."""
    for step in path:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _text(key: str, value: Any) -> str:
    """Return the text of a key's value. Raises InvalidArguments for an object or a list."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping) and len(value) == 1 and next(iter(value)).startswith("$"):
        return _text(key, next(iter(value.values())))  # a value without a type hint, such as {"$uuid": "..."}
    kind = "an object" if isinstance(value, Mapping) else "a list"
    raise InvalidArguments(
        f"the key {key!r} of this job is {kind}, {shown(value)}; a key is a text, a number or a bool. Name a field in "
        f"it. Nothing was stored."
    )
