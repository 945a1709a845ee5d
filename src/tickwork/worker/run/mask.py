"""Mask the secrets that an attempt received in all its stored data: logs, errors, progress and results.

This protects against accidents, not against malicious code. It finds a value unchanged, in any letter case, and as
JSON, Python, URLs, Base64 and hexadecimal encode it. It does not find a value that was split, reversed or encrypted.
"""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from typing import Any, Protocol
from urllib.parse import quote, quote_plus

import msgspec

MASK = "***"
LEAST = 4  # characters; shorter values occur in too many texts by chance
_LINE_LEAST = 8  # characters; each longer line of a multi-line value is masked by itself, as output comes in lines
_NUMBER_LEAST = 8  # digits; fewer occur in many numbers by chance, and readers of a result expect a number there
_ENCODED_LEAST = 6
_UTF8 = ("utf-8", "surrogatepass")
_ENCODED_MOST = 4096  # bytes; encodings of longer values are not masked
_BASE64_LINES = (64, 76)  # line lengths of Base64: in PEM and OpenSSL; in mails and coreutils
# Characters, besides letters, digits and -._~, that are not escaped in URLs: by strict programs, by Python, by
# encodeURIComponent and encodeURI of JavaScript, and in a path by our own task.
_SAFE_IN_URLS = ("", "/", "!*'()", "!*'();/?:@&=+$,#", "/%:@!$&'()*+,;=")


class SecretReader(Protocol):
    """The attempt for which secrets are resolved."""

    def stored_secret(self, name: str) -> str | None:
        """Return the value of a secret of the store, which the worker decrypts; None if there is none of this name.

        Raises SecretError if it cannot be decrypted or this job may not use it.
        """

    def hide(self, value: str) -> None:
        """Mask a value in all stored data of this attempt."""

    def masked(self, text: str, *, is_cut: bool = False) -> str:
        """Return a text with secrets masked; with `is_cut`, also without a partial secret at its end."""


class SecretMask:
    """Replaces secret values with ***, including encoded and differently cased forms.

    Each line of a multi-line value is replaced, too.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._forms: list[str] = []
        self._in_json: list[bytes] = []
        self.hide(*values)

    def hide(self, *values: str) -> None:
        """Mask these values from now on."""
        forms = {_folded(form) for value in values for form in _forms(value)}
        # Longest first: masking a part of a value first would leave the rest of it unmasked.
        self._forms = sorted({*self._forms, *forms}, key=len, reverse=True)
        self._in_json = [json.dumps(form, ensure_ascii=False)[1:-1].encode(*_UTF8) for form in self._forms]

    def copy(self) -> SecretMask:
        """Return an independent mask with the same values."""
        made = SecretMask()
        made._forms, made._in_json = self._forms, self._in_json
        return made

    def text(self, text: str) -> str:
        """Return a text with the values masked."""
        folded = _folded(text)
        for form in self._forms:
            if form in folded:
                text = _without(text, folded, form)
                folded = _folded(text)
        return text

    def begun(self, text: str) -> int:
        """Return how many characters at the end of a text may be the beginning of a value that is not complete yet."""
        folded = _folded(text)
        return max((_overlap(folded, form) for form in self._forms), default=0)

    def json(self, data: bytes) -> bytes:
        """Return JSON with the values masked in its strings, field names and long numbers."""
        if not self._may_be_in(data):
            return data
        return msgspec.json.encode(self._walked(msgspec.json.decode(data)))

    def _may_be_in(self, data: bytes) -> bool:
        """Return whether JSON may contain one of the values. Runs for each result, so it must be fast."""
        if b"\\u" in data:
            return True  # the search below does not include escapes of letters
        folded = data.lower() if data.isascii() else _folded(data.decode()).encode()
        for form in self._in_json:  # noqa: SIM110  # a loop takes half the time of any()
            if form in folded:
                return True
        return False

    def _is_in_number(self, digits: str) -> bool:
        return any(len(form) >= _NUMBER_LEAST and form in digits for form in self._forms)

    def _walked(self, value: Any) -> Any:
        """Return a decoded JSON value with the values masked, recursively."""
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
    """Yield the forms in which a value may appear, in all supported encodings."""
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
    """Yield the Base64 of a value within longer data, for each of its three possible offsets in a 3-byte group.

    Leaves out the characters at both ends that also depend on adjacent bytes.
    """
    for before, cut in ((0, 0), (1, 2), (2, 3)):
        bits = 8 * (before + len(data))
        for encode in (b64encode, urlsafe_b64encode):
            yield encode(bytes(before) + data).decode()[cut : bits // 6]


def _lines_of_base64(data: bytes) -> Iterator[str]:
    """Yield the lines of the Base64 of a whole value, as programs wrap it, if it has several lines."""
    whole = next(_in_base64(data))
    for width in _BASE64_LINES:
        if len(whole) > width:
            yield from (whole[start : start + width] for start in range(0, len(whole), width))


def _folded(text: str) -> str:
    """Return a text in lower case, with the same number of characters."""
    # lower() turns U+0130 into two characters, and the capital sigma into either of two forms.
    return text.replace("\u0130", "i").lower().replace("\u03c2", "\u03c3")


def _without(text: str, folded: str, form: str) -> str:
    """Return a text with *** in each place where its folded version contains the form."""
    parts, at = [], 0
    while (found := folded.find(form, at)) >= 0:
        parts.append(text[at:found])
        at = found + len(form)
    return MASK.join([*parts, text[at:]])


def _overlap(text: str, form: str) -> int:
    """Return the length of the longest end of a text that is a beginning of a form."""
    at = text.find(form[0], max(0, len(text) - len(form) + 1))
    while at >= 0:
        if form.startswith(text[at:]):
            return len(text) - at
        at = text.find(form[0], at + 1)
    return 0
