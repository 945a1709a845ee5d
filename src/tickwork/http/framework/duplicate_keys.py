"""Find duplicate keys in JSON objects. Parsers keep either the first or the last, so two may read two requests.

msgspec silently keeps the last duplicate. When encoded again, an object with duplicate keys has fewer strings than
before, and strings can be counted without a parser. So a body without duplicates costs a few microseconds; the key
itself is searched only if there is a duplicate.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
from msgspec import Raw

WHOLE_LIMIT = 64 * 1024  # bytes; larger values are checked in parts, to avoid a second copy of them as objects
LARGE_DEPTH = 50  # nesting of values over WHOLE_LIMIT
_ANYTHING = msgspec.json.Decoder()
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_ARRAY = msgspec.json.Decoder(list[Raw])
_ENCODER = msgspec.json.Encoder()


class _DuplicateKey(Exception):
    """Raised to stop the JSON parser at the first duplicate key."""


def repeated_key(data: bytes) -> str | None:
    """Return a key that an object in valid JSON contains twice, or None if there is none.

    Raises RecursionError if values are nested too deeply to check.
    """
    try:
        return None if _is_sound(data) else _first(data)
    except msgspec.DecodeError:  # invalid JSON, which the route reports
        return None


def _is_sound(data: bytes | Raw, depth: int = 0) -> bool:
    """Return whether no object in a value has a duplicate key, by counting strings before and after encoding."""
    if depth > LARGE_DEPTH:  # each level scans everything below it again
        raise RecursionError
    text = bytes(data)
    if len(text) <= WHOLE_LIMIT:
        try:
            found = _ANYTHING.decode(text)
        except msgspec.DecodeError:  # a number over 64 bits, which a field that is stored as raw JSON may have
            return _first(text) is None
        return _texts(text) == _texts(_ENCODER.encode(found))
    match text.lstrip()[:1]:
        case b"{":
            parts = _OBJECT.decode(text)
            inside = 2 * len(parts) + sum(_texts(bytes(part)) for part in parts.values())
            return _texts(text) == inside and all(_is_sound(part, depth + 1) for part in parts.values())
        case b"[":
            return all(_is_sound(part, depth + 1) for part in _ARRAY.decode(text))
    return True


def _texts(data: bytes) -> int:
    """Return the number of quotes around strings, without the quotes inside them, which follow a backslash."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return data.count(b'"')


def _first(data: bytes) -> str | None:
    """Return the first duplicate key. The parser keeps neither objects nor numbers, to save memory."""

    def read(pairs: list[tuple[str, Any]]) -> None:
        counts = Counter(key for key, _ in pairs)
        if len(counts) < len(pairs):
            raise _DuplicateKey(next(key for key, count in counts.items() if count > 1))

    try:
        json.loads(data, object_pairs_hook=read, parse_int=_nothing, parse_float=_nothing)
    except _DuplicateKey as repeated:
        return str(repeated)
    return None


def _nothing(number: str) -> None:
    """Discard a number."""
