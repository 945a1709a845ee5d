"""The quick road of most calls: arguments by position that are whole numbers, texts and flags, just as hints say.

JSON brings such values back as they were, so what was written need not be read again; and all that a store may refuse
of them can be seen without walking through them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tickwork.core.arguments.unstorable import INT_MAX, INT_MIN

PLAIN = (int, str, bool)


class FastEncoder:
    """Writes calls of a function whose parameters by position have these types, all of them among PLAIN."""

    def __init__(self, kinds: Mapping[str, type]) -> None:
        names = {f"p{index}": name for index, name in enumerate(kinds)}  # a Struct cannot have every name
        self._kinds = tuple(kinds.values())
        self._struct = msgspec.defstruct("Plain", [(field, Any) for field in names], rename=names, gc=False)
        self._encode = msgspec.json.Encoder().encode

    def written(self, args: tuple[Any, ...]) -> bytes | None:
        """Return the arguments as JSON; None where the long road has to look at them."""
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
