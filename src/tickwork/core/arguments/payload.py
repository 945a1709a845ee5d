"""Payload encoding: what may be stored, as strict JSON that is the same for both stores.

A value is refused before it is queued, never when a worker reads it: PostgreSQL refuses NUL characters that SQLite
accepts, SQLite rounds integers that PostgreSQL keeps, and msgspec writes null for NaN. The rules here are therefore
the strictest of all: finite numbers, integers within 64 bits, no NUL characters, no lone surrogates, at most 64
levels, a maximum number of bytes.

If a type hint describes a value, its JSON is plain and the hint restores it. Without a hint, JSON's own types are
written unchanged, and other types as an object with one key, the tag: `{"$uuid": "…"}`. A dict that looks like a tag
is wrapped as `{"$dict": {…}}`, so every dict is restored, too. One loss is accepted: a tuple becomes a list.

JSON that looks like a reference to a blob (see `blob_ref`) is never written here: references are only for results
that are too large for a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from tickwork.core.arguments.unstorable import (
    DEPTH_LIMIT,
    Flaw,
    UnstorablePart,
    brief,
    explain,
    field_names,
    find_flaw,
    sound,
)
from tickwork.core.blob_ref import MARK
from tickwork.errors import InvalidPayload

PAYLOAD_LIMIT = 256 * 1024
RESULT_LIMIT = 1024 * 1024
BLOB_LIMIT = 1024 * 1024 * 1024  # for results that are stored in a blob


def encode(value: Any, *, what: str, limit_bytes: int) -> bytes:
    """Return `value`, which has no type hint, as JSON bytes that `decode` turns back into an equal value.

    Raises InvalidPayload, which names `what`, the place inside the value and the remedy.
    """
    try:
        data = seal(tagged(value))
    except Flaw as flaw:
        raise flaw.about(what) from None
    if len(data) > limit_bytes:
        raise too_large(data, what=what, limit_bytes=limit_bytes)
    return data


def decode(data: bytes) -> Any:
    """Return the value that `encode` was given. Raises InvalidPayload for data that `encode` cannot have written."""
    try:
        wire = msgspec.json.decode(data)
        _check_depth_and_nul(wire, data)
        return unpack(wire)
    except Flaw as flaw:
        raise flaw.about("a stored value") from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidPayload(f"a stored value is not the JSON that Tickwork writes: {error}") from None


def storable(text: str) -> str:
    """Return foreign text (output, an error) with the characters escaped that a store cannot hold."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def too_large(data: bytes, *, what: str, limit_bytes: int) -> InvalidPayload:
    """Return the error for data that is larger than the limit."""
    return InvalidPayload(
        f"{what} is {len(data):,} bytes; the cap is {limit_bytes:,}: store it elsewhere and pass a reference."
    )


# ---- values without a hint: tags ------------------------------------------------------------------------------------


def tagged(value: Any) -> Any:
    """Return `value` packed like `pack` does. Raises Flaw, with the place of the part that cannot be stored."""
    try:
        return pack(value)
    except (UnstorablePart, RecursionError) as error:
        raise explain(error, value) from None


