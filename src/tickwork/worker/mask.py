"""Keeps the secrets that an attempt was given out of everything that is stored of it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

MASK = "***"
LEAST = 4  # characters: shorter values are in too many texts by chance
_LINE_LEAST = 8  # of a value with several lines each is hidden by itself, since output comes by lines


class Mask:
    """Replaces values by ***, also as JSON and Python write them, and each line of those that have several."""

    def __init__(self) -> None:
        self._forms: list[str] = []

    def hide(self, value: str) -> None:
        """Hide a value from now on."""
        lines = [line.strip() for line in value.splitlines()]
        escaped = (json.dumps(value), json.dumps(value, ensure_ascii=False), repr(value))
        forms = {value, value.strip(), *(one[1:-1] for one in escaped)}
        forms |= {line for line in lines if len(line) >= _LINE_LEAST}
        # The longest first: a part of a value must not hide the rest of it from us.
        self._forms = sorted({*self._forms, *(one for one in forms if len(one) >= LEAST)}, key=len, reverse=True)

    def text(self, text: str) -> str:
        """A text without the values."""
        for form in self._forms:
            text = text.replace(form, MASK)
        return text

    def begun(self, text: str) -> int:
        """How many characters at the end of a text may be the beginning of a value whose rest is still to come."""
        return max((_overlap(text, form) for form in self._forms), default=0)

    def json(self, data: bytes) -> bytes:
        """A result without the values: in its strings, also in those that name fields."""
        return msgspec.json.encode(self._walked(msgspec.json.decode(data)))

    def _walked(self, value: Any) -> Any:
        match value:
            case str():
                return self.text(value)
            case list():
                return [self._walked(one) for one in value]
            case dict():
                return {self.text(name): self._walked(one) for name, one in value.items()}
            case _:
                return value


def _overlap(text: str, form: str) -> int:
    at = text.find(form[0], max(0, len(text) - len(form) + 1))
    while at >= 0:
        if form.startswith(text[at:]):
            return len(text) - at
        at = text.find(form[0], at + 1)
    return 0
