"""Keeps the secrets that an attempt was given out of everything that is stored of it.

This is a seat belt, not a wall: it finds a value as it is, in any case, and as JSON, Python, URLs, Base64 and
hexadecimal write it. It does not find one that was taken apart, reversed or encrypted.
"""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

MASK = "***"
LEAST = 4  # characters: shorter values are in too many texts by chance
_LINE_LEAST = 8  # of a value with several lines each is hidden by itself, since output comes by lines
_NUMBER_LEAST = 8  # digits; fewer are in many numbers by chance, and what reads a result expects a number there
_ENCODED_LEAST = 6
_UTF8 = ("utf-8", "surrogatepass")
_ENCODED_MOST = 4096  # bytes of a value whose encodings are hidden too
_BASE64_LINES = (64, 76)  # characters of a line of Base64: in PEM and OpenSSL; in mails and coreutils
# What is left as it is in URLs, besides letters, digits and -._~: by strict programs, by Python, by encodeURIComponent
# and encodeURI of JavaScript, and in a path by our own task.
_SAFE_IN_URLS = ("", "/", "!*'()", "!*'();/?:@&=+$,#", "/%:@!$&'()*+,;=")


class SecretMask:
    """Replaces values by ***, also encoded and in other cases, and each line of those that have several."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._forms: list[str] = []
        self._in_json: list[bytes] = []
        self.hide(*values)

    def hide(self, *values: str) -> None:
        """Hide some values from now on."""
        forms = {_folded(form) for value in values for form in _forms(value)}
        # The longest first: a part of a value must not hide the rest of it from us.
        self._forms = sorted({*self._forms, *forms}, key=len, reverse=True)
        self._in_json = [json.dumps(form, ensure_ascii=False)[1:-1].encode(*_UTF8) for form in self._forms]

    def copy(self) -> SecretMask:
        """A mask of its own that hides the same values."""
        made = SecretMask()
        made._forms, made._in_json = self._forms, self._in_json
        return made

    def text(self, text: str) -> str:
        """A text without the values."""
        folded = _folded(text)
        for form in self._forms:
            if form in folded:
                text = _without(text, folded, form)
                folded = _folded(text)
        return text

    def begun(self, text: str) -> int:
        """How many characters at the end of a text may be the beginning of a value whose rest is still to come."""
        folded = _folded(text)
        return max((_overlap(folded, form) for form in self._forms), default=0)

    def json(self, data: bytes) -> bytes:
        """A result without the values: in its strings, also in those that name fields."""
        if not self._may_be_in(data):
            return data
        return msgspec.json.encode(self._walked(msgspec.json.decode(data)))

    def _may_be_in(self, data: bytes) -> bool:
        """Whether JSON may hold one of the values; asked of each result, so it is quick for most."""
        if b"\\u" in data:
            return True  # escapes of letters, which are not among the forms
        folded = data.lower() if data.isascii() else _folded(data.decode()).encode()
        for form in self._in_json:  # noqa: SIM110  # a loop takes half the time of any()
            if form in folded:
                return True
        return False

    def _is_in_number(self, digits: str) -> bool:
        return any(len(form) >= _NUMBER_LEAST and form in digits for form in self._forms)

    def _walked(self, value: Any) -> Any:
        match value:
            case str():
                return self.text(value)
            case list():
                return [self._walked(one) for one in value]
            case int() | float() if not isinstance(value, bool) and self._is_in_number(str(value)):
                return MASK
            case dict():
                return {self.text(name): self._walked(one) for name, one in value.items()}
            case _:
                return value


def _forms(value: str) -> Iterator[str]:
    """The texts that a value may appear as."""
    escaped = (json.dumps(value), json.dumps(value, ensure_ascii=False), repr(value), ascii(value))
    in_bytes = repr(value.encode(*_UTF8))[2:-1]
    forms = {value, value.strip(), *(one[1:-1] for one in escaped), in_bytes}
    yield from (one for one in forms if len(one) >= LEAST)
    yield from (line for line in map(str.strip, value.splitlines()) if len(line) >= _LINE_LEAST)
    data = value.strip().encode(*_UTF8)
    if LEAST <= len(data) <= _ENCODED_MOST:
        in_urls = {quote_plus(data), *(quote(data, safe) for safe in _SAFE_IN_URLS)}
        encoded = {*in_urls, data.hex(), *_in_base64(data)}
        yield from (one for one in encoded if len(one) >= _ENCODED_LEAST)
        yield from (line for line in _lines_of_base64(data) if len(line) >= _LINE_LEAST)


def _in_base64(data: bytes) -> Iterator[str]:
    """The Base64 of a value inside of longer data: where it starts at each of the three places in a group of bytes.

    The characters at both ends that depend on the bytes beside it are left out.
    """
    for before, cut in ((0, 0), (1, 2), (2, 3)):
        bits = 8 * (before + len(data))
        for encode in (b64encode, urlsafe_b64encode):
            yield encode(bytes(before) + data).decode()[cut : bits // 6]


def _lines_of_base64(data: bytes) -> Iterator[str]:
    """The lines in which programs write the Base64 of a value by itself, where it has several."""
    whole = next(_in_base64(data))
    for width in _BASE64_LINES:
        if len(whole) > width:
            yield from (whole[start : start + width] for start in range(0, len(whole), width))


def _folded(text: str) -> str:
    """A text without the difference between upper and lower case, character by character."""
    # U+0130 would become two characters, and the small sigma has another form at the end of a word.
    return text.replace("\u0130", "i").lower().replace("\u03c2", "\u03c3")


def _without(text: str, folded: str, form: str) -> str:
    """A text with *** in each place where its folded twin has the form."""
    parts, at = [], 0
    while (found := folded.find(form, at)) >= 0:
        parts.append(text[at:found])
        at = found + len(form)
    return MASK.join([*parts, text[at:]])


def _overlap(text: str, form: str) -> int:
    at = text.find(form[0], max(0, len(text) - len(form) + 1))
    while at >= 0:
        if form.startswith(text[at:]):
            return len(text) - at
        at = text.find(form[0], at + 1)
    return 0
