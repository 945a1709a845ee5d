"""Finds keys that a JSON object has twice. Parsers keep the first or the last of them, so two may read two requests.

msgspec keeps the last one and says nothing. Written again, such an object has fewer texts than before, and those can be
counted without a parser. So a body without repeated keys costs a few microseconds; the key itself is looked for only
when there is one.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
from msgspec import Raw

WHOLE_LIMIT = 64 * 1024  # larger ones are looked at in parts, so that no second copy of them is made as objects
LARGE_DEPTH = 50  # of large values in one another
_ANYTHING = msgspec.json.Decoder()
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_ARRAY = msgspec.json.Decoder(list[Raw])
_ENCODER = msgspec.json.Encoder()


class _DuplicateKey(Exception):
    """Ends a parser at the first key that is there twice."""


def repeated_key(data: bytes) -> str | None:
    """Return a key that some object in valid JSON has twice; None when there is no such object.

    Raises RecursionError where values are in one another so deep that it cannot be told.
    """
    try:
        return None if _is_sound(data) else _first(data)
    except msgspec.DecodeError:  # invalid, which its route says
        return None


def _is_sound(data: bytes | Raw, depth: int = 0) -> bool:
    if depth > LARGE_DEPTH:  # each level takes another look at everything below it
        raise RecursionError
    text = bytes(data)
    if len(text) <= WHOLE_LIMIT:
        try:
            found = _ANYTHING.decode(text)
        except msgspec.DecodeError:  # a number that is no 64-bit one, which a field that is kept as it is may have
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
    """How many quotes there are around texts: those inside of a text have a backslash before them."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return data.count(b'"')


def _first(data: bytes) -> str | None:
    """Look with a parser that keeps nothing of what it has read: neither objects nor numbers."""

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
    """Read a number as nothing."""
