"""Fast path of argument encoding: positional ints, strings and bools that match their hints exactly.

JSON returns such values unchanged, so the encoded bytes need not be decoded again. All that a store may refuse in them
can be checked without walking through containers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tickwork.core.arguments.unstorable import INT_MAX, INT_MIN

PLAIN = (int, str, bool)


class FastEncoder:
    """Encode calls of a function whose positional parameters have these types, each one of PLAIN."""

    def __init__(self, kinds: Mapping[str, type]) -> None:
        names = {f"p{index}": name for index, name in enumerate(kinds)}  # a field of a Struct cannot have every name
        self._kinds = tuple(kinds.values())
        self._struct = msgspec.defstruct("Plain", [(field, Any) for field in names], rename=names, gc=False)
        self._encode = msgspec.json.Encoder().encode

    def written(self, args: tuple[Any, ...]) -> bytes | None:
        """Return the arguments as JSON; None: they need the full check."""
        if tuple(map(type, args)) != self._kinds:
            return None
        for value in args:
            kind = type(value)
            if (kind is int and not INT_MIN <= value <= INT_MAX) or (kind is str and "\0" in value):
                return None
        try:
            return self._encode(self._struct(*args))
        except UnicodeEncodeError:  # a lone surrogate
            return None