def pack(value: Any) -> Any:
    """Return `value` in JSON's own types, with other types as tags.

    Raises UnstorablePart for a value that neither JSON nor a tag can represent.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is int or kind is float:
        return sound(value)
    if kind is dict:
        return _pack_dict(value)
    if kind is list or kind is tuple:
        return [pack(item) for item in value]
    if kind not in _TAG_OF:
        raise UnstorablePart(_no_json_for(value), value)
    tag = _TAG_OF[kind]
    return {tag: _TAGS[tag].write(sound(value))}


def unpack(wire: Any) -> Any:
    """Return the value that `pack` was given. Raises InvalidPayload for a tag that `pack` does not write."""
    kind = type(wire)
    if kind is list:
        return [unpack(item) for item in wire]
    if kind is int:
        return sound(wire)
    if kind is not dict:
        return wire
    if (tag := _tag_in(wire)) is not None:
        return _untag(tag, wire[tag])
    return {key: unpack(item) for key, item in wire.items()}


def _pack_dict(value: dict[Any, Any]) -> dict[str, Any]:
    """Pack the values of a dict; wrap the result if it looks like a tag."""
    for key in value:
        if type(key) is not str:
            raise UnstorablePart(
                f"the key {brief(key)} is not a string, and JSON has no other keys; make it one", value
            )
    packed = {key: pack(item) for key, item in value.items()}
    return packed if _tag_in(packed) is None else {"$dict": packed}


def _tag_in(wire: dict[str, Any]) -> str | None:
    """Return the tag of a tagged value; None if this is no tagged value."""
    if len(wire) == 1:
        for key in wire:
            return key if key.startswith("$") else None
    return None


def _untag(tag: str, body: Any) -> Any:
    """Return the value of a tag. Raises InvalidPayload for an unknown tag or a body that it cannot have."""
    if tag == "$dict" and type(body) is dict:
        return {key: unpack(item) for key, item in body.items()}
    if tag not in _TAGS:
        raise InvalidPayload(f'there is no tag "{tag}"; a dict with that only key is {{"$dict": {{"{tag}": …}}}}')
    try:
        return sound(_TAGS[tag].read(body))
    except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
        raise InvalidPayload(f'what stands after the tag "{tag}" cannot be read: {error}') from None


def pack_members(members: Iterable[Any]) -> list[Any]:
    """Pack the members of a set. Raises UnstorablePart for tuples, which would come back as lists."""
    packed = [pack(member) for member in members]
    if any(type(member) is list for member in packed):
        reason = "a tuple inside a set would come back as a list, which no set can hold; annotate it, or use a list"
        raise UnstorablePart(reason, members)
    return packed


def _no_json_for(value: Any) -> str:
    kind = type(value)
    if isinstance(value, Enum) or field_names(kind):
        return f"a {kind.__name__} has no JSON of its own; annotate the parameter (or the return) with its type"
    return f"a {kind.__module__}.{kind.__qualname__} has no JSON; pass plain values, or a dataclass and annotate it"


class _Tag(NamedTuple):
    kind: type
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


_TAGS = {
    "$datetime": _Tag(datetime, datetime.isoformat, datetime.fromisoformat),
    "$date": _Tag(date, date.isoformat, date.fromisoformat),
    "$time": _Tag(time, time.isoformat, time.fromisoformat),
    "$timedelta": _Tag(timedelta, msgspec.to_builtins, lambda body: msgspec.convert(body, timedelta)),
    "$uuid": _Tag(UUID, str, UUID),
    "$decimal": _Tag(Decimal, str, Decimal),
    "$bytes": _Tag(bytes, msgspec.to_builtins, lambda body: msgspec.convert(body, bytes)),
    "$path": _Tag(type(Path()), str, Path),
    "$set": _Tag(set, pack_members, lambda body: set(map(unpack, body))),
    "$frozenset": _Tag(frozenset, pack_members, lambda body: frozenset(map(unpack, body))),
}
_TAG_OF = {tag.kind: name for name, tag in _TAGS.items()}


# ---- values with a hint: hooks for types that msgspec does not know -------------------------------------------------


class _AnyValue(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return True  # msgspec checks what `from_wire` returns against the hint


class Tagged(metaclass=_AnyValue):
    """A type that replaces Any in a hint, for values that are written with tags."""


def _to_wire(value: Any) -> Any:
    """Encode a value that msgspec cannot: pydantic models, paths, and subclasses of the plain types."""
    if hasattr(value, "model_dump_json"):
        return msgspec.Raw(value.model_dump_json(by_alias=True, round_trip=True).encode())
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, date | time):
        return value.isoformat()
    for plain in _PLAIN:
        if isinstance(value, plain):
            return plain(value)
    raise UnstorablePart(_no_json_for(value), value)


def from_wire(kind: Any, wire: Any) -> Any:
    """Decode a value that msgspec cannot. A ValueError raised here becomes a msgspec.ValidationError with its path."""
    if kind is Tagged:
        return unpack(wire)
    if hasattr(kind, "model_validate_json"):
        return _read_model(kind, wire)
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return kind(wire)
    raise ValueError(f"{kind!r} is not a type that JSON can bring back; use a dataclass, a model or plain values")


def _read_model(kind: Any, wire: Any) -> Any:
    # Encode again, because pydantic's strict models accept "2026-11-15T00:00:00Z" for a datetime only from JSON.
    try:
        return kind.model_validate_json(msgspec.json.encode(wire))
    except ValueError as error:
        faults = error.errors() if hasattr(error, "errors") else []
        said = "; ".join(".".join(map(str, fault["loc"])) + f" {fault['msg']}" for fault in faults)
        raise ValueError(f"{kind.__name__} says: {said.strip() or error}") from None


_PLAIN: tuple[type[Any], ...] = (str, int, float)
_encoder = msgspec.json.Encoder(enc_hook=_to_wire)


def seal(wire: Any) -> bytes:
    """Return the bytes of values that are JSON, or that their hints convert to JSON.

    Raises Flaw for a value that no store may hold. Numbers and time zones are not checked here: `pack` has checked
    them, or `difference` will; both visit every value anyway.
    """
    try:
        data = _encoder.encode(wire)
        _check_depth_and_nul(wire, data)
        return data if MARK not in data else msgspec.json.format(data, indent=-1)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise explain(error, wire) from None


def _check_depth_and_nul(wire: Any, data: bytes) -> None:
    """Raise Flaw for values that are nested too deeply or contain NUL.

    The encoded bytes are checked first, because they quickly show that most values have neither flaw.
    """
    if b"\\u0000" in data or _may_be_deep(data):
        # the second call sees into enums, paths and URLs
        flaw = find_flaw(wire) or find_flaw(msgspec.json.decode(data))
        if flaw:
            raise flaw


def _may_be_deep(data: bytes) -> bool:
    """Return whether the JSON may be nested too deeply, by removing brackets from the inside, a level at a time.

    Brackets inside strings can only cause a false alarm.
    """
    if len(data) <= 2 * DEPTH_LIMIT:
        return False
    brackets = data.translate(_ONE_KIND_OF_BRACKET, _NOT_BRACKETS)
    for _ in range(DEPTH_LIMIT):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


_ONE_KIND_OF_BRACKET = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
